//! Routes: from a destination to the next hop.
//!
//! ```text
//!   routes, neighbours, links ─► Rib ─► changes ─► FibControl ─► Fib ─► FibReader ─► Table::lookup
//!       (any number, COLD)     decides which route holds     two copies      each worker, HOT
//! ```
//! The [`Rib`] holds all known routes and selects the best. The [`Fib`] holds only what a worker looks up. A change
//! goes into the copy that no worker reads, then the copies are swapped ([`FibControl::apply`]). Neither a reader
//! nor the writer ever waits.

mod fib;
mod flow_hash;
mod hop;
mod line;
mod own;
mod rib;
mod source;
mod sources;
mod table;
#[cfg(test)]
mod tests;
mod text;

pub use fib::{Fib, FibControl, FibReader, fib};
pub use hop::{FibEntry, Hop, Neighbour, Path};
pub use own::{OwnAddress, OwnAddressError};
pub use rib::{Origin, Resolution, Rib, RibRoute, Target, Via};
pub use source::SourceHint;
pub(crate) use source::own_address;
pub use sources::OwnSources;
pub use table::{Change, HopId, Table};
pub use text::{Route, RouteError};
