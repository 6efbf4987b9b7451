//! Interfaces that receive frames to all addresses, as long as a packet socket asks for that (packet(7),
//! `PACKET_MR_PROMISC`). The kernel takes the request back with the socket, also if the process is killed.

use super::broker::{self, Request};
use super::errno::last_errno;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// Has an interface receive frames to all addresses while it lives. It receives nothing itself.
#[derive(Debug)]
pub struct Promiscuous(OwnedFd);

impl Promiscuous {
    /// Asks for it on the interface of number `index`.
    ///
    /// # Errors
    /// The kernel's error: `PERM` without CAP_NET_RAW, `AFNOSUPPORT` if packet sockets are forbidden or not there.
    pub fn new(index: u32) -> Result<Promiscuous, Errno> {
        if let Some(broker) = broker::current() {
            let opened = broker::ask_for_one(broker, &Request::Promiscuous(index), &[]);
            return opened.map(Promiscuous).map_err(Errno::from);
        }
        // Without a protocol no frame comes to it.
        let socket = socket_with(AddressFamily::PACKET, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
        receive_all(socket.as_fd(), index)?;
        Ok(Promiscuous(socket))
    }
}

impl From<Promiscuous> for OwnedFd {
    fn from(promiscuous: Promiscuous) -> OwnedFd {
        promiscuous.0
    }
}

/// Has the interface receive frames to all addresses while this packet socket is open.
pub(super) fn receive_all(socket: BorrowedFd<'_>, index: u32) -> Result<(), Errno> {
    let all = libc::packet_mreq {
        mr_ifindex: index as libc::c_int,
        mr_type: libc::PACKET_MR_PROMISC as u16,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    let (value, len) = ((&raw const all).cast(), size_of::<libc::packet_mreq>() as libc::socklen_t);
    // SAFETY: the kernel reads `len` bytes of a value that lives during the call.
    let done = unsafe {
        libc::setsockopt(socket.as_raw_fd(), libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, value, len)
    };
    if done < 0 { Err(last_errno()) } else { Ok(()) }
}
