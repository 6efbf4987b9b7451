//! What becomes of a frame, and why a frame was dropped.

use crate::stats::Count;
use crate::wire::Malformed;

/// What the forwarder does with a frame next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// It goes back to its pool, and is counted under the reason.
    Drop(Reason),
    /// It leaves by the port with this number, which may be the one it came from.
    Redirect(u8),
    /// It leaves by the port it came from.
    Tx,
    /// It goes to the [holder](super::holder): to be read, kept and freed elsewhere.
    Pass,
    /// It waits for its next hop's link address, unchanged, until the table of routes changes.
    Wait,
}

/// A verdict as a number, so that those of a burst are compared several at once: kind in the high byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Code(u16);

impl Code {
    const REDIRECT: u16 = 0;
    const DROP: u16 = 1;
    const TX: u16 = 2;
    const PASS: u16 = 3;
    const WAIT: u16 = 4;

    /// The code of a redirect to port 0.
    pub(super) const FIRST: Code = Code(0);

    /// The verdict.
    #[inline]
    pub(super) fn verdict(self) -> Verdict {
        match (self.0 >> 8, self.0 as u8) {
            (Code::REDIRECT, port) => Verdict::Redirect(port),
            (Code::DROP, reason) => Verdict::Drop(Reason::ALL[usize::from(reason)]),
            (Code::TX, _) => Verdict::Tx,
            (Code::WAIT, _) => Verdict::Wait,
            _ => Verdict::Pass,
        }
    }

    /// The codes cut into runs of equal ones, each with its length.
    ///
    /// # Cost
    /// Where all are equal, as they mostly are, one comparison by vectors; else one for each.
    #[inline]
    pub(super) fn runs(codes: &[Code]) -> impl Iterator<Item = (Verdict, usize)> {
        let first = codes.first().copied().unwrap_or(Code::FIRST);
        let differs = codes.iter().fold(0, |differs, code| differs | (code.0 ^ first.0));
        let mut rest = codes;
        std::iter::from_fn(move || {
            let first = *rest.first()?;
            let n = match differs {
                0 => rest.len(),
                _ => rest.iter().take_while(|code| **code == first).count(),
            };
            rest = &rest[n..];
            Some((first.verdict(), n))
        })
    }
}

impl From<Verdict> for Code {
    #[inline(always)]
    fn from(verdict: Verdict) -> Code {
        Code(match verdict {
            Verdict::Redirect(port) => u16::from(port),
            Verdict::Drop(reason) => Code::DROP << 8 | reason as u16,
            Verdict::Tx => Code::TX << 8,
            Verdict::Pass => Code::PASS << 8,
            Verdict::Wait => Code::WAIT << 8,
        })
    }
}

const _: () = assert!(size_of::<Verdict>() == 2);

