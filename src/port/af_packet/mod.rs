//! The `packet` port: an interface through a packet socket (AF_PACKET), on every kernel and driver.
//!
//! All frames that the interface receives come here, to whatever address, and go to the kernel as well. What any program
//! sends by the interface does not, so nothing transmitted comes back. VLAN tags that the kernel takes out of received
//! frames are put back into the headroom; a tagged frame that was received into one with less than 4 bytes of it is dropped
//! and counted (`rx_dropped`), which no pool with the usual headroom does. Checksums that a sender left to its card are
//! unfinished, as on an AF_XDP port; switch offloads off.
//!
//! Frames go straight from and into the port's own by recvmmsg(2) and sendmmsg(2): one copy, which is the kernel's, and
//! one system call for a burst. ADR 0020 says why not by TPACKET rings.
//!
//! When the interface is removed the port is down, and goes on with the next one that has its name.
//!
//! Shorter than a header, or longer than the MTU allows, a frame is refused by the kernel and counted (`tx_invalid`). What
//! no posted frame has room for is `rx_too_long`; what the socket's buffer had no room for is `rx_ring_full`.

mod bind;
mod rx;
#[cfg(test)]
mod tests;
mod tx;

pub use bind::{AfPacketError, open};

use super::copying::{CopyingPort, Device, RxBuffers};
use super::link::{ENTER, Link};
use super::{PortCounters, PortState};
use crate::pool::Frame;
use crate::stats::Writer;
use crate::sys::netdev::Netdev;
use crate::sys::packet::PacketSocket;
use std::cell::Cell;
use std::os::fd::{AsFd, BorrowedFd};

/// A port on an interface through a packet socket.
pub type AfPacketPort = CopyingPort<AfPacketLink>;

/// The socket and the interface of a [`AfPacketPort`].
#[derive(Debug)]
pub struct AfPacketLink {
    socket: PacketSocket,
    link: Link,
    /// Frames to be asked for by the next call: about as many as there were.
    burst: usize,
    /// What came into the socket's buffer, as far as that was asked, and what was taken out of it.
    come: Cell<u64>,
    taken: u64,
}

impl AfPacketLink {
    fn new(socket: PacketSocket, netdev: Netdev, burst: usize) -> AfPacketLink {
        AfPacketLink { socket, link: Link::new(netdev), burst, come: Cell::new(0), taken: 0 }
    }

    /// The interface.
    pub fn netdev(&self) -> &Netdev {
        self.link.netdev()
    }

    /// Goes on with the interface that has the name of one that was removed, once there is one.
    #[cold]
    fn come_back(&mut self) {
        if self.link.is_up() && !self.socket.has_interface() {
            self.link.lose();
        }
        let Some(netdev) = self.link.successor() else { return };
        match netdev.in_its_namespace(|| PacketSocket::open(netdev.index())) {
            Ok(Ok(socket)) => *self = AfPacketLink::new(socket, netdev, self.burst),
            Ok(Err(error)) => self.link.refuse(format!("open a packet socket: {}", error.errno)),
            Err(error) => self.link.refuse(format!("{ENTER}: {error}")),
        }
    }
}

impl Device for AfPacketLink {
    fn kind(&self) -> &'static str {
        "packet"
    }

    #[inline]
    fn receive(&mut self, rooms: &mut RxBuffers<'_>, counters: &Writer<PortCounters>) -> usize {
        self.receive_burst(rooms, counters)
    }

    #[inline]
    fn send(&mut self, frames: &[Frame], counters: &Writer<PortCounters>) -> usize {
        self.send_burst(frames, counters)
    }

    fn end_round(&mut self, counters: &Writer<PortCounters>) {
        if self.link.end_round() {
            self.publish(counters);
            self.come_back();
        }
    }

    /// Adds what came and what the kernel dropped, which asking sets back to nothing.
    #[cold]
    fn publish(&self, counters: &Writer<PortCounters>) {
        if let Ok(kernel) = self.socket.statistics() {
            counters.rx_ring_full.add(kernel.dropped.into());
            self.come.set(self.come.get() + u64::from(kernel.come));
        }
    }

    #[cold]
    fn rx_pending(&mut self, counters: &Writer<PortCounters>) -> Option<usize> {
        self.publish(counters);
        Some(self.come.get().saturating_sub(self.taken) as usize)
    }

    /// Looks at the interface, which no sleeper does every so many rounds.
    fn is_readable(&mut self, counters: &Writer<PortCounters>) -> bool {
        self.link.look();
        self.publish(counters);
        self.come_back();
        false
    }

    fn wakeup_fd(&self) -> Option<BorrowedFd<'_>> {
        self.link.is_up().then(|| self.socket.as_fd())
    }

    fn state(&self) -> PortState {
        self.link.state()
    }
}
