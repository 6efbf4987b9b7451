//! What was said, and what was not.

use super::message::Message;
use netmem::stats::{Count, Writer};

/// Why no error was sent about a packet that one could be sent about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
#[non_exhaustive]
pub enum Silence {
    /// The packet is an error itself, or a redirect (RFC 1812 §4.3.2.7, RFC 4443 §2.4 (e.1), (e.2)).
    AboutError,
    /// It is for a group (RFC 1812 §4.3.2.7, RFC 4443 §2.4 (e.3)).
    ToGroup,
    /// It is a fragment, and not the first (RFC 1812 §4.3.2.7).
    Fragment,
    /// Its source is not one other host (RFC 1812 §4.3.2.7, RFC 4443 §2.4 (e.6)).
    FromNobody,
    /// The routes that there are now do not lead to its source, so that an error would be dropped too.
    NoWayBack,
    /// The router has no address of that family.
    NoAddress,
    /// The frame has no room for the headers.
    NoRoom,
    /// The rate limit (RFC 1812 §4.3.2.8, RFC 4443 §2.4 (f)).
    Limited,
    /// The rate limit of its source, who was told as much as its share.
    LimitedSource,
}

impl Silence {
    /// All of them, in the order of their [`index`](Self::index).
    pub const ALL: [Silence; 9] = [
        Silence::AboutError,
        Silence::ToGroup,
        Silence::Fragment,
        Silence::FromNobody,
        Silence::NoWayBack,
        Silence::NoAddress,
        Silence::NoRoom,
        Silence::Limited,
        Silence::LimitedSource,
    ];

    /// The name of its counter.
    pub const fn name(self) -> &'static str {
        match self {
            Silence::AboutError => "about_error",
            Silence::ToGroup => "to_group",
            Silence::Fragment => "fragment",
            Silence::FromNobody => "from_nobody",
            Silence::NoWayBack => "no_way_back",
            Silence::NoAddress => "no_address",
            Silence::NoRoom => "no_room",
            Silence::Limited => "limited",
            Silence::LimitedSource => "limited_source",
        }
    }

    /// Its place in [`ALL`](Self::ALL).
    pub const fn index(self) -> usize {
        self as usize
    }
}

/// A worker's ICMP errors, counted by it and readable from any thread.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct IcmpCounters {
    sent: [Count; Message::ALL.len()],
    silent: [Count; Silence::ALL.len()],
}

impl IcmpCounters {
    /// Counts one error.
    pub(crate) fn sent(counters: &Writer<IcmpCounters>, message: Message) {
        counters.add(|counters| &counters.sent[message.index()], 1);
    }

    /// Counts one packet about which nothing is said.
    pub(crate) fn silent(counters: &Writer<IcmpCounters>, why: Silence) {
        counters.add(|counters| &counters.silent[why.index()], 1);
    }

    /// Errors made so far, all kinds together: frames that nobody received.
    pub fn originated(&self) -> u64 {
        self.sent.iter().map(Count::get).sum()
    }

    /// Errors made so far, by what they say.
    pub fn messages(&self) -> impl Iterator<Item = (Message, u64)> + '_ {
        Message::ALL.into_iter().map(|message| (message, self.sent[message.index()].get()))
    }

    /// Packets about which nothing was said, by why.
    pub fn silences(&self) -> impl Iterator<Item = (Silence, u64)> + '_ {
        Silence::ALL.into_iter().map(|why| (why, self.silent[why.index()].get()))
    }
}
