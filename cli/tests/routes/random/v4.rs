//! Packets of IPv4.

use super::{Make, Random};
use netmem::wire::{Ipv4, checksum::Sum};

/// The kinds of packets, and how each is made.
pub const KINDS: [(&str, Make); 12] = [
    ("IPv4, UDP", |n, r| {
        let upper = udp(r);
        frame(n, r, 17, &[], &upper)
    }),
    ("IPv4, UDP, sizes", |n, r| {
        let size = sizes(r);
        let upper = r.bytes(size);
        frame(n, r, 253, &[], &upper)
    }),
    ("IPv4, TCP", |n, r| {
        let upper = tcp(r);
        frame(n, r, 6, &[], &upper)
    }),
    ("IPv4, ICMP", |n, r| {
        let upper = icmp(r);
        frame(n, r, 1, &[], &upper)
    }),
    ("IPv4, options", |n, r| {
        let (options, upper) = (options(r), udp(r));
        frame(n, r, 17, &options, &upper)
    }),
    ("IPv4, options as bytes", |n, r| {
        let words = 1 + r.below(10);
        let (options, upper) = (r.bytes(4 * words), udp(r));
        frame(n, r, 17, &options, &upper)
    }),
    ("IPv4, fragments", fragment),
    ("IPv4, header", header),
    ("IPv4, source", source),
    ("IPv4, destination", destination),
    ("IPv4, length", length),
    ("IPv4, errors", |n, r| {
        let upper = icmp_error(r);
        frame(n, r, 1, &[], &upper)
    }),
];

/// The offset of its start in a frame.
const IP: usize = 14;

/// Returns a frame from h1 to the router with an IPv4 packet. Everything is correct except for what is given.
pub fn frame(n: usize, r: &mut Random, protocol: u8, options: &[u8], upper: &[u8]) -> Vec<u8> {
    let dst = somewhere(r);
    let ttl = if r.once_in(6) { r.of(&[0, 1, 2]) } else { r.of(&[3, 64, 255]) };
    let mut packet = Ipv4::new(
        [10, 66, (n >> 8) as u8 % 255, n as u8].into(),
        dst.into(),
        protocol,
        ttl,
        (options.len() + upper.len()) as u16,
    )
    .to_bytes()
    .to_vec();
    packet[0] += (options.len() / 4) as u8;
    packet[1] = if r.once_in(2) { r.byte() } else { 0 };
    packet[4..6].copy_from_slice(&(n as u16).to_be_bytes());
    packet[6] = r.of(&[0, 0x40, 0x40, 0x80]);
    packet.extend(options);
    packet.extend(upper);
    seal(&mut packet);
    on_link(&packet)
}

fn on_link(packet: &[u8]) -> Vec<u8> {
    [&[2, 0, 0, 0, 1, 0xfe, 2, 0, 0, 0, 1, 1, 8, 0][..], packet].concat()
}

/// Computes the checksums of the header and of the protocol above it.
pub fn seal(packet: &mut [u8]) {
    if packet.len() >= 20 && packet[0] & 15 >= 5 && packet.len() >= 4 * usize::from(packet[0] & 15) {
        Ipv4::seal(packet);
    }
    let Some((header, upper)) = packet.split_at_mut_checked(4 * usize::from(packet[0] & 15)) else { return };
    let addresses = Sum::new().bytes(&header[12..20]).word(header[9].into()).word(upper.len() as u16);
    close(upper, header[9], addresses);
}

