#![doc = include_str!("../README.md")]
//!
//! # Modules
//! [`ip`] decides about a frame, and [`route`] finds the next hop. [`icmp`] informs the sender of a dropped packet.
//! Frames [wait](NeighbourQueues) until their next hop's MAC address is known. `docs/router.md` in the repository lists
//! what the RFCs require of a router, and what of it is implemented.

#![forbid(unsafe_code)]

pub mod icmp;
mod interface;
pub mod ip;
mod martians;
mod output;
mod reverse_path;
pub mod route;
mod router;
mod neighbour_queues;

pub use interface::{Allow, Interface, ReversePath, ReversePathError};
pub use martians::Unforwarded;
pub use neighbour_queues::{NeighbourQueues, UnresolvedNeighbours, neighbour_queues};
pub use output::{Output, OutputError, OutputRoute, output};
pub use route::{Fib, FibControl, FibReader, Rib, Route, fib};
pub use router::{MissingInterfaces, Router};
