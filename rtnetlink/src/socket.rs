//! Sockets: one that receives events, and one that sends requests.

use crate::edges::Edges;
use crate::headers::{is_interrupted, may_end_reply, removed_ipv4_routes, removes_ipv6_route};
use crate::translate::{Event, events};
use netlink_packet_core::{
    NLM_F_CREATE, NLM_F_DUMP, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::address::AddressMessage;
use netlink_packet_route::link::LinkMessage;
use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourFlags, NeighbourMessage, NeighbourState as NudState,
};
use netlink_packet_route::route::RouteMessage;
use netlink_packet_route::rule::RuleMessage;
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use netmem::system::broker;
use rustix::io::Errno;
use rustix::net::sockopt::{self, Timeout};
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

/// RTNLGRP_LINK, _NEIGH, _IPV4_IFADDR, _IPV4_ROUTE, _IPV4_RULE, _IPV6_IFADDR, _IPV6_ROUTE, _IPV6_RULE, _NEXTHOP.
const GROUPS: [u32; 9] = [1, 3, 5, 7, 8, 9, 11, 19, 32];
/// Initial and maximum bytes of events that the kernel queues for the socket.
const BUFFER: usize = 1 << 20;
const BUFFER_MAX: usize = 128 << 20;
/// Bytes for a process with a broker, set once at the start.
const BUFFER_KEPT: usize = 8 << 20;
/// The maximum size of a datagram of the kernel.
const DATAGRAM: usize = 1 << 16;
/// Maximum number of datagrams thrown away in one call. A socket holds fewer: each takes at least a kilobyte of its
/// buffer.
const DISCARDS: usize = BUFFER_MAX >> 10;
/// Maximum number of overruns accepted during that. The kernel reports each once.
const OVERRUNS: usize = 64;
/// Number of attempts to dump state that changes during the dump.
pub(crate) const TRIES: usize = 8;
/// The maximum pause within an answer of the kernel.
const ANSWER: Duration = Duration::from_secs(10);

/// The result of reading the event socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Received {
    /// A datagram.
    Datagram {
        /// Number of messages that could not be read.
        unread: usize,
        /// One of its messages reports the removal of an IPv6 route.
        removes_ipv6_route: bool,
        /// The network addresses of the IPv4 routes whose removal its messages report.
        removed_ipv4: Vec<u32>,
    },
    /// There is nothing to read.
    Empty,
    /// The kernel had more events than the socket could hold.
    Overrun,
    /// A datagram of another program, which was not read.
    Forged,
}

/// Receives one datagram into `datagram` and replaces its contents. Returns false if the sender is not the kernel,
/// whose address is 0 (netlink(7)). A program with CAP_NET_ADMIN may send anything.
fn receive(socket: &Socket, datagram: &mut Vec<u8>) -> io::Result<bool> {
    datagram.clear();
    let (_, sender) = socket.recv_from(datagram, 0)?;
    Ok(sender.port_number() == 0)
}

/// Receives the kernel's events.
pub(crate) struct EventSocket {
    socket: Socket,
    datagram: Vec<u8>,
    buffer: usize,
}

impl EventSocket {
    /// Subscribes to all events from now on.
    pub(crate) fn new() -> io::Result<EventSocket> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind_auto()?;
        socket.set_non_blocking(true)?;
        let mut events = EventSocket { socket, datagram: Vec::with_capacity(DATAGRAM), buffer: BUFFER / 2 };
        // A process that drops its privileges cannot enlarge the buffer later.
        if broker::current().is_some() {
            events.buffer = BUFFER_KEPT / 2;
        }
        events.grow();
        for group in GROUPS {
            events.socket.add_membership(group)?;
        }
        Ok(events)
    }

    /// Doubles the socket's receive buffer, up to the limit.
    fn grow(&mut self) {
        self.buffer = (2 * self.buffer).min(BUFFER_MAX);
        let forced = sockopt::set_socket_recv_buffer_size_force(&self.socket, self.buffer);
        // Without CAP_NET_ADMIN the system's limit applies. A smaller buffer only means more resyncs. A process
        // with a broker has dropped the capability and keeps the buffer that it has.
        if forced.is_err() && broker::current().is_none() {
            let _ = sockopt::set_socket_recv_buffer_size(&self.socket, self.buffer);
        }
    }

    /// Reads one datagram. Enlarges the buffer if events were lost.
    pub(crate) fn read(&mut self, each: impl FnMut(Event)) -> io::Result<Received> {
        match receive(&self.socket, &mut self.datagram) {
            Ok(true) => {
                let removes_ipv6_route = removes_ipv6_route(&self.datagram);
                let removed_ipv4 = removed_ipv4_routes(&self.datagram);
                let unread = events(&self.datagram, each);
                Ok(Received::Datagram { unread, removes_ipv6_route, removed_ipv4 })
            }
            Ok(false) => Ok(Received::Forged),
            Err(error) => match Errno::from_io_error(&error) {
                Some(Errno::AGAIN | Errno::INTR) => Ok(Received::Empty),
                Some(Errno::NOBUFS) => {
                    self.grow();
                    Ok(Received::Overrun)
                }
                _ => Err(error),
            },
        }
    }
}

