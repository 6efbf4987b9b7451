//! What is known of the kernel's routes, and what happened since the start.

use netmem_router::route::Rib;
use std::collections::BTreeMap;

/// What happened since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Events that were heard.
    pub events: u64,
    /// Messages that could not be read.
    pub unread: u64,
    /// Datagrams that did not come from the kernel: they were not read.
    pub forged: u64,
    /// How often the kernel had more to say than the socket could hold.
    pub overruns: u64,
    /// How often all was asked for, the first time too.
    pub resyncs: u64,
    /// How often IPv6 routes were removed during each try at reading them all, so that those known before were kept and all
    /// was asked for again.
    pub unsettled: u64,
    /// How often the kernel was asked for everything and did not answer.
    pub failures: u64,
    /// Neighbours behind the ports that the kernel forgot while they were known: each was asked for at once.
    pub forgotten: u64,
    /// Neighbours that the kernel was asked for.
    pub asked: u64,
}

/// What is known, for the follower and for who looks.
#[derive(Debug, Default)]
pub(crate) struct Known {
    pub(crate) rib: Rib,
    pub(crate) names: BTreeMap<u32, String>,
    pub(crate) counters: Counters,
}
