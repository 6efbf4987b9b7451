//! Options of an IPv4 header: RFC 791 §3.1, and the requirements of RFC 1812 §4.2.2.6 and §5.3.13 for a router that
//! forwards them.

use super::Ipv4;
use super::ipv4::HEADER_LEN;
use std::net::Ipv4Addr;

/// The end of the list.
const END: u8 = 0;
/// No operation: one byte of padding.
const NOTHING: u8 = 1;
/// The bit of an option that is copied into every fragment.
const COPIED: u8 = 0x80;
/// Record route.
const RECORD_ROUTE: u8 = 7;
/// Timestamps.
const TIMESTAMP: u8 = 68;
/// Loose source and record route.
const LOOSE_ROUTE: u8 = 131;
/// Strict source and record route.
const STRICT_ROUTE: u8 = 137;

/// The requests that the options of a header make to a router.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RequestedOptions {
    /// A source route whose next stop is the destination: loose or strict.
    pub source_route: Option<Strictness>,
    /// Whether each router must write into the header.
    pub records: bool,
}

/// Whether a source route names every router on the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strictness {
    /// Other routers may be in between.
    Loose,
    /// It names all of them.
    Strict,
}

/// The options are malformed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the IPv4 options are malformed at byte {at} of the header")]
pub struct BadOptions {
    /// The index of the wrong byte in the header, from 0: the pointer of a parameter problem (RFC 792).
    pub at: u8,
}

/// One option: its position in the header, and its length.
#[derive(Debug, Clone, Copy)]
struct FrameState {
    at: usize,
    length: usize,
}

/// The entry that a router must write into an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Entry {
    /// Its address, at this byte of the header; the pointer moves by four.
    Address { at: usize },
    /// The time, at this byte; the pointer moves by four.
    Time { at: usize },
    /// Its address and the time; the pointer moves by eight.
    AddressAndTime { at: usize },
    /// The time behind this address, if the address belongs to the router; the pointer moves by eight.
    TimeIfOwn { at: usize },
    /// An increment of the number of routers that found no room.
    Overflow,
    /// Nothing.
    Nothing,
}

impl Strictness {
    /// Returns the kind of the source route at `place`. Its pointer must name a whole address, or the position behind
    /// its end.
    fn of(self, header: &[u8], FrameState { at, length }: FrameState) -> Result<Strictness, BadOptions> {
        if length < 3 {
            return Err(bad(at + 1));
        }
        let pointer = usize::from(header[at + 2]);
        let is_cut = pointer <= length && pointer + 3 > length;
        if pointer < 4 || is_cut { Err(bad(at + 2)) } else { Ok(self) }
    }
}

/// Returns the requests of the IPv4 options at the start of `packet`. The header must have been checked
/// ([`Ipv4::parse`]). Unknown options request nothing, and must be forwarded unchanged.
///
/// # Errors
/// Returns [`BadOptions`]: the packet must be dropped (RFC 791 §3.1).
pub fn requested(packet: &[u8]) -> Result<RequestedOptions, BadOptions> {
    let header = header(packet);
    let (mut requested, mut at) = (RequestedOptions::default(), HEADER_LEN);
    while let Some(place) = next(header, &mut at)? {
        match header[place.at] {
            // At most one (RFC 791 §3.1).
            LOOSE_ROUTE | STRICT_ROUTE if requested.source_route.is_some() => return Err(bad(place.at)),
            LOOSE_ROUTE => requested.source_route = Some(Strictness::Loose.of(header, place)?),
            STRICT_ROUTE => requested.source_route = Some(Strictness::Strict.of(header, place)?),
            RECORD_ROUTE | TIMESTAMP => requested.records |= entry(header, place)? != Entry::Nothing,
            _ => {}
        }
    }
    Ok(requested)
}

/// The data that a router writes into options.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp<F> {
    /// The address of the interface by which the packet leaves. If it has none, this is None and no address is written.
    pub own: Option<Ipv4Addr>,
    /// Returns whether an address belongs to any interface of the router: a timestamp may be requested of that address
    /// alone.
    pub is_own: F,
    /// The time, in milliseconds since midnight UT.
    pub milliseconds: u32,
}

