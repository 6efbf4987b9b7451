//! Routes: from a destination to the next hop.
//!
//! ```text
//!   routes, neighbours, links ─► Rib ─► changes ─► FibControl ─► Fib ─► FibReader ─► Table::lookup
//!       (any number, COLD)     decides which route holds     two copies      each worker, HOT
//! ```
//! The [`Rib`] holds what there is to know and says what of it counts; the [`Fib`] holds only what a worker looks up. A
//! change goes into the copy that nobody reads, then the copies change places ([`FibControl::apply`]): a reader never
//! waits, and neither does who writes.

mod fib;
mod flow_hash;
mod hop;
mod line;
mod own;
mod rib;
mod sources;
mod table;
#[cfg(test)]
mod tests;
mod text;

pub use fib::{Fib, FibControl, FibReader, fib};
pub use hop::{Hop, Neighbour, NextHop, Path};
pub(crate) use own::own_address;
pub use own::{OwnAddress, OwnAddressError};
pub use rib::{Link, Origin, Rib, RibRoute, Target, Via};
pub use sources::OwnSources;
pub use table::{Change, HopId, Table};
pub use text::{Route, RouteError};
