//! The `packet` port uses an interface through a packet socket (AF_PACKET), with every kernel and driver.
//!
//! The port receives all frames that the interface receives, to any address; the kernel gets them as well. Frames that
//! programs send by the interface are not received, so no transmitted frame comes back. VLAN tags that the kernel takes
//! out of received frames are put back into the headroom. If the frame has less than 4 bytes of headroom, a tagged
//! frame is dropped and counted (`rx_dropped`). No pool with the usual headroom causes that. On request
//! ([`AfPacketConfig::kernel_timestamps`]) each frame gets the time at which the kernel received it. That takes 18 bytes
//! more of the headroom, and a frame without them is dropped in the same way.
//!
//! Control traffic (ARP, multicast, packets to the host's own addresses) may be left to the kernel alone
//! ([`AfPacketPort::leave_to_kernel`]). It does not come out of the port then, and is counted (`rx_kernel`). The kernel
//! has a copy of all other frames, which it may answer or forward as well, unless the port takes them alone
//! (`AfPacketPort::take_alone`, with feature `xdp`).
//!
//! Several ports of one interface can share its packets, one port for each worker ([`FanoutGroup`]). Otherwise each gets
//! all of them.
//!
//! Offloads need not be switched off on the hosts around. The kernel reports for each packet which work its sender has
//! left to its card (`PACKET_VNET_HDR`). Checksums are completed (`csum_completed`). Packets that stand for many, of up
//! to 64 KiB, are cut into their segments (`gso_cut`), each in a frame of its own
//! ([`wire::offload`](crate::wire::offload)). On request ([`Rx::keep_offloads`](super::Rx::keep_offloads)) both stay as
//! they are (`gso_kept`), as far as a frame has room. The kernel then gets the offload information back when such a
//! port transmits them.
//!
//! recvmmsg(2) and sendmmsg(2) move bytes directly into and out of the port's frames. The kernel makes one copy, and
//! one system call moves a burst. ADR 0020 explains why TPACKET rings are not used.
//!
//! When the interface is removed, the port is down. Packets that came before stay in the socket's buffer and are still
//! received. Then the port resumes with the next interface of the same name, if it carries Ethernet frames. Packets that
//! the caller leaves in the buffer, until then or until the port is closed, are counted (`rx_dropped`).
//!
//! The kernel refuses a frame that is shorter than a header or longer than the MTU allows; it is counted
//! (`tx_invalid`). A packet that is longer than the posted frames is counted as `rx_too_long`. A packet for which the
//! socket's buffer had no room is counted as `rx_ring_full`. A frame that a filter or queue of the interface or the far
//! end of a veth pair drops during sending is counted as `tx_lost`. The kernel reports a full queue in the same way. So
//! such a frame is given up when a frame behind it is sent although no sent frame is on the way, or after some
//! milliseconds. For a tenth of a second after that, refused frames are given up at once.

#[cfg(feature = "xdp")]
mod alone;
mod backlog;
mod bind;
mod control;
mod fanout;
mod rx;
#[cfg(test)]
mod tests;
mod tx;

pub use bind::{AfPacketConfig, AfPacketError};
pub use control::ControlTraffic;
pub use fanout::FanoutGroup;

use backlog::Backlog;
use control::Left;
use fanout::Membership;
use tx::Refusals;

use super::ENTER;
use super::copying::{CopyingPort, Device, RxBuffers};
use super::link::Link;
use super::uncut::Uncut;
use super::{PortCounters, PortState};
use crate::limits::BATCH_MAX;
use crate::pool::Frame;
use crate::stats::Writer;
use crate::sys::errno::Errno;
use crate::sys::event::is_readable;
use crate::sys::netdev::Netdev;
use crate::sys::packet::{PacketSocket, PacketSocketError};
use std::os::fd::{AsFd, BorrowedFd};

/// A port on an interface through a packet socket.
pub type AfPacketPort = CopyingPort<AfPacketLink>;

/// The socket and the interface of a [`AfPacketPort`].
#[derive(Debug)]
pub struct AfPacketLink {
    socket: PacketSocket,
    link: Link,
    /// Number of frames that the next call asks for: about as many as there were.
    burst: usize,
    /// The packets in the socket's buffer.
    backlog: Backlog,
    /// Received packets that are not in frames yet.
    uncut: Uncut,
    /// Open offload work stays with the frames.
    keeps_offloads: bool,
    /// The socket reports when the kernel received each packet.
    reports_times: bool,
    /// The frames that do not come out of the port; None if all do.
    left: Option<Left>,
    /// Its part in a group of ports that share the packets; None if all of them come to this port.
    fanout: Option<Membership>,
    /// Frames that the kernel refused to send.
    refusals: Refusals,
}

