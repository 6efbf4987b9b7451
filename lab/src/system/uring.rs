//! Datagrams of a socket by io_uring(7), each answered from the buffer in which it came.
//!
//! # Soundness
//! The kernel writes to buffers, addresses and headers of the slots, by raw pointers that it was given when a request was submitted. The slots lie in one box, which is
//! neither moved nor freed, and of which nothing is read or written, while a request of theirs is under way: the ring is [emptied](AnswerRing::end) before they go, and
//! where it cannot be they are leaked.

use std::io;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::time::Duration;

use io_uring::types::{CancelBuilder, Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, opcode, squeue};

/// Receptions under way.
const SLOTS: usize = 64;

/// Bytes that a datagram may have.
pub const ROOM: usize = 128;

/// One datagram on its way in or out.
struct Slot {
    header: libc::msghdr,
    part: libc::iovec,
    peer: libc::sockaddr_in,
    room: [u8; ROOM],
    /// The request under way sends.
    sends: bool,
}

/// A ring that receives into every slot. It belongs to the thread that made it.
pub struct AnswerRing {
    ring: IoUring,
    socket: Fd,
    slots: Box<[Slot]>,
    under_way: usize,
}

impl AnswerRing {
    /// A ring of `socket`, which outlives it.
    ///
    /// # Errors
    /// What io_uring_setup(2) says: there is none, or it is forbidden.
    pub fn new(socket: &UdpSocket) -> io::Result<AnswerRing> {
        // SAFETY: all zeros are a value of each of these structures of C.
        let (header, part, peer) = unsafe { (std::mem::zeroed(), std::mem::zeroed(), std::mem::zeroed()) };
        let slot = || Slot { header, part, peer, room: [0; ROOM], sends: false };
        let slots = (0..SLOTS).map(|_| slot()).collect();
        let ring = IoUring::builder().setup_single_issuer().setup_defer_taskrun().build(2 * SLOTS as u32)?;
        let mut ring = AnswerRing { ring, socket: Fd(socket.as_raw_fd()), slots, under_way: 0 };
        for index in 0..SLOTS {
            ring.receive(index)?;
        }
        Ok(ring)
    }

    /// Waits for datagrams, at most so long, and sends what `answer` makes of each in its buffer; where that is None, nothing.
    ///
    /// # Errors
    /// What the system says of a request.
    pub fn round(
        &mut self,
        at_most: Duration,
        mut answer: impl FnMut(&mut [u8], usize) -> Option<usize>,
    ) -> io::Result<()> {
        self.wait(at_most)?;
        let done: Vec<_> =
            self.ring.completion().map(|one| (one.user_data() as usize, one.result())).collect();
        self.under_way -= done.len();
        for (index, result) in done {
            let slot = &mut self.slots[index];
            let end = match usize::try_from(result) {
                Ok(_) if slot.sends => None,
                Ok(len) => answer(&mut slot.room, len).map(|end| end.min(ROOM)),
                Err(_) => return Err(io::Error::from_raw_os_error(-result)),
            };
            match end {
                Some(end) => self.send(index, end)?,
                None => self.receive(index)?,
            }
        }
        Ok(())
    }

    /// Submits what was pushed, and waits for one that is done, or until the time is up.
    fn wait(&mut self, at_most: Duration) -> io::Result<()> {
        let at_most = Timespec::from(at_most);
        match self.ring.submitter().submit_with_args(1, &SubmitArgs::new().timespec(&at_most)) {
            Err(error) if !matches!(error.raw_os_error(), Some(libc::ETIME | libc::EINTR)) => Err(error),
            _ => Ok(()),
        }
    }

    fn receive(&mut self, index: usize) -> io::Result<()> {
        let (socket, header) = (self.socket, self.header(index, ROOM, false));
        self.push(&opcode::RecvMsg::new(socket, header).build().user_data(index as u64))
    }

    fn send(&mut self, index: usize, len: usize) -> io::Result<()> {
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

    fn push(&mut self, request: &squeue::Entry) -> io::Result<()> {
        // SAFETY: the pointers in it are to a slot without another request, which stays as the module says.
        unsafe { self.ring.submission().push(request) }.map_err(io::Error::other)?;
        self.under_way += 1;
        Ok(())
    }

    /// Takes back all requests and waits until none is under way.
    fn end(&mut self) -> io::Result<()> {
        self.ring.submit()?;
        match self.ring.submitter().register_sync_cancel(None, CancelBuilder::any()) {
            Err(error) if error.raw_os_error() != Some(libc::ENOENT) => return Err(error),
            _ => (),
        }
        while self.under_way > 0 {
            self.wait(Duration::from_secs(1))?;
            self.under_way -= self.ring.completion().count();
        }
        Ok(())
    }
}

impl Drop for AnswerRing {
    fn drop(&mut self) {
        if self.end().is_err() {
            // The kernel may write to these slots at any time from now on, so they are never freed.
            Box::leak(std::mem::take(&mut self.slots));
        }
    }
}
