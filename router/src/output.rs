//! Packets that begin on this host: their egress port, next hop and source address. A look-up; COLD if a neighbour
//! is not known.
//!
//! ```text
//!   Output::address ─► Fib ─► headers before the payload, and the egress port
//!        └─ a neighbour that is not known ─► UnresolvedNeighbours ─► the follower asks the kernel, and the table changes
//! ```
//! No packet waits here. If the neighbour of a datagram is not known, the caller sends the datagram again, as if it
//! had been lost.

use crate::neighbour_queues::{REQUEST_INTERVAL, REQUEST_SLOTS, UnresolvedNeighbours};
use crate::route::{Fib, FibReader, Hop, Neighbour};
use netmem::pool::{Frame, NoRoom};
use netmem::ring::{Sender, ring};
use netmem::wire::datagram::{HOP_LIMIT, WriteError};
use netmem::wire::{Datagram, MacAddr, ipv4, ipv6, udp};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Instant;

/// Finds the path of packets that begin on this host, in a table that may change. Belongs to one worker.
#[derive(Debug)]
pub struct Output {
    fib: FibReader,
    requests: Sender<Neighbour>,
    /// Neighbours that were requested less than [`REQUEST_INTERVAL`] ago; at most [`REQUEST_SLOTS`].
    asked: Vec<(Neighbour, Instant)>,
}

/// The path of a packet: its egress port, next hop and source address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutputRoute {
    /// The number of the egress port.
    pub port: u8,
    /// The MAC address of this host on the port's link.
    pub src_mac: MacAddr,
    /// The next hop's MAC address.
    pub dst_mac: MacAddr,
    /// The source address: the route's preferred source, otherwise the address of this host on the link whose network
    /// contains the next hop, otherwise the one that RFC 6724 prefers (IPv6), or the first. None if there is none of the
    /// destination's family.
    pub source: Option<IpAddr>,
    /// Maximum bytes of an IP packet on this path: the link's MTU, or the route's if that is less.
    pub mtu: u16,
}

