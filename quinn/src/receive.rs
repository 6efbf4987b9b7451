//! Copies received datagrams into the buffers of quinn.

use crate::state::{SEGMENTS_MAX, State};
use netmem::port::NextHop;
use netmem::wire::Datagram;
use quinn::udp::{EcnCodepoint, RecvMeta};
use std::io::{self, ErrorKind, IoSliceMut};
use std::net::SocketAddr;
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
            let found = Datagram::parse(frame.data()).ok().filter(|(datagram, _)| is_for(local, datagram));
            let fate = match found {
                Some((datagram, payload)) => {
                    let hop = NextHop { src_mac: datagram.dst_mac, dst_mac: datagram.src_mac };
                    let came = Came { datagram, payload, src: with_scope(datagram.src, local) };
                    let joined = filled > 0 && came.join(&mut buffers[filled - 1], &mut meta[filled - 1]);
                    if !joined && filled == most {
                        break;
                    }
                    let is_begun = !joined && came.begin(&mut buffers[filled], &mut meta[filled]);
                    filled += usize::from(is_begun);
                    (joined || is_begun).then_some((datagram.src.ip(), hop))
                }
                None => None,
            };
            match fate {
                Some((from, hop)) => self.next_hops.learn(from, hop),
                None => self.counts.ignored += 1,
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
    /// Its sender, as quinn knows it.
    src: SocketAddr,
}

impl Came<'_> {
    /// Copies it behind those of the same sender in `buffer`, if there is room. All of them except the last must be
    /// equally long.
    fn join(&self, buffer: &mut [u8], meta: &mut RecvMeta) -> bool {
        let (len, size) = (self.payload.len(), meta.stride);
        let is_same =
            meta.addr == self.src && meta.dst_ip == Some(self.datagram.dst.ip()) && meta.ecn == self.ecn();
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
        (meta.addr, meta.dst_ip) = (self.src, Some(self.datagram.dst.ip()));
        meta.ecn = self.ecn();
        true
    }

    fn ecn(&self) -> Option<EcnCodepoint> {
        EcnCodepoint::from_bits(self.datagram.tos & 3)
    }
}

/// Returns the address with the scope of the socket, if it is a link-local one: the sender is on the same link. quinn
/// compares it to the address that it connected to.
fn with_scope(mut src: SocketAddr, local: SocketAddr) -> SocketAddr {
    if let (SocketAddr::V6(src), SocketAddr::V6(local)) = (&mut src, local)
        && src.ip().is_unicast_link_local()
    {
        src.set_scope_id(local.scope_id());
    }
    src
}

/// Returns whether a datagram is for the socket, and of one host, to which it can be answered.
fn is_for(local: SocketAddr, datagram: &Datagram) -> bool {
    let is_here = local.ip().is_unspecified() || datagram.dst.ip() == local.ip();
    let is_ours = datagram.dst.is_ipv4() == local.is_ipv4() && datagram.dst.port() == local.port();
    is_here && is_ours && datagram.answer().is_some()
}