/// Writes the router's address and time into the options that request them (RFC 1812 §5.3.13.5, §5.3.13.6). The header
/// checksum is correct afterwards.
///
/// Options that [`requested`] rejects stay unchanged.
pub fn record(packet: &mut [u8], stamp: &Stamp<impl Fn(Ipv4Addr) -> bool>) {
    if !requested(packet).is_ok_and(|requested| requested.records) {
        return;
    }
    let (length, mut at) = (header(packet).len(), HEADER_LEN);
    let header = &mut packet[..length];
    while let Ok(Some(place)) = next(header, &mut at) {
        if matches!(header[place.at], RECORD_ROUTE | TIMESTAMP)
            && let Ok(entry) = entry(header, place)
        {
            stamp.write(header, place.at, entry);
        }
    }
    Ipv4::seal(header);
}

/// Turns the IPv4 options at the start of `packet` into those of a later fragment. Options without the copied flag (RFC
/// 791 §3.1) are overwritten with padding, so that the header keeps its length, as in Linux. The checksum is wrong
/// until [sealed](Ipv4::seal).
pub fn retain_copied(packet: &mut [u8]) {
    let (length, mut at) = (header(packet).len(), HEADER_LEN);
    let header = &mut packet[..length];
    while let Ok(Some(FrameState { at: option, length })) = next(header, &mut at) {
        if header[option] & COPIED == 0 {
            header[option..option + length].fill(NOTHING);
        }
    }
}

/// Returns the offset of the last stop of a source route, unless the header's destination is the last one already. The
/// checksums of TCP and UDP cover the last stop (RFC 9293 §3.1, RFC 768).
pub(super) fn last_stop(packet: &[u8]) -> Option<usize> {
    let (header, mut at) = (header(packet), HEADER_LEN);
    while let Ok(Some(FrameState { at: option, length })) = next(header, &mut at) {
        if matches!(header[option], LOOSE_ROUTE | STRICT_ROUTE) && length >= 7 {
            let is_used_up = usize::from(header[option + 2]) > length;
            return (!is_used_up).then_some(option + length - 4);
        }
    }
    None
}

/// The bytes of the header, or as many as are there.
fn header(packet: &[u8]) -> &[u8] {
    let words = packet.first().map_or(0, |first| usize::from(first & 0xf));
    &packet[..(words * 4).min(packet.len())]
}

/// Returns the option at or behind `at` that has a length, and moves `at` behind it. Returns None at the end of the
/// list.
fn next(header: &[u8], at: &mut usize) -> Result<Option<FrameState>, BadOptions> {
    while let Some(kind) = header.get(*at) {
        match *kind {
            END => break,
            NOTHING => *at += 1,
            _ => {
                let length = header.get(*at + 1).map_or(0, |length| usize::from(*length));
                if length < 2 || *at + length > header.len() {
                    return Err(bad(*at + 1));
                }
                let place = FrameState { at: *at, length };
                *at += length;
                return Ok(Some(place));
            }
        }
    }
    Ok(None)
}

/// Returns the entry to write into a record route or timestamp option.
fn entry(header: &[u8], FrameState { at, length }: FrameState) -> Result<Entry, BadOptions> {
    let times = header[at] == TIMESTAMP;
    let first = if times { 5 } else { 4 };
    if length < first - 1 {
        return Err(bad(at + 1));
    }
    let pointer = usize::from(header[at + 2]);
    if pointer < first {
        return Err(bad(at + 2));
    }
    let kind = if times { header[at + 3] & 0xf } else { 0 };
    if pointer > length {
        return match (times, kind) {
            (false, _) | (true, 3) => Ok(Entry::Nothing),
            // No room: later routers are counted, up to 15 of them. Unknown kinds too, as in Linux.
            (true, _) if header[at + 3] >> 4 == 0xf => Err(bad(at + 3)),
            (true, _) => Ok(Entry::Overflow),
        };
    }
    let to = at + pointer - 1;
    let (size, entry) = match (times, kind) {
        (false, _) => (4, Entry::Address { at: to }),
        (true, 0) => (4, Entry::Time { at: to }),
        (true, 1) => (8, Entry::AddressAndTime { at: to }),
        (true, 3) => (8, Entry::TimeIfOwn { at: to }),
        _ => return Ok(Entry::Nothing),
    };
    // There is some room, but not enough: the packet is in error.
    if pointer + size - 1 > length { Err(bad(at + 2)) } else { Ok(entry) }
}

