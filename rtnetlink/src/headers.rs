//! The headers of the messages in a datagram, without the messages' contents.

use netlink_packet_core::{NLMSG_DONE, NLMSG_ERROR, NetlinkBuffer};

/// Bytes of a message's header.
const HEADER: usize = 16;
/// NLM_F_DUMP_INTR.
const DUMP_INTERRUPTED: u16 = 0x10;
pub(crate) const RTM_NEWROUTE: u16 = 24;
const RTM_DELROUTE: u16 = 25;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;
/// Bytes of `struct rtmsg`.
const RTMSG: usize = 12;
const RTA_DST: u16 = 1;
/// Offset of the flags in `struct rtmsg`, and RTM_F_CLONED.
const RTM_FLAGS: usize = 8;
const CLONED: u32 = 0x200;
/// Offset of the table in `struct rtmsg`.
const RTM_TABLE: usize = 4;
/// RT_TABLE_MAIN and RT_TABLE_LOCAL.
const FOLLOWED: [u8; 2] = [254, 255];

/// A message of a datagram.
pub(crate) struct Message<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) kind: u16,
    pub(crate) flags: u16,
}

impl<'a> Message<'a> {
    /// Returns what follows the header.
    pub(crate) fn contents(&self) -> &'a [u8] {
        self.bytes.get(HEADER..).unwrap_or_default()
    }
}

/// The messages of a datagram, in order, up to the first that is cut off.
pub(crate) struct Messages<'a> {
    /// What has not been read. At the end it is what was cut off, if anything was.
    pub(crate) rest: &'a [u8],
}

impl<'a> Iterator for Messages<'a> {
    type Item = Message<'a>;

    fn next(&mut self) -> Option<Message<'a>> {
        let header = NetlinkBuffer::new_checked(self.rest).ok()?;
        let length = (header.length() as usize).clamp(1, self.rest.len());
        let message =
            Message { bytes: &self.rest[..length], kind: header.message_type(), flags: header.flags() };
        self.rest = self.rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some(message)
    }
}

/// Iterates over the messages of a datagram.
pub(crate) fn messages(datagram: &[u8]) -> Messages<'_> {
    Messages { rest: datagram }
}

/// Returns true if a datagram may end an answer.
pub(crate) fn may_end_reply(datagram: &[u8]) -> bool {
    messages(datagram).any(|message| [NLMSG_DONE, NLMSG_ERROR].contains(&message.kind))
}

/// Returns true if a message says that something changed during its dump. The kernel marks the first message after the
/// change, which is rarely the last of the dump.
pub(crate) fn is_interrupted(datagram: &[u8]) -> bool {
    messages(datagram).any(|message| message.flags & DUMP_INTERRUPTED != 0)
}

/// Returns true if a datagram reports the removal of an IPv6 route of a followed table. Routes of kinds that are
/// not followed count too: their nodes are in the same tree.
pub(crate) fn removes_ipv6_route(datagram: &[u8]) -> bool {
    removals(datagram, AF_INET6).next().is_some()
}

/// Returns the network addresses of the IPv4 routes of a followed table whose removal a datagram reports.
pub(crate) fn removed_ipv4_routes(datagram: &[u8]) -> Vec<u32> {
    removals(datagram, AF_INET).filter_map(ipv4_destination).collect()
}

/// Returns the contents of the messages about the removal of a route of a followed table of this family.
fn removals(datagram: &[u8], family: u8) -> impl Iterator<Item = &[u8]> {
    let of_table = move |route: &[u8]| route.first() == Some(&family) && FOLLOWED.contains(&route[RTM_TABLE]);
    let removals = messages(datagram).filter(|message| message.kind == RTM_DELROUTE);
    removals.map(|message| message.contents()).filter(move |route| route.len() > RTM_TABLE && of_table(route))
}

/// Returns the network address of a route. It is not in the message of a route for all destinations.
pub(crate) fn ipv4_destination(route: &[u8]) -> Option<u32> {
    if route.len() < RTMSG || route[0] != AF_INET {
        return None;
    }
    let found = Attributes::of(route, RTMSG).find(|(kind, _)| *kind == RTA_DST);
    found.map_or(Some(0), |(_, value)| <[u8; 4]>::try_from(value).ok().map(u32::from_be_bytes))
}

/// Returns true for an exception of a route, such as the MTU of a path: the kernel lists exceptions among its routes.
pub(crate) fn is_exception(route: &[u8]) -> bool {
    word(route, RTM_FLAGS).is_some_and(|flags| flags & CLONED != 0)
}

/// The attributes of a message, with their types and contents, up to the first that is cut off.
pub(crate) struct Attributes<'a> {
    rest: &'a [u8],
}

/// The bits of an attribute's type that are not flags.
const ATTRIBUTE_KIND: u16 = 0x3fff;
/// Bytes of an attribute's header.
const ATTRIBUTE: usize = 4;

impl<'a> Attributes<'a> {
    /// Iterates over the attributes that follow a header of so many bytes.
    pub(crate) fn of(contents: &'a [u8], header: usize) -> Attributes<'a> {
        Attributes { rest: contents.get(header..).unwrap_or_default() }
    }
}

impl<'a> Iterator for Attributes<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<(u16, &'a [u8])> {
        let [a, b, c, d] = *self.rest.first_chunk()?;
        let length = usize::from(u16::from_ne_bytes([a, b]));
        let value = self.rest.get(ATTRIBUTE..length)?;
        self.rest = self.rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((u16::from_ne_bytes([c, d]) & ATTRIBUTE_KIND, value))
    }
}

/// Returns the word at an offset.
pub(crate) fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|word| u32::from_ne_bytes(*word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u16, family: u8, table: u8) -> Vec<u8> {
        let mut bytes = vec![0; 28];
        bytes[0] = 28;
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        (bytes[16], bytes[20]) = (family, table);
        bytes
    }

    #[test]
    fn only_a_removal_from_a_followed_table_of_ipv6_removes_a_route_from_its_tree() {
        for (kind, family, table, removes) in [
            (25, 10, 254, true),
            (25, 10, 255, true),
            (25, 10, 100, false),
            (25, 10, 252, false),
            (25, 2, 254, false),
            (24, 10, 254, false),
        ] {
            let behind_another = [message(24, 10, 254), message(kind, family, table)].concat();
            assert_eq!(removes_ipv6_route(&behind_another), removes, "{kind} {family} {table}");
        }
        let of_ipv4 =
            [message(25, 10, 254), message(25, 2, 100), message(24, 2, 254), message(25, 2, 254)].concat();
        assert_eq!(removed_ipv4_routes(&of_ipv4), [0], "a default route");
        let cut = message(25, 10, 254);
        for length in 0..=20 {
            assert!(!removes_ipv6_route(&cut[..length]), "{length}");
        }
    }
}
