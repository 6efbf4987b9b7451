//! Frames that are unusual below IP, and frames of no protocol.

use super::{Make, Random, v4, v6};

/// The kinds of frames, and how each is made.
pub const KINDS: [(&str, Make); 5] = [
    ("ARP", arp),
    ("other protocols", other),
    ("VLAN tags", tagged),
    ("other stations", station),
    ("flipped bits", flipped),
];

/// A packet of IP, of either family.
fn packet(n: usize, r: &mut Random) -> Vec<u8> {
    let (_, make) = if r.once_in(2) { r.of(&v4::KINDS) } else { r.of(&v6::KINDS) };
    make(n, r)
}

fn arp(_: usize, r: &mut Random) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 1, 0xfe, 2, 0, 0, 0, 1, 1, 8, 6, 0, 1, 8, 0, 6, 4, 0];
    if r.once_in(2) {
        frame[..6].fill(0xff);
    }
    frame.push(r.of(&[1, 1, 1, 2, 3, 8]));
    frame.extend([2, 0, 0, 0, 1, 1, 10, 77, 1, r.of(&[1, 2, 254])]);
    frame.extend([0; 6]);
    let host = r.byte();
    frame.extend(r.of(&[
        [10, 77, 1, 254],
        [10, 77, 1, 254],
        [10, 77, 2, 254],
        [10, 77, 1, host],
        [10, 67, 0, host],
    ]));
    if r.once_in(4) {
        let at = 14 + r.below(frame.len() - 14);
        frame[at] = r.byte();
    }
    if r.once_in(8) {
        frame.truncate(14 + r.below(28));
    }
    frame
}

fn other(n: usize, r: &mut Random) -> Vec<u8> {
    let mut frame = packet(n, r);
    let ethertype: u16 = r.of(&[
        0, 46, 1500, 0x0806, 0x8035, 0x8847, 0x8863, 0x8864, 0x88cc, 0x88e5, 0x88f7, 0x9000, 0x86dd, 0x0800,
    ]);
    frame[12..14].copy_from_slice(&ethertype.to_be_bytes());
    frame
}

fn tagged(n: usize, r: &mut Random) -> Vec<u8> {
    let frame = packet(n, r);
    let mut tags = Vec::new();
    for _ in 0..r.of(&[1, 1, 1, 2]) {
        let kind: u16 = r.of(&[0x8100, 0x8100, 0x88a8]);
        let tag: u16 = r.of(&[0, 0, 5, 4095]) | r.of(&[0, 0xe000]);
        tags.extend([kind.to_be_bytes(), tag.to_be_bytes()].concat());
    }
    let mut all = [&frame[..12], &tags, &frame[12..]].concat();
    all.truncate(1514);
    all
}

fn station(n: usize, r: &mut Random) -> Vec<u8> {
    let mut frame = packet(n, r);
    let last = r.byte();
    frame[..6].copy_from_slice(&r.of(&[
        [0xff; 6],
        [1, 0, 0x5e, 0, 0, 1],
        [1, 0, 0x5e, 1, 2, last],
        [0x33, 0x33, 0, 0, 0, 1],
        [0x33, 0x33, 0, 0, 1, last],
        [2, 0, 0, 0, 2, 0xfe],
        [2, 0, 0, 0, 1, 1],
        [2, 0, 0, 0, 9, last],
        [0; 6],
    ]));
    if r.once_in(4) {
        frame[6..12].copy_from_slice(&r.of(&[[0; 6], [0xff; 6], [1, 2, 3, 4, 5, 6], [2, 0, 0, 0, 1, 0xfe]]));
    }
    frame
}

fn flipped(n: usize, r: &mut Random) -> Vec<u8> {
    let mut frame = packet(n, r);
    for _ in 0..1 + r.below(4) {
        let at = r.below(frame.len());
        frame[at] ^= 1 << r.below(8);
    }
    if r.once_in(8) {
        frame.truncate((14 + r.below(frame.len())).min(frame.len()));
    }
    frame
}
