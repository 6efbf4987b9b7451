//! The `tap` port: an Ethernet interface of this host whose far end is the port.
//!
//! What the host sends by the interface is received here, and what is transmitted here the host receives. The interface
//! is made when there is none of that name, set up then, and gone with the port; one that is there already is attached to,
//! and stays as it is. When it is removed the port is down, and attaches to the next one that somebody makes of its name. When it is moved to another
//! network namespace, as containers get theirs, the port goes on with it once it is set up there.
//!
//! # Cost
//! One system call and one copy for each frame, either way: the kernel offers no more than one frame a call. In idle rounds
//! one call for each round.
//!
//! Where it is asked for ([`Rx::keep_offloads`](super::Rx::keep_offloads)) the host leaves to be done what it would leave to a card
//! (`IFF_VNET_HDR`, `TUNSETOFFLOAD`): packets of up to 64 KiB come as they are (`gso_kept`), as far as a frame has room. Else they come
//! cut and complete. What is transmitted may have something left to be done in either case.
//!
//! VLAN tags stand where they belong. Frames shorter than a header are refused by the kernel and counted (`tx_invalid`).
//!
//! What the host sends faster than it is received here waits in the interface's queue (`txqueuelen`); what finds that full the
//! kernel drops, and counts where `ip -s link` shows it, as dropped when transmitting. This port sees nothing of that.
//!
//! The interface's link address is the host's end of the link. Whoever routes by this port has one of its own, which
//! the host does not know of: its neighbours are static, or somebody here answers for them.
//!
//! Source: Documentation/networking/tuntap.rst; drivers/net/tun.c.

mod bind;
mod rx;
#[cfg(test)]
mod tests;
mod tx;

pub use bind::{TapConfig, TapPortError, open};

use super::ENTER;
use super::copying::{CopyingPort, Device, RxBuffers};
use super::link::Link;
use super::uncut::Uncut;
use super::{PortCounters, PortState};
use crate::pool::Frame;
use crate::stats::Writer;
use crate::sys::netdev::Netdev;
use crate::sys::tap::TapQueue;
use std::os::fd::BorrowedFd;

/// What is said of an interface that cannot be followed.
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
    /// What was received and is not in frames yet.
    uncut: Uncut,
    /// What is left to be done to frames goes on with them.
    keeps_offloads: bool,
}

impl TapLink {
    /// The interface.
    pub fn netdev(&self) -> &Netdev {
        self.link.netdev()
    }

    /// Attaches to the TAP interface that has the name of one that was removed, once there is one. Who removed it did so on
    /// purpose, so none is made.
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
                (self.queue, self.link) = (queue, Link::new(netdev));
                self.accept_offloads();
            }
            Ok(Err(error)) => self.link.refuse(format!("is there again: attach to it: {}", error.errno)),
            Err(error) => self.link.refuse(format!("is there again: {ENTER}: {error}")),
        }
    }

    /// Goes on with the interface where it was moved to.
    #[cold]
    fn follow(&mut self) {
        match self.queue.interface() {
            Ok(netdev) => self.link = Link::new(netdev),
            Err(errno) => self.link.refuse(format!("{MOVED}: {errno}")),
        }
    }

    /// Lets the host leave to be done what is kept here. Where it does not, frames come complete, which is never wrong.
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

    /// The host completes and cuts what is left to be done, as far as it is not its own.
    fn carries_offloads(&self) -> bool {
        true
    }

    fn keep_offloads(&mut self, keep: bool) -> bool {
        self.keeps_offloads = keep;
        self.accept_offloads();
        keep
    }

    fn end_round(&mut self, _counters: &Writer<PortCounters>) {
        if self.link.end_round() {
            self.come_back();
        }
    }

    /// Looks at the interface, which no sleeper does every so many rounds.
    fn is_readable(&mut self, _counters: &Writer<PortCounters>) -> bool {
        self.link.look();
        self.come_back();
        !self.uncut.is_empty()
    }

    fn wakeup_fd(&self) -> Option<BorrowedFd<'_>> {
        self.link.is_up().then(|| self.queue.as_fd())
    }

    fn state(&self) -> PortState {
        self.link.state()
    }
}
