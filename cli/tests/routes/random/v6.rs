//! Packets of IPv6.

use super::v4::{close, tcp, udp};
use super::{Make, Random};
use netmem::wire::checksum::Sum;

/// The kinds of packets, and how each is made.
pub const KINDS: [(&str, Make); 9] = [
    ("IPv6, UDP", |n, r| {
        let upper = udp(r);
        frame(n, r, 17, &upper)
    }),
    ("IPv6, sizes", |n, r| {
        let size = (r.of(&[0, 1, 500, 1200, 1230, 1252, 1355, 1450]) + r.below(12)).min(1460);
        let upper = r.bytes(size);
        frame(n, r, 253, &upper)
    }),
    ("IPv6, TCP", |n, r| {
        let upper = tcp(r);
        frame(n, r, 6, &upper)
    }),
    ("IPv6, ICMP", |n, r| {
        let upper = icmp(r);
        frame(n, r, 58, &upper)
    }),
    ("IPv6, extension headers", extended),
    ("IPv6, header", header),
    ("IPv6, source", |n, r| unusual_address(n, r, IP + 8)),
    ("IPv6, destination", |n, r| unusual_address(n, r, IP + 24)),
    ("IPv6, length", length),
];

const IP: usize = 14;

/// A frame of h1's to the router with a packet of IPv6.
fn frame(n: usize, r: &mut Random, next: u8, upper: &[u8]) -> Vec<u8> {
    let hops = if r.once_in(6) { r.of(&[0, 1, 2]) } else { r.of(&[3, 64, 255]) };
    let mut packet = vec![0x60, 0, 0, 0];
    if r.once_in(2) {
        packet = vec![0x60 | r.byte() & 15, r.byte(), r.byte(), r.byte()];
    }
    packet.extend((upper.len() as u16).to_be_bytes());
    packet.extend([next, hops]);
    packet.extend(address(0x66, 0, n as u16));
    packet.extend(somewhere(r));
    packet.extend(upper);
    seal(&mut packet, 40, next);
    [&[2, 0, 0, 0, 1, 0xfe, 2, 0, 0, 0, 1, 1, 0x86, 0xdd][..], &packet].concat()
}

fn address(net: u8, link: u8, host: u16) -> [u8; 16] {
    let mut address = [0; 16];
    (address[0], address[1], address[3]) = (0xfd, net, link);
    address[14..].copy_from_slice(&host.to_be_bytes());
    address
}

/// The checksum of what begins at `at`.
fn seal(packet: &mut [u8], at: usize, next: u8) {
    let Some((header, upper)) = packet.split_at_mut_checked(at) else { return };
    let addresses = Sum::new().bytes(&header[8..40]).word(next.into()).word(upper.len() as u16);
    close(upper, next, addresses);
}

fn somewhere(r: &mut Random) -> [u8; 16] {
    let host = r.next() as u16;
    match r.below(16) {
        0..=4 => address(0x67, 0, host),
        5 => address(0x77, 2, 1 + host % 253),
        6 => address(0x86, 0, host),
        7 => address(0x85, 0, host),
        8 => address(0x81, 0, host),
        9 => address(0x82, 0, host),
        10 => address(0x83, 0, host),
        11 => address(0x84, 0, host),
        12 => address(0x77, 1, 0xfe),
        13 => address(0x77, 2, 0xfe),
        14 => address(0x77, 1, 1 + host % 253),
        _ => address(0x87, 0, host),
    }
}

fn icmp(r: &mut Random) -> Vec<u8> {
    let payload = r.below(80);
    let mut icmp = r.bytes(8 + payload);
    icmp[0] = if r.once_in(2) { r.byte() } else { r.of(&[1, 2, 3, 4, 128, 128, 129, 135, 137]) };
    icmp[1] = if r.once_in(4) { r.byte() % 8 } else { 0 };
    icmp
}

