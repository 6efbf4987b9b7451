//! Fanout groups of packet sockets: the kernel gives each packet of an interface to one socket of the group (packet(7),
//! `PACKET_FANOUT`).

use super::PacketSocket;
use crate::sys::errno::last_errno;
use rustix::io::Errno;
use std::mem::size_of;
use std::os::fd::AsRawFd;
use std::ptr;

impl PacketSocket {
    /// Joins the fanout group of this number. Without a number, joins a new group, which no other socket has. Returns
    /// the group's number. The kernel chooses the socket of a packet by a hash of its addresses and ports, which is the
    /// same in both directions of a flow. Of a fragment, which has no ports, it hashes the addresses.
    ///
    /// What waits in this socket's buffer before, the sockets that the group has already received too:
    /// [`PacketSocket::discard`]. What comes afterwards may come to this socket alone.
    ///
    /// # Errors
    /// The error of setsockopt(2): `INVAL` if the group belongs to another interface, `NOSPC` if it has 256 sockets,
    /// `NODEV` or `INVAL` if the interface is gone.
    pub fn join_fanout(&self, group: Option<u16>) -> Result<u16, Errno> {
        let unique = if group.is_none() { libc::PACKET_FANOUT_FLAG_UNIQUEID } else { 0 };
        let kind = libc::PACKET_FANOUT_HASH | unique;
        let asked = u32::from(group.unwrap_or(0)) | kind << 16;
        self.set(libc::SOL_PACKET, libc::PACKET_FANOUT, &asked)?;
        let mut group = 0_u32;
        let mut len = size_of::<u32>() as libc::socklen_t;
        // SAFETY: the kernel writes at most `len` bytes of an integer that lives during the call.
        let done = unsafe {
            let to = (&raw mut group).cast();
            libc::getsockopt(self.0.as_raw_fd(), libc::SOL_PACKET, libc::PACKET_FANOUT, to, &raw mut len)
        };
        // The upper half has the group's kind and flags.
        if done < 0 { Err(last_errno()) } else { Ok(group as u16) }
    }

    /// Discards the `n` oldest packets in the buffer.
    pub fn discard(&self, n: u64) {
        for _ in 0..n {
            // SAFETY: nothing is written into a buffer of no bytes.
            unsafe {
                libc::recv(self.0.as_raw_fd(), ptr::null_mut(), 0, libc::MSG_DONTWAIT | libc::MSG_TRUNC)
            };
        }
    }
}
