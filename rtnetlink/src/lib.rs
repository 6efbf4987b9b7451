//! Follows the kernel's routes, neighbours, links and addresses over rtnetlink.
//!
//! ```text
//!   kernel ─► socket ─► translate ─► Follower ─► Rib ─► FibControl      workers read
//!      ▲  all there is, then events       │
//!      └───────── asked for neighbours ◄──┴── UnresolvedNeighbours     frames wait there
//! ```
//! A [`Follower`] belongs to one control thread. Workers see only the tables that it keeps up to date. Events are
//! sometimes not enough to know the kernel's state: some were lost, or a link went down and the kernel does not report
//! the removal of its routes. Then the follower requests the whole state again, and changes what differs. A follower
//! has at most 255 ports.
//!
//! # A router in a program of your own
//! One worker between two interfaces. ARP, neighbour discovery and packets to the host stay with the kernel:
//! ```no_run
//! use netmem::port::xdp::{Punt, Umem, XdpConfig, XdpPort};
//! use netmem::wire::MacAddr;
//! use netmem::{DmaMap, Forwarder, Memory, MemoryConfig, Pool, PoolConfig, Port};
//! use netmem_router::{Interface, Router, neighbour_queues};
//! use netmem_rtnetlink::{PortInterface, FollowError, Follower, FollowerConfig};
//! use std::sync::atomic::AtomicBool;
//! use std::thread;
//! use std::time::Duration;
//!
//! let memory = Memory::new(&MemoryConfig::default())?;
//! let mut w = memory.worker()?;
//! let config = PoolConfig { frames: 16384, dma: DmaMap::Umem, ..PoolConfig::default() };
//! let pool = Pool::new(&memory, &mut w, &config)?;
//! let umem = Umem::new(&memory);
//! let config = XdpConfig { punt: Punt::Control, ..XdpConfig::default() };
//! let mut ports: Vec<Box<dyn Port>> = Vec::new();
//! let mut ends = Vec::new();
//! for name in ["eth0", "eth1"] {
//!     ports.push(Box::new(XdpPort::open(&umem, &mut w, &pool, name, 0, &config)?));
//!     // The kernel's MAC address and MTU replace these.
//!     ends.push((Interface { mac: MacAddr::default(), mtu: 1500 }, PortInterface::RouterEnd(name.to_owned())));
//! }
//!
//! let (mut follower, fib) = Follower::start(FollowerConfig { ports: ends, ..FollowerConfig::default() })?;
//! let (queues, unresolved) = neighbour_queues(pool.frames() / 8);
//! follower.add_unresolved(unresolved);
//! let own = umem.own_addresses();
//! thread::spawn(move || {
//!     loop {
//!         match follower.poll(Duration::from_millis(10)) {
//!             Ok(()) | Err(FollowError::Request { .. }) => {} // the kernel is asked again a second later
//!             Err(error) => return eprintln!("routes are no longer updated: {error}"),
//!         }
//!         if let (Some(own), Some(prefixes)) = (&own, follower.take_own_addresses()) {
//!             own.set(&prefixes).unwrap_or_else(|error| eprintln!("own addresses are not updated: {error}"));
//!         }
//!     }
//! });
//!
//! let router = Router::new(fib).with_neighbour_queues(queues); // with several workers: a clone of `fib` for each
//! let mut forwarder = Forwarder::new(ports, pool, Box::new(router))?;
//! forwarder.run(&mut w, &AtomicBool::new(false));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # The next hop of a client
//! A QUIC or TCP client of `netmem-quinn` or `netmem-smoltcp` gives this function to its `set_next_hop`:
//! ```
//! use netmem::port::NextHop;
//! use netmem::wire::MacAddr;
//! use netmem_router::{Interface, output};
//! use netmem_rtnetlink::{FollowError, Follower, FollowerConfig, PortInterface};
//! use std::net::IpAddr;
//! use std::thread;
//! use std::time::Duration;
//!
//! /// Returns a function that finds next hops by an interface in the kernel's tables. A thread follows the tables.
//! fn next_hops(
//!     interface: &str,
//! ) -> Result<impl FnMut(IpAddr) -> Option<NextHop> + Send + 'static, FollowError> {
//!     // The kernel's MAC address and MTU replace these.
//!     let own = Interface { mac: MacAddr::default(), mtu: 1500 };
//!     let ports = vec![(own, PortInterface::RouterEnd(interface.to_owned()))];
//!     let (mut follower, fib) = Follower::start(FollowerConfig { ports, ..FollowerConfig::default() })?;
//!     let (mut output, unresolved) = output(fib);
//!     follower.add_unresolved(unresolved);
//!     thread::spawn(move || {
//!         loop {
//!             match follower.poll(Duration::from_millis(10)) {
//!                 Ok(()) | Err(FollowError::Request { .. }) => {} // the kernel is asked again a second later
//!                 Err(error) => return eprintln!("routes are no longer updated: {error}"),
//!             }
//!         }
//!     });
//!     Ok(move |to| {
//!         output.refresh();
//!         // No route yet, or a neighbour that the kernel is asked for: the client sends again later. For peers at
//!         // link-local IPv6 addresses, call `route_on` with the index of the interface.
//!         output.route(to).ok().map(|route| NextHop { src_mac: route.src_mac, dst_mac: route.dst_mac })
//!     })
//! }
//!
//! let mut next_hop = next_hops("lo")?;
//! assert_eq!(next_hop("127.0.0.1".parse()?), None, "an address of this host");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod addresses;
mod change;
mod distinguisher;
mod edges;
mod follower;
mod headers;
mod ipv4_routes;
mod ipv6_routes;
mod neighbours;
mod pending;
mod port_interface;
mod resync;
mod socket;
mod state;
mod tables;
#[cfg(test)]
mod tests;
mod translate;
mod unread;
mod unsupported;

pub use follower::{FollowError, Follower, FollowerConfig, StaticRoutes};
pub use port_interface::PortInterface;
pub use socket::neighbour_requests;
pub use state::FollowerStats;
pub use tables::{FollowerTables, NeighbourLine, RouteLine};
pub use unsupported::Unsupported;

/// What messages of the kernel mean. Only for the operation sequences of this repository, which a fuzzer runs too.
#[doc(hidden)]
pub use {
    addresses::AddressState,
    translate::{Event, LinkState, NeighbourState, RouteChange, events},
};
