//! The `tap` port is the far end of an Ethernet interface of this host.
//!
//! The port receives the frames that the host sends by the interface, and the host receives the frames that the port
//! transmits. If no interface has that name, one is made and set up, and it is removed with the port. The port attaches
//! to an existing interface without changing it. When the interface is removed, the port is down, and attaches to the
//! next one that is made with its name. When it is moved to another network namespace, as happens for containers, the
//! port resumes with it after it is set up there.
//!
//! # Cost
//! Each frame costs one system call and one copy in each direction, because the kernel passes only one frame for each
//! call. An idle round costs one call.
//!
//! On request ([`Rx::keep_offloads`](super::Rx::keep_offloads)), the host leaves the work undone that it would leave to
//! a card (`IFF_VNET_HDR`, `TUNSETOFFLOAD`). Packets of up to 64 KiB then come as they are (`gso_kept`), as far as a
//! frame has room. Otherwise they come cut and complete. Transmitted frames may have open offload work in either case.
//!
//! VLAN tags stay in the frame. The kernel refuses frames shorter than a header; they are counted (`tx_invalid`).
//!
//! Frames that the host sends faster than the port receives them wait in the interface's queue (`txqueuelen`). If the
//! queue is full, the kernel drops frames. They are counted from the opening of the port on (`rx_ring_full`), once for
//! all ports of the interface. `ip -s link` shows them as dropped when transmitting. They are not counted if /sys was
//! mounted for another network namespace, after the interface was moved to another one, and, with a
//! [broker], after the interface was made again.
//!
//! The interface's MAC address is the host's end of the link. A router on this port has its own address, which the host
//! does not know. So the host needs static neighbours, or the program on the port must answer for them.
//!
//! Source: Documentation/networking/tuntap.rst; drivers/net/tun.c.

mod bind;
mod host_drops;
mod rx;
#[cfg(test)]
mod tests;
mod tx;

pub use bind::{TapConfig, TapError};

use super::ENTER;
use super::copying::{CopyingPort, Device, RxBuffers};
use super::link::Link;
use super::uncut::Uncut;
use super::{PortCounters, PortState};
use crate::pool::Frame;
use crate::stats::Writer;
use crate::sys::broker;
use crate::sys::event::is_readable;
use crate::sys::netdev::Netdev;
use crate::sys::tap::TapQueue;
use host_drops::HostDrops;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// The reason why an interface cannot be followed.
const MOVED: &str =
    "was moved to a network namespace that this process may not look into (CAP_NET_ADMIN, CAP_SYS_ADMIN)";

/// A port at the far end of a TAP interface.
pub type TapPort = CopyingPort<TapLink>;

/// One queue of the interface of a [`TapPort`].
#[derive(Debug)]
pub struct TapLink {
    queue: TapQueue,
    /// Whether the interface has several queues.
    several: bool,
    link: Link,
    /// Received packets that are not in frames yet.
    uncut: Uncut,
    /// Open offload work stays with the frames.
    keeps_offloads: bool,
    /// The frames that the host drops because the queue is full; None if they cannot be counted.
    host_drops: Option<Arc<HostDrops>>,
}

impl TapLink {
    /// The interface.
    pub fn netdev(&self) -> &Netdev {
        self.link.netdev()
    }

    /// Attaches to the TAP interface that has the name of the removed one, when there is one. The interface was removed
    /// on purpose, so none is made.
    #[cold]
    fn come_back(&mut self) {
        if self.link.is_up() && !self.queue.has_interface() {
            self.link.lose();
        }
        if self.link.is_gone() && self.queue.has_interface() {
            return self.follow();
        }
        let Some(netdev) = self.link.successor() else { return };
        match netdev.in_its_namespace(|| TapQueue::open(netdev.name(), self.several)) {
            Ok(Ok(queue)) => {
                // A worker in a sandbox may open no files.
                self.host_drops = broker::current().map_or_else(|| HostDrops::of(&netdev), |_| None);
                (self.queue, self.link) = (queue, Link::new(netdev));
                self.accept_offloads();
            }
            Ok(Err(error)) => self.link.refuse(format!("is there again: attach to it: {}", error.errno)),
            Err(error) => self.link.refuse(format!("is there again: {ENTER}: {error}")),
        }
    }

    /// Resumes with the interface in the place to which it was moved.
    #[cold]
    fn follow(&mut self) {
        match self.queue.interface() {
            Ok(netdev) => (self.host_drops, self.link) = (None, Link::new(netdev)),
            Err(errno) => self.link.refuse(format!("{MOVED}: {errno}")),
        }
    }

    /// Lets the host leave the work undone that is kept here. If the host does not, frames come complete, which is
    /// never wrong.
    #[cold]
    fn accept_offloads(&self) {
        let _ = self.queue.accept_offloads(self.keeps_offloads);
    }
}

impl Device for TapLink {
    fn kind(&self) -> &'static str {
        "tap"
    }

    #[inline]
    fn receive(&mut self, rooms: &mut RxBuffers<'_>, counters: &Writer<PortCounters>) -> usize {
        self.receive_burst(rooms, counters)
    }

    #[inline]
    fn send(&mut self, frames: &[Frame], counters: &Writer<PortCounters>) -> usize {
        self.send_burst(frames, counters)
    }

    /// The host does the open offload work, unless it is the receiver.
    fn carries_offloads(&self) -> bool {
        true
    }

    fn keep_offloads(&mut self, keep: bool) -> bool {
        self.keeps_offloads = keep;
        self.accept_offloads();
        keep
    }

    fn end_round(&mut self, counters: &Writer<PortCounters>) {
        if self.link.end_round() {
            self.publish(counters);
            self.come_back();
        }
    }

    /// Counts the packet that waits for frames. The host does not tell how many are still with it.
    #[cold]
    fn close(&mut self, counters: &Writer<PortCounters>) {
        counters.rx_dropped.add(self.uncut.len() as u64);
    }

    /// Adds the frames that the host dropped because the queue was full.
    #[cold]
    fn publish(&self, counters: &Writer<PortCounters>) {
        self.host_drops.iter().for_each(|drops| counters.rx_ring_full.add(drops.take()));
    }

    /// Looks at the interface. While the worker sleeps, the check of every so many rounds does not run.
    fn is_readable(&mut self, counters: &Writer<PortCounters>) -> bool {
        if self.link.look_before_sleep() {
            self.publish(counters);
            self.come_back();
        }
        !self.uncut.is_empty() || !self.link.is_failed() && is_readable(self.queue.as_fd())
    }

    fn wakeup_fd(&self) -> Option<BorrowedFd<'_>> {
        self.link.is_up().then(|| self.queue.as_fd())
    }

    fn state(&self) -> PortState {
        self.link.state()
    }

    fn is_failed(&self) -> bool {
        self.link.is_failed()
    }
}
