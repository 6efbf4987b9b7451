//! Verdicts about frames, and drop reasons.

use crate::stats::Count;
use crate::wire::Malformed;

/// The forwarder's next action on a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// Drop: the frame goes back to its pool, and is counted under the reason.
    Drop(Reason),
    /// Send by the port with this number, which may be the one it came from.
    Redirect(u8),
    /// Send by the port it came from.
    Tx,
    /// Pass to the [local queue](super::local_queue): it is read, kept and freed elsewhere.
    Pass,
    /// Wait with the decision, unchanged, until something changes (in a router: its next hop's MAC address).
    Wait,
    /// The frame is longer than its egress carries. The decision makes several frames of it
    /// ([`Decide::fragment`](super::Decide::fragment)), which are sent in its place.
    Fragment,
}

/// A verdict as a number, so that several of a burst are compared at once: kind in the high byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Code(u16);

impl Code {
    const REDIRECT: u16 = 0;
    const DROP: u16 = 1;
    const TX: u16 = 2;
    const PASS: u16 = 3;
    const WAIT: u16 = 4;
    const FRAGMENT: u16 = 5;

    /// The code as a number.
    #[inline]
    pub(super) fn bits(self) -> u16 {
        self.0
    }

    /// The code with this number.
    #[inline]
    pub(super) fn from_bits(bits: u16) -> Code {
        Code(bits)
    }

    /// The code of a redirect to port 0.
    pub(super) const FIRST: Code = Code(0);

    /// The verdict.
    #[inline]
    pub(super) fn verdict(self) -> Verdict {
        match (self.0 >> 8, self.0 as u8) {
            (Code::REDIRECT, port) => Verdict::Redirect(port),
            (Code::DROP, reason) => Verdict::Drop(Reason::at(usize::from(reason))),
            (Code::TX, _) => Verdict::Tx,
            (Code::WAIT, _) => Verdict::Wait,
            (Code::FRAGMENT, _) => Verdict::Fragment,
            _ => Verdict::Pass,
        }
    }

    /// Splits the codes into runs of equal ones, each with its length.
    ///
    /// # Cost
    /// If all are equal, as they mostly are, one comparison by vectors; otherwise one for each.
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
            Verdict::Drop(reason) => Code::DROP << 8 | reason.index() as u16,
            Verdict::Tx => Code::TX << 8,
            Verdict::Pass => Code::PASS << 8,
            Verdict::Wait => Code::WAIT << 8,
            Verdict::Fragment => Code::FRAGMENT << 8,
        })
    }
}

const _: () = assert!(size_of::<Verdict>() == 2);

