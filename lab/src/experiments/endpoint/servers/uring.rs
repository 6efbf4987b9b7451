//! A server over a socket of the kernel, by io_uring(7).
//!
//! # Soundness
//! The kernel writes to buffers, addresses and headers of the slots, by raw pointers that it was given when a request was submitted. The slots lie in one box, which is
//! neither moved nor freed, and of which nothing is read or written, while a request of theirs is under way: the ring is [emptied](Ring::end) before they go, and
//! where it cannot be they are leaked.

use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};

use io_uring::types::{CancelBuilder, Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, opcode, squeue};

use super::super::super::veths::Veths;
use super::super::work::{MOST, Work};
use super::{LOOK, Server};

/// Receptions under way.
const SLOTS: usize = 64;

pub(super) fn open(veths: &Veths, work: Work) -> Result<Server, String> {
    let bound = veths.on_middle(|| UdpSocket::bind(("0.0.0.0", work.port())))?;
    let socket = bound.map_err(|error| error.to_string())?;
    Ok(Server { name: "io_uring", serve: Box::new(move |ends| serve(&socket, work, ends)) })
}

/// The requests belong to the thread that submits them, so each round has a ring of its own.
fn serve(socket: &UdpSocket, work: Work, ends: &AtomicBool) -> Result<(), String> {
    let said = |error: std::io::Error| format!("io_uring: {error}");
    let mut ring = Ring::new(socket).map_err(said)?;
    // Relaxed: a wish, which carries no data.
    while !ends.load(Ordering::Relaxed) {
        ring.round(work).map_err(said)?;
    }
    Ok(())
}

/// One datagram on its way in or out.
struct Slot {
    header: libc::msghdr,
    part: libc::iovec,
    peer: libc::sockaddr_in,
    room: [u8; MOST],
    /// The request under way sends.
    sends: bool,
}

struct Ring {
    ring: IoUring,
    socket: Fd,
    slots: Box<[Slot]>,
    under_way: usize,
}

impl Ring {
    /// A ring that receives into every slot.
    fn new(socket: &UdpSocket) -> std::io::Result<Ring> {
        // SAFETY: all zeros are a value of each of these structures of C.
        let (header, part, peer) = unsafe { (std::mem::zeroed(), std::mem::zeroed(), std::mem::zeroed()) };
        let slot = || Slot { header, part, peer, room: [0; MOST], sends: false };
        let slots = (0..SLOTS).map(|_| slot()).collect();
        let ring = IoUring::builder().setup_single_issuer().setup_defer_taskrun().build(2 * SLOTS as u32)?;
        let mut ring = Ring { ring, socket: Fd(socket.as_raw_fd()), slots, under_way: 0 };
        for index in 0..SLOTS {
            ring.receive(index)?;
        }
        Ok(ring)
    }

    /// Waits for what is done, at most as long as a server sleeps, and answers it.
    fn round(&mut self, work: Work) -> std::io::Result<()> {
        self.wait()?;
        let done: Vec<_> =
            self.ring.completion().map(|one| (one.user_data() as usize, one.result())).collect();
        for (index, result) in done {
            self.under_way -= 1;
            let slot = &mut self.slots[index];
            let end = match usize::try_from(result) {
                Ok(_) if slot.sends => None,
                Ok(len) => work.answer(&mut slot.room, len),
                Err(_) => return Err(std::io::Error::from_raw_os_error(-result)),
            };
            match end {
                Some(end) => self.send(index, end)?,
                None => self.receive(index)?,
            }
        }
        Ok(())
    }

    /// Submits what was pushed, and waits for one that is done, or until the time is up.
    fn wait(&mut self) -> std::io::Result<()> {
        let at_most = Timespec::from(LOOK);
        match self.ring.submitter().submit_with_args(1, &SubmitArgs::new().timespec(&at_most)) {
            Err(error) if !matches!(error.raw_os_error(), Some(libc::ETIME | libc::EINTR)) => Err(error),
            _ => Ok(()),
        }
    }

    fn receive(&mut self, index: usize) -> std::io::Result<()> {
        let (socket, header) = (self.socket, self.header(index, MOST, false));
        self.push(&opcode::RecvMsg::new(socket, header).build().user_data(index as u64))
    }

    fn send(&mut self, index: usize, len: usize) -> std::io::Result<()> {
        let (socket, header) = (self.socket, self.header(index, len, true));
        self.push(&opcode::SendMsg::new(socket, header).build().user_data(index as u64))
    }

    /// The header of a request by a slot that has none under way.
    fn header(&mut self, index: usize, len: usize, sends: bool) -> *mut libc::msghdr {
        let slot = &mut self.slots[index];
        slot.sends = sends;
        slot.part = libc::iovec { iov_base: slot.room.as_mut_ptr().cast(), iov_len: len };
        slot.header.msg_name = (&raw mut slot.peer).cast();
        slot.header.msg_namelen = size_of::<libc::sockaddr_in>() as u32;
        slot.header.msg_iov = &raw mut slot.part;
        slot.header.msg_iovlen = 1;
        &raw mut slot.header
    }

    fn push(&mut self, request: &squeue::Entry) -> std::io::Result<()> {
        // SAFETY: the pointers in it are to a slot without another request, which stays as the module says.
        unsafe { self.ring.submission().push(request) }.map_err(std::io::Error::other)?;
        self.under_way += 1;
        Ok(())
    }

    /// Takes back all requests and waits until none is under way.
    fn end(&mut self) -> std::io::Result<()> {
        self.ring.submit()?;
        match self.ring.submitter().register_sync_cancel(None, CancelBuilder::any()) {
            Err(error) if error.raw_os_error() != Some(libc::ENOENT) => return Err(error),
            _ => (),
        }
        while self.under_way > 0 {
            self.wait()?;
            self.under_way -= self.ring.completion().count();
        }
        Ok(())
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        if self.end().is_err() {
            // The kernel may write to them for ever.
            Box::leak(std::mem::take(&mut self.slots));
        }
    }
}
