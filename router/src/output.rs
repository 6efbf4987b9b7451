//! Packets of one's own: by which port, to which station, from which address. COLD where a neighbour is not known, else a look-up.
//!
//! ```text
//!   Output::address ─► Fib ─► headers before the payload, and the egress port
//!        └─ a neighbour that is not known ─► Wanted ─► who follows the kernel asks it, and the table changes
//! ```
//! Nothing waits here: a datagram whose neighbour is not known is the caller's to send again, as it would be if it had been lost.

use crate::route::{FibReader, Hop, Neighbour, own_address};
use crate::waiting::{AGAIN, ASKED, Wanted};
use netmem::pool::{Frame, NoRoom};
use netmem::ring::{Sender, ring};
use netmem::wire::datagram::{HOP_LIMIT, WriteError};
use netmem::wire::{Datagram, MacAddr, ipv4, ipv6, udp};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Instant;

/// Finds the way of packets that begin here, in a table that is followed. Belongs to one worker.
#[derive(Debug)]
pub struct Output {
    fib: FibReader,
    wanted: Sender<Neighbour>,
    /// Neighbours whose names were sent less than [`AGAIN`] ago; at most [`ASKED`].
    asked: Vec<(Neighbour, Instant)>,
}

/// By which port, to which station and from which address a packet goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutputRoute {
    /// The number of the egress port.
    pub port: u8,
    /// The MAC address of this end of its link.
    pub src_mac: MacAddr,
    /// The next hop's MAC address.
    pub dst_mac: MacAddr,
    /// An address of this host's on the link, to send from: the one whose network has the destination, else the first. None where the link has
    /// none of the destination's family.
    pub source: Option<IpAddr>,
    /// Bytes of IP packet that may go this way: what the link carries, or less where the route says so.
    pub mtu: u16,
}

/// Why a packet of one's own has no way. The frame is as it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OutputError {
    /// No route, or one that leads to an interface that is not a port.
    #[error("no route to {0} by a port")]
    NoRoute(IpAddr),
    /// The route says that there is no way: `blackhole`, `unreachable`, `prohibit`.
    #[error("the route to {0} leads nowhere")]
    Refused(IpAddr),
    /// It is this host's own address, or that of everybody on a link.
    #[error("{0} is this host's own, or everybody's on a link")]
    Local(IpAddr),
    /// It is the address of a group.
    #[error("{0} is the address of a group")]
    Group(IpAddr),
    /// The next hop's MAC address is not known; the kernel is asked. To be sent again.
    #[error("the MAC address of {0} is asked for")]
    Unresolved(IpAddr),
    /// The next hop was asked for, and does not answer.
    #[error("{0} does not answer")]
    Silent(IpAddr),
    /// The link has no address to send from.
    #[error("the interface towards {0} has no address to send from")]
    NoSource(IpAddr),
    /// The packet is longer than may go this way.
    #[error("a packet of {len} bytes is longer than the {mtu} that may go this way")]
    TooLong {
        /// Bytes of IP packet.
        len: usize,
        /// Bytes that may go.
        mtu: u16,
    },
    /// There is no room for the headers before the payload.
    #[error("no room for headers: {0}")]
    NoRoom(#[from] NoRoom),
    /// The headers cannot be written.
    #[error(transparent)]
    Headers(#[from] WriteError),
}

/// What finds the way of packets that begin here, and the names of neighbours that it needs, for whoever can ask for their MAC
/// addresses (`Follower::add_wanted` of the crate netmem-rtnetlink).
#[cold]
pub fn output(fib: FibReader) -> (Output, Wanted) {
    let (wanted, names) = ring(ASKED);
    (Output { fib, wanted, asked: Vec::new() }, Wanted(names))
}

impl Output {
    /// Takes the newest table; to be called once a round. True if it is another one than before.
    pub fn refresh(&mut self) -> bool {
        self.fib.refresh()
    }

    /// The way to a destination. Where there are several, all packets to one destination go by one.
    ///
    /// # Errors
    /// [`OutputError`]; a neighbour that is not known is asked for.
    ///
    /// # Cost
    /// A look-up; nothing is allocated but where a neighbour is asked for.
    pub fn route(&mut self, to: IpAddr) -> Result<OutputRoute, OutputError> {
        if to.is_multicast() || to == IpAddr::from(Ipv4Addr::BROADCAST) {
            return Err(OutputError::Group(to));
        }
        let fib = self.fib.fib();
        let hash = || fib.table.flows.between(to, to);
        let (hop, own_mtu) = fib.table.next_hop_and_mtu(to, hash).ok_or(OutputError::NoRoute(to))?;
        let (port, dst_mac) = match hop {
            Hop::Station { port, mac } => (port, mac),
            Hop::Unresolved(neighbour) => {
                self.ask(neighbour);
                return Err(OutputError::Unresolved(neighbour.address));
            }
            Hop::Silent(neighbour) => return Err(OutputError::Silent(neighbour.address)),
            Hop::Local => return Err(OutputError::Local(to)),
            Hop::Blackhole | Hop::Unreachable | Hop::Prohibit => return Err(OutputError::Refused(to)),
            Hop::Elsewhere => return Err(OutputError::NoRoute(to)),
        };
        let interface = fib.interfaces.get(usize::from(port)).ok_or(OutputError::NoRoute(to))?;
        let (src_mac, mtu) = (interface.mac, interface.mtu_to(to, own_mtu));
        Ok(OutputRoute { port, src_mac, dst_mac, source: own_address(fib.addresses_of(port), to), mtu })
    }

    /// Makes of a payload a datagram that is ready to be sent: all headers are written before the data of `frame`, with checksums.
    /// Returns the number of its egress port. Where `from` has no address (`0.0.0.0:7`, `[::]:7`), it is one of the link's.
    ///
    /// # Errors
    /// [`OutputError`]; the frame is as it was.
    ///
    /// # Cost
    /// As [`Output::route`], and every byte of the payload is read for the checksum.
    pub fn address(
        &mut self,
        frame: &mut Frame,
        from: SocketAddr,
        to: SocketAddr,
    ) -> Result<u8, OutputError> {
        let route = self.route(to.ip())?;
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

    /// Has a neighbour asked for, unless that was not long ago.
    #[cold]
    fn ask(&mut self, neighbour: Neighbour) {
        let now = Instant::now();
        self.asked.retain(|(_, then)| now.duration_since(*then) < AGAIN);
        let is_asked =
            self.asked.len() >= ASKED as usize || self.asked.iter().any(|(its, _)| *its == neighbour);
        if !is_asked && self.wanted.send(neighbour).is_ok() {
            self.asked.push((neighbour, now));
        }
    }
}

#[cfg(test)]
mod tests;