/// Writes the reasons and their names, each once.
macro_rules! reasons {
    ($($(#[$doc:meta])* $reason:ident = $name:literal,)*) => {
        /// The reason for which the forwarder dropped a frame. Every dropped frame is counted under exactly one reason.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Reason {
            $($(#[$doc])* $reason,)*
            /// A reason of the decision's own, by its number, which is less than [`OWN_MAX`](Self::OWN_MAX), 16. Its name
            /// is the one of that number in [`Decide::reasons`](super::Decide::reasons). All other numbers are counted
            /// as one, `own_invalid`.
            Own(u8),
        }

        /// The same without a decision's own reasons, which are numbers themselves.
        enum FrameState { $($reason,)* }

        impl Reason {
            /// All reasons except a decision's own, in the order of their [`index`](Self::index).
            pub const ALL: &'static [Reason] = &[$(Reason::$reason,)*];

            /// The name of its counter; "own" for every reason of a decision's own.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Reason::$reason => $name,)*
                    Reason::Own(_) => "own",
                }
            }

            /// The number of its counter: its index in [`ALL`](Self::ALL). Those of a decision's own follow, and then
            /// the one of all numbers that a decision's own reasons cannot have.
            #[inline]
            pub const fn index(self) -> usize {
                match self {
                    $(Reason::$reason => FrameState::$reason as usize,)*
                    Reason::Own(n) if (n as usize) < Reason::OWN_MAX => Reason::ALL.len() + n as usize,
                    Reason::Own(_) => Reason::ALL.len() + Reason::OWN_MAX,
                }
            }
        }
    };
}

reasons! {
    /// The frame ends before its Ethernet header or the smallest IP header does.
    Short = "short",
    /// The ethertype is not one of those that are handled.
    UnknownEthertype = "unknown_ethertype",
    /// An ARP frame: neighbours are static, or asked for by the kernel.
    Arp = "arp",
    /// The destination MAC address is another station's.
    NotForUs = "not_for_us",
    /// The destination MAC address is multicast or broadcast: never forwarded (RFC 1812 §5.3.4).
    LinkMulticast = "link_multicast",
    /// [`Malformed::BadVersion`].
    BadVersion = "bad_version",
    /// [`Malformed::BadHeaderLength`].
    BadHeaderLength = "bad_header_length",
    /// [`Malformed::BadTotalLength`].
    BadTotalLength = "bad_total_length",
    /// [`Malformed::Truncated`].
    Truncated = "truncated",
    /// [`Malformed::BadChecksum`].
    BadChecksum = "bad_checksum",
    /// The source or the destination must never be forwarded (RFC 1812 §5.3.7, RFC 4291 §2.5).
    Martian = "martian",
    /// No route leads back to its source, or none by the port of reception, if a router checks that (RFC 3704 §2).
    IpRpfilter = "ip_rpfilter",
    /// The TTL or hop limit was 1 or 0 (RFC 1812 §5.3.1, RFC 8200 §3).
    TtlExpired = "ttl_expired",
    /// No route covers the destination, or its route leads to a port that does not exist.
    NoRoute = "no_route",
    /// The packet is longer than the egress interface's MTU, and no router may fragment it.
    PktTooBig = "pkt_too_big",
    /// The egress port's transmit ring was full.
    TxFull = "tx_full",
    /// The egress port had nothing in flight and took nothing: its link is down, or it cannot send such frames.
    TxRefused = "tx_refused",
    /// The packet is longer than the egress port can send. It lies in more parts than the port's device takes for one
    /// packet, is longer than the MTU of its interface allows, or does not fit into the one frame to which a packet of
    /// several parts is copied.
    TxTooLong = "tx_too_long",
    /// The mode or a filter rule drops it.
    FilterDrop = "filter_drop",
    /// Its verdict was pass, and the local queue was full.
    LocalQueueFull = "local_queue_full",
    /// Its verdict was pass, and there is no local queue, or its reader is gone.
    NoLocalQueue = "no_local_queue",
    /// There was no memory for a packet's head, or for a copy of a packet that could not go on as it was.
    NoMem = "nomem",
    /// Its destination is the router itself. It is left to the kernel, whose own copy of it, if any, is not counted
    /// here.
    LocalAddress = "local_address",
    /// A `blackhole` route.
    Blackhole = "blackhole",
    /// An `unreachable` route.
    Unreachable = "unreachable",
    /// A `prohibit` route.
    Prohibited = "prohibited",
    /// The next hop did not answer the request for its MAC address.
    NeighFailed = "neigh_failed",
    /// The next hop's MAC address is not known, and too many frames wait for it, or no request can be made.
    NeighQueueFull = "neigh_queue_full",
    /// The packet is longer than the egress interface's MTU and may be fragmented (RFC 791 §2.3), but was not. Either
    /// there were no frames for the fragments, or there would be more than [`BATCH_MAX`](crate::limits::BATCH_MAX), or
    /// the MTU is not valid for IPv4, or the decision fragments nothing. No ICMP error is sent.
    FragFailed = "frag_failed",
    /// The work that its sender left to a card (checksum, segments) could not be done at its egress: it is invalid for
    /// the packet, or there were no frames for the segments.
    GsoSeg = "gso_seg",
    /// Its IPv4 options are malformed (RFC 791 §3.1).
    BadOptions = "bad_options",
    /// It requests a source route, which is not followed (RFC 7126 §4.3, §4.4).
    SourceRoute = "source_route",
    /// Its source is a link-local address, and its destination is not on that link (RFC 4291 §2.5.6).
    BeyondScope = "beyond_scope",
}

impl Reason {
    /// Maximum number of a decision's own reasons.
    pub const OWN_MAX: usize = 16;

    /// The reason whose counter has this number.
    #[inline]
    pub(super) fn at(index: usize) -> Reason {
        match Reason::ALL.get(index) {
            Some(reason) => *reason,
            None => Reason::Own((index - Reason::ALL.len()) as u8),
        }
    }
}

impl Reason {
    /// The name of its counter, for a decision with these names for its own reasons. Without a name there, it is `own_7`,
    /// say.
    pub(super) fn name_among(self, own: &'static [&'static str]) -> &'static str {
        match self {
            Reason::Own(n) => {
                let n = usize::from(n).min(Reason::OWN_MAX);
                own.iter().take(Reason::OWN_MAX).nth(n).copied().unwrap_or(UNNAMED[n])
            }
            _ => self.name(),
        }
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

/// The names of a decision's own reasons that have none in [`Decide::reasons`](super::Decide::reasons), by number, and of
/// all numbers that such a reason cannot have.
#[rustfmt::skip]
const UNNAMED: [&str; Reason::OWN_MAX + 1] = [
    "own_0", "own_1", "own_2", "own_3", "own_4", "own_5", "own_6", "own_7", "own_8", "own_9", "own_10", "own_11",
    "own_12", "own_13", "own_14", "own_15", "own_invalid",
];

/// Counts of dropped frames, by reason. One thread counts; any thread may read.
#[derive(Debug)]
pub struct Drops {
    counts: [Count; Reason::ALL.len() + Reason::OWN_MAX + 1],
    /// The names of the decision's own reasons.
    own: &'static [&'static str],
}

