//! Packet sockets (packet(7)): all frames of an interface, many with one system call, directly from and into the
//! caller's buffers.

mod control;
mod fanout;

use super::broker::{self, Refusal, Request};
use super::errno::last_errno;
use super::promiscuous::receive_all;
use super::virtio::{HEADER, VirtioHeader};
use crate::limits::BATCH_MAX;
use control::Control;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use std::io::{IoSlice, IoSliceMut};
use std::mem::{size_of, zeroed};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// The size in bytes of the socket's buffer for frames that are not received yet.
const RECEIVE_BUFFER: libc::c_int = 8 << 20;
/// The maximum number of parts that a frame may be received into.
pub const PARTS: usize = 3;

/// The step at which the kernel refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketStep {
    /// socket(2).
    Open,
    /// Setting the options: receive what the kernel strips, and do not receive what is sent.
    Configure,
    /// Requesting frames to other addresses too.
    Promiscuous,
    /// bind(2).
    Bind,
}

impl PacketStep {
    /// All steps, by their numbers.
    const ALL: [PacketStep; 4] =
        [PacketStep::Open, PacketStep::Configure, PacketStep::Promiscuous, PacketStep::Bind];
}

/// Opening a packet socket failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketSocketError {
    /// The step that failed.
    pub step: PacketStep,
    /// The kernel's error.
    pub errno: Errno,
}

/// One frame as it was received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// The bytes in its parts together.
    pub len: usize,
    /// Whether it was longer than its parts.
    pub is_cut: bool,
    /// The offload that its sender left to be done.
    pub header: VirtioHeader,
    /// The VLAN tag that the kernel took out of it. Its place is behind the two addresses.
    pub tag: Option<[u8; 4]>,
    /// The time at which the kernel received it, since 1970; None without [`PacketSocket::report_times`].
    pub time: Option<Duration>,
}

/// Frames that the kernel counted since the last query.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketStatistics {
    /// Packets that went into its buffer.
    pub come: u32,
    /// Dropped because the socket's buffer was full.
    pub dropped: u32,
}

/// A packet socket that is bound to one interface and never blocks.
///
/// It gets every frame that the interface receives. It gets no sent frame, not even its own. The kernel gets the
/// received frames as well.
#[derive(Debug)]
pub struct PacketSocket(OwnedFd);

