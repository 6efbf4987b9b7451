//! The known state of the kernel's routes, and counters since the start.

use netmem_router::route::Rib;
use std::collections::BTreeMap;

/// Counters since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct FollowerStats {
    /// Events that were received.
    pub events: u64,
    /// Messages that could not be read.
    pub malformed: u64,
    /// Datagrams that did not come from the kernel. They were not read.
    pub forged: u64,
    /// Number of times that the kernel had more events than the socket could hold.
    pub overruns: u64,
    /// Number of times that the whole state was asked for, including the first.
    pub resyncs: u64,
    /// Number of times that routes were removed during every attempt to dump them all, so that the dump may lack others. The
    /// routes known before were kept then, and the whole state was asked for again.
    pub unsettled: u64,
    /// Number of times that the kernel was asked for the whole state and did not answer.
    pub failures: u64,
    /// Neighbours behind the ports that the kernel forgot while they were known. Each was asked for at once.
    pub forgotten: u64,
    /// Requests to the kernel for neighbours: those that frames wait for, that it forgot, and stale ones in use.
    pub neigh_requests: u64,
    /// Requests for neighbours that were not made: the process lacks CAP_NET_ADMIN, or its broker has ended. They are not
    /// in [`neigh_requests`](Self::neigh_requests).
    pub neigh_refused: u64,
    /// Number of times that a neighbour did not answer.
    pub failed_neighbours: u64,
    /// Requests for neighbours about which the kernel reported nothing for five seconds. By default it reports within three
    /// whether a neighbour answers. It reports nothing if its table of neighbours is full (`gc_thresh3`).
    pub unanswered: u64,
    /// Rules of the kernel that exist now and are not followed ([`Unsupported::Rule`](crate::Unsupported::Rule)), up to 1,024.
    pub unsupported_rules: u64,
}

/// The known state, shared by the follower and its readers.
#[derive(Debug, Default)]
pub(crate) struct FollowerState {
    pub(crate) rib: Rib,
    pub(crate) names: BTreeMap<u32, String>,
    pub(crate) counters: FollowerStats,
}
