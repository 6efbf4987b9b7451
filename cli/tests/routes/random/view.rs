//! The parts of a frame that classes of differences use. They are parsed here, and not by the code under test.

/// A frame, looked at.
#[derive(Clone, Copy)]
pub struct View<'a> {
    /// Tags before the packet, of whatever VLAN.
    pub tags: usize,
    /// One of these is a provider's (802.1ad).
    pub is_service: bool,
    ethertype: [u8; 2],
    packet: &'a [u8],
}

impl<'a> View<'a> {
    pub fn of(frame: &'a [u8]) -> View<'a> {
        let (mut tags, mut is_service) = (0, false);
        while let Some(kind @ ([0x81, 0] | [0x88, 0xa8])) = frame.get(12 + 4 * tags..14 + 4 * tags) {
            is_service |= kind[0] == 0x88;
            tags += 1;
        }
        let ethertype = frame.get(12 + 4 * tags..14 + 4 * tags).unwrap_or(&[0, 0]);
        let packet = frame.get(14 + 4 * tags..).unwrap_or_default();
        View { tags, is_service, ethertype: [ethertype[0], ethertype[1]], packet }
    }

    /// Returns the packet if it is IPv4 with a whole header.
    pub fn v4(&self) -> Option<&'a [u8]> {
        let header = self.packet.first().map_or(usize::MAX, |first| 4 * usize::from(first & 15));
        (self.ethertype == [8, 0] && header >= 20 && self.packet.len() >= header).then_some(self.packet)
    }

    /// The same of IPv6.
    pub fn v6(&self) -> Option<&'a [u8]> {
        (self.ethertype == [0x86, 0xdd] && self.packet.len() >= 40).then_some(self.packet)
    }

    /// Returns the fields that one packet has on both sides of a router: addresses, and the identification or the flow.
    pub fn ends(&self) -> Option<Vec<u8>> {
        let v4 = self.v4().map(|packet| [&packet[4..6], &packet[9..10], &packet[12..20]].concat());
        v4.or_else(|| self.v6().map(|packet| [&packet[1..4], &packet[6..7], &packet[8..40]].concat()))
    }

    /// Type and code of an ICMP error.
    pub fn error(&self) -> Option<(u8, u8)> {
        let (message, is_error): (_, fn(u8) -> bool) = match (self.v4(), self.v6()) {
            (Some(packet), _) if packet[9] == 1 => {
                (&packet[self.header()..], |kind| matches!(kind, 3 | 5 | 11 | 12))
            }
            (_, Some(packet)) if packet[6] == 58 => (&packet[40..], |kind| kind < 128),
            _ => return None,
        };
        message.get(..2).map(|both| (both[0], both[1])).filter(|(kind, _)| is_error(*kind))
    }

    /// Bytes of the header of IPv4.
    pub fn header(&self) -> usize {
        4 * usize::from(self.packet[0] & 15)
    }

    /// The options of IPv4 ([`options_of`]).
    pub fn options(&self) -> Vec<(u8, usize)> {
        self.v4().map(options_of).unwrap_or_default()
    }

    pub fn has_option(&self, kinds: &[u8]) -> bool {
        self.options().iter().any(|(kind, _)| kinds.contains(kind))
    }

    pub fn src4(&self) -> Option<[u8; 4]> {
        self.v4().and_then(|packet| packet[12..16].try_into().ok())
    }

    pub fn dst4(&self) -> Option<[u8; 4]> {
        self.v4().and_then(|packet| packet[16..20].try_into().ok())
    }

    pub fn src6(&self) -> Option<[u8; 16]> {
        self.v6().and_then(|packet| packet[8..24].try_into().ok())
    }

    pub fn dst6(&self) -> Option<[u8; 16]> {
        self.v6().and_then(|packet| packet[24..40].try_into().ok())
    }

    /// The header that is the next one behind that of IPv6.
    pub fn next(&self) -> Option<u8> {
        self.v6().map(|packet| packet[6])
    }
}

/// The options of a packet of IPv4, each with its place from the packet's start, as far as their lengths make sense.
pub fn options_of(packet: &[u8]) -> Vec<(u8, usize)> {
    let header = packet.first().map_or(0, |first| 4 * usize::from(first & 15));
    let (header, mut at, mut found) = (&packet[..header.min(packet.len())], 20, Vec::new());
    while let Some(&kind) = header.get(at) {
        found.push((kind, at));
        let len = match kind {
            0 => break,
            1 => 1,
            _ => header.get(at + 1).map_or(0, |len| usize::from(*len)),
        };
        if len == 0 {
            break;
        }
        at += len;
    }
    found
}
