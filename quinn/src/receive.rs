//! Copies received datagrams into the buffers of quinn.

use crate::state::{SEGMENTS_MAX, SocketStats, State};
use netmem::port::NextHop;
use netmem::wire::{Datagram, NoDatagram};
use quinn::udp::{EcnCodepoint, RecvMeta};
use std::io::{self, ErrorKind, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use std::task::{Context, Poll, ready};

impl State {
    /// Receives into `buffers`. Returns Pending after a burst of frames of which none was for this socket, and wakes the
    /// task: the tasks of connections can send before the next burst.
    pub fn poll_receive(
        &mut self,
        local: SocketAddr,
        context: &mut Context<'_>,
        buffers: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        self.follow_pool();
        // No other task is woken for frames for which the device had no room.
        if !self.to_send.is_empty() {
            self.port.transmit_now(&mut self.to_send);
        }
        if buffers.is_empty() || meta.is_empty() {
            return Poll::Ready(Ok(0));
        }
        if self.received.is_empty() && ready!(self.port.poll_receive(context, &mut self.received)) == 0 {
            let finished = format!("the port will receive nothing more, and is {}", self.port.port().state());
            return Poll::Ready(Err(io::Error::new(ErrorKind::BrokenPipe, finished)));
        }
        match self.read(local, buffers, meta) {
            0 => {
                context.waker().wake_by_ref();
                Poll::Pending
            }
            filled => Poll::Ready(Ok(filled)),
        }
    }

    /// Copies received datagrams into `buffers`. Returns how many buffers have data now.
    fn read(&mut self, local: SocketAddr, buffers: &mut [IoSliceMut<'_>], meta: &mut [RecvMeta]) -> usize {
        let most = buffers.len().min(meta.len());
        let mut filled = 0;
        while let Some(frame) = self.received.first() {
            match Came::parse(local, frame.data()) {
                Ok(came) => {
                    let joined = filled > 0 && came.join(&mut buffers[filled - 1], &mut meta[filled - 1]);
                    if !joined && filled == most {
                        break;
                    }
                    if joined || came.begin(&mut buffers[filled], &mut meta[filled]) {
                        filled += usize::from(!joined);
                        self.next_hops.learn(came.datagram.src.ip(), came.way_back());
                    } else {
                        self.counts.unreadable += 1;
                    }
                }
                Err(counter) => *counter(&mut self.counts) += 1,
            }
            if let Some(read) = self.received.pop_front() {
                read.free(self.port.worker());
            }
        }
        filled
    }
}

/// A datagram for this socket.
struct Came<'a> {
    datagram: Datagram,
    payload: &'a [u8],
    /// Its sender and its destination, as quinn knows them.
    src: SocketAddr,
    dst: IpAddr,
}

/// The counter of frames that are freed unread for one reason.
type Counter = fn(&mut SocketStats) -> &mut u64;

fn counter_of(reason: NoDatagram) -> Counter {
    match reason {
        NoDatagram::BadChecksum => |counts| &mut counts.wrong_checksum,
        _ => |counts| &mut counts.not_datagram,
    }
}

impl<'a> Came<'a> {
    /// Returns the datagram in a frame, if it is for the socket and of one host, to which it can be answered. No packet has
    /// an address of IPv6 that stands for one of IPv4 (RFC 4942 §2.2): quinn would take its sender for another one.
    fn parse(local: SocketAddr, frame: &'a [u8]) -> Result<Came<'a>, Counter> {
        let (datagram, payload) = Datagram::parse(frame).map_err(counter_of)?;
        let (src, dst) = (as_seen(local, datagram.src), as_seen(local, datagram.dst));
        if !is_for(local, dst) {
            return Err(|counts| &mut counts.other_address);
        }
        let is_mapped = [datagram.src, datagram.dst].iter().any(|end| end.ip().to_canonical() != end.ip());
        if is_mapped || datagram.answer().is_none() {
            return Err(|counts| &mut counts.unanswerable);
        }
        Ok(Came { datagram, payload, src, dst: dst.ip() })
    }

    /// The next hop of an answer: the datagram came from there.
    fn way_back(&self) -> NextHop {
        NextHop { src_mac: self.datagram.dst_mac, dst_mac: self.datagram.src_mac }
    }

    /// Copies it behind those of the same sender in `buffer`, if there is room. All of them except the last must be
    /// equally long.
    fn join(&self, buffer: &mut [u8], meta: &mut RecvMeta) -> bool {
        let (len, size) = (self.payload.len(), meta.stride);
        let is_same = meta.addr == self.src && meta.dst_ip == Some(self.dst) && meta.ecn == self.ecn();
        let are_whole = meta.len.is_multiple_of(size) && meta.len / size < SEGMENTS_MAX;
        if !is_same || !are_whole || len > size || len == 0 {
            return false;
        }
        let Some(room) = buffer.get_mut(meta.len..meta.len + len) else { return false };
        room.copy_from_slice(self.payload);
        meta.len += len;
        true
    }

    /// Copies it to the beginning of `buffer`. Returns false if it is empty, which no QUIC packet is, or too long.
    fn begin(&self, buffer: &mut [u8], meta: &mut RecvMeta) -> bool {
        let len = self.payload.len();
        let Some(room) = buffer.get_mut(..len).filter(|room| !room.is_empty()) else { return false };
        room.copy_from_slice(self.payload);
        *meta = RecvMeta::default();
        (meta.len, meta.stride) = (len, len);
        (meta.addr, meta.dst_ip) = (self.src, Some(self.dst));
        meta.ecn = self.ecn();
        true
    }

    fn ecn(&self) -> Option<EcnCodepoint> {
        EcnCodepoint::from_bits(self.datagram.tos & 3)
    }
}

/// Returns an address as quinn knows it, which compares it to the one that it connected to. A link-local one has the scope
/// of the socket, since the sender is on the same link. One of IPv4 is written as one of IPv6 for a socket of `[::]`, as
/// the kernel does.
fn as_seen(local: SocketAddr, mut address: SocketAddr) -> SocketAddr {
    match (&mut address, local) {
        (SocketAddr::V6(v6), SocketAddr::V6(local)) if v6.ip().is_unicast_link_local() => {
            v6.set_scope_id(local.scope_id());
        }
        (SocketAddr::V4(v4), SocketAddr::V6(local)) if local.ip().is_unspecified() => {
            address = SocketAddr::new(v4.ip().to_ipv6_mapped().into(), v4.port());
        }
        _ => {}
    }
    address
}

/// Returns whether a datagram to `dst`, as quinn knows it, is for the socket.
fn is_for(local: SocketAddr, dst: SocketAddr) -> bool {
    let is_here = local.ip().is_unspecified() || dst.ip() == local.ip();
    is_here && dst.is_ipv4() == local.is_ipv4() && dst.port() == local.port()
}
