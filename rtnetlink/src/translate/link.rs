//! Reads messages about links.
//!
//! Only the few attributes that are needed are read. The crate's parser refuses a whole message for any attribute that it does
//! not expect, as an alias that is not UTF-8 or one of a newer kernel's length. The link would then count as gone.

use super::{Event, LinkState, Unread, ethernet};
use crate::headers::{Attributes, word};

/// Bytes of `struct ifinfomsg`, and the offsets of its fields.
const HEADER: usize = 16;
const INDEX: usize = 4;
const FLAGS: usize = 8;
const AF_UNSPEC: u8 = 0;
/// IFF_UP, and the two of which one is set while there is a carrier: IFF_RUNNING and IFF_LOWER_UP.
const UP: u32 = 1;
const CARRIER: u32 = 1 << 6 | 1 << 16;

const IFLA_ADDRESS: u16 = 1;
const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
const IFLA_PROP_LIST: u16 = 52;
const IFLA_ALT_IFNAME: u16 = 53;

/// Returns the event of a message about a link, whose `contents` follow the message's header, or None if the message is
/// about the link's role as a bridge port. Attributes behind one that is cut off are left out.
pub(super) fn link(contents: &[u8], exists: bool) -> Option<Result<Event, Unread>> {
    let (Some(index), Some(flags)) = (word(contents, INDEX), word(contents, FLAGS)) else {
        return Some(Err(Unread));
    };
    if contents[0] != AF_UNSPEC {
        return None;
    }
    if !exists {
        return Some(Ok(Event::LinkGone(index)));
    }
    let state = match (flags & UP != 0, flags & CARRIER != 0) {
        (false, _) => LinkState::Down,
        (true, false) => LinkState::NoCarrier,
        (true, true) => LinkState::Up,
    };
    let (mut names, mut mac, mut mtu) = (Vec::new(), None, None);
    for (kind, value) in Attributes::of(contents, HEADER) {
        match kind {
            IFLA_IFNAME => names.insert(0, name(value)),
            IFLA_PROP_LIST => {
                let others = Attributes::of(value, 0).filter(|(kind, _)| *kind == IFLA_ALT_IFNAME);
                names.extend(others.map(|(_, value)| name(value)));
            }
            IFLA_ADDRESS => mac = ethernet(value),
            IFLA_MTU => mtu = word(value, 0),
            _ => {}
        }
    }
    // The kernel sends the name with every message.
    Some(if names.is_empty() { Err(Unread) } else { Ok(Event::Link { index, names, state, mac, mtu }) })
}

/// Returns a name, which ends with a zero byte. It may contain bytes that are not UTF-8.
fn name(value: &[u8]) -> String {
    let end = value.iter().position(|byte| *byte == 0).unwrap_or(value.len());
    String::from_utf8_lossy(&value[..end]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::translate::events;
    use netmem::wire::MacAddr;

    const IFLA_IFALIAS: u16 = 20;

    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let mut bytes = [(4 + value.len() as u16).to_ne_bytes(), kind.to_ne_bytes()].concat();
        bytes.extend(value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    /// A message of this kind about link 3, which is up.
    fn message(kind: u16, attributes: &[Vec<u8>]) -> Vec<u8> {
        let attributes = attributes.concat();
        let length = (16 + HEADER + attributes.len()) as u32;
        let mut bytes = vec![0; 16 + HEADER];
        bytes[..4].copy_from_slice(&length.to_ne_bytes());
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        bytes[20..24].copy_from_slice(&3_u32.to_ne_bytes());
        bytes[24..28].copy_from_slice(&(UP | CARRIER).to_ne_bytes());
        bytes.extend(attributes);
        bytes
    }

    fn read(bytes: &[u8]) -> (Vec<Event>, usize) {
        let mut all = Vec::new();
        let unread = events(bytes, |event| all.push(event));
        (all, unread)
    }

    /// Seen: after `ip link set eth0 alias $'B\xfcro'` the link counted as gone with the next resync, and its routes with it.
    #[test]
    fn a_link_whose_alias_is_not_utf_8_is_read_like_others() {
        let others = attribute(IFLA_ALT_IFNAME, b"b\xfcro\0");
        let attributes = [
            attribute(IFLA_IFNAME, b"eth0\0"),
            attribute(IFLA_IFALIAS, b"B\xfcro"),
            attribute(IFLA_PROP_LIST | 1 << 15, &others),
            attribute(IFLA_MTU, &1500_u32.to_ne_bytes()),
            attribute(IFLA_ADDRESS, &[2, 0, 0, 0, 0, 1]),
        ];
        let names = vec!["eth0".to_owned(), "b\u{fffd}ro".to_owned()];
        let mac = Some(MacAddr::new([2, 0, 0, 0, 0, 1]));
        let link = Event::Link { index: 3, names, state: LinkState::Up, mac, mtu: Some(1500) };
        assert_eq!(read(&message(16, &attributes)), (vec![link], 0));
        assert_eq!(read(&message(17, &attributes)), (vec![Event::LinkGone(3)], 0));
        assert_eq!(read(&message(16, &attributes[1..2])), (vec![Event::RoutesMayHaveChanged], 1), "no name");
    }
}
