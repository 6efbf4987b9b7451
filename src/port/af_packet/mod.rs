//! The `packet` port: an interface through a packet socket (AF_PACKET), on every kernel and driver.
//!
//! All frames that the interface receives come here, to whatever address, and go to the kernel as well. What any program
//! sends by the interface does not, so nothing transmitted comes back. VLAN tags that the kernel takes out of received
//! frames are put back into the headroom; a tagged frame that was received into one with less than 4 bytes of it is dropped
//! and counted (`rx_dropped`), which no pool with the usual headroom does.
//!
//! What the kernel handles by right (ARP, multicast, packets to the host's own addresses) may be left to it alone
//! ([`AfPacketPort::leave_to_kernel`]): it does not come out of the port then, and is counted (`rx_kernel`). Of all else the kernel
//! has a copy, which it may answer or forward as well, unless the port takes it alone (`AfPacketPort::take_alone`, with feature `xdp`).
//!
//! Nothing needs to be switched off in the hosts around: the kernel says of each packet what its sender has left to its card
//! (`PACKET_VNET_HDR`). Checksums are completed (`csum_finished`), and packets that stand for many, of up to 64 KiB, are cut into
//! their segments (`gso_cut`), each in a frame of its own ([`wire::offload`](crate::wire::offload)). Where it is asked for
//! ([`Rx::keep_offloads`](super::Rx::keep_offloads)) both stay as they are (`gso_kept`), as far as a frame has room, and the kernel
//! hears of it again when they are transmitted by such a port.
//!
//! Frames go straight from and into the port's own by recvmmsg(2) and sendmmsg(2): one copy, which is the kernel's, and
//! one system call for a burst. ADR 0020 says why not by TPACKET rings.
//!
//! When the interface is removed the port is down, and goes on with the next one that has its name.
//!
//! Shorter than a header, or longer than the MTU allows, a frame is refused by the kernel and counted (`tx_invalid`). What
//! no posted frame has room for is `rx_too_long`; what the socket's buffer had no room for is `rx_ring_full`. What a filter or a queue of
//! the interface drops while it is sent is `tx_lost`, after some milliseconds, since the kernel says the same of a queue that is full.

#[cfg(feature = "xdp")]
mod alone;
mod bind;
mod control;
mod rx;
#[cfg(test)]
mod tests;
mod tx;

pub use bind::{AfPacketError, open};
pub use control::ControlTraffic;

use control::Left;
use tx::Refusals;

use super::ENTER;
use super::copying::{CopyingPort, Device, RxBuffers};
use super::link::Link;
use super::uncut::Uncut;
use super::{PortCounters, PortState};
use crate::limits::BATCH_MAX;
use crate::pool::Frame;
use crate::stats::Writer;
use crate::sys::netdev::Netdev;
use crate::sys::packet::{PacketSocket, PacketSocketError};
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
    /// What was received and is not in frames yet.
    uncut: Uncut,
    /// What is left to be done to frames goes on with them.
    keeps_offloads: bool,
    /// What does not come out of the port; None where everything does.
    left: Option<Left>,
    /// What the kernel did not send.
    refusals: Refusals,
}

impl AfPacketLink {
    fn new(socket: PacketSocket, netdev: Netdev, burst: usize) -> AfPacketLink {
        let (link, come) = (Link::new(netdev), Cell::new(0));
        AfPacketLink {
            socket,
            link,
            burst,
            come,
            taken: 0,
            uncut: Uncut::new(BATCH_MAX),
            keeps_offloads: false,
            left: None,
            refusals: Refusals::default(),
        }
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
        let left = self.left.as_mut();
        let opened = netdev.in_its_namespace(|| {
            let failed = |error: PacketSocketError| format!("open a packet socket: {}", error.errno);
            let socket = PacketSocket::open(netdev.index()).map_err(failed)?;
            left.map_or(Ok(()), |left| left.move_to(netdev.index())).map(|()| socket)
        });
        match opened {
            Ok(Ok(socket)) => {
                let uncut = std::mem::replace(&mut self.uncut, Uncut::new(0));
                let (keeps_offloads, left) = (self.keeps_offloads, self.left.take());
                let new = AfPacketLink::new(socket, netdev, self.burst);
                *self = AfPacketLink { uncut, keeps_offloads, left, ..new };
            }
            Ok(Err(why)) => self.link.refuse(format!("is there again: {why}")),
            Err(error) => self.link.refuse(format!("is there again: {ENTER}: {error}")),
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

    /// The kernel completes and cuts what its interface cannot.
    fn carries_offloads(&self) -> bool {
        true
    }

    fn keep_offloads(&mut self, keep: bool) -> bool {
        self.keeps_offloads = keep;
        keep
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
        Some(self.come.get().saturating_sub(self.taken) as usize + self.uncut.len())
    }

    /// Looks at the interface, which no sleeper does every so many rounds.
    fn is_readable(&mut self, counters: &Writer<PortCounters>) -> bool {
        self.link.look();
        self.publish(counters);
        self.come_back();
        !self.uncut.is_empty()
    }

    fn wakeup_fd(&self) -> Option<BorrowedFd<'_>> {
        self.link.is_up().then(|| self.socket.as_fd())
    }

    fn state(&self) -> PortState {
        self.link.state()
    }
}