/// Completes the checksum of a TCP, UDP or ICMP message, whose pseudo-header's sum is given.
pub fn close(upper: &mut [u8], protocol: u8, addresses: Sum) {
    let (at, sum) = match protocol {
        17 => (6, addresses),
        6 => (16, addresses),
        1 => (2, Sum::new()),
        58 => (2, addresses),
        _ => return,
    };
    if upper.len() >= at + 2 {
        upper[at..at + 2].fill(0);
        let sum = sum.bytes(upper).checksum();
        upper[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    }
}

/// Returns a destination with a route, or without one.
fn somewhere(r: &mut Random) -> [u8; 4] {
    let (a, b) = (r.byte(), r.byte());
    match r.below(16) {
        0..=4 => [10, 67, a, b],
        5 => [10, 77, 2, 1 + b % 253],
        6 => [10, 86, a, b],
        7 => [10, 85, a, b],
        8 => [10, 81, a, b],
        9 => [10, 82, a, b],
        10 => [10, 83, a, b],
        11 => [10, 84, a, b],
        12 => [10, 77, 1, 254],
        13 => [10, 77, 2, 254],
        14 => [10, 77, 1, 1 + b % 253],
        _ => [10, 87, a, b],
    }
}

/// Sizes about those of links and routes.
fn sizes(r: &mut Random) -> usize {
    let size = r.of(&[0, 1, 26, 556, 1280, 1300, 1380, 1400, 1472]);
    (size + r.below(9)).min(1480)
}

pub fn udp(r: &mut Random) -> Vec<u8> {
    let payload = r.below(64);
    let mut udp = r.bytes(8 + payload);
    udp[4..6].copy_from_slice(&(8 + payload as u16).to_be_bytes());
    udp
}

pub fn tcp(r: &mut Random) -> Vec<u8> {
    let payload = r.below(64);
    let mut tcp = r.bytes(20 + payload);
    tcp[12] = 0x50;
    tcp[13] = r.of(&[2, 0x10, 0x12, 4, 0x11, 0x18, 0, 0x3f]);
    tcp
}

fn icmp(r: &mut Random) -> Vec<u8> {
    let payload = r.below(80);
    let mut icmp = r.bytes(8 + payload);
    icmp[0] = if r.once_in(2) { r.byte() % 20 } else { r.of(&[0, 8, 8, 13, 17, 40, 42, 43, 253]) };
    icmp[1] = if r.once_in(4) { r.byte() % 16 } else { 0 };
    icmp
}

/// An ICMP error that quotes a packet.
fn icmp_error(r: &mut Random) -> Vec<u8> {
    let mut icmp = r.bytes(8);
    icmp[0] = r.of(&[3, 4, 5, 11, 12]);
    icmp[1] = r.byte() % 16;
    let upper = r.bytes(8);
    let about = Ipv4::new([10, 67, 1, r.byte()].into(), [10, 66, 1, r.byte()].into(), 17, 60, 8).to_bytes();
    icmp.extend(about);
    icmp.extend(upper);
    icmp
}

/// Options that are known, some of them wrong, up to 40 bytes.
fn options(r: &mut Random) -> Vec<u8> {
    let mut all = Vec::new();
    for _ in 0..1 + r.below(3) {
        let more = option(r);
        if all.len() + more.len() <= 40 {
            all.extend(more);
        }
    }
    while all.len() % 4 != 0 {
        all.push(u8::from(r.once_in(2)));
    }
    if r.once_in(4) && !all.is_empty() {
        let at = r.below(all.len());
        all[at] = r.byte();
    }
    all
}

fn option(r: &mut Random) -> Vec<u8> {
    let slots = 1 + r.below(4);
    let addresses = |r: &mut Random| -> Vec<u8> { (0..slots).flat_map(|_| [10, 67, 0, r.byte()]).collect() };
    match r.below(10) {
        0 => vec![1],
        1 => vec![0],
        kind @ (2..=4) => {
            let pointer = 4 + 4 * r.below(slots + 2) as u8;
            [vec![[7, 131, 137][kind - 2], 3 + 4 * slots as u8, pointer], addresses(r)].concat()
        }
        5 => {
            let flag = r.of(&[0, 1, 3, 2]);
            let each = if flag == 0 { 4 } else { 8 };
            let len = 4 + each * (1 + r.below(4));
            let overflow = r.of(&[0, 0, 14, 15]);
            let pointer = 5 + r.below(len / each) * each;
            let mut option = vec![68, len as u8, pointer as u8, overflow << 4 | flag];
            while option.len() < len {
                option.extend([10, 77, 2, r.of(&[254, 1, 7])]);
            }
            option
        }
        6 => vec![148, 4, 0, r.of(&[0, 0, 0, 1])],
        7 => vec![130, 11, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        8 => {
            let bytes = r.below(6);
            [vec![134, 6 + 4 + bytes as u8, 0, 0, 0, 1, 1, 4 + bytes as u8, 0, 0], r.bytes(bytes)].concat()
        }
        _ => {
            let (kind, bytes) = (r.byte() | 0x18, r.below(8));
            [vec![kind, 2 + bytes as u8], r.bytes(bytes)].concat()
        }
    }
}

fn fragment(n: usize, r: &mut Random) -> Vec<u8> {
    let size = sizes(r);
    let upper = r.bytes(size);
    let mut frame = frame(n, r, 17, &[], &upper);
    let offset = r.of(&[0, 1, 185, 0x1fff, 700]) | r.of(&[0, 0x2000]) | r.of(&[0, 0x4000, 0, 0]);
    frame[IP + 6..IP + 8].copy_from_slice(&u16::to_be_bytes(offset));
    Ipv4::seal(&mut frame[IP..]);
    frame
}

/// Changes a field of the header, with or without the checksum.
fn header(n: usize, r: &mut Random) -> Vec<u8> {
    let upper = udp(r);
    let mut frame = frame(n, r, 17, &[], &upper);
    let is_sealed = !r.once_in(4);
    let at = IP + r.below(if is_sealed { 12 } else { 20 });
    frame[at] ^= 1 << r.below(8);
    if is_sealed {
        seal_header(&mut frame[IP..]);
    }
    frame
}

/// Does the same as [`Ipv4::seal`], whatever length the header states.
fn seal_header(packet: &mut [u8]) {
    let len = (4 * usize::from(packet[0] & 15)).clamp(20, packet.len());
    packet[10..12].fill(0);
    let sum = Sum::new().bytes(&packet[..len]).checksum();
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
}

/// Addresses that no packet should be from or to.
fn unusual_address(r: &mut Random) -> [u8; 4] {
    let (a, b) = (r.byte(), r.byte());
    r.of(&[
        [0, 0, 0, 0],
        [0, a, b, 1],
        [127, 0, 0, 1],
        [127, a, b, 1],
        [169, 254, a, b],
        [224, 0, 0, 1],
        [224, 0, 0, 22],
        [239, a, b, 1],
        [240, a, b, 1],
        [255, 255, 255, 255],
        [10, 77, 1, 255],
        [10, 77, 2, 255],
        [10, 77, 1, 0],
        [10, 77, 2, 0],
        [10, 77, 1, 254],
        [10, 77, 2, 254],
        [10, 67, a, b],
        [10, 84, a, b],
        [192, 0, 2, b],
    ])
}

fn source(n: usize, r: &mut Random) -> Vec<u8> {
    let upper = udp(r);
    let mut frame = frame(n, r, 17, &[], &upper);
    // Each has its own source, since Linux sends each source one error a second.
    let address = match unusual_address(r) {
        [10, 77, net, 0] => [10, 67, net, n as u8],
        address => address,
    };
    frame[IP + 12..IP + 16].copy_from_slice(&address);
    seal(&mut frame[IP..]);
    frame
}

fn destination(n: usize, r: &mut Random) -> Vec<u8> {
    let (protocol, upper) =
        if r.once_in(2) { (17, udp(r)) } else { (1, [&[8, 0][..], &r.bytes(30)].concat()) };
    let mut frame = frame(n, r, protocol, &[], &upper);
    let address = unusual_address(r);
    frame[IP + 16..IP + 20].copy_from_slice(&address);
    seal(&mut frame[IP..]);
    frame
}

/// Makes the packet longer or shorter than its length field.
fn length(n: usize, r: &mut Random) -> Vec<u8> {
    let upper = udp(r);
    let mut frame = frame(n, r, 17, &[], &upper);
    match r.below(3) {
        0 => {
            let bytes = 1 + r.below(500);
            let more = r.bytes(bytes);
            frame.extend(more)
        }
        1 => frame.truncate(IP + r.below(frame.len() - IP)),
        _ => {
            let total = r.of(&[0, 19, 20, 21, 27, 28, 29, 1500, 65535]);
            frame[IP + 2..IP + 4].copy_from_slice(&u16::to_be_bytes(total));
            Ipv4::seal(&mut frame[IP..]);
        }
    }
    frame
}
