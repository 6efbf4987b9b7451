//! An IP router as a decision of netmem's forwarder.
//!
//! A [`Router`] is given to a [`Forwarder`](netmem::forward::Forwarder), which asks it about each burst:
//! ```
//! use netmem::forward::Forwarder;
//! use netmem::page::{Memory, MemoryConfig};
//! use netmem::pool::{Pool, PoolConfig};
//! use netmem::port::mem::{MemConfig, wire};
//! use netmem::wire::MacAddr;
//! use netmem_router::{Fib, Interface, Route, Router};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let memory = Memory::new(&MemoryConfig { bytes: 8 << 20, ..Default::default() })?;
//! let mut w = memory.worker()?;
//! let pool = Pool::new(&memory, &mut w, &PoolConfig { frames: 256, ..Default::default() })?;
//! let ((a, _a), (b, _b)) = (wire("a", &MemConfig::default())?, wire("b", &MemConfig::default())?);
//!
//! let route: Route = "10.1.0.0/16,1,02:00:00:00:01:01".parse()?;
//! let end = |last| Interface { mac: MacAddr::new([2, 0, 0, 0, 0, last]), mtu: 1500 };
//! let fib = Fib { table: [route].into_iter().collect(), interfaces: vec![end(0), end(1)], ..Fib::default() };
//! let mut forwarder = Forwarder::new(vec![Box::new(a), Box::new(b)], pool, Box::new(Router::new(fib.into())))?;
//! assert_eq!(forwarder.poll(&mut w), 0);
//! # Ok(())
//! # }
//! ```
//!
//! [`ip`] decides about a frame; [`route`] finds the next hop; [`icmp`] tells the sender of a dropped packet; frames [wait](Waiting)
//! while their next hop's MAC address is asked for. What a router owes by its RFCs, and what of it is done, is listed in
//! `docs/router.md`. This crate uses netmem's public interface only.

#![forbid(unsafe_code)]

pub mod icmp;
mod interface;
pub mod ip;
pub mod route;
mod router;
mod waiting;

pub use interface::{Allow, Interface};
pub use route::{Fib, FibControl, FibReader, Rib, Route, fib};
pub use router::{MissingInterfaces, Router};
pub use waiting::{Waiting, Wanted, waiting};
