//! Tests with files of blocks, in either byte order, valid and invalid.

use super::super::capture::{Bad, Capture, Located, Next};
use super::super::format::{PACKET_MAX, Record};
use super::super::tests::{Folder, input, receive_all};
use super::super::{PcapConfig, PcapPort, Speed};
use super::*;
use crate::port::conformance::Fixture;
use crate::port::{Port, PortState};
use proptest::prelude::*;

/// Writes blocks in one byte order.
#[derive(Clone, Copy)]
struct Blocks {
    big: bool,
}

impl Blocks {
    fn word(self, word: u32) -> [u8; 4] {
        if self.big { word.to_be_bytes() } else { word.to_le_bytes() }
    }

    fn half(self, half: u16) -> [u8; 2] {
        if self.big { half.to_be_bytes() } else { half.to_le_bytes() }
    }

    fn block(self, kind: u32, contents: &[u8]) -> Vec<u8> {
        let padded = contents.len().next_multiple_of(4);
        let size = self.word(padded as u32 + EMPTY);
        let padding = vec![0; padded - contents.len()];
        [&self.word(kind)[..], &size, contents, &padding, &size].concat()
    }

    fn section(self) -> Vec<u8> {
        let version = [self.half(1), self.half(0)].concat();
        self.block(SECTION, &[&self.word(BYTE_ORDER)[..], &version, &[0xff; 8]].concat())
    }

    fn interface(self, link_type: u16, snap: u32, options: &[u8]) -> Vec<u8> {
        let head = [self.half(link_type), self.half(0)].concat();
        self.block(INTERFACE, &[&head[..], &self.word(snap), options].concat())
    }

    fn option(self, option: u16, value: &[u8]) -> Vec<u8> {
        let padding = vec![0; value.len().next_multiple_of(4) - value.len()];
        [&self.half(option)[..], &self.half(value.len() as u16), value, &padding].concat()
    }

    fn packet(self, interface: u32, stamp: u64, bytes: &[u8], original: u32) -> Vec<u8> {
        let words = [interface, (stamp >> 32) as u32, stamp as u32, bytes.len() as u32, original];
        let head: Vec<u8> = words.into_iter().flat_map(|word| self.word(word)).collect();
        let padding = vec![0; bytes.len().next_multiple_of(4) - bytes.len()];
        self.block(PACKET, &[&head, bytes, &padding, &self.option(1, b"a comment")].concat())
    }
}

const BOTH: [Blocks; 2] = [Blocks { big: false }, Blocks { big: true }];

/// The record header before a packet, and its bytes.
type Read = (Record, Vec<u8>);

/// Reads the packets of a capture, and how it ends.
fn read(mut bytes: &[u8]) -> (Vec<Read>, Result<(), Bad>) {
    let mut capture = Capture::of(bytes).expect("a pcapng file");
    let mut packets = Vec::new();
    loop {
        let size = match capture.next(bytes) {
            Ok(Next::Packet(Located { record, start, size })) => {
                packets.push((record, bytes[start..][..record.len as usize].to_vec()));
                capture.pass_packet(size);
                size
            }
            Ok(Next::Skip(size) | Next::OtherLink(size)) => size,
            Ok(Next::More) => return (packets, Ok(())),
            Err(bad) => return (packets, Err(bad)),
        };
        assert!(size > 0, "it comes on");
        bytes = &bytes[bytes.len().min(usize::try_from(size).unwrap())..];
    }
}

