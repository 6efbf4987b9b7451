//! Ports that share the packets of one interface. COLD.

use super::bind::{AfPacketError, refused};
use super::{AfPacketLink, AfPacketPort};
use crate::port::Rx;
use crate::sync::shim::{Mutex, lock};
use crate::sys::errno::Errno;
use crate::sys::packet::PacketSocket;
use std::sync::Arc;

/// Ports of one interface that share its packets (packet(7), `PACKET_FANOUT`).
///
/// Each packet goes to one of the ports, and all whole packets of a flow go to the same port, in both directions. The
/// kernel decides by a hash of addresses and ports. A fragment has no ports: all fragments between two addresses go to
/// one port, which may be another than that of the flow. The kernel is not asked to reassemble datagrams
/// (`PACKET_FANOUT_FLAG_DEFRAG`), because those are longer than the link's packets. A port whose buffer is full drops the
/// packets of its flows ([`rx_ring_full`](crate::port::PortCounters::rx_ring_full)).
///
/// ```no_run
/// use netmem::port::af_packet::{AfPacketConfig, AfPacketPort, FanoutGroup};
///
/// let group = FanoutGroup::default();
/// let mut ports = Vec::new();
/// for _worker in 0..2 {
///     let mut port = AfPacketPort::open("eth0", &AfPacketConfig::default())?;
///     port.join(&group)?;
///     ports.push(port);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct FanoutGroup {
    members: Arc<Mutex<Members>>,
}

/// The sockets of a group, as long as there are any. After the interface is gone, the first socket on the next one makes
/// a new group of the kernel.
#[derive(Debug, Default)]
struct Members {
    /// The interface's number, and the number of the kernel's group.
    of: (u32, u16),
    sockets: usize,
}

impl Members {
    fn are_on(&self, interface: u32) -> bool {
        self.sockets > 0 && self.of.0 == interface
    }

    /// Adds a socket on this interface: to the kernel's group of the other sockets if they are on it, otherwise to a new
    /// one. Returns whether the socket has joined others, which received the same packets before.
    fn add(&mut self, socket: &PacketSocket, interface: u32) -> Result<bool, Errno> {
        let others = self.are_on(interface).then(|| socket.join_fanout(Some(self.of.1)));
        let (number, sockets) = match others {
            Some(Ok(number)) => (number, self.sockets + 1),
            // The others were on an interface of the same number, which is gone.
            Some(Err(Errno::INVAL)) | None => (socket.join_fanout(None)?, 1),
            Some(Err(errno)) => return Err(errno),
        };
        *self = Members { of: (interface, number), sockets };
        Ok(sockets > 1)
    }
}

/// A socket's part in a group, until it is dropped.
#[derive(Debug)]
pub(super) struct Membership {
    group: FanoutGroup,
    of: (u32, u16),
}

impl Membership {
    /// Adds the new socket of a port that moves to the interface of that number.
    pub(super) fn moved_to(&self, socket: &PacketSocket, interface: u32) -> Result<Membership, Errno> {
        let mut members = lock(&self.group.members);
        // Asked before: what comes afterwards comes to this socket alone.
        let others = members.are_on(interface).then(|| socket.statistics());
        if members.add(socket, interface)? {
            socket.discard(others.and_then(Result::ok).map_or(0, |before| before.come.into()));
        }
        Ok(Membership { group: self.group.clone(), of: members.of })
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        let mut members = lock(&self.group.members);
        if members.of == self.of {
            members.sockets -= 1;
        }
    }
}

impl AfPacketPort {
    /// Shares the interface's packets with the other ports of `group` from now on, also after the interface was removed
    /// and made again. All ports of a group have the same interface. If the group has ports already, packets that wait in
    /// this port's buffer are discarded, because those ports received them too.
    ///
    /// # Errors
    /// Returns [`AfPacketError`] if the ports of the group have another interface, if the group has 256 ports, or if this
    /// port is in a group already. The port gets all packets then, or those of its group, as before.
    #[cold]
    pub fn join(&mut self, group: &FanoutGroup) -> Result<(), AfPacketError> {
        // Asks the kernel how many packets wait. Those that come afterwards come to this port alone.
        self.rx_pending();
        let AfPacketLink { socket, link, backlog, fanout, .. } = self.device_mut();
        let (interface, name) = (link.netdev().index(), link.netdev().name());
        let mut members = lock(&group.members);
        if members.sockets > 0 && !members.are_on(interface) {
            return Err(AfPacketError::OtherGroup(name.to_owned()));
        }
        let joined = members.add(socket, interface);
        let has_others = joined.map_err(|errno| refused(name, "join fanout group", errno))?;
        *fanout = Some(Membership { group: group.clone(), of: members.of });
        if has_others {
            socket.discard(backlog.give_up());
        }
        Ok(())
    }
}
