//! Captures for programs to read.

use crate::prefix::scratch;
use std::fs;
use std::path::{Path, PathBuf};

/// Writes a pcap file of so many packets of 60 bytes; where it is.
pub fn write(name: &str, packets: u32) -> PathBuf {
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    // Magic number in microseconds, version 2.4, zone, accuracy, snapshot length, Ethernet.
    let mut bytes = words(&[0xa1b2_c3d4, 0x0004_0002, 0, 0, 65535, 1]);
    for number in 0..packets {
        bytes.extend(words(&[number, 0, 60, 60]));
        bytes.extend([2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0xb5]);
        bytes.extend((0..46).map(|at| (number as u8).wrapping_add(at)));
    }
    let path = scratch().join(name);
    fs::write(&path, bytes).expect("the capture can be written");
    path
}

/// The packets of a pcap file, without when they were.
pub fn packets(path: &Path) -> Vec<Vec<u8>> {
    let bytes = fs::read(path).expect("a capture");
    let (mut packets, mut rest) = (Vec::new(), &bytes[24..]);
    while let Some((record, after)) = rest.split_at_checked(16) {
        let len = u32::from_le_bytes(record[8..12].try_into().expect("four bytes")) as usize;
        packets.push(after[..len].to_vec());
        rest = &after[len..];
    }
    packets
}