#[test]
fn packets_of_several_interfaces_come_with_the_time_each_has() {
    for blocks in BOTH {
        let offset: [u8; 8] = if blocks.big { 100_i64.to_be_bytes() } else { 100_i64.to_le_bytes() };
        let nanoseconds = blocks.option(RESOLUTION, &[9]);
        let binary = [blocks.option(RESOLUTION, &[0x80 | 10]), blocks.option(OFFSET, &offset)].concat();
        let file = [
            blocks.section(),
            blocks.interface(1, 0, &[]),
            blocks.interface(1, 0, &nanoseconds),
            blocks.interface(1, 0, &binary),
            blocks.block(0x0bad, &[7; 1000]),
            blocks.packet(0, 5_000_007, &[1; 61], 61),
            blocks.packet(1, 5_000_000_007, &[2; 60], 1500),
            blocks.packet(2, 5 * 1024 + 512, &[], 0),
        ]
        .concat();
        let (packets, end) = read(&file);
        assert_eq!(end, Ok(()));
        let times: Vec<_> = packets.iter().map(|(record, _)| record.at).collect();
        let at = |seconds, nanoseconds| Some(Duration::new(seconds, nanoseconds));
        assert_eq!(times, [at(5, 7_000), at(5, 7), at(105, 500_000_000)]);
        let bytes: Vec<_> = packets.iter().map(|(record, bytes)| (record.original, bytes.clone())).collect();
        assert_eq!(bytes, [(61, vec![1; 61]), (1500, vec![2; 60]), (0, vec![])]);
    }
}

#[test]
fn simple_and_old_packets_are_read_and_a_section_changes_the_byte_order() {
    let mut file = Vec::new();
    for blocks in BOTH {
        file.extend(blocks.section());
        file.extend(blocks.interface(1, 10, &[]));
        file.extend(blocks.block(SIMPLE_PACKET, &[&blocks.word(99)[..], &[3; 10]].concat()));
        let words = [0, 1, 4, 4].map(|word| blocks.word(word));
        let old = [&blocks.half(0)[..], &blocks.half(9), words.as_flattened(), &[4; 4]].concat();
        file.extend(blocks.block(OLD_PACKET, &old));
    }
    let (packets, end) = read(&file);
    let seen: Vec<_> = packets.iter().map(|(record, bytes)| (record.original, bytes.as_slice())).collect();
    let once = [(99, &[3; 10][..]), (4, &[4; 4])];
    assert_eq!((seen, end), ([once, once].concat(), Ok(())));
    let have_times: Vec<_> = packets.iter().map(|(record, _)| record.at.is_some()).collect();
    assert_eq!(have_times, [false, true, false, true]);
}

/// Seen: a packet without a time counted as one of 1970, and the next one was due in half a century.
#[test]
fn a_packet_without_a_time_comes_at_once_and_holds_no_other_up() {
    let blocks = BOTH[0];
    let simple = [&blocks.word(60)[..], &[1; 60]].concat();
    let file = [
        blocks.section(),
        blocks.interface(1, 0, &[]),
        blocks.block(SIMPLE_PACKET, &simple),
        blocks.packet(0, 1_700_000_000_000_000, &[2; 60], 60),
        blocks.packet(0, 1_700_000_000_005_000, &[3; 60], 60),
    ];
    let folder = Folder::new("timeless");
    let path = folder.file("in", &file.concat());
    let mut fixture = Fixture::new(64);
    let mut port = PcapPort::open("0", &PcapConfig { speed: Speed::Recorded, ..input(&path) }).unwrap();
    assert_eq!(receive_all(&mut fixture, &mut port), [vec![1; 60], vec![2; 60], vec![3; 60]]);
}

/// Seen: behind a packet of time 0 the next one was due in half a century, and no line said so.
#[test]
fn a_packet_of_time_0_comes_at_once_and_holds_no_other_up() {
    let blocks = BOTH[0];
    let file = [
        blocks.section(),
        blocks.interface(1, 0, &[]),
        blocks.packet(0, 0, &[1; 60], 60),
        blocks.packet(0, 1_700_000_000_000_000, &[2; 60], 60),
        blocks.packet(0, 0, &[3; 60], 60),
        blocks.packet(0, 1_700_000_000_005_000, &[4; 60], 60),
    ];
    let folder = Folder::new("time-0");
    let path = folder.file("in", &file.concat());
    let mut fixture = Fixture::new(64);
    let mut port = PcapPort::open("0", &PcapConfig { speed: Speed::Recorded, ..input(&path) }).unwrap();
    assert_eq!(receive_all(&mut fixture, &mut port), [1, 2, 3, 4].map(|n| vec![n; 60]));
}

