//! Tests of files that are written in turn, and of packets of which a part is written.

use super::super::Rotation;
use super::*;

/// Sends packets of `len` bytes, each with its number, as rounds do.
fn send(fixture: &mut Fixture, port: &mut PcapPort, numbers: std::ops::Range<u32>, len: usize) {
    for number in numbers {
        let mut batch = Batch::new();
        let mut frame = fixture.pool.alloc(&mut fixture.w).unwrap();
        let bytes = frame.put(len).unwrap();
        bytes.fill(0);
        bytes[..4].copy_from_slice(&number.to_ne_bytes());
        batch.push(frame).unwrap();
        assert_eq!(port.tx(&mut fixture.w, &mut batch), 1);
        if number % 16 == 15 {
            port.kick();
        }
        port.complete(&mut fixture.w, &mut batch);
        batch.free(&mut fixture.w);
    }
}

/// The numbers of the packets in a file.
fn numbers(path: &Path) -> Vec<u32> {
    packets(path).iter().map(|packet| u32::from_ne_bytes(packet[..4].try_into().unwrap())).collect()
}

#[test]
fn files_written_in_turn_have_the_last_packets_and_none_is_longer_than_it_may_be() {
    let folder = Folder::new("turn");
    let rotation = Some(Rotation { files: 3, bytes: 1 << 20 });
    let config = PcapConfig { output: Some(folder.0.join("a")), rotation, ..PcapConfig::default() };
    let paths = config.outputs();
    // Of an earlier run.
    fs::write(&paths[2], [7; 99]).unwrap();
    let mut fixture = Fixture::new(64);
    let mut port = PcapPort::open("0", &config).unwrap();
    send(&mut fixture, &mut port, 0..16, 1500);
    assert_eq!(numbers(&paths[0]).len(), 16);
    assert!(numbers(&paths[1]).is_empty() && numbers(&paths[2]).is_empty());
    // Enough for four files.
    send(&mut fixture, &mut port, 16..3000, 1500);
    let counters = port.counters();
    drop(port);
    let mut files: Vec<Vec<u32>> = paths.iter().map(|path| numbers(path)).collect();
    files.sort();
    let kept = files.concat();
    assert!(kept.iter().copied().eq(kept[0]..3000) && kept.len() > 2 * 680, "{} kept", kept.len());
    assert!(paths.iter().all(|path| fs::metadata(path).unwrap().len() <= 1 << 20));
    assert_eq!(counters.tx_lost.get(), 0);
}

#[test]
fn a_part_of_each_packet_is_written_with_the_length_of_the_whole() {
    let folder = Folder::new("snap");
    let output = folder.0.join("a");
    let config = PcapConfig { output: Some(output.clone()), snap: Some(96), ..PcapConfig::default() };
    let mut fixture = Fixture::new(64);
    let mut port = PcapPort::open("0", &config).unwrap();
    send(&mut fixture, &mut port, 0..16, 1500);
    send(&mut fixture, &mut port, 16..32, 60);
    drop(port);
    let lengths: Vec<usize> = packets(&output).iter().map(Vec::len).collect();
    assert_eq!(lengths, [vec![96; 16], vec![60; 16]].concat());
    let mut port = PcapPort::open("0", &input(&output)).unwrap();
    assert_eq!(receive_all(&mut fixture, &mut port).len(), 32);
    assert_eq!(port.counters().rx_snapped.get(), 16);
}

#[test]
fn files_that_cannot_be_written_in_turn_are_refused_and_left_as_they_are() {
    let folder = Folder::new("impossible");
    let output = Some(folder.0.join("a"));
    for (files, bytes) in [(1, 1 << 20), (1001, 1 << 20), (2, (1 << 20) - 1)] {
        let config = PcapConfig {
            output: output.clone(),
            rotation: Some(Rotation { files, bytes }),
            ..PcapConfig::default()
        };
        let refused = PcapPort::open("0", &config).unwrap_err();
        assert!(
            refused.to_string().ends_with("give 2 to 1000 files of at least 1048576 bytes each"),
            "{refused}"
        );
    }
    let rotation = Some(Rotation { files: 2, bytes: 1 << 20 });
    let standard = PcapConfig { output: Some("-".into()), rotation, ..PcapConfig::default() };
    assert!(matches!(PcapPort::open("0", &standard), Err(PcapError::OneFile)));
    let first = folder.file("b.0", &pcap(&[vec![1; 60]], Duration::ZERO));
    let same = PcapConfig { output: Some(folder.0.join("b")), rotation, ..input(&first) };
    assert!(matches!(PcapPort::open("0", &same), Err(PcapError::SameFile(_))));
    assert_eq!(packets(&first).len(), 1);
    assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 1, "no file is left");
}