/// Why the forwarder dropped a frame. Every dropped frame is counted under exactly one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Reason {
    /// The frame ends before its Ethernet header or the smallest IP header does.
    Short,
    /// The ethertype is none that is named here.
    UnknownEthertype,
    /// An ARP frame: neighbours are static, or asked for by the kernel.
    Arp,
    /// The link destination is another station.
    NotForUs,
    /// The link destination is a group, or everyone: never forwarded (RFC 1812 §5.3.4).
    LinkMulticast,
    /// [`Malformed::BadVersion`].
    BadVersion,
    /// [`Malformed::BadHeaderLength`].
    BadHeaderLength,
    /// [`Malformed::BadTotalLength`].
    BadTotalLength,
    /// [`Malformed::Truncated`].
    Truncated,
    /// [`Malformed::BadChecksum`].
    BadChecksum,
    /// The source or the destination must never be forwarded (RFC 1812 §5.3.7, RFC 4291 §2.5).
    Martian,
    /// The TTL or hop limit was 1 or 0 (RFC 1812 §5.3.1, RFC 8200 §3).
    TtlExpired,
    /// No route covers the destination, or it leads to a port that is not there.
    NoRoute,
    /// The packet is longer than the egress interface's MTU, and no router may cut it.
    TooLong,
    /// The egress port's transmit ring had no place left.
    TxFull,
    /// The egress port had nothing in flight and took nothing: its link is down, or it cannot send such frames.
    TxRefused,
    /// The mode, or a filter rule, says so.
    Policy,
    /// It was to be passed, and the holder had no place left.
    HolderFull,
    /// It was to be passed, and there is no holder, or its reader is gone.
    NoHolder,
    /// There was no memory for a packet's head.
    NoHead,
    /// Its destination is the router itself: the kernel's, whose own copy of it, where there is one, is not counted here.
    Local,
    /// A `blackhole` route.
    Blackhole,
    /// An `unreachable` route.
    Unreachable,
    /// A `prohibit` route.
    Prohibited,
    /// The next hop was asked for its link address and did not answer.
    SilentNeighbour,
    /// The next hop's link address is not known, and too many frames wait for it, or nobody would ask.
    UnresolvedNeighbour,
    /// The packet is longer than the egress interface's MTU and may be cut into fragments, which is not done here (RFC 791
    /// §2.3): its sender is not told, as it would not be if it were cut.
    Uncut,
    /// Its IPv4 options are not as they must be (RFC 791 §3.1).
    BadOptions,
    /// It asks for a source route, and those are not followed (RFC 7126 §4.3, §4.4).
    SourceRoute,
    /// Its source is a link-local address, and its destination is not on that link (RFC 4291 §2.5.6).
    BeyondScope,
}

impl Reason {
    /// All reasons, in the order of their [`index`](Self::index).
    pub const ALL: [Reason; 30] = [
        Reason::Short,
        Reason::UnknownEthertype,
        Reason::Arp,
        Reason::NotForUs,
        Reason::LinkMulticast,
        Reason::BadVersion,
        Reason::BadHeaderLength,
        Reason::BadTotalLength,
        Reason::Truncated,
        Reason::BadChecksum,
        Reason::Martian,
        Reason::TtlExpired,
        Reason::NoRoute,
        Reason::TooLong,
        Reason::TxFull,
        Reason::TxRefused,
        Reason::Policy,
        Reason::HolderFull,
        Reason::NoHolder,
        Reason::NoHead,
        Reason::Local,
        Reason::Blackhole,
        Reason::Unreachable,
        Reason::Prohibited,
        Reason::SilentNeighbour,
        Reason::UnresolvedNeighbour,
        Reason::Uncut,
        Reason::BadOptions,
        Reason::SourceRoute,
        Reason::BeyondScope,
    ];

    /// The name of its counter.
    pub const fn name(self) -> &'static str {
        match self {
            Reason::Short => "short",
            Reason::UnknownEthertype => "unknown_ethertype",
            Reason::Arp => "arp",
            Reason::NotForUs => "not_for_us",
            Reason::LinkMulticast => "link_multicast",
            Reason::BadVersion => "bad_version",
            Reason::BadHeaderLength => "bad_header_length",
            Reason::BadTotalLength => "bad_total_length",
            Reason::Truncated => "truncated",
            Reason::BadChecksum => "bad_checksum",
            Reason::Martian => "martian",
            Reason::TtlExpired => "ttl_expired",
            Reason::NoRoute => "no_route",
            Reason::TooLong => "too_long",
            Reason::TxFull => "tx_full",
            Reason::TxRefused => "tx_refused",
            Reason::Policy => "policy",
            Reason::HolderFull => "holder_full",
            Reason::NoHolder => "no_holder",
            Reason::NoHead => "no_head",
            Reason::Local => "local",
            Reason::Blackhole => "blackhole",
            Reason::Unreachable => "unreachable",
            Reason::Prohibited => "prohibited",
            Reason::SilentNeighbour => "silent_neighbour",
            Reason::UnresolvedNeighbour => "unresolved_neighbour",
            Reason::Uncut => "uncut",
            Reason::BadOptions => "bad_options",
            Reason::SourceRoute => "source_route",
            Reason::BeyondScope => "beyond_scope",
        }
    }

    /// Its place in [`ALL`](Self::ALL).
    #[inline]
    pub const fn index(self) -> usize {
        self as usize
    }
}