#[test]
fn what_is_damaged_or_no_ethernet_is_said_in_words() {
    let blocks = BOTH[0];
    let begun = [blocks.section(), blocks.interface(113, 0, &[])].concat();
    let ethernet = [blocks.section(), blocks.interface(1, 0, &[])].concat();
    let mut odd = blocks.packet(0, 0, &[0; 60], 60);
    odd[20..24].copy_from_slice(&blocks.word(200));
    let mut long = blocks.packet(0, 0, &[0; 60], 60);
    long[20..24].copy_from_slice(&blocks.word(PACKET_MAX as u32 + 1));
    let resolution = blocks.interface(1, 0, &blocks.option(RESOLUTION, &[200]));
    let cut = blocks.interface(1, 0, &[9, 0, 0xff, 0xff]);
    for (file, why) in [
        ([&begun, &blocks.packet(0, 0, &[0; 60], 60)[..]].concat(), "Format(LinkType(113))"),
        ([&ethernet, &blocks.packet(1, 0, &[0; 60], 60)[..]].concat(), "interface 1, which it does not"),
        ([&ethernet, &odd[..]].concat(), "a packet of 200 bytes in a block of 108"),
        ([&ethernet, &long[..]].concat(), "has 262145 bytes"),
        ([&ethernet, &[9, 0, 0, 0, 13, 0, 0, 0, 0, 0, 0, 0][..]].concat(), "a block has 13 bytes"),
        ([&blocks.section(), &resolution[..], &blocks.packet(0, 0, &[0; 60], 60)].concat(), "2^-72 s"),
        ([&blocks.section(), &cut[..]].concat(), "longer than its block"),
        ([&SECTION.to_ne_bytes()[..], &[0; 20]].concat(), "byte order 0x00000000"),
    ] {
        let (packets, end) = read(&file);
        let said = format!("{:?}", end.unwrap_err());
        assert!(packets.is_empty() && said.contains(why), "{said}: {why}");
    }
}

/// Seen: one packet of the loopback interface ended the replay of a capture of all interfaces.
#[test]
fn packets_of_interfaces_without_ethernet_are_skipped_and_counted_unless_there_are_no_others() {
    for blocks in BOTH {
        let simple = blocks.block(SIMPLE_PACKET, &[&blocks.word(60)[..], &[9; 60]].concat());
        let file = [
            blocks.section(),
            blocks.interface(113, 0, &[]),
            blocks.interface(1, 0, &[]),
            simple,
            blocks.packet(0, 1, &[1; 60], 60),
            blocks.packet(1, 2, &[2; 60], 60),
            blocks.packet(0, 3, &[3; 60], 60),
            // A later section may be of another machine.
            blocks.section(),
            blocks.interface(113, 0, &[]),
            blocks.packet(0, 4, &[4; 60], 60),
        ];
        let folder = Folder::new("other-link");
        let path = folder.file("in", &file.concat());
        let mut fixture = Fixture::new(64);
        let mut port = PcapPort::open("0", &input(&path)).unwrap();
        assert_eq!(receive_all(&mut fixture, &mut port), [[2; 60]]);
        let counters = port.counters();
        assert_eq!((port.state(), counters.rx_other_link.get()), (PortState::Up, 4));
        let path = folder.file("none", &file[7..].concat());
        let error = PcapPort::open("0", &input(&path)).unwrap_err().to_string();
        assert!(error.contains("link type 113"), "{error}");
    }
}

