//! Tests of files that are read and written.

mod refused;
mod rotation;

use super::format::{HEADER, PACKET_MAX, RECORD, header, record};
use super::{PcapConfig, PcapError, PcapPort, Speed};
use crate::pool::{Batch, Pool, PoolConfig};
use crate::port::conformance::Fixture;
use crate::port::tests::promises;
use crate::port::tests::runts::{self, LONGEST, Seen};
use crate::port::{Complete, Fill, Port, PortState, Rx, Tx, Wake};
use crate::wire::ethernet::MacAddr;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A directory of the test's own, removed when dropped.
pub(super) struct Folder(PathBuf);

impl Folder {
    pub(super) fn new(test: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("netmem-pcap-{}-{test}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    pub(super) fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, bytes).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

/// Returns a file with these packets, one every `gap`.
fn pcap(packets: &[Vec<u8>], gap: Duration) -> Vec<u8> {
    let mut bytes = header().to_vec();
    for (i, packet) in (0..).zip(packets) {
        bytes.extend(record(Duration::from_secs(1_000_000) + i * gap, packet.len(), packet.len()));
        bytes.extend(packet);
    }
    bytes
}

/// Returns the packets in a file that a port wrote.
fn packets(path: &Path) -> Vec<Vec<u8>> {
    recorded(path).into_iter().map(|(_, packet)| packet).collect()
}

/// As [`packets`], with their times.
fn recorded(path: &Path) -> Vec<(Duration, Vec<u8>)> {
    let bytes = fs::read(path).unwrap();
    let format = super::format::Format::of(&bytes).unwrap();
    let (mut at, mut packets) = (HEADER, Vec::new());
    while at < bytes.len() {
        let record = format.record(bytes[at..].first_chunk().unwrap());
        packets.push((record.at.unwrap(), bytes[at + RECORD..][..record.len as usize].to_vec()));
        at += RECORD + record.len as usize;
    }
    packets
}

/// Packets of all lengths from zero up to the longest that fits into any frame.
fn lengths() -> Vec<Vec<u8>> {
    (0..=1518_usize).map(|len| (0..len).map(|i| (i * 7 + len) as u8).collect()).collect()
}

pub(super) fn input(path: &Path) -> PcapConfig {
    PcapConfig { input: Some(path.to_owned()), ..PcapConfig::default() }
}

/// Receives until the file is at its end or the port is down.
pub(super) fn receive_all(fixture: &mut Fixture, port: &mut PcapPort) -> Vec<Vec<u8>> {
    let Fixture { w, pool, .. } = fixture;
    let (mut batch, mut all) = (Batch::new(), Vec::new());
    while !port.rx_finished() {
        port.refill(w, pool);
        port.rx(w, &mut batch);
        all.extend(batch.iter().map(|frame| frame.data().to_vec()));
        batch.free(w);
        port.kick();
    }
    all
}

#[test]
fn every_length_goes_through_from_file_to_file_byte_for_byte() {
    let folder = Folder::new("through");
    let path = folder.file("in", &pcap(&lengths(), Duration::ZERO));
    let out = folder.0.join("out");
    let mut fixture = Fixture::new(256);
    let config = PcapConfig { output: Some(out.clone()), ..input(&path) };
    let mut port = PcapPort::open("0", &config).unwrap();
    let mut batch = Batch::new();
    while !port.rx_finished() {
        port.refill(&mut fixture.w, &fixture.pool);
        port.rx(&mut fixture.w, &mut batch);
        port.tx(&mut fixture.w, &mut batch);
        assert!(batch.is_empty());
        port.complete(&mut fixture.w, &mut batch);
        batch.free(&mut fixture.w);
        port.kick();
    }
    assert_eq!(packets(&out), lengths(), "written by the end of the round");
    let counters = port.counters();
    assert_eq!((counters.rx.get(), counters.tx.get(), counters.copied.get()), (1519, 1519, 3038));
    assert_eq!(counters.rx_bytes.get(), (1518 * 1519 / 2));
    drop(port);
    assert!(fixture.pool.ledger().all_freed());
}

#[test]
fn what_no_frame_has_room_for_is_dropped_by_count_and_what_was_cut_is_counted() {
    let folder = Folder::new("long");
    let mut bytes = pcap(&[vec![1; 60], vec![2; 9000], vec![3; PACKET_MAX], vec![4; 61]], Duration::ZERO);
    // Of 1,500 bytes, 10 were recorded.
    let mut cut = record(Duration::ZERO, 10, 10);
    cut[12..].copy_from_slice(&1500_u32.to_ne_bytes());
    bytes.extend(cut);
    bytes.extend([5; 10]);
    let mut fixture = Fixture::new(64);
    let mut port = PcapPort::open("0", &input(&folder.file("in", &bytes))).unwrap();
    assert_eq!(receive_all(&mut fixture, &mut port), [vec![1; 60], vec![4; 61], vec![5; 10]]);
    let counters = port.counters();
    assert_eq!((counters.rx_too_long.get(), counters.rx_snapped.get(), counters.rx_drops()), (2, 1, 2));
    assert_eq!(port.state(), PortState::Up);
}

/// Seen: a program that slept while nothing was ready slept for each 512 KiB of a block that holds no packet.
#[test]
fn a_file_with_a_long_block_before_its_packet_has_something_in_each_round_until_its_end() {
    let block = |kind: u32, body: &[u8]| {
        let len = (body.len() as u32 + 12).to_ne_bytes();
        [&kind.to_ne_bytes(), &len, body, &len].concat()
    };
    let section = [&0x1a2b_3c4d_u32.to_ne_bytes()[..], &1_u32.to_ne_bytes(), &[0xff; 8]].concat();
    let interface = [1_u16.to_ne_bytes(), [0; 2], [0; 2], [0; 2]].concat();
    let words = [0_u32, 0, 0, 60, 60].map(u32::to_ne_bytes).concat();
    let packet = [words, vec![7; 60]].concat();
    let blocks =
        [block(0x0a0d_0d0a, &section), block(1, &interface), block(0xbad, &[0; 4 << 20]), block(6, &packet)];
    let folder = Folder::new("long-block");
    let path = folder.file("in", &blocks.concat());
    let (mut fixture, mut port) = (Fixture::new(64), PcapPort::open("0", &input(&path)).unwrap());
    let mut batch = Batch::new();
    while batch.is_empty() {
        assert!(port.arm(), "{:?}", port.state());
        port.disarm();
        port.refill(&mut fixture.w, &fixture.pool);
        port.rx(&mut fixture.w, &mut batch);
        port.kick();
    }
    assert_eq!(batch[0].data(), [7; 60]);
    batch.free(&mut fixture.w);
    while !port.rx_finished() {
        port.kick();
    }
    assert!(!port.arm());
}

#[test]
fn a_file_is_received_as_often_as_asked() {
    let folder = Folder::new("times");
    let path = folder.file("in", &pcap(&[vec![1; 60], vec![2; 61]], Duration::ZERO));
    for times in [1, 3] {
        let config = PcapConfig { times: Some(times), ..input(&path) };
        let mut fixture = Fixture::new(64);
        let received = receive_all(&mut fixture, &mut PcapPort::open("0", &config).unwrap());
        assert_eq!(received.len() as u64, 2 * times);
        assert_eq!(received.chunks(2).filter(|two| two[1] == [2; 61]).count() as u64, times);
    }
    let never = PcapConfig { times: Some(0), ..input(&path) };
    let received = receive_all(&mut Fixture::new(64), &mut PcapPort::open("0", &never).unwrap());
    assert!(received.is_empty(), "seen: it came once");
    let empty = PcapConfig { times: None, ..input(&folder.file("empty", &header())) };
    let received = receive_all(&mut Fixture::new(64), &mut PcapPort::open("0", &empty).unwrap());
    assert!(received.is_empty(), "a file without packets is at its end also where it is repeated for ever");
}

/// Transmits the received packets, and behind each burst a packet that was not recorded.
fn pass(fixture: &mut Fixture, port: &mut PcapPort) {
    let Fixture { w, pool, .. } = fixture;
    let mut batch = Batch::new();
    while !port.rx_finished() {
        port.refill(w, pool);
        if port.rx(w, &mut batch) > 0 {
            let mut own = pool.alloc(w).unwrap();
            own.put_slice(b"a packet that nobody recorded").unwrap();
            batch.push(own).unwrap();
        }
        port.tx(w, &mut batch);
        assert!(batch.is_empty());
        port.complete(w, &mut batch);
        batch.free(w);
        port.kick();
    }
}

#[test]
fn packets_are_written_with_the_time_at_which_they_were_recorded_where_that_is_asked_for() {
    let folder = Folder::new("timestamps");
    let gap = Duration::from_nanos(1_500_000_017);
    let path = folder.file("in", &pcap(&[vec![1; 60], vec![2; 61], vec![3; 62]], gap));
    let time = |i: u32| Duration::from_secs(1_000_000) + i * gap;
    for (recorded_timestamps, name) in [(true, "kept"), (false, "new")] {
        let output = Some(folder.0.join(name));
        let mut fixture = Fixture::new(64);
        pass(
            &mut fixture,
            &mut PcapPort::open("0", &PcapConfig { output, recorded_timestamps, ring: 16, ..input(&path) })
                .unwrap(),
        );
        let times: Vec<_> = recorded(&folder.0.join(name)).into_iter().map(|(at, _)| at).collect();
        if recorded_timestamps {
            // Where there is none, the time before.
            assert_eq!(times, [time(0), time(1), time(2), time(2)]);
        } else {
            assert!(times.len() == 4 && times.iter().all(|at| at.as_secs() > 1_700_000_000), "{times:?}");
        }
        assert!(fixture.pool.ledger().all_freed());
    }
}

#[test]
fn frames_without_room_for_a_timestamp_take_the_port_down_with_the_remedy() {
    let folder = Folder::new("no-headroom");
    let path = folder.file("in", &pcap(&[vec![1; 2031]], Duration::ZERO));
    let mut fixture = Fixture::new(64);
    let config = PoolConfig { frames: 64, headroom: 17, data: 2031, ..PoolConfig::default() };
    fixture.pool = Pool::new(&fixture.memory, &mut fixture.w, &config).unwrap();
    let mut port = PcapPort::open("0", &PcapConfig { recorded_timestamps: true, ..input(&path) }).unwrap();
    assert!(receive_all(&mut fixture, &mut port).is_empty());
    let PortState::Down(reason) = port.state() else { panic!("it is up") };
    assert!(
        reason.ends_with("18 bytes wanted where there are 17): give their pool a headroom of 18 bytes"),
        "{reason}"
    );
}

/// Seen: 46 bytes of headroom where the pool's is 64.
#[test]
fn a_timestamp_leaves_the_headroom_of_the_pool_if_the_frame_has_room_for_both() {
    let folder = Folder::new("headroom");
    let path = folder.file("in", &pcap(&[vec![1; 60], vec![2; 1966], vec![3; 1967]], Duration::ZERO));
    let mut fixture = Fixture::new(64);
    let config = PoolConfig { frames: 64, headroom: 64, data: 1984, ..PoolConfig::default() };
    fixture.pool = Pool::new(&fixture.memory, &mut fixture.w, &config).unwrap();
    let mut port = PcapPort::open("0", &PcapConfig { recorded_timestamps: true, ..input(&path) }).unwrap();
    let mut frames = Batch::new();
    while !port.rx_finished() {
        port.refill(&mut fixture.w, &fixture.pool);
        port.rx(&mut fixture.w, &mut frames);
        port.kick();
    }
    assert!(frames.iter().all(|frame| frame.timestamp().is_some()));
    assert_eq!(frames.iter().map(|frame| frame.headroom()).collect::<Vec<usize>>(), [64, 64, 46]);
    assert_eq!(frames.iter().map(|frame| frame.data()[0]).collect::<Vec<u8>>(), [1, 2, 3]);
    frames.free(&mut fixture.w);
}

#[test]
fn a_destination_takes_the_place_of_every_other_but_those_of_groups() {
    let folder = Folder::new("destination");
    let to = |first: u8, len: usize| -> Vec<u8> {
        (0..len as u8).map(|i| if i == 0 { first } else { i }).collect()
    };
    let sent = [to(2, 60), to(1, 60), vec![0xff; 60], to(2, 6), to(2, 5), vec![]];
    let path = folder.file("in", &pcap(&sent, Duration::ZERO));
    let destination = Some(MacAddr::new([2, 9, 8, 7, 6, 5]));
    let mut expected = sent.clone();
    for at in [0, 3] {
        expected[at][..6].copy_from_slice(&[2, 9, 8, 7, 6, 5]);
    }
    let mut port = PcapPort::open("0", &PcapConfig { destination, ..input(&path) }).unwrap();
    assert_eq!(receive_all(&mut Fixture::new(64), &mut port), expected);
}

#[test]
fn at_recorded_speed_no_packet_comes_before_its_time() {
    let folder = Folder::new("recorded");
    let gap = Duration::from_millis(5);
    let path = folder.file("in", &pcap(&[vec![1; 60], vec![2; 60], vec![3; 60]], gap));
    let mut fixture = Fixture::new(64);
    let mut port = PcapPort::open("0", &PcapConfig { speed: Speed::Recorded, ..input(&path) }).unwrap();
    let begun = Instant::now();
    let received = receive_all(&mut fixture, &mut port);
    assert!(received.len() == 3 && begun.elapsed() >= 2 * gap, "{:?}", begun.elapsed());
}

#[test]
fn a_damaged_file_takes_the_port_down_behind_its_last_good_packet() {
    let folder = Folder::new("damaged");
    let good = pcap(&[vec![1; 60], vec![2; 61]], Duration::ZERO);
    let absurd = [&good[..], &record(Duration::ZERO, PACKET_MAX + 1, PACKET_MAX + 1), &[0; 99]].concat();
    for (bytes, why) in [
        (&good[..good.len() - 1], "ends within a packet, at byte 100"),
        (&[&good[..], &[0; 15]].concat()[..], "ends within a packet, at byte 177"),
        (&absurd[..], "says that a packet has 262145 bytes, at byte 177"),
    ] {
        let mut fixture = Fixture::new(64);
        let mut port = PcapPort::open("0", &input(&folder.file("in", bytes))).unwrap();
        let received = receive_all(&mut fixture, &mut port);
        assert_eq!(received.len(), if why.contains("100") { 1 } else { 2 });
        let PortState::Down(reason) = port.state() else { panic!("{why}: it is up") };
        assert!(reason.contains(why), "{reason}");
        assert_eq!(port.rx(&mut fixture.w, &mut Batch::new()), 0);
        drop(port);
        assert!(fixture.pool.ledger().all_freed());
    }
}

#[test]
fn every_refusal_names_the_file_and_the_remedy_in_one_line() {
    let folder = Folder::new("refused");
    let (text, good) = (folder.file("text", b"no pcap at all, just words"), folder.file("good", &header()));
    let missing = folder.0.join("missing");
    let output = |path: &Path| PcapConfig { output: Some(path.to_owned()), ..PcapConfig::default() };
    for (config, needles) in [
        (PcapConfig::default(), ["without a file", "in=FILE"]),
        (input(&missing), ["missing", "check the path"]),
        (input(&folder.0), ["read", ""]),
        (input(&text), ["text", "not a pcap or pcapng file"]),
        (output(&folder.0), ["open", "check the path"]),
        (PcapConfig { output: Some(good.clone()), ..input(&good) }, ["good", "give two files"]),
    ] {
        let Err(error) = PcapPort::open("0", &config) else { panic!("{config:?} was opened") };
        let line = error.to_string();
        assert!(config.input != Some(folder.0.clone()) || matches!(error, PcapError::Open { .. }), "{line}");
        assert!(needles[0] == "read" || needles.iter().all(|needle| line.contains(needle)), "{line}");
        assert!(!line.contains('\n'), "{line}");
    }
    assert_eq!(fs::read(&good).unwrap(), header(), "what is read is not written over");
}

#[test]
fn a_port_that_was_never_used_leaves_its_output_as_it_was_and_a_round_makes_it_anew() {
    let folder = Folder::new("unused");
    let path = folder.file("out", &pcap(&lengths(), Duration::ZERO));
    let before = fs::read(&path).unwrap();
    let config = PcapConfig { output: Some(path.clone()), ..PcapConfig::default() };
    drop(PcapPort::open("0", &config).unwrap());
    assert_eq!(fs::read(&path).unwrap(), before);
    let new = folder.0.join("new");
    drop(PcapPort::open("0", &PcapConfig { output: Some(new.clone()), ..PcapConfig::default() }).unwrap());
    assert!(!new.exists(), "what was not there is not left behind");
    let mut port = PcapPort::open("0", &config).unwrap();
    port.kick();
    assert_eq!(fs::read(&path).unwrap(), header(), "a round without a frame");
    drop(port);
    let mut fixture = Fixture::new(64);
    let mut batch = Batch::new();
    fixture.pool.alloc_burst(&mut fixture.w, &mut batch, 3);
    let mut port = PcapPort::open("0", &config).unwrap();
    assert_eq!(port.tx(&mut fixture.w, &mut batch), 3);
    drop(port);
    assert_eq!(packets(&path).len(), 3, "what was sent is written also without a round");
}

#[test]
fn a_full_disk_takes_the_port_down_and_the_frames_stay_with_the_caller() {
    let mut fixture = Fixture::new(64);
    let config = PcapConfig { output: Some("/dev/full".into()), ..PcapConfig::default() };
    let mut port = PcapPort::open("0", &config).unwrap();
    let mut batch = Batch::new();
    fixture.pool.alloc_burst(&mut fixture.w, &mut batch, 3);
    assert_eq!((port.tx(&mut fixture.w, &mut batch), port.can_retry_tx()), (3, true));
    port.kick();
    let PortState::Down(reason) = port.state() else { panic!("it is up") };
    assert!(reason.contains("write /dev/full") && !port.can_retry_tx() && port.is_failed(), "{reason}");
    assert_eq!(port.counters().tx_lost.get(), 3, "transmitted, and not written");
    fixture.pool.alloc_burst(&mut fixture.w, &mut batch, 3);
    assert_eq!((port.tx(&mut fixture.w, &mut batch), batch.len()), (0, 3));
    assert_eq!(port.complete(&mut fixture.w, &mut batch), 3);
    drop((port, batch));
    assert!(fixture.pool.ledger().all_freed());
}

#[test]
fn what_a_full_disk_does_not_take_at_the_very_end_is_counted_too() {
    let mut fixture = Fixture::new(64);
    let config = PcapConfig { output: Some("/dev/full".into()), ..PcapConfig::default() };
    let mut port = PcapPort::open("0", &config).unwrap();
    let mut batch = Batch::new();
    fixture.pool.alloc_burst(&mut fixture.w, &mut batch, 3);
    port.tx(&mut fixture.w, &mut batch);
    let counters = port.counters();
    drop(port);
    assert_eq!((counters.tx.get(), counters.tx_lost.get()), (3, 3));
}

#[test]
fn a_full_disk_does_not_keep_a_file_from_being_received() {
    let folder = Folder::new("full");
    let path = folder.file("in", &pcap(&lengths(), Duration::ZERO));
    let mut fixture = Fixture::new(256);
    let mut port =
        PcapPort::open("0", &PcapConfig { output: Some("/dev/full".into()), ..input(&path) }).unwrap();
    port.kick();
    assert_ne!(port.state(), PortState::Up);
    assert_eq!(receive_all(&mut fixture, &mut port), lengths());
}

#[test]
fn a_damaged_file_does_not_keep_another_from_being_written() {
    let folder = Folder::new("written");
    let good = pcap(&[vec![1; 60], vec![2; 61]], Duration::ZERO);
    let (path, out) = (folder.file("in", &good[..good.len() - 1]), folder.0.join("out"));
    let mut fixture = Fixture::new(64);
    let mut port =
        PcapPort::open("0", &PcapConfig { output: Some(out.clone()), ring: 32, ..input(&path) }).unwrap();
    assert_eq!(receive_all(&mut fixture, &mut port), [[1; 60]]);
    assert!(matches!(port.state(), PortState::Down(_)) && port.can_retry_tx());
    let mut batch = Batch::new();
    fixture.pool.alloc_burst(&mut fixture.w, &mut batch, 3);
    assert_eq!(port.tx(&mut fixture.w, &mut batch), 3);
    port.kick();
    assert_eq!((packets(&out).len(), port.counters().tx_lost.get()), (3, 0));
}

#[test]
fn a_port_of_files_keeps_its_promises() {
    let folder = Folder::new("promises");
    let path = folder.file("in", &pcap(&lengths(), Duration::ZERO));
    promises::are_kept(|_| {
        let config = PcapConfig { ring: 40, times: None, output: Some(folder.0.join("out")), ..input(&path) };
        (Box::new(PcapPort::open("0", &config).unwrap()), Box::new(()))
    });
}

#[test]
fn a_runt_in_a_file_comes_without_a_byte_of_an_earlier_packet_and_is_written_so() {
    let folder = Folder::new("runts");
    let all: Vec<_> = (1..=LONGEST).flat_map(|len| [runts::marker(), runts::runt(len)]).collect();
    let (from, to) = (folder.file("in", &pcap(&all, Duration::ZERO)), folder.0.join("out"));
    let (mut fixture, mut seen) = (Fixture::new(64), Seen::new());
    let config = PcapConfig { ring: 16, output: Some(to.clone()), ..input(&from) };
    let mut port = PcapPort::open("0", &config).unwrap();
    let (mut batch, mut sent) = (Batch::new(), Batch::new());
    while !port.rx_finished() {
        let Fixture { w, pool, .. } = &mut fixture;
        port.refill(w, pool);
        port.rx(w, &mut batch);
        batch.iter().for_each(|frame| seen.see(frame.data()));
        while !batch.is_empty() {
            // In frames that were full of other packets, from the same pool.
            port.tx(w, &mut batch);
            port.complete(w, &mut sent);
            sent.free(w);
            port.kick();
        }
        port.kick();
    }
    drop(port);
    assert!((1..=LONGEST).all(|len| seen.has(len)), "{seen:?}");
    assert_eq!(packets(&to), all);
}

/// The same packets, compressed in two members.
fn gzip(parts: [&[u8]; 2]) -> Vec<u8> {
    let member = |part: &[u8]| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(part).unwrap();
        encoder.finish().unwrap()
    };
    parts.map(member).concat()
}

#[test]
fn a_compressed_capture_is_read_as_often_as_asked() {
    let folder = Folder::new("gzip");
    // More than is read ahead.
    let sent: Vec<Vec<u8>> = (0..1000).map(|i| vec![i as u8; 1500]).collect();
    let bytes = pcap(&sent, Duration::ZERO);
    let path = folder.file("in.pcap.gz", &gzip([&bytes[..777], &bytes[777..]]));
    let config = PcapConfig { times: Some(2), ..input(&path) };
    let received = receive_all(&mut Fixture::new(64), &mut PcapPort::open("0", &config).unwrap());
    assert_eq!(received, [&sent[..], &sent[..]].concat());
}

#[test]
fn a_compressed_capture_that_is_cut_off_takes_the_port_down_behind_what_came() {
    let folder = Folder::new("gzip-cut");
    let bytes = gzip([&pcap(&[vec![1; 60], vec![2; 61]], Duration::ZERO), &[0; 15]]);
    let path = folder.file("in.gz", &bytes[..bytes.len() - 9]);
    let mut fixture = Fixture::new(64);
    let mut port = PcapPort::open("0", &input(&path)).unwrap();
    let received = receive_all(&mut fixture, &mut port);
    assert_eq!(received, [vec![1; 60], vec![2; 61]]);
    let PortState::Down(reason) = port.state() else { panic!("it is up") };
    assert!(reason.contains("in.gz"), "{reason}");
}
