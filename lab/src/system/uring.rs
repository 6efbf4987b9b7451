//! Receives datagrams of a socket by io_uring(7), and answers each from the buffer in which it came.
//!
//! # Soundness
//! The kernel writes to buffers, addresses and headers of the slots, by raw pointers that it was given when a
//! request was submitted. The slots lie in one box. While a request of theirs is pending, the box is neither moved
//! nor freed, and nothing of it is read or written. The ring is [emptied](AnswerRing::end) before the slots are
//! freed. If it cannot be emptied, they are leaked.

use std::io;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::time::Duration;

use io_uring::types::{CancelBuilder, Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, opcode, squeue};

/// Pending receptions.
const SLOTS: usize = 64;

/// Maximum bytes of a datagram.
pub const ROOM: usize = 128;

/// One datagram that is being received or sent.
struct Slot {
    header: libc::msghdr,
    part: libc::iovec,
    peer: libc::sockaddr_in,
    room: [u8; ROOM],
    /// True if the pending request sends.
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
    /// Makes a ring of `socket`, which outlives it.
    ///
    /// # Errors
    /// The error of io_uring_setup(2): there is no io_uring, it is forbidden, or the kernel is older than Linux 6.1 and does not
    /// know its flags.
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

    /// Waits for datagrams for at most `at_most`, and sends the answer that `answer` makes of each in its buffer.
    /// Sends nothing if that is None.
    ///
    /// # Errors
    /// The system's error of a request.
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

    /// Submits the pushed requests, and waits until one is done or the time is over.
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

    /// Prepares the header of a request for a slot that has none pending.
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

    /// Cancels all requests and waits until none is pending.
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
