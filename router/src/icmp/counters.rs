//! Counters of ICMP errors that were sent, and of packets about which no error was sent.

use super::message::Message;
use netmem::stats::{Count, Writer};

/// The reason why no error is sent about a packet that was dropped for a reason that calls for one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
#[non_exhaustive]
pub enum Suppression {
    /// The packet is itself an ICMP error, or a redirect (RFC 1812 §4.3.2.7, RFC 4443 §2.4 (e.1), (e.2)).
    AboutError,
    /// The packet is for a multicast or broadcast address (RFC 1812 §4.3.2.7, RFC 4443 §2.4 (e.3)).
    ToMulticast,
    /// The packet is a fragment other than the first (RFC 1812 §4.3.2.7).
    Fragment,
    /// The packet's source address does not name one other host (RFC 1812 §4.3.2.7, RFC 4443 §2.4 (e.6)).
    SourceNotAHost,
    /// The current routes do not lead to the packet's source, so an error would be dropped too.
    NoRouteBack,
    /// The router has no address of the packet's family.
    NoAddress,
    /// The frame has no room for the headers of the error.
    NoRoom,
    /// The worker's rate limit is reached (RFC 1812 §4.3.2.8, RFC 4443 §2.4 (f)).
    Limited,
    /// The rate limit of the packet's source is reached: the source has been sent its share of errors.
    LimitedSource,
}

impl Suppression {
    /// All values, in the order of their [`index`](Self::index).
    pub const ALL: [Suppression; 9] = [
        Suppression::AboutError,
        Suppression::ToMulticast,
        Suppression::Fragment,
        Suppression::SourceNotAHost,
        Suppression::NoRouteBack,
        Suppression::NoAddress,
        Suppression::NoRoom,
        Suppression::Limited,
        Suppression::LimitedSource,
    ];

    /// Returns the name of the counter.
    pub const fn name(self) -> &'static str {
        match self {
            Suppression::AboutError => "about_error",
            Suppression::ToMulticast => "to_multicast",
            Suppression::Fragment => "fragment",
            Suppression::SourceNotAHost => "source_not_a_host",
            Suppression::NoRouteBack => "no_route_back",
            Suppression::NoAddress => "no_address",
            Suppression::NoRoom => "no_room",
            Suppression::Limited => "limited",
            Suppression::LimitedSource => "limited_source",
        }
    }

    /// Returns the position in [`ALL`](Self::ALL).
    pub const fn index(self) -> usize {
        self as usize
    }
}

/// A worker's counters of ICMP errors. The worker counts, and any thread may read.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct IcmpCounters {
    sent: [Count; Message::ALL.len()],
    suppressed: [Count; Suppression::ALL.len()],
}

impl IcmpCounters {
    /// Counts one error.
    pub(crate) fn count_sent(counters: &Writer<IcmpCounters>, message: Message) {
        counters.add(|counters| &counters.sent[message.index()], 1);
    }

    /// Counts one packet about which no error is sent.
    pub(crate) fn count_suppressed(counters: &Writer<IcmpCounters>, why: Suppression) {
        counters.add(|counters| &counters.suppressed[why.index()], 1);
    }

    /// Returns the number of errors made so far, all kinds together. These frames were not received from any port.
    pub fn originated(&self) -> u64 {
        self.sent.iter().map(Count::get).sum()
    }

    /// Returns the number of errors made so far, for each message.
    pub fn messages(&self) -> impl Iterator<Item = (Message, u64)> + '_ {
        Message::ALL.into_iter().map(|message| (message, self.sent[message.index()].get()))
    }

    /// Returns the number of packets about which no error was sent, for each reason.
    pub fn suppressed(&self) -> impl Iterator<Item = (Suppression, u64)> + '_ {
        Suppression::ALL.into_iter().map(|why| (why, self.suppressed[why.index()].get()))
    }
}