impl EventSocket {
    /// Throws away everything that has not been read.
    ///
    /// # Errors
    /// The kernel's error. `ENOBUFS` if there is more than is thrown away in one call.
    pub(crate) fn discard(&mut self) -> io::Result<()> {
        let EventSocket { socket, datagram, .. } = self;
        discard(|| {
            datagram.clear();
            socket.recv(datagram, 0).map(drop)
        })
    }
}

/// Receives until there is nothing left, within a limit: between calls the caller checks whether the run is over.
fn discard(mut receive: impl FnMut() -> io::Result<()>) -> io::Result<()> {
    let mut overruns = 0;
    for _ in 0..DISCARDS {
        match receive().map_err(|error| (Errno::from_io_error(&error), error)) {
            Ok(()) | Err((Some(Errno::INTR), _)) => {}
            Err((Some(Errno::NOBUFS), _)) if overruns < OVERRUNS => overruns += 1,
            Err((Some(Errno::AGAIN), _)) => return Ok(()),
            Err((_, error)) => return Err(error),
        }
    }
    Err(Errno::NOBUFS.into())
}

impl AsFd for EventSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// The kinds of state that can be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DumpKind {
    Links,
    Addresses,
    Neighbours,
    Routes(AddressFamily),
    Rules(AddressFamily),
}

/// The kernel's answer.
#[derive(Debug, Default)]
pub(crate) struct DumpReply {
    pub(crate) events: Vec<Event>,
    /// Number of messages that could not be read.
    pub(crate) unread: usize,
    /// Number of datagrams of other programs, which were not read.
    pub(crate) forged: usize,
    /// Something changed during the dump, so the answer may be inconsistent.
    pub(crate) interrupted: bool,
    /// Where the datagrams of a dump of IPv4 routes end.
    pub(crate) edges: Edges,
}

/// Asks for the whole state of a kind. If the state keeps changing during the dump, the event socket reports the
/// changes.
///
/// # Errors
/// The kernel's error, or that the answer stopped in the middle.
pub(crate) fn request_dump(kind: DumpKind) -> io::Result<DumpReply> {
    let mut answer = request_dump_once(kind)?;
    for _ in 0..TRIES {
        if !answer.interrupted {
            break;
        }
        let forged = answer.forged;
        answer = request_dump_once(kind)?;
        answer.forged += forged;
    }
    Ok(answer)
}

/// Asks once, and accepts an answer that may be inconsistent. The whole answer is received before any of it is
/// parsed, so that less changes during the dump.
///
/// # Errors
/// As [`request_dump`].
pub(crate) fn request_dump_once(kind: DumpKind) -> io::Result<DumpReply> {
    let mut socket = Socket::new(NETLINK_ROUTE)?;
    socket.bind_auto()?;
    // Bounds the wait for an end that cannot be read.
    sockopt::set_socket_timeout(&socket, Timeout::Recv, Some(ANSWER))?;
    send(&socket, request(kind), NLM_F_REQUEST | NLM_F_DUMP)?;
    let (mut answer, mut datagram) = (DumpReply::default(), Vec::with_capacity(DATAGRAM));
    let (mut received, mut last_received) = (Vec::new(), Instant::now());
    loop {
        if !receive(&socket, &mut datagram)? {
            answer.forged += 1;
            // Datagrams of other programs do not count as an answer of the kernel.
            if last_received.elapsed() > ANSWER {
                return Err(io::ErrorKind::TimedOut.into());
            }
            continue;
        }
        last_received = Instant::now();
        received.push(datagram.as_slice().into());
        if may_end_reply(&datagram) && answer.read(received.drain(..))? {
            return Ok(answer);
        }
    }
}

