//! Copies datagrams of quinn into frames and sends them.

use crate::state::State;
use netmem::Frame;
use netmem::port::NextHop;
use netmem::wire::datagram::{Datagram, HOP_LIMIT};
use quinn::udp::Transmit;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};
use std::panic::{AssertUnwindSafe, catch_unwind};

impl State {
    /// Sends all datagrams of `transmit`, or none if there is no room for all. A datagram that cannot be sent is lost and
    /// counted, as if it were lost on the way: an error would end the connection at once.
    pub fn try_send(&mut self, local: SocketAddr, transmit: &Transmit<'_>) -> io::Result<()> {
        let contents = transmit.contents;
        let size = transmit.segment_size.unwrap_or(contents.len()).max(1);
        let count = contents.len().div_ceil(size);
        let Some((src, dst)) = ends(local, transmit) else {
            self.counts.unaddressable += count as u64;
            return Ok(());
        };
        if count > self.follow_pool() {
            self.counts.too_many += count as u64;
            return Ok(());
        }
        let Some(hop) = self.next_hop(dst.ip()) else {
            self.counts.no_next_hop += count as u64;
            return Ok(());
        };
        if !self.has_room(count) {
            return Err(ErrorKind::WouldBlock.into());
        }
        let datagram = Datagram {
            src_mac: hop.src_mac,
            dst_mac: hop.dst_mac,
            src,
            dst,
            hop_limit: HOP_LIMIT,
            tos: transmit.ecn.map_or(0, |ecn| ecn as u8),
        };
        // The room of every frame, and not of this one: quinn takes a length that was acknowledged for the path's.
        let payload_max = self.port.pool().room().saturating_sub(datagram.headers_len());
        for payload in contents.chunks(size) {
            let Some(mut frame) = self.fresh.pop_front() else { break };
            if payload.len() <= payload_max && write(&datagram, payload, &mut frame).is_some() {
                // There is room: it was checked.
                drop(self.to_send.push(frame));
            } else {
                self.counts.too_long += 1;
                frame.free(self.port.worker());
            }
        }
        self.port.transmit_now(&mut self.to_send);
        Ok(())
    }

    /// Returns the next hop of a destination; None also if the program's function panics, which counts. quinn holds a
    /// lock of its own meanwhile: the panic would poison it, and its next use, in a destructor, would end the process.
    fn next_hop(&mut self, of: IpAddr) -> Option<NextHop> {
        // `get` changes nothing before it has the answer.
        catch_unwind(AssertUnwindSafe(|| self.next_hops.get(of))).unwrap_or_else(|_| {
            self.counts.next_hop_panics += 1;
            None
        })
    }

    /// Returns whether there is room for the longest transmission.
    pub fn is_writable(&mut self) -> bool {
        let segments = self.follow_pool();
        self.has_room(segments)
    }

    /// Returns whether that many datagrams have a frame each, and room among the frames to send.
    fn has_room(&mut self, count: usize) -> bool {
        if self.to_send.room() < count {
            self.port.transmit_now(&mut self.to_send);
        }
        if !self.has_fresh(count) {
            // It claims the frames that the device has sent.
            self.port.transmit_now(&mut self.to_send);
        }
        self.has_fresh(count) && self.to_send.room() >= count
    }

    /// Allocates empty frames up to that many. Returns whether there are as many.
    fn has_fresh(&mut self, count: usize) -> bool {
        let lacking = count.saturating_sub(self.fresh.len());
        lacking == 0 || self.port.alloc_burst(&mut self.fresh, lacking) == lacking
    }
}

/// Returns the source and the destination on the link. quinn writes an address of IPv4 as one of IPv6
/// (`::ffff:192.0.2.1`) for sockets of IPv6. Returns None without a source address, and if the two families differ.
fn ends(local: SocketAddr, transmit: &Transmit<'_>) -> Option<(SocketAddr, SocketAddr)> {
    let src = transmit.src_ip.unwrap_or(local.ip()).to_canonical();
    let dst = transmit.destination.ip().to_canonical();
    let fit = !src.is_unspecified() && src.is_ipv4() == dst.is_ipv4();
    fit.then(|| (SocketAddr::new(src, local.port()), SocketAddr::new(dst, transmit.destination.port())))
}

/// Writes the payload and the headers before it to an empty frame. Returns None if it has no room.
fn write(datagram: &Datagram, payload: &[u8], frame: &mut Frame) -> Option<()> {
    let headers = datagram.headers_len();
    frame.put(headers + payload.len()).ok()?[headers..].copy_from_slice(payload);
    datagram.write(frame.data_mut()).ok()
}
