#![doc = include_str!("../README.md")]
//!
//! # Modules
//! [`ip`] decides about a frame; [`route`] finds the next hop; [`icmp`] tells the sender of a dropped packet; frames [wait](Waiting)
//! while their next hop's MAC address is asked for. What a router owes by its RFCs, and what of it is done, is listed in
//! `docs/router.md` of the repository.

#![forbid(unsafe_code)]

pub mod icmp;
mod interface;
pub mod ip;
mod output;
mod reverse_path;
pub mod route;
mod router;
mod waiting;

pub use interface::{Allow, Interface, ReversePath, ReversePathError};
pub use output::{Output, OutputError, OutputRoute, output};
pub use route::{Fib, FibControl, FibReader, Rib, Route, fib};
pub use router::{MissingInterfaces, Router};
pub use waiting::{Waiting, Wanted, waiting};
