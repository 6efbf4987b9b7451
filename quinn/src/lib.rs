//! This crate turns ports of [netmem] into sockets of [quinn].
//!
//! A [`PortSocket`] sends and receives the datagrams of one address and UDP port through a port, as an
//! [`AsyncUdpSocket`](quinn::AsyncUdpSocket). With an AF_XDP port that [takes](netmem::port::xdp::Take) only these
//! datagrams, the kernel keeps all other traffic of the interface.
//!
//! ```no_run
//! use netmem::port::xdp::{XdpConfig, XdpQueues};
//! use netmem::{DmaMap, Memory, MemoryConfig, Pool, PoolConfig, Umem};
//! use netmem_quinn::PortSocket;
//! use netmem_tokio::AsyncPort;
//! use quinn::{Endpoint, EndpointConfig, ServerConfig, TokioRuntime};
//! use std::sync::Arc;
//!
//! /// An endpoint that serves `192.0.2.1:443` by the interface `eth0`.
//! fn endpoint(config: ServerConfig) -> Result<Endpoint, Box<dyn std::error::Error>> {
//!     // All queues: a card spreads flows over them, and the kernel would refuse those of a queue that is left out.
//!     let queues = XdpQueues::all_of("eth0")?;
//!     // As many as the slots of each queue's two rings.
//!     let frames = 4096 * queues.len();
//!     let memory = Memory::new(&MemoryConfig { bytes: 2 * frames * 2048, ..MemoryConfig::default() })?;
//!     let mut worker = memory.worker()?;
//!     let pool_config = PoolConfig { frames, dma: DmaMap::Umem, ..PoolConfig::default() };
//!     let pool = Pool::new(&memory, &mut worker, &pool_config)?;
//!     let xdp_config = XdpConfig { take: Some("udp:443@192.0.2.1".parse()?), ..XdpConfig::default() };
//!     let port = XdpQueues::open(&Umem::new(&memory), &mut worker, &pool, "eth0", &queues, &xdp_config)?;
//!     let socket = PortSocket::new(AsyncPort::new(Box::new(port), worker, pool)?, "192.0.2.1:443".parse()?)?;
//!     let runtime = Arc::new(TokioRuntime);
//!     Ok(Endpoint::new_with_abstract_socket(EndpointConfig::default(), Some(config), Arc::new(socket), runtime)?)
//! }
//! ```
//!
//! This version is for quinn 0.11, from 0.11.12 on. A server ends by [`PortSocket::close`].
//!
//! # Copies
//! Received payloads are copied into quinn's own buffers ([`poll_recv`](quinn::AsyncUdpSocket::poll_recv) fills the
//! caller's). Sent data is copied from quinn's buffer into frames. That is one copy each way; a kernel socket makes the
//! same copy. AF_XDP in copy mode makes one more.
//!
//! # Next hops
//! Beside the kernel, no ARP answer comes to the port. So a datagram is sent to the station from which the
//! destination's last datagram came. A client gives [`PortSocket::set_next_hop`] a function that returns the next hop
//! of a server. The function's answer is used even if the server has sent something, so traffic moves to a new router
//! at once. A server needs no function, unless it has several routers or clients of the link that are quiet for long.
//!
//! # The size of datagrams
//! A datagram may be as long as [`Pool::room`](netmem::Pool::room) less the headers, 42 bytes with IPv4 and 62 with IPv6.
//! Longer ones are lost, and quinn's path MTU discovery learns the limit from that. Frames of 2,048 bytes suffice for
//! links of 1,500 bytes. For links of 9,000 bytes, use frames of 16,384
//! ([`PoolConfig::of_frames`](netmem::PoolConfig::of_frames)), and raise `MtuDiscoveryConfig::upper_bound`,
//! `EndpointConfig::max_udp_payload_size` and the MTU of the interface.
//!
//! # Features that quinn uses
//! - Segments: a transmission of up to [`SEGMENTS_MAX`] datagrams, or a quarter of the pool's frames if those are fewer,
//!   is cut into frames here, and sent by one call. Datagrams of one sender that arrive together are received as one
//!   buffer of several.
//! - ECN: in both directions.
//! - A datagram is never fragmented, so quinn discovers the path MTU.

mod receive;
mod socket;
mod state;
mod transmit;

pub use socket::{PortSocket, SocketError};
pub use state::{SEGMENTS_MAX, SocketStats};
