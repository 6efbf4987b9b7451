//! Frames of all kinds, and files of them.

// Each test file uses its part of this.
#![allow(dead_code)]

pub mod dropped;

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::{env, fs, process};

/// The lengths of an Ethernet frame without check sequence, of a header alone up to a full one with two VLAN tags.
const LENGTHS: [usize; 9] = [14, 15, 33, 59, 60, 61, 64, 1514, 1518];

/// Frames no two of which are the same: runts down to no byte at all, and those of [`sendable`].
pub fn frames() -> Vec<Vec<u8>> {
    let runts = (0..14).map(|len| vec![0x55; len]);
    runts.chain(sendable(1518)).collect()
}

/// Returns frames that every Ethernet interface sends, up to a length: lengths and types of all kinds, VLAN tags once
/// and twice, fragments, and packets with invalid contents. All are from a unicast address to another.
pub fn sendable(most: usize) -> Vec<Vec<u8>> {
    let lengths = LENGTHS.iter().map(|&len| frame(&[0x88, 0xb5], len));
    // IPv4, ARP, IPv6, PPPoE, MPLS, MACsec, LLDP, PTP, a length, the ends of the range.
    let types: [u16; 13] = [
        0x0800, 0x0806, 0x86dd, 0x8863, 0x8847, 0x88e5, 0x88cc, 0x88f7, 0x0026, 0x05dc, 0x0000, 0x0600,
        0xffff,
    ];
    let types = types.map(|kind| frame(&kind.to_be_bytes(), 60)).into_iter();
    let tags = [
        &[0x81, 0x00, 0x00, 0x2a, 0x08, 0x00][..],
        &[0x81, 0x00, 0xef, 0xff, 0x86, 0xdd],
        &[0x81, 0x00, 0x00, 0x00, 0x88, 0xb5],
        &[0x88, 0xa8, 0x00, 0x07, 0x81, 0x00, 0x00, 0x2a, 0x08, 0x00],
        &[0x81, 0x00, 0x00, 0x07, 0x81, 0x00, 0x00, 0x2a, 0x88, 0xb5],
    ];
    let tags = tags.into_iter().flat_map(|tag| [60, 1000].map(|len| frame(tag, len)));
    let fragments = [0x2000_u16, 0x20b9, 0x00b9, 0x1fff].map(fragment).into_iter();
    lengths.chain(types).chain(tags).chain(fragments).filter(|frame| frame.len() <= most).collect()
}

/// Frames of the lengths at which something begins or ends beyond an Ethernet frame's, up to a length: chunks of memory, pages,
/// jumbo frames, what frames of each size have room for. Bare, with a VLAN tag, and fragments of IPv4.
pub fn giants(most: usize) -> Vec<Vec<u8>> {
    const ENDS: [usize; 18] = [
        1515, 1519, 1984, 2047, 2048, 2049, 3584, 4032, 4096, 7232, 8192, 9000, 9014, 9018, 9022, 14_528,
        16_384, 29_120,
    ];
    let of = |kind: &'static [u8]| ENDS.iter().map(move |&len| frame(kind, len));
    let fragments = ENDS.iter().map(|&len| fragment_of(0x2000, len));
    let all = of(&[0x88, 0xb5]).chain(of(&[0x81, 0x00, 0x00, 0x2a, 0x86, 0xdd])).chain(fragments);
    all.filter(|frame| frame.len() <= most).collect()
}

/// A frame of every type that two bytes can name, no two the same.
pub fn every_type() -> Vec<Vec<u8>> {
    (0..=u16::MAX).map(|kind| frame(&kind.to_be_bytes(), 60)).collect()
}

/// A frame that begins with two addresses and `kind`, and is `len` bytes long.
fn frame(kind: &[u8], len: usize) -> Vec<u8> {
    let mut bytes = vec![0x02, 0, 0, 0, 0x0d, 0x01, 0x02, 0, 0, 0, 0x0d, 0x02];
    bytes.extend(kind);
    let begun = bytes.len();
    bytes.extend((begun..len).map(|i| (i * 31 + len + usize::from(kind[kind.len() - 1])) as u8));
    bytes
}

/// An IPv4 fragment with these flags and this offset, its checksum wrong.
fn fragment(flags_and_offset: u16) -> Vec<u8> {
    fragment_of(flags_and_offset, 90)
}

/// As [`fragment`], in a frame of `len` bytes.
fn fragment_of(flags_and_offset: u16, len: usize) -> Vec<u8> {
    let mut bytes = frame(&[0x08, 0x00], len);
    bytes[14..20].copy_from_slice(&[0x45, 0, 0, 76, 0x12, 0x34]);
    bytes[20..22].copy_from_slice(&flags_and_offset.to_be_bytes());
    bytes
}

/// A pcap file of these packets.
pub fn pcap(packets: &[Vec<u8>]) -> Vec<u8> {
    pcap_at_intervals(packets, 1)
}

/// Writes a pcap file of these packets, with this number of microseconds between them.
pub fn pcap_at_intervals(packets: &[Vec<u8>], micros: u32) -> Vec<u8> {
    let header = [0xa1b2_3c4d, 0x0004_0002, 0, 0, 0x0004_0000, 1_u32];
    let mut bytes: Vec<u8> = header.iter().flat_map(|word| word.to_le_bytes()).collect();
    for (i, packet) in (0..).zip(packets) {
        let len = packet.len() as u32;
        let time = i * micros;
        let (seconds, nanos) = (1_700_000_000 + time / 1_000_000, time % 1_000_000 * 1_000);
        bytes.extend([seconds, nanos, len, len].iter().flat_map(|word: &u32| word.to_le_bytes()));
        bytes.extend(packet);
    }
    bytes
}

/// The packets of a pcap file, as far as it has been written.
pub fn packets(bytes: &[u8]) -> Vec<Vec<u8>> {
    let (mut rest, mut packets) = (bytes.get(24..).unwrap_or_default(), Vec::new());
    while let Some(len) =
        rest.get(8..12).map(|len| u32::from_le_bytes(len.try_into().expect("four bytes")) as usize)
    {
        let Some(packet) = rest.get(16..16 + len) else { break };
        packets.push(packet.to_vec());
        rest = &rest[16 + len..];
    }
    packets
}

/// A test's own folder. It is removed when dropped.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new(test: &str) -> Folder {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        loop {
            let number = NEXT.fetch_add(1, Relaxed);
            let path = env::temp_dir().join(format!("netmem-{}-{number}-{test}", process::id()));
            match fs::create_dir(&path) {
                Ok(()) => return Folder(path),
                // A killed process that had this number has left one.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => panic!("{}: {error}", path.display()),
            }
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        Path::join(&self.0, name)
    }

    pub fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, bytes).expect("a file");
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}