impl Default for Drops {
    fn default() -> Drops {
        Drops::with_own(&[])
    }
}

impl Drops {
    /// Makes counters at zero, with the names of a decision's own reasons.
    pub(super) fn with_own(own: &'static [&'static str]) -> Self {
        Drops { counts: std::array::from_fn(|_| Count::default()), own }
    }

    /// Counts `frames` dropped for one reason. Only the forwarding thread may call it (see [`Count::add`]).
    #[inline]
    pub(crate) fn add(&self, reason: Reason, frames: u64) {
        self.counts[reason.index()].add(frames);
    }

    /// Frames dropped for `reason` so far.
    pub fn get(&self, reason: Reason) -> u64 {
        self.counts[reason.index()].get()
    }

    /// Frames dropped so far, for any reason.
    pub fn total(&self) -> u64 {
        self.counts.iter().map(Count::get).sum()
    }

    /// Every reason with its count, including those at zero. Of a decision's own reasons, those that have a name or have
    /// been counted, so that the counts add up to [`total`](Self::total).
    pub fn iter(&self) -> impl Iterator<Item = (Reason, u64)> + '_ {
        let own = (0..=Reason::OWN_MAX).map(|n| Reason::Own(n as u8));
        let all = Reason::ALL.iter().copied().chain(own).map(|reason| (reason, self.get(reason)));
        let listed = Reason::ALL.len() + self.own.len().min(Reason::OWN_MAX);
        all.filter(move |(reason, frames)| reason.index() < listed || *frames > 0)
    }

    /// The name of a reason's counter, including the decision's own reasons. Such a reason without a name is called by its
    /// number, as in `own_7`, and `own_invalid` if it cannot have that number.
    pub fn name(&self, reason: Reason) -> &'static str {
        reason.name_among(self.own)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_reason_stands_at_its_index_under_its_own_name() {
        for (i, &reason) in Reason::ALL.iter().enumerate() {
            assert_eq!(reason.index(), i, "{reason:?}");
        }
        let names: BTreeSet<_> = Reason::ALL.iter().map(|reason| reason.name()).collect();
        assert_eq!(names.len(), Reason::ALL.len());
        assert!(
            names
                .iter()
                .all(|name| name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_'))
        );
    }

    #[test]
    fn codes_say_the_verdict_they_were_made_of_and_runs_keep_the_order() {
        let own = (0..Reason::OWN_MAX).map(|n| Reason::Own(n as u8));
        let drops = Reason::ALL.iter().copied().chain(own).map(Verdict::Drop);
        let others = [Verdict::Tx, Verdict::Pass, Verdict::Wait, Verdict::Fragment];
        let all = (0..=255).map(Verdict::Redirect).chain(drops).chain(others);
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
        let drops = Drops::default();
        drops.add(Reason::NoRoute, 1);
        drops.add(Reason::TxFull, 40);
        drops.add(Reason::TxFull, 1);
        let counted: Vec<_> = drops.iter().filter(|(_, frames)| *frames > 0).collect();
        assert_eq!(counted, [(Reason::NoRoute, 1), (Reason::TxFull, 41)]);
        assert_eq!(drops.total(), 42);
    }

    #[test]
    fn reasons_of_a_decisions_own_are_counted_under_their_names() {
        let drops = Drops::with_own(&["blocked", "limited"]);
        drops.add(Reason::Own(1), 3);
        let counted =
            drops.iter().filter(|(_, frames)| *frames > 0).map(|(reason, n)| (drops.name(reason), n));
        assert_eq!(counted.collect::<Vec<_>>(), [("limited", 3)]);
        assert_eq!((drops.name(Reason::Own(0)), drops.name(Reason::Own(9))), ("blocked", "own_9"));
        assert_eq!((drops.iter().count(), drops.total()), (Reason::ALL.len() + 2, 3));
    }

    /// Seen: frames dropped as `Own(16)` counted under the name of number 0, and those dropped as `Own(7)`, which had no
    /// name, were in the total and in no line.
    #[test]
    fn an_own_reason_without_a_name_or_with_too_high_a_number_has_a_line_of_its_own() {
        let drops = Drops::with_own(&["blocked"]);
        for (own, frames) in [(0, 1), (7, 2), (16, 4), (255, 8)] {
            drops.add(Reason::at(Reason::Own(own).index()), frames);
        }
        let lines = drops.iter().filter(|(_, frames)| *frames > 0).map(|(reason, n)| (drops.name(reason), n));
        assert_eq!(lines.collect::<Vec<_>>(), [("blocked", 1), ("own_7", 2), ("own_invalid", 12)]);
        assert_eq!((drops.total(), drops.get(Reason::Own(16))), (15, 12));
        assert_eq!(drops.name(Reason::Own(15)), UNNAMED[15]);
    }
}
