//! ICMP: RFC 792 and, over IPv6, RFC 4443. Only the parts that a router sends or must understand.

use super::checksum::Sum;
use super::{Ipv6, ipv6};
use std::net::Ipv6Addr;
use zerocopy::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Protocol number of ICMP in an IPv4 header.
pub const PROTOCOL: u8 = 1;
/// Protocol number of ICMPv6 in an IPv6 header.
pub const PROTOCOL_V6: u8 = 58;
/// Bytes of the header.
pub const HEADER_LEN: usize = size_of::<Icmp>();

/// Requests and replies of RFC 792, RFC 950, RFC 1256 and RFC 8335: the messages about which an error may be sent.
const QUERIES: [u8; 12] = [0, 8, 9, 10, 13, 14, 15, 16, 17, 18, 42, 43];
/// The first ICMPv6 type that is not an error (RFC 4443 §2.1).
const FIRST_V6_QUERY: u8 = 128;
/// Redirect, which is treated like the errors (RFC 4443 §2.4 (e.2)).
const V6_REDIRECT: u8 = 137;

/// The header of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Icmp {
    kind: u8,
    code: u8,
    checksum: U16,
    rest: U32,
}

const _: () = assert!(HEADER_LEN == 8);

impl Icmp {
    /// Returns the header of a message of type `kind` for IPv4, whose second word is `rest`, around `body`, with its
    /// checksum (RFC 792).
    pub fn v4(kind: u8, code: u8, rest: u32, body: &[u8]) -> Icmp {
        Icmp::new(kind, code, rest).sealed(Sum::new().bytes(body))
    }

    /// The same for IPv6, between two addresses, which the checksum covers (RFC 4443 §2.3).
    pub fn v6(kind: u8, code: u8, rest: u32, body: &[u8], src: Ipv6Addr, dst: Ipv6Addr) -> Icmp {
        let length = (HEADER_LEN + body.len()) as u32;
        let addresses = Sum::new().bytes(&src.octets()) + Sum::new().bytes(&dst.octets());
        let pseudo = addresses.double_word(length).double_word(u32::from(PROTOCOL_V6));
        Icmp::new(kind, code, rest).sealed(pseudo + Sum::new().bytes(body))
    }

    fn new(kind: u8, code: u8, rest: u32) -> Icmp {
        Icmp { kind, code, checksum: U16::ZERO, rest: U32::new(rest) }
    }

    fn sealed(mut self, others: Sum) -> Icmp {
        let own = Sum::new().word(u16::from_be_bytes([self.kind, self.code])).double_word(self.rest.get());
        self.checksum = U16::new((own + others).checksum());
        self
    }

    /// Returns the header of `message` and the bytes behind it, or None if there are fewer than eight bytes. The
    /// checksum is not checked.
    pub fn read(message: &[u8]) -> Option<(&Icmp, &[u8])> {
        Icmp::ref_from_prefix(message).ok()
    }

    /// The type of the message.
    pub const fn kind(&self) -> u8 {
        self.kind
    }

    /// The code of the message, which refines its type.
    pub const fn code(&self) -> u8 {
        self.code
    }

    /// The second word. Its meaning depends on the type.
    pub const fn rest(&self) -> u32 {
        self.rest.get()
    }
}

/// Returns whether an error may be sent about an IPv4 ICMP message that begins with these bytes: it is a request or a
/// reply. An unknown type may be an error (RFC 1812 §4.3.2.7, RFC 1122 §3.2.2).
pub fn is_query(message: &[u8]) -> bool {
    message.first().is_some_and(|kind| QUERIES.contains(kind))
}

/// The same for an ICMPv6 message: it is neither an error nor a redirect (RFC 4443 §2.4 (e.1), (e.2)).
pub fn is_query_v6(message: &[u8]) -> bool {
    message.first().is_some_and(|&kind| kind >= FIRST_V6_QUERY && kind != V6_REDIRECT)
}

