//! Packets that a router drops, each for a different reason.

/// The router's address on the link that they come by.
pub const ROUTER: [u8; 6] = [0x02, 0, 0, 0, 0, 0xfe];

/// The sum of RFC 1071 over a header whose own is zero.
fn checksum(header: &[u8]) -> [u8; 2] {
    let words = header.chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1]));
    let sum: u32 = words.sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    (!(((sum & 0xffff) + (sum >> 16)) as u16)).to_be_bytes()
}

/// A packet of IPv4 for the router, from 10.0.0.1 to 10.1.0.1, changed before its checksum is put in.
pub fn ipv4(options: &[u8], change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut frame = [&ROUTER, &[0x02, 0, 0, 0, 0, 0x01, 0x08, 0x00][..]].concat();
    let header = 20 + options.len();
    frame.extend([0x40 | (header / 4) as u8, 0, 0, (header + 26) as u8, 0, 1, 0, 0, 64, 17, 0, 0]);
    frame.extend([10, 0, 0, 1, 10, 1, 0, 1]);
    frame.extend(options);
    frame.extend([0x11; 26]);
    change(&mut frame);
    if frame[24..26] == [0, 0] {
        let sum = checksum(&frame[14..14 + header]);
        frame[24..26].copy_from_slice(&sum);
    }
    frame
}

/// Returns a packet for each fault that a packet from a file can have, by its drop reason, and one without a fault.
pub fn packets_by_drop_reason() -> Vec<(&'static str, Vec<u8>)> {
    let of = |change: fn(&mut Vec<u8>)| ipv4(&[], change);
    let ipv6 = of(|frame| {
        frame.truncate(14);
        frame[12..14].copy_from_slice(&[0x86, 0xdd]);
        frame.extend([0x60, 0, 0, 0, 0, 8, 17, 64, 0xfe, 0x80]);
        frame.extend([0; 13]);
        frame.extend([1, 0x20, 0x01, 0x0d, 0xb8]);
        frame.extend([0; 11]);
        frame.extend([1, 0, 9, 0, 9, 0, 8, 0, 1]);
    });
    vec![
        ("", of(|_| ())),
        ("short", vec![0x02; 10]),
        ("unknown_ethertype", of(|frame| frame[12..14].copy_from_slice(&[0x88, 0xb5]))),
        ("arp", of(|frame| frame[12..14].copy_from_slice(&[0x08, 0x06]))),
        ("not_for_us", of(|frame| frame[5] = 0x77)),
        ("link_multicast", of(|frame| frame[..6].fill(0xff))),
        ("bad_version", of(|frame| frame[14] = 0x55)),
        ("bad_header_length", of(|frame| frame[14] = 0x44)),
        ("bad_total_length", of(|frame| frame[17] = 19)),
        ("truncated", of(|frame| frame[16] = 4)),
        ("bad_checksum", of(|frame| frame[24] = 0x77)),
        ("martian", of(|frame| frame[26] = 127)),
        ("ttl_expired", of(|frame| frame[22] = 1)),
        ("no_route", of(|frame| frame[30] = 192)),
        ("filter_drop", of(|frame| frame[26..30].copy_from_slice(&[10, 9, 9, 9]))),
        ("bad_options", ipv4(&[7, 1, 0, 0], |_| ())),
        ("source_route", ipv4(&[131, 3, 4, 0], |_| ())),
        ("beyond_scope", ipv6),
    ]
}

/// Returns an IPv4 packet with this number of bytes for the router, to this address, with or without DF.
pub fn to(address: [u8; 4], len: u16, may_be_cut: bool) -> Vec<u8> {
    ipv4(&[], |frame| {
        frame.resize(14 + usize::from(len), 0x11);
        frame[16..18].copy_from_slice(&len.to_be_bytes());
        frame[20] = if may_be_cut { 0 } else { 0x40 };
        frame[30..34].copy_from_slice(&address);
    })
}