/// The reason why a packet of this host cannot be sent. The frame is unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OutputError {
    /// There is no route, or the route leads to an interface that is not a port.
    #[error("no route to {0} by a port")]
    NoRoute(IpAddr),
    /// The route is `blackhole`, `unreachable` or `prohibit`.
    #[error("the route to {0} leads nowhere")]
    Refused(IpAddr),
    /// The destination is this host's own address, or a broadcast address of a link.
    #[error("{0} is this host's own, or everybody's on a link")]
    Local(IpAddr),
    /// The destination is a link-local IPv6 address, and it is not said on which link.
    #[error("{0} is on every link: name the interface (the scope id of the address)")]
    Unscoped(IpAddr),
    /// The destination is a multicast address.
    #[error("{0} is the address of a group")]
    Group(IpAddr),
    /// The next hop's MAC address is not known, and the kernel is asked for it. Send the packet again later.
    #[error("the MAC address of {0} is asked for")]
    Unresolved(IpAddr),
    /// The next hop was asked for its MAC address and does not answer.
    #[error("{0} does not answer")]
    NeighbourFailed(IpAddr),
    /// The link has no address to send from.
    #[error("the interface towards {0} has no address to send from")]
    NoSource(IpAddr),
    /// The packet is longer than the path's MTU.
    #[error("a packet of {len} bytes is longer than the {mtu} that may go this way")]
    TooLong {
        /// Bytes of the IP packet.
        len: usize,
        /// The path's MTU.
        mtu: u16,
    },
    /// The frame has no room for the headers before the payload.
    #[error("no room for headers: {0}")]
    NoRoom(#[from] NoRoom),
    /// The headers cannot be written.
    #[error(transparent)]
    Headers(#[from] WriteError),
}

/// Returns an [`Output`] over a table, and the receiver of the neighbours that it needs. `Follower::add_unresolved` of the
/// crate netmem-rtnetlink takes these neighbours and has the kernel resolve their MAC addresses.
#[cold]
pub fn output(fib: FibReader) -> (Output, UnresolvedNeighbours) {
    let (requests, receiver) = ring(REQUEST_SLOTS);
    (Output { fib, requests, asked: Vec::new() }, UnresolvedNeighbours(receiver))
}

impl Output {
    /// Takes the newest table. Call this once a round. Returns true if the table has changed.
    pub fn refresh(&mut self) -> bool {
        self.fib.refresh()
    }

    /// Returns the path to a destination. If there are several, all packets to one destination take the same one. A link-local
    /// IPv6 address needs [`route_on`](Self::route_on).
    ///
    /// # Errors
    /// [`OutputError`]. A neighbour that is not known is asked for.
    ///
    /// # Cost
    /// One look-up. Memory is allocated only if a neighbour is asked for.
    pub fn route(&mut self, to: IpAddr) -> Result<OutputRoute, OutputError> {
        self.route_on(0, to)
    }

    /// As [`route`](Self::route), and if the destination is a link-local IPv6 address, it is on this link. `scope` is the kernel's
    /// interface index of the link, as in the scope id of a [`SocketAddrV6`](std::net::SocketAddrV6). It is ignored for
    /// other addresses.
    ///
    /// # Errors
    /// As [`route`](Self::route). [`OutputError::Unscoped`] for a link-local IPv6 address if `scope` is 0, and
    /// [`OutputError::NoRoute`] if no port is on the link.
    ///
    /// # Cost
    /// That of [`route`](Self::route).
    pub fn route_on(&mut self, scope: u32, to: IpAddr) -> Result<OutputRoute, OutputError> {
        if to.is_multicast() || to == IpAddr::from(Ipv4Addr::BROADCAST) {
            return Err(OutputError::Group(to));
        }
        let fib = self.fib.fib();
        let hash = || fib.table.flows.between(to, to);
        let on_link = match to {
            IpAddr::V6(address) if address.is_unicast_link_local() => Some(port_of(fib, scope, to)?),
            _ => None,
        };
        let (hop, own_mtu) = match on_link {
            Some(port) if fib.addresses_of(port).iter().any(|net| net.addr() == to) => (Hop::Local, None),
            Some(port) => (fib.table.neighbour(Neighbour { port, address: to }), None),
            None => fib.table.next_hop_and_mtu(to, hash).ok_or(OutputError::NoRoute(to))?,
        };
        let (port, dst_mac) = match hop {
            Hop::Station { port, mac } => (port, mac),
            Hop::Unresolved(neighbour) => {
                self.ask(neighbour);
                return Err(OutputError::Unresolved(neighbour.address));
            }
            Hop::Failed(neighbour) => return Err(OutputError::NeighbourFailed(neighbour.address)),
            Hop::Local => return Err(OutputError::Local(to)),
            Hop::Blackhole | Hop::Unreachable | Hop::Prohibit => return Err(OutputError::Refused(to)),
            Hop::Elsewhere => return Err(OutputError::NoRoute(to)),
        };
        let interface = fib.interfaces.get(usize::from(port)).ok_or(OutputError::NoRoute(to))?;
        let (src_mac, mtu) = (interface.mac, interface.mtu_to(to, own_mtu));
        let source = match on_link {
            Some(port) => fib.source_on_link(port, to),
            None => fib.source_on(port, to, hash()),
        };
        Ok(OutputRoute { port, src_mac, dst_mac, source, mtu })
    }

    /// Turns a payload into a datagram that is ready to be sent. All headers are written before the data of
    /// `frame`, with checksums. Returns the number of the egress port. The scope id of a link-local destination names its link, as
    /// in [`route_on`](Self::route_on). If `from` has no address (`0.0.0.0:7`,
    /// `[::]:7`), the source is [`OutputRoute::source`].
    ///
    /// # Errors
    /// [`OutputError`]. The frame is unchanged.
    ///
    /// # Cost
    /// That of [`Output::route`]. Every byte of the payload is also read for the checksum.
    pub fn address(
        &mut self,
        frame: &mut Frame,
        from: SocketAddr,
        to: SocketAddr,
    ) -> Result<u8, OutputError> {
        let scope = if let SocketAddr::V6(to) = to { to.scope_id() } else { 0 };
        let route = self.route_on(scope, to.ip())?;
        let source = match from.ip() {
            any if any.is_unspecified() => route.source.ok_or(OutputError::NoSource(to.ip()))?,
            given => given,
        };
        let ip = if to.is_ipv4() { ipv4::HEADER_LEN } else { ipv6::HEADER_LEN };
        let len = ip + udp::HEADER_LEN + frame.len();
        if len > usize::from(route.mtu) {
            return Err(OutputError::TooLong { len, mtu: route.mtu });
        }
        let OutputRoute { src_mac, dst_mac, .. } = route;
        let src = SocketAddr::new(source, from.port());
        let datagram = Datagram { src_mac, dst_mac, src, dst: to, hop_limit: HOP_LIMIT, tos: 0 };
        let headers = datagram.headers_len();
        frame.push(headers)?;
        if let Err(error) = datagram.write(frame.data_mut()) {
            frame.pull(headers)?;
            return Err(error.into());
        }
        Ok(route.port)
    }

    /// Asks for a neighbour's MAC address, unless it was asked for shortly before.
    #[cold]
    fn ask(&mut self, neighbour: Neighbour) {
        let now = Instant::now();
        self.asked.retain(|(_, then)| now.duration_since(*then) < REQUEST_INTERVAL);
        let is_asked =
            self.asked.len() >= REQUEST_SLOTS as usize || self.asked.iter().any(|(its, _)| *its == neighbour);
        if !is_asked && self.requests.send(neighbour).is_ok() {
            self.asked.push((neighbour, now));
        }
    }
}

/// Returns the port on the link of a link-local destination.
fn port_of(fib: &Fib, scope: u32, to: IpAddr) -> Result<u8, OutputError> {
    match scope {
        0 => Err(OutputError::Unscoped(to)),
        link => fib.links.get(&link).copied().ok_or(OutputError::NoRoute(to)),
    }
}

#[cfg(test)]
mod tests;
