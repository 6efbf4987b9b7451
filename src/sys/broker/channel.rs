//! The socket between a process and its broker. It carries whole messages with descriptors, and its calls wait.

use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

/// Maximum number of descriptors in a message: a namespace's, and four of a redirect program.
pub(super) const DESCRIPTORS: usize = 5;

/// Bytes, and the descriptors that came with them.
pub(super) type Message = (Vec<u8>, Vec<OwnedFd>);

/// The bytes of a message that came, and its descriptors, or the error that this process has no room for all of them.
pub(super) type Arrived = (Vec<u8>, Result<Vec<OwnedFd>, Errno>);

/// One end.
#[derive(Debug)]
pub(super) struct Channel(pub(super) OwnedFd);

impl Channel {
    /// Both ends.
    pub(super) fn pair() -> Result<(Channel, Channel), Errno> {
        let (one, other) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        Ok((Channel(one), Channel(other)))
    }

    /// Sets how long a call waits from now on.
    pub(super) fn set_patience(&self, patience: Duration) -> Result<(), Errno> {
        set_socket_timeout(&self.0, Timeout::Recv, Some(patience))?;
        set_socket_timeout(&self.0, Timeout::Send, Some(patience))
    }

    /// Sends a message.
    pub(super) fn send(&self, message: &[u8], descriptors: &[BorrowedFd<'_>]) -> Result<(), Errno> {
        let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
        let mut control = SendAncillaryBuffer::new(&mut room);
        if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
            return Err(Errno::TOOBIG);
        }
        sendmsg(&self.0, &[IoSlice::new(message)], &mut control, SendFlags::NOSIGNAL).map(drop)
    }

    /// Receives the next message of at most `most` bytes with its descriptors. None at the end, and for a longer
    /// message.
    pub(super) fn receive(&self, most: usize) -> Result<Option<Arrived>, Errno> {
        let mut message = vec![0; most];
        loop {
            let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
            let mut control = RecvAncillaryBuffer::new(&mut room);
            let into = &mut [IoSliceMut::new(&mut message)];
            let got = match recvmsg(&self.0, into, &mut control, RecvFlags::CMSG_CLOEXEC) {
                Err(Errno::INTR) => continue,
                got => got?,
            };
            let mut descriptors = Vec::new();
            for one in control.drain() {
                if let RecvAncillaryMessage::ScmRights(some) = one {
                    descriptors.extend(some);
                }
            }
            if got.bytes == 0 || got.flags.contains(ReturnFlags::TRUNC) {
                return Ok(None);
            }
            message.truncate(got.bytes);
            let lacks = got.flags.contains(ReturnFlags::CTRUNC);
            return Ok(Some((message, if lacks { Err(Errno::MFILE) } else { Ok(descriptors) })));
        }
    }
}
