//! TAP interfaces: a program at the far end of an Ethernet interface (Documentation/networking/tuntap.rst).

use super::broker::{self, Refusal, Request};
use super::errno::{last_errno, of_io};
use super::netdev::{Netdev, request};
use super::netns::NetworkNamespace;
use super::virtio::{HEADER, VirtioHeader};
use rustix::fd::AsFd as _;
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::io::{IoSlice, IoSliceMut, Read, Write};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;

/// The offloads that a host may leave to be done on frames that it sends.
const ALL: libc::c_uint = libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6 | libc::TUN_F_TSO_ECN | UDP;
/// The kinds that Linux knows from 6.2 on. UDP's fragments (`TUN_F_UFO`) are never requested.
const UDP: libc::c_uint = libc::TUN_F_USO4 | libc::TUN_F_USO6;

/// Asks for the network namespace of the interface (`linux/if_tun.h`, Linux 5.2).
const TUNGETDEVNETNS: libc::c_ulong = 0x54e3;

/// The step at which the kernel refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TapStep {
    /// Opening /dev/net/tun.
    Open,
    /// Making the interface, or attaching to it.
    Attach,
}

/// Opening a TAP interface failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TapQueueError {
    /// The step that failed.
    pub step: TapStep,
    /// The kernel's error.
    pub errno: Errno,
}

/// One queue of a TAP interface. It never blocks. Reads get the frames that the host sends through the interface; the
/// host receives the frames that are written. An interface that was made for a queue goes with its last queue.
#[derive(Debug)]
pub struct TapQueue(File);

impl From<OwnedFd> for TapQueue {
    /// Wraps a queue that another process opened and handed over.
    fn from(queue: OwnedFd) -> TapQueue {
        TapQueue(queue.into())
    }
}

impl From<TapQueue> for OwnedFd {
    fn from(queue: TapQueue) -> OwnedFd {
        queue.0.into()
    }
}