impl From<Malformed> for Reason {
    fn from(malformed: Malformed) -> Self {
        match malformed {
            Malformed::ShortFrame | Malformed::ShortHeader => Reason::Short,
            Malformed::BadVersion => Reason::BadVersion,
            Malformed::BadHeaderLength => Reason::BadHeaderLength,
            Malformed::BadTotalLength => Reason::BadTotalLength,
            Malformed::Truncated => Reason::Truncated,
            Malformed::BadChecksum => Reason::BadChecksum,
        }
    }
}

/// Frames dropped, by reason. One thread counts; any may read.
#[derive(Debug, Default)]
pub struct Drops([Count; Reason::ALL.len()]);

impl Drops {
    /// Counters at zero.
    pub fn new() -> Self {
        Drops::default()
    }

    /// Counts `frames` dropped for one reason. Only the forwarding thread may call it, as
    /// [`Count::add`] says.
    #[inline]
    pub(crate) fn add(&self, reason: Reason, frames: u64) {
        self.0[reason.index()].add(frames);
    }

    /// Frames dropped for `reason` so far.
    pub fn get(&self, reason: Reason) -> u64 {
        self.0[reason.index()].get()
    }

    /// Frames dropped so far, for any reason.
    pub fn total(&self) -> u64 {
        self.iter().map(|(_, frames)| frames).sum()
    }

    /// Every reason with its count, those at zero too.
    pub fn iter(&self) -> impl Iterator<Item = (Reason, u64)> + '_ {
        Reason::ALL.into_iter().map(|reason| (reason, self.get(reason)))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_reason_stands_at_its_index_under_its_own_name() {
        for (i, reason) in Reason::ALL.into_iter().enumerate() {
            assert_eq!(reason.index(), i, "{reason:?}");
        }
        let names: BTreeSet<_> = Reason::ALL.map(Reason::name).into();
        assert_eq!(names.len(), Reason::ALL.len());
        assert!(
            names
                .iter()
                .all(|name| name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_'))
        );
    }

    #[test]
    fn codes_say_the_verdict_they_were_made_of_and_runs_keep_the_order() {
        let drops = Reason::ALL.into_iter().map(Verdict::Drop);
        let all =
            (0..=255).map(Verdict::Redirect).chain(drops).chain([Verdict::Tx, Verdict::Pass, Verdict::Wait]);
        let all = all.flat_map(|verdict| [verdict; 3]).collect::<Vec<_>>();
        let runs = |verdicts: &[Verdict]| {
            let codes = verdicts.iter().map(|&verdict| Code::from(verdict)).collect::<Vec<_>>();
            Code::runs(&codes).collect::<Vec<_>>()
        };
        let wanted = all.chunk_by(PartialEq::eq).map(|run| (run[0], run.len())).collect::<Vec<_>>();
        assert_eq!(runs(&all), wanted);
        assert_eq!(runs(&[Verdict::Pass; 64]), [(Verdict::Pass, 64)]);
        assert_eq!(runs(&[]), []);
    }

    #[test]
    fn drops_are_counted_under_their_reason_only() {
        let drops = Drops::new();
        drops.add(Reason::NoRoute, 1);
        drops.add(Reason::TxFull, 40);
        drops.add(Reason::TxFull, 1);
        let counted: Vec<_> = drops.iter().filter(|(_, frames)| *frames > 0).collect();
        assert_eq!(counted, [(Reason::NoRoute, 1), (Reason::TxFull, 41)]);
        assert_eq!(drops.total(), 42);
    }
}
