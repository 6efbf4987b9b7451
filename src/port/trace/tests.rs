//! Tests of the records of a link.

use super::{TraceConfig, TraceError, TraceFormat, TracePort};
use crate::pool::Batch;
use crate::port::conformance::Fixture;
use crate::port::fault::{FaultConfig, FaultPort};
use crate::port::mem::{MemConfig, MemDevice, MemPort};
use crate::port::pcap::{PcapConfig, PcapPort};
use crate::port::tests::moody::{Mood, Moody};
use crate::port::tests::promises;
use crate::port::tests::runts;
use crate::port::{Complete, Fill, Port, Rx, Tx, Wake};
use std::fs;
use std::path::{Path, PathBuf};

fn place(test: &str) -> PathBuf {
    std::env::temp_dir().join(format!("netmem-trace-{}-{test}", std::process::id()))
}

fn traced(config: &TraceConfig) -> (TracePort, MemDevice) {
    let (port, device) = MemPort::pair("0", &MemConfig { ring: 64, coalesce: 4 }).unwrap();
    (TracePort::new(Box::new(port), config).unwrap(), device)
}

/// Three frames arrive and four are sent, of which the ring takes `room`.
fn traffic(fixture: &mut Fixture, port: &mut TracePort, device: &mut MemDevice) {
    let Fixture { w, pool, .. } = fixture;
    let mut batch = Batch::new();
    port.refill(w, pool);
    let mut len = 60;
    device.deliver(3, |room| {
        room[..len].fill(len as u8);
        len += 1;
        len - 1
    });
    assert_eq!(port.rx(w, &mut batch), 3);
    assert_eq!(port.tx(w, &mut batch), 3);
    device.collect(64, |_| ());
    device.collect(64, |_| ());
    assert_eq!(port.complete(w, &mut batch), 3);
    batch.free(w);
    port.kick();
}

fn to(path: &Path, format: TraceFormat) -> TraceConfig {
    TraceConfig { file: Some(path.to_owned()), format, ..TraceConfig::default() }
}

/// Seen: room for that many bytes was asked for, which ended the worker.
#[test]
fn a_limit_beyond_any_frame_writes_all_bytes_of_each() {
    let path = place("all");
    let mut fixture = Fixture::new(128);
    let config = TraceConfig { bytes: usize::MAX, ..to(&path, TraceFormat::Json) };
    let (mut port, mut device) = traced(&config);
    traffic(&mut fixture, &mut port, &mut device);
    drop(port);
    let text = fs::read_to_string(&path).unwrap();
    assert_eq!(
        [60, 61, 62].map(|len| text.matches(&format!("\"{}\"", format!("{len:02x}").repeat(len))).count()),
        [2; 3]
    );
    fs::remove_file(&path).unwrap();
}

#[test]
fn each_frame_is_a_line_with_its_length_and_first_bytes() {
    let path = place("json");
    let mut fixture = Fixture::new(128);
    let config = TraceConfig { bytes: 2, ..to(&path, TraceFormat::Json) };
    let (mut port, mut device) = traced(&config);
    traffic(&mut fixture, &mut port, &mut device);
    let text = fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = text.lines().map(|line| line.split_once("\"port\":").unwrap().1).collect();
    assert_eq!(
        lines,
        [
            r#""mem:0","call":"fill","frames":64}"#,
            r#""mem:0","call":"rx","len":60,"bytes":"3c3c"}"#,
            r#""mem:0","call":"rx","len":61,"bytes":"3d3d"}"#,
            r#""mem:0","call":"rx","len":62,"bytes":"3e3e"}"#,
            r#""mem:0","call":"tx","len":60,"bytes":"3c3c"}"#,
            r#""mem:0","call":"tx","len":61,"bytes":"3d3d"}"#,
            r#""mem:0","call":"tx","len":62,"bytes":"3e3e"}"#,
            r#""mem:0","call":"complete","frames":3}"#,
        ]
    );
    assert!(text.lines().all(|line| line.starts_with("{\"ns\":")));
    let counts = |port: &dyn Port| port.wrap_counters().iter().flat_map(|of| of.counts()).collect::<Vec<_>>();
    assert_eq!(counts(&port), [("trace_written", 8), ("trace_lost", 0), ("trace_failed", 0)]);
    let faulty = FaultPort::new(Box::new(port), fixture.pool.clone(), FaultConfig::default());
    let names: Vec<_> = counts(&faulty).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names[0], "fault_dropped");
    assert_eq!(names[6..], ["trace_written", "trace_lost", "trace_failed"]);
    fs::remove_file(path).ok();
}