impl DumpReply {
    /// Reads datagrams. Returns true if the answer ends with them.
    fn read(&mut self, datagrams: impl Iterator<Item = Box<[u8]>>) -> io::Result<bool> {
        let (mut done, mut refused) = (false, None);
        for datagram in datagrams {
            self.interrupted |= is_interrupted(&datagram);
            self.edges.add(&datagram);
            self.unread += events(&datagram, |event| match event {
                Event::Done => done = true,
                Event::Refused(code) => refused = Some(code),
                event => self.events.push(event),
            });
        }
        refused.map_or(Ok(done), |code| Err(io::Error::from_raw_os_error(code)))
    }
}

fn request(kind: DumpKind) -> RouteNetlinkMessage {
    match kind {
        DumpKind::Links => RouteNetlinkMessage::GetLink(LinkMessage::default()),
        DumpKind::Addresses => RouteNetlinkMessage::GetAddress(AddressMessage::default()),
        DumpKind::Neighbours => RouteNetlinkMessage::GetNeighbour(NeighbourMessage::default()),
        DumpKind::Routes(family) => {
            let mut message = RouteMessage::default();
            message.header.address_family = family;
            RouteNetlinkMessage::GetRoute(message)
        }
        DumpKind::Rules(family) => {
            let mut message = RuleMessage::default();
            message.header.family = family;
            RouteNetlinkMessage::GetRule(message)
        }
    }
}

/// Asks for neighbours' MAC addresses.
pub(crate) struct RequestSocket {
    socket: Socket,
    /// False if the kernel refuses requests of this process, and so of its broker, which has no more privileges.
    is_permitted: bool,
}

impl RequestSocket {
    pub(crate) fn new() -> io::Result<RequestSocket> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind_auto()?;
        socket.set_non_blocking(true)?;
        let mut requests = RequestSocket { socket, is_permitted: true };
        // About no link. The kernel checks the privileges first.
        requests.send_request(0, Ipv4Addr::UNSPECIFIED.into())?;
        requests.is_permitted = !requests.forget_answers();
        Ok(requests)
    }

    /// Returns false if the kernel refused requests of this process when the socket was made: it lacks CAP_NET_ADMIN.
    pub(crate) fn is_permitted(&self) -> bool {
        self.is_permitted
    }

    /// Makes the kernel use a neighbour. The kernel resolves a neighbour that it does not know, and probes a stale
    /// one.
    ///
    /// If there is a broker, the broker does this. A process that has dropped CAP_NET_ADMIN cannot, on any socket.
    ///
    /// # Errors
    /// The request was not made: `PERM` without CAP_NET_ADMIN, `PIPE` if the broker has ended.
    pub(crate) fn use_neighbour(&self, link: u32, address: IpAddr) -> io::Result<()> {
        if let Some(broker) = broker::current() {
            // The broker does not answer such a request.
            if !self.is_permitted {
                return Err(Errno::PERM.into());
            }
            return Ok(broker::tell(broker, &broker::Request::Neighbour(link, address))?);
        }
        self.send_request(link, address)?;
        if self.forget_answers() { Err(Errno::PERM.into()) } else { Ok(()) }
    }

    fn send_request(&self, link: u32, address: IpAddr) -> io::Result<()> {
        let mut message = NeighbourMessage::default();
        let (family, destination) = match address {
            IpAddr::V4(address) => (AddressFamily::Inet, NeighbourAddress::Inet(address)),
            IpAddr::V6(address) => (AddressFamily::Inet6, NeighbourAddress::Inet6(address)),
        };
        message.header.family = family;
        message.header.ifindex = link;
        message.header.state = NudState::None;
        message.header.flags = NeighbourFlags::Use;
        message.attributes.push(NeighbourAttribute::Destination(destination));
        send(&self.socket, RouteNetlinkMessage::NewNeighbour(message), NLM_F_REQUEST | NLM_F_CREATE)
    }

    /// Throws away the kernel's answers, which it gives while a request is sent. Returns true if one of them says that
    /// this process may not ask. All other requests that it does not carry out are recognised by its silence.
    fn forget_answers(&self) -> bool {
        let (mut answer, mut is_refused) = (Vec::with_capacity(DATAGRAM), false);
        // Answers of another program that come without end are left for the next call.
        let _ = discard(|| {
            if receive(&self.socket, &mut answer)? {
                let refusal = Event::Refused(Errno::PERM.raw_os_error());
                events(&answer, |event| is_refused |= event == refusal);
            }
            Ok(())
        });
        is_refused
    }
}