impl PacketSocket {
    /// Opens a socket for the interface of number `index`.
    ///
    /// # Errors
    /// The step and the kernel's error: `PERM` without CAP_NET_RAW.
    pub fn open(index: u32) -> Result<PacketSocket, PacketSocketError> {
        if let Some(broker) = broker::current() {
            let opened = broker::ask_for_one(broker, &Request::PacketSocket(index), &[]);
            return opened.map(PacketSocket).map_err(|Refusal { errno, step, .. }| PacketSocketError {
                step: *PacketStep::ALL.get(usize::from(step)).unwrap_or(&PacketStep::Open),
                errno,
            });
        }
        let at = |step| move |errno| PacketSocketError { step, errno };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        // Without a protocol it receives nothing from any interface before it is bound.
        let fd =
            socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None).map_err(at(PacketStep::Open))?;
        let socket = PacketSocket(fd);
        let on: libc::c_int = 1;
        for option in [libc::PACKET_AUXDATA, libc::PACKET_IGNORE_OUTGOING, libc::PACKET_VNET_HDR] {
            socket.set(libc::SOL_PACKET, option, &on).map_err(at(PacketStep::Configure))?;
        }
        // More than the limit only with CAP_NET_ADMIN. A smaller buffer takes a shorter burst, and has no other effect.
        let forced = socket.set(libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &RECEIVE_BUFFER);
        let _ = forced.or_else(|_| socket.set(libc::SOL_SOCKET, libc::SO_RCVBUF, &RECEIVE_BUFFER));
        receive_all(socket.as_fd(), index).map_err(at(PacketStep::Promiscuous))?;
        socket.bind(index).map_err(at(PacketStep::Bind))?;
        Ok(socket)
    }

    /// Has the kernel report the time at which it received each frame.
    ///
    /// # Errors
    /// The error of setsockopt(2).
    ///
    /// # Cost
    /// The kernel reads its clock once for each frame that any interface of the system receives, until no socket wants it.
    pub fn report_times(&self) -> Result<(), Errno> {
        let on: libc::c_int = 1;
        self.set(libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, &on)
    }

    fn set<T>(&self, level: libc::c_int, option: libc::c_int, value: &T) -> Result<(), Errno> {
        let (value, len) = ((&raw const *value).cast(), size_of::<T>() as libc::socklen_t);
        // SAFETY: the kernel reads `len` bytes of a value that lives during the call.
        let done = unsafe { libc::setsockopt(self.0.as_raw_fd(), level, option, value, len) };
        if done < 0 { Err(last_errno()) } else { Ok(()) }
    }

    fn bind(&self, index: u32) -> Result<(), Errno> {
        // SAFETY: sockaddr_ll is plain integers, for which zero is valid.
        let mut address: libc::sockaddr_ll = unsafe { zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
        address.sll_ifindex = index as libc::c_int;
        let len = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        // SAFETY: the kernel reads `len` bytes of the address.
        let done = unsafe { libc::bind(self.0.as_raw_fd(), (&raw const address).cast(), len) };
        if done < 0 { Err(last_errno()) } else { Ok(()) }
    }

    /// Whether the interface that it is bound to still exists here. False after the interface was removed or moved to
    /// another namespace, even if another interface has its number now.
    ///
    /// # Cost
    /// One system call.
    pub fn has_interface(&self) -> bool {
        // SAFETY: sockaddr_ll is plain integers, for which zero is valid.
        let mut address: libc::sockaddr_ll = unsafe { zeroed() };
        let mut len = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        // SAFETY: the kernel writes at most `len` bytes to an address that has as many and lives during the call.
        let done = unsafe { libc::getsockname(self.0.as_raw_fd(), (&raw mut address).cast(), &raw mut len) };
        done < 0 || address.sll_ifindex > 0
    }

    /// Receives into as many of `rooms` as there are frames, from the first on, at most [`BATCH_MAX`]. If the first
    /// part of a room is too small for a frame, the rest goes into the second part, and then into the third. Describes
    /// each frame in `received`, and returns how many there are.
    ///
    /// # Errors
    /// `NETDOWN` once when the interface goes down or away. `INVAL` for a frame that is lost because the kernel cannot
    /// describe its offload. Otherwise the error of recvmmsg(2).
    ///
    /// # Cost
    /// One system call for all, and one copy of each frame, by the kernel, into its room.
    pub fn receive(
        &self,
        rooms: &mut [[IoSliceMut<'_>; PARTS]],
        received: &mut [Received; BATCH_MAX],
    ) -> Result<usize, Errno> {
        let n = rooms.len().min(BATCH_MAX);
        let mut control = [Control::EMPTY; BATCH_MAX];
        // SAFETY: iovec and mmsghdr are plain integers and pointers, for which zero is valid.
        let (mut parts, mut messages): ([[libc::iovec; 1 + PARTS]; BATCH_MAX], [libc::mmsghdr; BATCH_MAX]) =
            unsafe { zeroed() };
        for (i, [room, second, third]) in rooms[..n].iter_mut().enumerate() {
            let header = (&raw mut received[i].header).cast();
            let none = usize::from(third.is_empty());
            parts[i] = [(header, HEADER), part(room), part(second), part(third)]
                .map(|(iov_base, iov_len)| libc::iovec { iov_base, iov_len });
            let message = &mut messages[i].msg_hdr;
            (message.msg_iov, message.msg_iovlen) = (parts[i].as_mut_ptr(), (1 + PARTS - none) as _);
            (message.msg_control, message.msg_controllen) =
                (control[i].as_mut_ptr(), size_of::<Control>() as _);
        }
        // SAFETY: the first `n` messages point to headers, rooms and control buffers that are borrowed or owned during
        // the call.
        let got = unsafe {
            let flags = libc::MSG_DONTWAIT;
            libc::recvmmsg(
                self.0.as_raw_fd(),
                messages.as_mut_ptr(),
                n as _,
                flags as _,
                std::ptr::null_mut(),
            )
        };
        let Ok(got) = usize::try_from(got) else {
            return match last_errno() {
                Errno::AGAIN | Errno::INTR => Ok(0),
                errno => Err(errno),
            };
        };
        for ((message, parts), one) in messages.iter().zip(rooms.iter()).zip(received.iter_mut()).take(got) {
            // SAFETY: the kernel has filled the control buffer that this message points to, which lives on.
            let (tag, time) = unsafe { control::reported(&message.msg_hdr) };
            *one = Received {
                len: (message.msg_len as usize)
                    .saturating_sub(HEADER)
                    .min(parts.iter().map(|part| part.len()).sum()),
                is_cut: message.msg_hdr.msg_flags & libc::MSG_TRUNC != 0,
                header: one.header,
                tag,
                time,
            };
        }
        Ok(got.min(n))
    }

    /// Sends `frames` from the first on, at most [`BATCH_MAX`], each with its offload. Returns how many the kernel
    /// took.
    ///
    /// # Errors
    /// Of the first frame only, and then none was sent. `MSGSIZE` and `INVAL` for a frame that the interface does not
    /// send, or with a header that does not fit it. `NETDOWN` and `NXIO` if the interface is down or gone. `NOBUFS`,
    /// `NOMEM` and `AGAIN` if there is no room.
    ///
    /// # Cost
    /// One system call for all, and one copy of each frame, by the kernel.
    pub fn send(&self, frames: &[(VirtioHeader, IoSlice<'_>)]) -> Result<usize, Errno> {
        let n = frames.len().min(BATCH_MAX);
        // SAFETY: as in `receive`.
        let (mut parts, mut messages): ([[libc::iovec; 2]; BATCH_MAX], [libc::mmsghdr; BATCH_MAX]) =
            unsafe { zeroed() };
        for (i, (header, frame)) in frames[..n].iter().enumerate() {
            // The kernel only reads here.
            let header = libc::iovec { iov_base: header.as_ptr().cast_mut().cast(), iov_len: HEADER };
            let frame = libc::iovec { iov_base: frame.as_ptr().cast_mut().cast(), iov_len: frame.len() };
            parts[i] = [header, frame];
            (messages[i].msg_hdr.msg_iov, messages[i].msg_hdr.msg_iovlen) = (parts[i].as_mut_ptr(), 2);
        }
        // SAFETY: the first `n` messages point to headers and frames that are borrowed during the call; nothing else is
        // pointed to.
        let sent = unsafe {
            let flags = libc::MSG_DONTWAIT;
            libc::sendmmsg(self.0.as_raw_fd(), messages.as_mut_ptr(), n as _, flags as _)
        };
        usize::try_from(sent).map(|sent| sent.min(n)).map_err(|_| last_errno())
    }

    /// Returns whether sent frames are on the way: the kernel or the device still has them. True also if the kernel does
    /// not say.
    pub fn has_unsent(&self) -> bool {
        let mut bytes: libc::c_int = 0;
        // SAFETY: the kernel writes one integer, which lives during the call.
        let done = unsafe { libc::ioctl(self.0.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
        done < 0 || bytes > 0
    }

    /// The packets that came and that the kernel dropped since the last query.
    ///
    /// # Errors
    /// The error of getsockopt(2).
    pub fn statistics(&self) -> Result<PacketStatistics, Errno> {
        let mut statistics = libc::tpacket_stats { tp_packets: 0, tp_drops: 0 };
        let mut len = size_of::<libc::tpacket_stats>() as libc::socklen_t;
        // SAFETY: the kernel writes at most `len` bytes of plain integers into a value that lives during the call.
        let done = unsafe {
            let to = (&raw mut statistics).cast();
            libc::getsockopt(self.0.as_raw_fd(), libc::SOL_PACKET, libc::PACKET_STATISTICS, to, &raw mut len)
        };
        // The kernel counts dropped packets as packets too (packet_getsockopt of Linux 6.17).
        let libc::tpacket_stats { tp_packets, tp_drops: dropped } = statistics;
        let come = tp_packets.saturating_sub(dropped);
        if done < 0 { Err(last_errno()) } else { Ok(PacketStatistics { come, dropped }) }
    }
}

impl From<PacketSocket> for OwnedFd {
    fn from(socket: PacketSocket) -> OwnedFd {
        socket.0
    }
}

/// The address and length of a part of a room.
fn part(room: &mut IoSliceMut<'_>) -> (*mut libc::c_void, usize) {
    (room.as_mut_ptr().cast(), room.len())
}

impl AsFd for PacketSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
