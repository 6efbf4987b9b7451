//! This crate turns ports of [netmem] into devices of [smoltcp].
//!
//! A [`PortDevice`] combines a port, the worker for its calls, and the pool whose frames it receives into, as a
//! [`phy::Device`](smoltcp::phy::Device). Frames are lent in both directions: smoltcp reads a packet in the frame that
//! the device wrote, and writes one into the frame that the device sends. (smoltcp itself copies between packets and
//! the buffers of its sockets.)
//!
//! This version is for smoltcp 0.14, of which it enables TCP sockets, Ethernet, IP and answers to ping. A program that needs
//! other sockets enables smoltcp's features `socket-udp` or `socket-icmp` itself. So does a program whose TCP sockets need
//! congestion control (`socket-tcp-cubic` or `socket-tcp-reno`; smoltcp has none without them), or must keep
//! more than 4 pieces of data that came out of order (`assembler-max-segment-count-32`).
//!
//! There are two ways to be on a link:
//!
//! | | smoltcp | the kernel |
//! |---|---|---|
//! | [`PortDevice::station`] | has MAC and IP addresses of its own; answers ARP and ping | has its own addresses; a packet socket or TAP shows it the rest |
//! | [`PortDevice::beside_kernel`] | has the kernel's IP address; the port [takes](netmem::port::xdp::Take) its TCP or UDP ports | answers ARP, ping, and all other ports |
//!
//! Beside the kernel, no ARP answer comes to the port. So a packet is sent to the next hop that the function of
//! [`PortDevice::set_next_hop`] returns. If it returns none, the packet is sent to the station from which the
//! destination's last packet came.
//!
//! # A round
//! A port of one queue gets only the flows of that queue: on a card with several, open all of them
//! ([`XdpQueues`](netmem::port::xdp::XdpQueues)). Sleep by [`PortDevice::wait`], which also returns if a poll left packets.
//!
//! ```
//! use netmem::port::mem::{MemConfig, MemPort};
//! use netmem::{Memory, MemoryConfig, Pool, PoolConfig};
//! use netmem_smoltcp::PortDevice;
//! use smoltcp::iface::{Config, Interface, SocketSet};
//! use smoltcp::time::Instant;
//! use smoltcp::wire::{EthernetAddress, IpCidr, Ipv4Address};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let memory = Memory::new(&MemoryConfig { bytes: 4 << 20, ..Default::default() })?;
//! let mut worker = memory.worker()?;
//! let pool = Pool::new(&memory, &mut worker, &PoolConfig { frames: 256, ..Default::default() })?;
//! let (port, _network) = MemPort::pair("0", &MemConfig { ring: 64, ..Default::default() })?; // or XdpQueues
//! let mut device = PortDevice::station(Box::new(port), worker, &pool, 1500)?;
//!
//! let mac = EthernetAddress([2, 0, 0, 0, 0, 1]);
//! let mut interface = Interface::new(Config::new(mac.into()), &mut device, Instant::now());
//! interface.update_ip_addrs(|all| all.push(IpCidr::new(Ipv4Address::new(10, 0, 0, 2).into(), 24)).expect("room for one"));
//! let mut sockets = SocketSet::new(vec![]);
//! # let mut rounds = 0;
//! loop {
//!     interface.poll(Instant::now(), &mut device, &mut sockets);
//!     device.flush(); // what smoltcp wrote leaves in bursts
//!     // … sockets …
//!     # rounds += 1;
//!     # if rounds == 3 { break }
//!     device.wait(interface.poll_delay(Instant::now(), &sockets).map(Into::into));
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # Properties that smoltcp sees
//! - The MTU is the given one, and fits into a frame.
//! - One poll has at most 256 packets, also under a flood, so that its sockets send too. The rest waits for the next poll.
//! - Bursts are as long as the port's receive ring, or as the frames that may be posted.
//! - smoltcp verifies and computes checksums. Ports verify none. If a sender left a checksum to its card, the port
//!   completes it before.

mod device;
mod link;
mod tokens;

pub use device::{DeviceError, PortDevice};
pub use tokens::{RxFrame, TxFrame};