#[test]
fn as_pcap_it_can_be_received_again() {
    let path = place("pcap");
    let mut fixture = Fixture::new(128);
    let (mut port, mut device) = traced(&to(&path, TraceFormat::Pcap));
    traffic(&mut fixture, &mut port, &mut device);
    drop((port, device));
    let mut again =
        PcapPort::open("0", &PcapConfig { input: Some(path.clone()), ..PcapConfig::default() }).unwrap();
    again.refill(&mut fixture.w, &fixture.pool);
    let mut batch = Batch::new();
    again.rx(&mut fixture.w, &mut batch);
    let lengths: Vec<usize> = batch.iter().map(|frame| frame.len()).collect();
    assert_eq!(lengths, [60, 61, 62, 60, 61, 62]);
    assert!(batch.iter().all(|frame| frame.data().iter().all(|&byte| usize::from(byte) == frame.len())));
    fs::remove_file(path).ok();
}

#[test]
fn a_trace_that_was_never_used_leaves_its_file_as_it_was_and_a_round_makes_it_anew() {
    for (format, begun) in [(TraceFormat::Json, 0), (TraceFormat::Pcap, 24)] {
        let path = place("unused");
        fs::write(&path, "of the last run").unwrap();
        drop(traced(&to(&path, format)));
        assert_eq!(fs::read_to_string(&path).unwrap(), "of the last run");
        let (mut port, _device) = traced(&to(&path, format));
        port.kick();
        assert_eq!(fs::read(&path).unwrap().len(), begun);
        fs::remove_file(path).ok();
    }
}

#[test]
fn a_limit_ends_the_trace_and_not_the_traffic() {
    let path = place("limit");
    let mut fixture = Fixture::new(128);
    let (mut port, mut device) = traced(&TraceConfig { limit: 4, ..to(&path, TraceFormat::Json) });
    assert_eq!(port.notice(), None);
    traffic(&mut fixture, &mut port, &mut device);
    let notice =
        format!("trace to {}: it has its 4 frames (limit), and records no further one", path.display());
    assert_eq!((port.notice(), port.complaint()), (Some(notice), None));
    traffic(&mut fixture, &mut port, &mut device);
    let text = fs::read_to_string(&path).unwrap();
    assert_eq!(text.lines().filter(|line| line.contains("len")).count(), 4, "{text}");
    assert_eq!((port.written().lost.get(), port.counters().tx.get()), (8, 6));
    fs::remove_file(path).ok();
}

#[test]
fn what_the_port_did_not_take_was_not_transmitted_and_is_not_written() {
    let path = place("refused");
    let mut fixture = Fixture::new(128);
    let (port, _device) = MemPort::pair("0", &MemConfig { ring: 2, coalesce: 1 }).unwrap();
    let mut port = TracePort::new(Box::new(port), &to(&path, TraceFormat::Json)).unwrap();
    let mut batch = Batch::new();
    fixture.pool.alloc_burst(&mut fixture.w, &mut batch, 5);
    assert_eq!((port.tx(&mut fixture.w, &mut batch), batch.len()), (2, 3));
    port.kick();
    assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), 2);
    assert_eq!(port.written().lost.get(), 0);
    fs::remove_file(path).ok();
}