impl<F: Fn(Ipv4Addr) -> bool> Stamp<F> {
    /// Writes an entry into the option that begins at `option`.
    fn write(&self, header: &mut [u8], option: usize, entry: Entry) {
        let time = self.milliseconds.to_be_bytes();
        let mut put = |at: usize, bytes: [u8; 4]| header[at..at + 4].copy_from_slice(&bytes);
        let moved = match (entry, self.own) {
            (Entry::Address { at }, Some(own)) => {
                put(at, own.octets());
                4
            }
            (Entry::Time { at }, _) => {
                put(at, time);
                4
            }
            (Entry::AddressAndTime { at }, Some(own)) => {
                put(at, own.octets());
                put(at + 4, time);
                8
            }
            (Entry::TimeIfOwn { at }, _) if self.has(&header[at..at + 4]) => {
                header[at + 4..at + 8].copy_from_slice(&time);
                8
            }
            (Entry::Overflow, _) => {
                header[option + 3] += 0x10;
                0
            }
            _ => 0,
        };
        header[option + 2] += moved;
    }

    /// Returns whether an address in an option belongs to the router.
    fn has(&self, address: &[u8]) -> bool {
        <[u8; 4]>::try_from(address).is_ok_and(|octets| (self.is_own)(octets.into()))
    }
}