/// The content of an IPv6 packet behind its extension headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Upper<'a> {
    /// The protocol number of the content.
    pub protocol: u8,
    /// Its bytes, as many as are available.
    pub bytes: &'a [u8],
    /// Whether it begins in another packet: this is a fragment, and not the first.
    pub begins_elsewhere: bool,
}

/// Maximum number of extension headers that are skipped.
const EXTENSIONS_MAX: usize = 8;
const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const AUTHENTICATION: u8 = 51;
const DESTINATION: u8 = 60;
const MOBILITY: u8 = 135;
const HOST_IDENTITY: u8 = 139;
const SHIM6: u8 = 140;

/// Returns whether another header may follow a header of this number (RFC 7045 §4, without headers that cannot be
/// parsed).
pub const fn is_extension(protocol: u8) -> bool {
    matches!(
        protocol,
        HOP_BY_HOP | ROUTING | FRAGMENT | AUTHENTICATION | DESTINATION | MOBILITY | HOST_IDENTITY | SHIM6
    )
}

/// Returns the content of `packet` behind its extension headers (RFC 8200 §4). Returns None if they do not end within
/// it, or there are more than eight.
pub fn upper(packet: &[u8]) -> Option<Upper<'_>> {
    let header = Ipv6::parse(packet).ok()?;
    behind_extensions(header.next_header(), packet.get(ipv6::HEADER_LEN..header.total_length())?)
}

/// The same for a packet of which `front` are the first bytes. Others may lie elsewhere or be missing: only `front` is
/// searched.
pub(crate) fn upper_in_front(front: &[u8]) -> Option<Upper<'_>> {
    let (header, rest) = Ipv6::read(front)?;
    let payload = rest.get(..header.payload_length().into()).unwrap_or(rest);
    behind_extensions(header.next_header(), payload)
}