impl AfPacketLink {
    fn new(socket: PacketSocket, netdev: Netdev, burst: usize, reports_times: bool) -> AfPacketLink {
        AfPacketLink {
            socket,
            link: Link::new(netdev),
            burst,
            backlog: Backlog::default(),
            uncut: Uncut::new(BATCH_MAX),
            keeps_offloads: false,
            reports_times,
            left: None,
            fanout: None,
            refusals: Refusals::default(),
        }
    }

    /// The interface.
    pub fn netdev(&self) -> &Netdev {
        self.link.netdev()
    }

    /// Resumes with the interface that has the name of the removed one, when there is one. Before, the caller may
    /// receive what the removed one has left, as long as it takes some of it from one call to the next. The rest is
    /// dropped and counted.
    #[cold]
    fn come_back(&mut self, counters: &Writer<PortCounters>) {
        if self.link.is_up() && !self.socket.has_interface() {
            self.link.lose();
        }
        if self.link.is_gone() {
            self.left.iter_mut().for_each(Left::leave_interface);
        }
        let Some(netdev) = self.link.successor() else { return };
        self.publish(counters);
        if !self.backlog.is_over() {
            return;
        }
        let (left, fanout, reports_times) = (self.left.as_mut(), &self.fanout, self.reports_times);
        let opened = netdev.in_its_namespace(|| {
            netdev.mac_at_once().map_err(|errno| match errno {
                Errno::AFNOSUPPORT => "it is not an Ethernet interface".to_owned(),
                errno => format!("link address: {errno}"),
            })?;
            let failed = |error: PacketSocketError| format!("open a packet socket: {}", error.errno);
            let socket = PacketSocket::open(netdev.index()).map_err(failed)?;
            if reports_times {
                socket.report_times().map_err(|errno| format!("ask for times of reception: {errno}"))?;
            }
            let joined = fanout.as_ref().map(|fanout| fanout.moved_to(&socket, netdev.index())).transpose();
            let joined = joined.map_err(|errno| format!("join fanout group: {errno}"))?;
            left.map_or(Ok(()), |left| left.move_to(netdev.index())).map(|()| (socket, joined))
        });
        match opened {
            Ok(Ok((socket, fanout))) => {
                counters.rx_dropped.add(self.backlog.give_up());
                let uncut = std::mem::replace(&mut self.uncut, Uncut::new(0));
                let (keeps_offloads, left) = (self.keeps_offloads, self.left.take());
                let new = AfPacketLink::new(socket, netdev, self.burst, reports_times);
                *self = AfPacketLink { uncut, keeps_offloads, left, fanout, ..new };
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

    /// The kernel does the offload work that its interface cannot do.
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
            self.come_back(counters);
        }
    }

    /// Counts the packets that the caller has not taken. A packet whose segments it took in part is one of them.
    #[cold]
    fn close(&mut self, counters: &Writer<PortCounters>) {
        self.publish(counters);
        counters.rx_dropped.add(self.backlog.give_up() + self.uncut.len() as u64);
    }

    /// Adds the kernel's counts of packets received and dropped. Reading them resets them to 0 in the kernel.
    #[cold]
    fn publish(&self, counters: &Writer<PortCounters>) {
        if let Ok(kernel) = self.socket.statistics() {
            counters.rx_ring_full.add(kernel.dropped.into());
            self.backlog.come(kernel.come);
        }
    }

    #[cold]
    fn rx_pending(&mut self, counters: &Writer<PortCounters>) -> Option<usize> {
        self.publish(counters);
        Some(self.backlog.len() as usize + self.uncut.len())
    }

    /// Looks at the interface. While the worker sleeps, the check of every so many rounds does not run.
    fn is_readable(&mut self, counters: &Writer<PortCounters>) -> bool {
        if self.link.look_before_sleep() {
            self.publish(counters);
            self.come_back(counters);
        }
        !self.link.is_failed() && (!self.uncut.is_empty() || is_readable(self.socket.as_fd()))
    }

    fn wakeup_fd(&self) -> Option<BorrowedFd<'_>> {
        self.link.is_up().then(|| self.socket.as_fd())
    }

    fn state(&self) -> PortState {
        self.link.state()
    }

    fn is_failed(&self) -> bool {
        self.link.is_failed()
    }

    /// A sender leaves packets within a tunnel to a card to be cut, and they are lost.
    fn notice(&self) -> Option<String> {
        self.uncut.has_refused.then(|| {
            let name = self.link.netdev().name();
            format!(
                "it dropped a packet that no packet port can cut (rx_dropped), such as TCP within VXLAN or Geneve: on the sending \
                 host, ethtool -K IF tx-udp_tnl-segmentation off tx-udp_tnl-csum-segmentation off; if {name} is a card, \
                 ethtool -K {name} gro off"
            )
        })
    }
}