/// Returns a function for a broker that makes the kernel use a neighbour on the link with that number. The kernel
/// resolves a neighbour that it does not know.
///
/// # Errors
/// The error of socket(2).
pub fn neighbour_requests() -> io::Result<impl Fn(u32, IpAddr) -> Result<(), Errno> + Send + Sync> {
    let socket = RequestSocket::new()?;
    Ok(move |link, address| {
        let done = socket.use_neighbour(link, address);
        done.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
    })
}

fn send(socket: &Socket, message: RouteNetlinkMessage, flags: u16) -> io::Result<()> {
    let mut header = NetlinkHeader::default();
    header.flags = flags;
    let mut message = NetlinkMessage::new(header, NetlinkPayload::InnerMessage(message));
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    socket.send_to(&bytes, &SocketAddr::new(0, 0), 0).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use netlink_packet_core::NLMSG_DONE;

    #[test]
    fn discarding_events_ends_with_an_error_if_the_socket_overruns_without_end() {
        let mut asked = 0_u64;
        let error = discard(|| {
            asked += 1;
            assert!(asked <= 1 << 20, "it goes on");
            Err(Errno::NOBUFS.into())
        });
        assert_eq!(Errno::from_io_error(&error.unwrap_err()), Some(Errno::NOBUFS));
    }

    /// Found by reading: the mark of the kernel was looked for in the last message, and the kernel sets it in the first message
    /// after the change. A dump that lacked links or addresses was accepted.
    #[test]
    fn a_dump_of_which_any_message_is_marked_as_interrupted_is_asked_for_again() {
        // NLMSG_NOOP, and NLMSG_DONE with its code.
        let message = |kind: u16, flags: u16, contents: &[u8]| {
            let length = (16 + contents.len() as u32).to_ne_bytes();
            [&length[..], &kind.to_ne_bytes(), &flags.to_ne_bytes(), &[0; 8], contents].concat()
        };
        let read = |flags: [u16; 3]| {
            let first = [message(1, flags[0], &[]), message(1, flags[1], &[])].concat();
            let last = message(NLMSG_DONE, flags[2], &[0; 4]);
            let mut reply = DumpReply::default();
            let done = reply.read([first, last].into_iter().map(Vec::into_boxed_slice)).expect("an answer");
            (done, reply.interrupted)
        };
        assert_eq!(read([2, 2, 2]), (true, false));
        for marked in 0..3 {
            let mut flags = [2; 3];
            flags[marked] |= 0x10;
            assert_eq!(read(flags), (true, true), "{marked}");
        }
    }

    #[test]
    fn unread_events_are_discarded_until_the_socket_is_empty_also_after_an_overrun() {
        let mut events = vec![Err(Errno::AGAIN), Ok(()), Err(Errno::INTR), Err(Errno::NOBUFS), Ok(())];
        assert!(discard(|| events.pop().unwrap().map_err(io::Error::from)).is_ok());
        assert!(events.is_empty());
        let mut events = vec![Err(Errno::AGAIN), Err(Errno::BADF)];
        let error = discard(|| events.pop().unwrap().map_err(io::Error::from)).unwrap_err();
        assert_eq!((Errno::from_io_error(&error), events.len()), (Some(Errno::BADF), 1));
    }
}
