//! Follows the kernel's routes, neighbours, links and addresses over rtnetlink.
//!
//! ```text
//!   kernel ─► socket ─► translate ─► Follower ─► Rib ─► FibControl      workers read
//!      ▲  all there is, then events       │
//!      └───────── asked for neighbours ◄──┴── Wanted                   frames wait there
//! ```
//! A [`Follower`] belongs to one control thread. Workers only see tables that change. Events are sometimes not
//! enough to know the kernel's state: some were lost, or a link went and the kernel does not report the removal of
//! its routes. Then the whole state is asked for again, and what differs is changed.

mod addresses;
mod attached;
mod change;
mod distinguisher;
mod follower;
mod headers;
mod heard;
mod ipv6_routes;
mod known;
mod left_out;
mod listing;
mod neighbours;
mod resync;
mod socket;
#[cfg(test)]
mod tests;
mod translate;

pub use addresses::Standing;
pub use attached::Attached;
pub use follower::{FollowError, Follower, Given, Setup};
pub use known::Counters;
pub use left_out::LeftOut;
pub use listing::{Listing, NeighbourLine, RouteLine};
pub use socket::neighbour_requests;
pub use translate::{Event, RouteChange, Signal, State, events};