impl TapQueue {
    /// Makes the interface `name`, or attaches to an existing one. With `several` the interface has a queue for each
    /// time it is opened.
    ///
    /// # Errors
    /// The step and the kernel's error: `PERM` without CAP_NET_ADMIN, `BUSY` if another program has it, `INVAL` if it
    /// is not a TAP interface, or has several queues but `several` is false.
    pub fn open(name: &str, several: bool) -> Result<TapQueue, TapQueueError> {
        let at = |step| move |errno| TapQueueError { step, errno };
        if name.is_empty() || name.len() >= libc::IFNAMSIZ || name.contains(['\0', '/', '%']) {
            return Err(at(TapStep::Attach)(Errno::INVAL));
        }
        if let Some(broker) = broker::current() {
            let opened = broker::ask_for_one(broker, &Request::Tap(name.to_owned(), several), &[]);
            return opened.map(TapQueue::from).map_err(|Refusal { errno, step, .. }| TapQueueError {
                step: if step == TapStep::Open as u8 { TapStep::Open } else { TapStep::Attach },
                errno,
            });
        }
        let opened =
            OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open("/dev/net/tun");
        let file = opened.map_err(|error| at(TapStep::Open)(of_io(error)))?;
        let mut request = request(name);
        let several = if several { libc::IFF_MULTI_QUEUE } else { 0 };
        let flags = libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_VNET_HDR | several;
        request.ifr_ifru.ifru_flags = flags as i16;
        // SAFETY: TUNSETIFF reads and writes one ifreq, which lives during the call.
        let done = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &raw mut request) };
        if done < 0 {
            return Err(at(TapStep::Attach)(last_errno()));
        }
        let length = HEADER as libc::c_int;
        // SAFETY: TUNSETVNETHDRSZ reads a number, which lives during the call.
        let done = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETVNETHDRSZ, &raw const length) };
        if done < 0 { Err(at(TapStep::Attach)(last_errno())) } else { Ok(TapQueue(file)) }
    }

    /// Whether its interface still exists. False after the interface was removed, even if another interface has its
    /// name now.
    ///
    /// # Cost
    /// One system call.
    pub fn has_interface(&self) -> bool {
        self.current_name().is_ok()
    }

    /// The current name of its interface, as text.
    fn name(&self) -> Result<String, Errno> {
        String::from_utf8(self.current_name()?).map_err(|_| Errno::ILSEQ)
    }

    /// The current name of its interface, which need not be text.
    fn current_name(&self) -> Result<Vec<u8>, Errno> {
        let mut request = request("");
        // SAFETY: TUNGETIFF writes one ifreq, which lives during the call.
        let done = unsafe { libc::ioctl(self.0.as_raw_fd(), libc::TUNGETIFF, &raw mut request) };
        if done < 0 {
            return Err(last_errno());
        }
        Ok(request.ifr_name.iter().map(|c| *c as u8).take_while(|byte| *byte != 0).collect())
    }

    /// Its interface in its current namespace, by its name there: it may have been moved to another network namespace.
    ///
    /// # Errors
    /// `BADFD` if it is gone, `PERM` without CAP_NET_ADMIN in its namespace or CAP_SYS_ADMIN to enter it, `INVAL`
    /// before Linux 5.2.
    pub fn interface(&self) -> Result<Netdev, Errno> {
        if let Some(broker) = broker::current() {
            let (name, sockets) = broker::ask(broker, &Request::TapPlace, &[self.as_fd()])?;
            let socket = sockets.into_iter().next().ok_or(Errno::PROTO)?;
            return Netdev::by(socket, &String::from_utf8(name).map_err(|_| Errno::PROTO)?);
        }
        let name = self.name()?;
        // SAFETY: TUNGETDEVNETNS takes no argument; it returns a descriptor.
        let fd = unsafe { libc::ioctl(self.0.as_raw_fd(), TUNGETDEVNETNS as libc::Ioctl) };
        if fd < 0 {
            return Err(last_errno());
        }
        // SAFETY: the kernel just made it and no other code knows it.
        let place = NetworkNamespace::from(unsafe { OwnedFd::from_raw_fd(fd) });
        place.inside(|| Netdev::open(&name)).map_err(of_io)?
    }

    /// Sets which offloads the host may leave to be done on frames that it sends: checksums, segments of TCP and, from
    /// Linux 6.2 on, of UDP. Without them frames come complete.
    ///
    /// # Errors
    /// `BADFD` if the interface is gone.
    pub fn accept_offloads(&self, accept: bool) -> Result<(), Errno> {
        let kinds: &[_] = if accept { &[ALL, ALL & !UDP, 0] } else { &[0] };
        let mut refused = Errno::INVAL;
        for kinds in kinds {
            // SAFETY: TUNSETOFFLOAD takes a number.
            let done =
                unsafe { libc::ioctl(self.0.as_raw_fd(), libc::TUNSETOFFLOAD, libc::c_ulong::from(*kinds)) };
            if done == 0 {
                return Ok(());
            }
            // INVAL: a kind that this kernel does not know.
            refused = last_errno();
        }
        Err(refused)
    }

    /// Reads one frame into `rooms`, one after the other, and its offload into `header`. Returns None if there is no
    /// frame. For a frame that is longer than all rooms it returns more than their length, and the end of the frame is
    /// lost.
    ///
    /// # Errors
    /// `BADFD` if the interface is gone.
    ///
    /// # Cost
    /// One system call, and one copy by the kernel.
    pub fn receive(&self, header: &mut VirtioHeader, rooms: [&mut [u8]; 3]) -> Result<Option<usize>, Errno> {
        // A frame that is longer extends into this.
        let mut rest = [0];
        let [first, second, third] = rooms;
        let mut parts = [header.as_mut_slice(), first, second, third, &mut rest].map(IoSliceMut::new);
        Ok(outcome((&self.0).read_vectored(&mut parts))?.map(|n| n.saturating_sub(HEADER)))
    }

    /// Writes one frame with its offload. Returns false if there is no room for it.
    ///
    /// # Errors
    /// `IO` if the interface is down, `BADFD` if it is gone, `INVAL` for a frame shorter than its headers, or with a
    /// header that does not fit it.
    ///
    /// # Cost
    /// As [`TapQueue::receive`].
    pub fn send(&self, header: &VirtioHeader, frame: &[u8]) -> Result<bool, Errno> {
        if frame.is_empty() {
            // The system may count an empty write as done, and never call the driver.
            return Err(Errno::INVAL);
        }
        let parts = [header, frame].map(IoSlice::new);
        Ok(outcome((&self.0).write_vectored(&parts))?.is_some())
    }

    /// A descriptor that becomes readable with the next frame.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn outcome(done: std::io::Result<usize>) -> Result<Option<usize>, Errno> {
    match done {
        Ok(n) => Ok(Some(n)),
        Err(error) => match Errno::from_io_error(&error) {
            Some(Errno::AGAIN | Errno::INTR) => Ok(None),
            errno => Err(errno.unwrap_or(Errno::IO)),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_frame_is_refused_also_where_the_system_would_take_it() {
        let queue = TapQueue(OpenOptions::new().write(true).open("/dev/null").unwrap());
        assert_eq!(queue.send(&[0; HEADER], &[]), Err(Errno::INVAL));
        assert_eq!(queue.send(&[0; HEADER], &[0; 60]), Ok(true));
    }
}