/// Returns the error for a wrong byte; a header has at most 60.
fn bad(at: usize) -> BadOptions {
    BadOptions { at: at as u8 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::checksum::Sum;
    use proptest::prelude::*;

    const OWN: Ipv4Addr = Ipv4Addr::new(10, 9, 8, 7);
    /// The address of another interface.
    const OTHER_OWN: Ipv4Addr = Ipv4Addr::new(10, 5, 5, 5);

    fn stamp(own: Option<Ipv4Addr>) -> Stamp<impl Fn(Ipv4Addr) -> bool> {
        Stamp { own, is_own: |its| [OWN, OTHER_OWN].contains(&its), milliseconds: 0x0102_0304 }
    }

    /// Returns a header with these options, padded to whole words, with a correct checksum.
    fn packet(options: &[u8]) -> Vec<u8> {
        let mut packet = vec![0; HEADER_LEN];
        packet.extend(options);
        packet.resize(packet.len().next_multiple_of(4), END);
        packet[0] = 0x40 | (packet.len() / 4) as u8;
        Ipv4::seal(&mut packet);
        packet
    }

    /// Returns the options after a router has recorded.
    fn recorded(options: &[u8]) -> Vec<u8> {
        recorded_by(Some(OWN), options)
    }

    fn recorded_by(own: Option<Ipv4Addr>, options: &[u8]) -> Vec<u8> {
        let mut packet = packet(options);
        assert!(requested(&packet).unwrap().records);
        record(&mut packet, &stamp(own));
        assert!(Sum::new().bytes(&packet).intact());
        packet[HEADER_LEN..][..options.len()].to_vec()
    }

    #[test]
    fn a_route_is_recorded_at_its_pointer_until_it_is_full() {
        assert_eq!(recorded(&[7, 11, 4, 0, 0, 0, 0, 0, 0, 0, 0]), [7, 11, 8, 10, 9, 8, 7, 0, 0, 0, 0]);
        assert_eq!(recorded(&[1, 7, 7, 4, 9, 9, 9, 9]), [1, 7, 7, 8, 10, 9, 8, 7]);
        let full = packet(&[7, 7, 8, 1, 2, 3, 4]);
        assert_eq!(requested(&full), Ok(RequestedOptions::default()));
    }

    #[test]
    fn times_are_recorded_alone_with_an_address_or_behind_the_routers_own() {
        assert_eq!(recorded(&[68, 8, 5, 0, 0, 0, 0, 0]), [68, 8, 9, 0, 1, 2, 3, 4]);
        let with_address = [68, 12, 5, 1, 0, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(recorded(&with_address), [68, 12, 13, 1, 10, 9, 8, 7, 1, 2, 3, 4]);
        let mine = [68, 12, 5, 3, 10, 9, 8, 7, 0, 0, 0, 0];
        assert_eq!(recorded(&mine), [68, 12, 13, 3, 10, 9, 8, 7, 1, 2, 3, 4]);
        let others = [68, 12, 5, 3, 10, 9, 8, 6, 0, 0, 0, 0];
        assert_eq!(recorded(&others), others);
        let of_another_interface = [68, 12, 5, 3, 10, 5, 5, 5, 0, 0, 0, 0];
        assert_eq!(recorded(&of_another_interface), [68, 12, 13, 3, 10, 5, 5, 5, 1, 2, 3, 4]);
        assert_eq!(recorded(&[68, 8, 9, 0x20, 0, 0, 0, 0]), [68, 8, 9, 0x30, 0, 0, 0, 0], "counted");
        assert_eq!(
            recorded(&[68, 8, 9, 0x22, 0, 0, 0, 0]),
            [68, 8, 9, 0x32, 0, 0, 0, 0],
            "an unknown kind too"
        );
        for full_or_unknown in [[68, 8, 9, 0xf3, 0, 0, 0, 0], [68, 8, 5, 0x22, 0, 0, 0, 0]] {
            assert_eq!(requested(&packet(&full_or_unknown)), Ok(RequestedOptions::default()));
        }
    }

    /// Observed: if the egress interface had no address, nothing at all was written.
    #[test]
    fn a_router_without_an_address_writes_and_counts_what_needs_none() {
        let recorded = |options| recorded_by(None, options);
        assert_eq!(recorded(&[68, 8, 5, 0, 0, 0, 0, 0]), [68, 8, 9, 0, 1, 2, 3, 4]);
        assert_eq!(recorded(&[68, 8, 9, 0x20, 0, 0, 0, 0]), [68, 8, 9, 0x30, 0, 0, 0, 0]);
        for unable in [&[7, 7, 4, 0, 0, 0, 0][..], &[68, 12, 5, 1, 0, 0, 0, 0, 0, 0, 0, 0]] {
            assert_eq!(recorded(unable), unable);
        }
    }

    #[test]
    fn what_is_wrong_is_pointed_at() {
        for (options, at) in [
            (&[7, 1, 0, 0][..], 21),                // shorter than itself
            (&[7, 9, 4, 0], 21),                    // longer than the header
            (&[1, 1, 1, 7], 24),                    // no length
            (&[7, 2, 1, 1], 21),                    // no pointer
            (&[7, 7, 3, 0, 0, 0, 0], 22),           // points at itself
            (&[7, 10, 8, 0, 0, 0, 0, 0, 0, 0], 22), // room, and not enough
            (&[68, 3, 5, 0], 21),
            (&[68, 8, 4, 0, 0, 0, 0, 0], 22),
            (&[68, 8, 5, 1, 0, 0, 0, 0], 22),
            (&[68, 8, 9, 0xf0, 0, 0, 0, 0], 23), // no more can be counted
            (&[68, 12, 157, 0xf2, 0, 0, 0, 0, 0, 0, 0, 0], 23),
            (&[131, 2], 21),
            (&[131, 7, 0, 10, 0, 0, 9], 22),
            (&[137, 7, 5, 10, 0, 0, 9], 22),
            (&[131, 7, 4, 10, 0, 0, 9, 137, 7, 4, 10, 0, 0, 9], 27), // a second one
            (&[137, 7, 8, 10, 0, 0, 9, 131, 3, 4], 27),
        ] {
            assert_eq!(requested(&packet(options)), Err(BadOptions { at }), "{options:?}");
        }
    }

    #[test]
    fn source_routes_are_recognised_and_other_options_ask_for_nothing() {
        let route = |kind| requested(&packet(&[kind, 7, 4, 10, 0, 0, 9])).unwrap().source_route;
        assert_eq!([route(131), route(137)], [Some(Strictness::Loose), Some(Strictness::Strict)]);
        for options in [&[148, 4, 0, 0][..], &[130, 11], &[0, 7, 1, 1], &[1, 1, 1, 1], &[25, 2], &[]] {
            let mut options = options.to_vec();
            if options.get(1) == Some(&11) {
                options.resize(11, 0);
            }
            assert_eq!(requested(&packet(&options)), Ok(RequestedOptions::default()), "{options:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_and_recorded_without_harm(
            bytes in prop::collection::vec(any::<u8>(), 0..80),
            kind in prop::sample::select(vec![RECORD_ROUTE, TIMESTAMP, 0x44, 131]),
        ) {
            let mut bytes = bytes;
            if let Some(option) = bytes.get_mut(20) {
                *option = kind;
            }
            let behind = header(&bytes).len();
            let before = bytes.clone();
            let sane = requested(&bytes);
            record(&mut bytes, &stamp(Some(OWN)));
            prop_assert_eq!(&bytes[behind..], &before[behind..]);
            if sane.is_err() {
                prop_assert_eq!(bytes, before);
            }
        }
    }

    /// Seen: the error had no text, and `?` could not make a boxed error of it.
    #[test]
    fn malformed_options_are_an_error_with_a_text() {
        let error: Box<dyn std::error::Error> = bad(21).into();
        assert_eq!(error.to_string(), "the IPv4 options are malformed at byte 21 of the header");
    }
}