/// Up to four extension headers of all kinds, in any order.
fn extended(n: usize, r: &mut Random) -> Vec<u8> {
    let kinds: Vec<u8> = (0..1 + r.below(4)).map(|_| r.of(&[0, 0, 43, 44, 60, 51, 135, 139, 59])).collect();
    let last = r.of(&[17, 6, 58, 59, 253]);
    let mut upper = Vec::new();
    for (i, kind) in kinds.iter().enumerate() {
        let next = kinds.get(i + 1).copied().unwrap_or(last);
        upper.extend(extension(*kind, next, r));
    }
    let at = upper.len();
    upper.extend(match last {
        17 => udp(r),
        6 => tcp(r),
        58 => icmp(r),
        _ => r.bytes(20),
    });
    let mut frame = frame(n, r, kinds[0], &upper);
    seal(&mut frame[IP..], 40 + at, last);
    frame
}

fn extension(kind: u8, next: u8, r: &mut Random) -> Vec<u8> {
    match kind {
        0 | 60 => {
            let option = r.of(&[1, 5, 0xc2, 0x1e, 0x3e, 0x5e, 0x9e, 0xde, 0]);
            let len = r.of(&[4, 4, 4, 2, 0, 9]);
            let mut header = vec![next, 0, option, len];
            header.extend(r.bytes(4));
            if r.once_in(2) {
                header[2..].copy_from_slice(&[1, 4, 0, 0, 0, 0]);
            }
            header
        }
        43 => {
            let (kind, left) = (r.of(&[0, 2, 3, 4, 9]), r.of(&[0, 0, 1, 2]));
            [vec![next, 2, kind, left, 0, 0, 0, 0], address(0x67, 0, 9).to_vec()].concat()
        }
        44 => [vec![next, 0], u16::to_be_bytes(r.of(&[0, 1, 0x100, 0x101, 8])).to_vec(), r.bytes(4)].concat(),
        51 => [vec![next, 1], r.bytes(10)].concat(),
        _ => [vec![next, 0], r.bytes(6)].concat(),
    }
}

fn header(n: usize, r: &mut Random) -> Vec<u8> {
    let upper = udp(r);
    let mut frame = frame(n, r, 17, &upper);
    let at = IP + r.below(40);
    frame[at] ^= 1 << r.below(8);
    frame
}

/// An address that no packet should be from or to, at `at`.
fn unusual_address(n: usize, r: &mut Random, at: usize) -> Vec<u8> {
    let upper = if r.once_in(2) { udp(r) } else { [&[128, 0][..], &r.bytes(20)].concat() };
    let next = if upper[0] == 128 && upper[1] == 0 { 58 } else { 17 };
    let mut frame = frame(n, r, next, &upper);
    let host = r.byte();
    let group = |scope: u8, last: u8| {
        let mut a = [0; 16];
        (a[0], a[1], a[15]) = (0xff, scope, last);
        a
    };
    let plain = |first: u8, second: u8, last: u8| {
        let mut a = [0; 16];
        (a[0], a[1], a[15]) = (first, second, last);
        a
    };
    let mapped = {
        let mut a = [0; 16];
        a[10..].copy_from_slice(&[0xff, 0xff, 10, 67, 0, 1]);
        a
    };
    let all = [
        plain(0, 0, 0),
        plain(0, 0, 1),
        plain(0, 0, host | 2),
        mapped,
        plain(0xfe, 0x80, host | 2),
        plain(0xfe, 0xc0, host),
        plain(0x20, 0x01, host),
        group(1, 1),
        group(2, 1),
        group(2, 2),
        group(2, host),
        group(5, 2),
        group(0x0e, host),
        group(0, 1),
        address(0x77, 1, 0xfe),
        address(0x77, 2, 0xfe),
        address(0x77, 1, 0),
        address(0x77, 2, 0),
        address(0x67, 0, 7),
    ];
    frame[at..at + 16].copy_from_slice(&r.of(&all));
    seal(&mut frame[IP..], 40, next);
    frame
}

fn length(n: usize, r: &mut Random) -> Vec<u8> {
    let upper = udp(r);
    let mut frame = frame(n, r, 17, &upper);
    match r.below(3) {
        0 => {
            let bytes = 1 + r.below(400);
            let more = r.bytes(bytes);
            frame.extend(more)
        }
        1 => frame.truncate(IP + r.below(frame.len() - IP)),
        _ => frame[IP + 4..IP + 6].copy_from_slice(&u16::to_be_bytes(r.of(&[0, 1, 7, 8, 9, 1460, 65535]))),
    }
    frame
}