/// Observed with an xdp port: the records of the last frames of a burst were removed, not those of the frames that
/// stayed.
#[test]
fn of_a_burst_with_frames_that_the_port_never_carries_those_are_written_that_it_took() {
    let path = place("unfit");
    let mut fixture = Fixture::new(128);
    let (port, _device) = MemPort::pair("0", &MemConfig { ring: 4, coalesce: 1 }).unwrap();
    let mut port =
        TracePort::new(Box::new(Moody::new(port, Mood::Picky)), &to(&path, TraceFormat::Json)).unwrap();
    let mut batch = Batch::new();
    for len in [1, 60, 61, 2, 62, 3, 63, 64] {
        let mut frame = fixture.pool.alloc(&mut fixture.w).unwrap();
        frame.put(len).unwrap().fill(0);
        batch.push(frame).unwrap();
    }
    assert_eq!((port.tx(&mut fixture.w, &mut batch), batch.len()), (4, 4));
    port.kick();
    let text = fs::read_to_string(&path).unwrap();
    let lengths: Vec<&str> =
        text.lines().filter_map(|line| line.split(r#""len":"#).nth(1)?.get(..2)).collect();
    assert_eq!((lengths, port.written().lost.get()), (vec!["60", "61", "62", "63"], 0), "{text}");
    fs::remove_file(path).ok();
}

#[test]
fn a_disk_that_is_full_stops_the_trace_and_not_the_traffic() {
    let mut fixture = Fixture::new(128);
    let (mut port, mut device) = traced(&to(Path::new("/dev/full"), TraceFormat::Json));
    traffic(&mut fixture, &mut port, &mut device);
    traffic(&mut fixture, &mut port, &mut device);
    // Each round has a burst filled, three frames received, three transmitted, and a burst completed.
    assert_eq!((port.written().lost.get(), port.counters().tx.get()), (16, 6));
}

#[test]
fn a_trace_that_cannot_be_begun_says_why() {
    let begin = |config: &TraceConfig| {
        let (port, _device) = MemPort::pair("0", &MemConfig::default()).unwrap();
        TracePort::new(Box::new(port), config).unwrap_err()
    };
    let nowhere = begin(&to(Path::new("/nonexistent/trace"), TraceFormat::Json)).to_string();
    assert!(nowhere.contains("/nonexistent/trace") && nowhere.contains("check the path"), "{nowhere}");
    let nothing = begin(&TraceConfig { format: TraceFormat::Pcap, ..TraceConfig::default() });
    assert!(matches!(nothing, TraceError::NoFile));
    let pipe = place("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let held_up = begin(&to(&pipe, TraceFormat::Json)).to_string();
    assert!(held_up.contains("is a pipe") && held_up.contains("give a file"), "{held_up}");
    fs::remove_file(pipe).ok();
    // Seen: one that nobody read held a worker, and SIGTERM did not end the run.
    let (_end, terminal) = crate::sys::reopen::terminal();
    let held_up = begin(&to(&terminal, TraceFormat::Json)).to_string();
    assert!(held_up.contains("is a terminal") && held_up.contains("give a file"), "{held_up}");
}

#[test]
fn a_traced_port_keeps_its_promises() {
    let path = place("promises");
    promises::are_kept(|_| {
        let (port, device) = MemPort::pair("0", &MemConfig { ring: 64, coalesce: 4 }).unwrap();
        let port =
            TracePort::new(Box::new(Moody::new(port, Mood::Picky)), &to(&path, TraceFormat::Json)).unwrap();
        (Box::new(port), Box::new(device))
    });
    fs::remove_file(path).ok();
}

#[test]
fn a_runt_that_is_traced_comes_without_a_byte_of_an_earlier_packet_and_is_written_so() {
    let path = place("runts");
    runts::come_alone(1, |_| {
        let config = TraceConfig { bytes: 1518, ..to(&path, TraceFormat::Pcap) };
        let (port, device) = traced(&config);
        (Box::new(port), Box::new(device))
    });
    let mut fixture = Fixture::new(128);
    let Fixture { w, pool, .. } = &mut fixture;
    let input = PcapConfig { input: Some(path.clone()), ..PcapConfig::default() };
    let (mut port, mut seen, mut batch) =
        (PcapPort::open("0", &input).unwrap(), runts::Seen::new(), Batch::new());
    while !port.rx_finished() {
        port.refill(w, pool);
        port.rx(w, &mut batch);
        batch.iter().for_each(|frame| seen.see(frame.data()));
        batch.free(w);
        port.kick();
    }
    assert!((1..=runts::LONGEST).all(|len| seen.has(len)), "{seen:?}");
    fs::remove_file(path).ok();
}