/// Seen: a block that claimed to be as long as itself and its neighbours swallowed these, and the run was a good one.
#[test]
fn a_block_whose_two_lengths_differ_is_damage_also_at_the_end_of_the_file() {
    for blocks in BOTH {
        let (head, interface) = (blocks.section(), blocks.interface(1, 0, &[]));
        let packet = |byte| blocks.packet(0, 0, &[byte; 60], 60);
        let size = packet(0).len() as u32;
        let mut long = packet(1);
        long[4..8].copy_from_slice(&blocks.word(2 * size + 4));
        let mut other = blocks.block(0x0bad, &[7; 100]);
        other[4..8].copy_from_slice(&blocks.word(112 + size));
        let mut last = packet(1);
        last[size as usize - 4..].copy_from_slice(&blocks.word(size + 4));
        let mut section = head.clone();
        section[24..].fill(0);
        for (file, whole) in [
            ([&head[..], &interface, &long, &packet(2), &packet(3)].concat(), 1),
            ([&head[..], &interface, &packet(1), &other, &packet(2), &packet(3)].concat(), 1),
            ([&head[..], &interface, &last].concat(), 1),
            ([&section[..], &interface, &packet(1)].concat(), 0),
        ] {
            let (packets, end) = read(&file);
            let said = format!("{:?}", end.unwrap_err());
            assert!(packets.len() == whole && said.contains("and at its end"), "{said}");
        }
    }
}

#[test]
fn a_file_that_ends_within_the_second_length_of_a_block_is_damaged() {
    let blocks = BOTH[0];
    let folder = Folder::new("ng-end");
    let packet = blocks.packet(0, 0, &[1; 60], 60);
    let whole = [blocks.section(), blocks.interface(1, 0, &[]), packet].concat();
    for missing in 0..=4 {
        let path = folder.file("in", &whole[..whole.len() - missing]);
        let mut port = PcapPort::open("0", &input(&path)).unwrap();
        assert_eq!(receive_all(&mut Fixture::new(64), &mut port), [[1; 60]]);
        let is_whole = port.state() == PortState::Up;
        assert_eq!(is_whole, missing == 0, "{:?}", port.state());
    }
}

/// Seen: a file of another major version was read as one of version 1, and a section's block could end within its header.
#[test]
fn a_section_of_another_version_or_without_a_whole_header_is_refused() {
    for blocks in BOTH {
        let version = |major| {
            let version = [blocks.half(major), blocks.half(2)].concat();
            blocks.block(SECTION, &[&blocks.word(BYTE_ORDER)[..], &version, &[0xff; 8]].concat())
        };
        assert_eq!(read(&version(1)), (vec![], Ok(())));
        let refused = |major| Err(Bad::Format(FormatError::Version(major)));
        assert_eq!(read(&version(2)), (vec![], refused(2)));
        assert_eq!(read(&[version(1), version(0)].concat()), (vec![], refused(0)));
        for contents in [4, 8, 12] {
            let mut short = blocks.block(SECTION, &blocks.section()[8..][..contents]);
            short.extend([0; 16]);
            let said = format!("{:?}", read(&short).1.unwrap_err());
            assert!(said.contains("a section whose block has"), "{said}");
        }
    }
}

/// Seen: one such interface made the file unreadable, although no packet was of it.
#[test]
fn an_interface_of_an_absurd_resolution_is_damage_only_once_it_has_a_packet() {
    let blocks = BOTH[0];
    for resolution in [20, 127, 0x80 | 64, 0xff] {
        let odd = blocks.interface(1, 0, &blocks.option(RESOLUTION, &[resolution]));
        let begun = [blocks.section(), blocks.interface(1, 0, &[]), odd].concat();
        let packet = |interface| blocks.packet(interface, 5, &[1; 60], 60);
        let (packets, end) = read(&[&begun[..], &packet(0), &packet(1)].concat());
        assert_eq!(packets.len(), 1, "{resolution}");
        assert!(format!("{end:?}").contains("resolution of"), "{end:?}");
    }
}

proptest! {
    #[test]
    fn whatever_a_file_says_it_is_read_to_an_end(
        big in any::<bool>(),
        kinds in prop::collection::vec((0..8_u32, prop::collection::vec(any::<u8>(), 0..60)), 0..20),
        changed in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
    ) {
        let blocks = Blocks { big };
        let mut file = [blocks.section(), blocks.interface(1, 0, &[])].concat();
        for (kind, contents) in kinds {
            file.extend(blocks.block(kind, &contents));
        }
        for (at, byte) in changed {
            let at = at.index(file.len()).max(4);
            file[at] = byte;
        }
        let (packets, _) = read(&file);
        prop_assert!(packets.iter().all(|(record, bytes)| bytes.len() == record.len as usize));
    }
}