/// Returns the content behind extension headers. The first bytes of `bytes` are a header of the number `protocol`.
fn behind_extensions(mut protocol: u8, mut bytes: &[u8]) -> Option<Upper<'_>> {
    for _ in 0..=EXTENSIONS_MAX {
        let length = match protocol {
            FRAGMENT => 8,
            // In words of four bytes, minus two (RFC 4302 §2.2).
            AUTHENTICATION => (usize::from(*bytes.get(1)?) + 2) * 4,
            _ if is_extension(protocol) => (usize::from(*bytes.get(1)?) + 1) * 8,
            _ => return Some(Upper { protocol, bytes, begins_elsewhere: false }),
        };
        let (extension, rest) = bytes.split_at_checked(length)?;
        let offset = u16::from_be_bytes([extension[2], extension[3]]) >> 3;
        if protocol == FRAGMENT && offset != 0 {
            return Some(Upper { protocol: extension[0], bytes: rest, begins_elsewhere: true });
        }
        (protocol, bytes) = (extension[0], rest);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::{Icmpv4Header, Icmpv6Header, PacketBuilder};

    #[test]
    fn messages_have_the_checksums_that_etherparse_computes() {
        let body = [0xab; 61];
        let ours = Icmp::v4(3, 4, 1400, &body);
        let (theirs, _) = Icmpv4Header::from_slice(&[ours.as_bytes(), &body].concat()).unwrap();
        assert_eq!(theirs.icmp_type.calc_checksum(&body), theirs.checksum);
        assert_eq!((ours.kind(), ours.code(), ours.rest()), (3, 4, 1400));
        let (src, dst) =
            (Ipv6Addr::new(0xfd00, 0, 0, 1, 0, 0, 0, 9), Ipv6Addr::new(0xfd00, 0, 0, 2, 0, 0, 0, 7));
        let ours = Icmp::v6(2, 0, 1280, &body, src, dst);
        let (theirs, _) = Icmpv6Header::from_slice(&[ours.as_bytes(), &body].concat()).unwrap();
        let sum = theirs.icmp_type.calc_checksum(src.octets(), dst.octets(), &body).unwrap();
        assert_eq!(sum, theirs.checksum);
    }

    #[test]
    fn errors_redirects_and_what_is_not_known_are_no_queries() {
        let queries: Vec<u8> = (0..=255).filter(|kind| is_query(&[*kind])).collect();
        assert_eq!(queries, [0, 8, 9, 10, 13, 14, 15, 16, 17, 18, 42, 43]);
        let others: Vec<u8> = (0..=255).filter(|kind| !is_query_v6(&[*kind])).collect();
        assert_eq!(others, (0..128).chain([137]).collect::<Vec<u8>>());
        assert!(!is_query(&[]) && !is_query_v6(&[]));
    }

    /// Returns an IPv6 packet with these bytes behind its header; `next` is the number of the first.
    fn packet(next: u8, rest: &[u8]) -> Vec<u8> {
        let header = Ipv6::new(Ipv6Addr::LOCALHOST, Ipv6Addr::LOCALHOST, next, 9, rest.len() as u16);
        [header.as_bytes(), rest].concat()
    }

    #[test]
    fn what_is_carried_is_found_behind_extension_headers_of_each_kind() {
        let mut built = Vec::new();
        PacketBuilder::ipv6([1; 16], [2; 16], 7).udp(7, 9).write(&mut built, b"five!").unwrap();
        assert_eq!(upper(&built).map(|upper| (upper.protocol, upper.bytes.len())), Some((17, 13)));
        // Hop-by-hop of 16 bytes, routing of 8, the first fragment, authentication of 12, mobility, host identity and
        // shim6 of 8, then four bytes of ICMPv6.
        let mut rest = vec![ROUTING, 1];
        rest.extend([0; 14]);
        rest.extend([FRAGMENT, 0, 0, 0, 0, 0, 0, 0]);
        rest.extend([AUTHENTICATION, 0, 0, 1, 0, 0, 0, 0]);
        rest.extend([MOBILITY, 1, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0]);
        rest.extend([HOST_IDENTITY, 0, 0, 0, 0, 0, 0, 0]);
        rest.extend([SHIM6, 0, 0, 0, 0, 0, 0, 0]);
        rest.extend([PROTOCOL_V6, 0, 0, 0, 0, 0, 0, 0]);
        rest.extend([128, 0, 1, 2]);
        let whole = packet(HOP_BY_HOP, &rest);
        let found = Upper { protocol: PROTOCOL_V6, bytes: &[128, 0, 1, 2], begins_elsewhere: false };
        assert_eq!(upper(&whole), Some(found));
        let later = packet(FRAGMENT, &[PROTOCOL_V6, 0, 0, 9, 0, 0, 0, 0, 1]);
        let found = Upper { protocol: PROTOCOL_V6, bytes: &[1], begins_elsewhere: true };
        assert_eq!(upper(&later), Some(found));
    }

    #[test]
    fn of_a_packet_that_is_not_all_there_the_front_says_what_it_carries() {
        let mut rest = vec![17, 0, 0, 0, 0, 0, 0, 0];
        rest.extend([9; 20]);
        let whole = packet(DESTINATION, &rest);
        for length in 0..=whole.len() {
            let front = &whole[..length];
            let found = upper_in_front(front).map(|upper| (upper.protocol, upper.bytes));
            assert_eq!(found, (length >= 48).then(|| (17, &front[48..])), "{length} bytes");
        }
        let padded = [&whole[..], &[0; 6]].concat();
        assert_eq!(upper_in_front(&padded), upper(&whole), "padding is no part of the packet");
    }

    #[test]
    fn extension_headers_that_do_not_end_are_followed_so_far_and_no_further() {
        assert_eq!(upper(&packet(DESTINATION, &[])), None);
        assert_eq!(upper(&packet(DESTINATION, &[6, 1, 0, 0, 0, 0, 0, 0])), None);
        let chain = |n: usize| {
            let mut rest = [DESTINATION, 0, 0, 0, 0, 0, 0, 0].repeat(n - 1);
            rest.extend([59, 0, 0, 0, 0, 0, 0, 0]);
            packet(DESTINATION, &rest)
        };
        assert_eq!(upper(&chain(EXTENSIONS_MAX)).map(|upper| upper.protocol), Some(59));
        assert_eq!(upper(&chain(EXTENSIONS_MAX + 1)), None);
    }
}
