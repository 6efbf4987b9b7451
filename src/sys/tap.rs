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

/// What a host may leave to be done to what it sends.
const ALL: libc::c_uint = libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6 | libc::TUN_F_TSO_ECN | UDP;
/// The kinds that Linux knows from 6.2 on. UDP's fragments, which `TUN_F_UFO` is about, are never asked for.
const UDP: libc::c_uint = libc::TUN_F_USO4 | libc::TUN_F_USO6;

/// Asks for the network namespace of the interface (`linux/if_tun.h`, Linux 5.2).
const TUNGETDEVNETNS: libc::c_ulong = 0x54e3;

/// What was being done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TapStep {
    /// Opening /dev/net/tun.
    Open,
    /// Making the interface, or attaching to it.
    Attach,
}

/// A TAP interface could not be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TapError {
    /// What was being done.
    pub step: TapStep,
    /// What the kernel said.
    pub errno: Errno,
}

/// One queue of a TAP interface, never blocking. What the host sends by the interface is read; what is written, the host
/// receives. An interface that was made for it goes with its last queue.
#[derive(Debug)]
pub struct TapQueue(File);

impl From<OwnedFd> for TapQueue {
    /// One that another process opened, and handed over.
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
    /// Makes the interface `name`, or attaches to one that is there; with `several` the interface has a queue for each
    /// time it is opened.
    ///
    /// # Errors
    /// The step and what the kernel said: `PERM` without CAP_NET_ADMIN, `BUSY` when another program has it, `INVAL` when
    /// it is no TAP interface, or has several queues and was not to.
    pub fn open(name: &str, several: bool) -> Result<TapQueue, TapError> {
        let at = |step| move |errno| TapError { step, errno };
        if name.is_empty() || name.len() >= libc::IFNAMSIZ || name.contains(['\0', '/', '%']) {
            return Err(at(TapStep::Attach)(Errno::INVAL));
        }
        if let Some(broker) = broker::current() {
            let opened = broker::ask_for_one(broker, &Request::Tap(name.to_owned(), several), &[]);
            return opened.map(TapQueue::from).map_err(|Refusal { errno, step, .. }| TapError {
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
        // SAFETY: TUNSETIFF reads and writes one ifreq, which lives over the call.
        let done = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &raw mut request) };
        if done < 0 {
            return Err(at(TapStep::Attach)(last_errno()));
        }
        let length = HEADER as libc::c_int;
        // SAFETY: TUNSETVNETHDRSZ reads a number, which lives over the call.
        let done = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETVNETHDRSZ, &raw const length) };
        if done < 0 { Err(at(TapStep::Attach)(last_errno())) } else { Ok(TapQueue(file)) }
    }

    /// Whether its interface is still there: not after it was removed, whatever has its name now.
    ///
    /// # Cost
    /// One system call.
    pub fn has_interface(&self) -> bool {
        self.name().is_ok()
    }

    /// What its interface is called now.
    fn name(&self) -> Result<String, Errno> {
        let mut request = request("");
        // SAFETY: TUNGETIFF writes one ifreq, which lives over the call.
        let done = unsafe { libc::ioctl(self.0.as_raw_fd(), libc::TUNGETIFF, &raw mut request) };
        if done < 0 {
            return Err(last_errno());
        }
        let bytes = request.ifr_name.iter().map(|c| *c as u8).take_while(|byte| *byte != 0).collect();
        String::from_utf8(bytes).map_err(|_| Errno::ILSEQ)
    }

    /// Its interface where it is now, by its name there: it may have been moved to another network namespace.
    ///
    /// # Errors
    /// `BADFD` when it is gone, `PERM` without CAP_NET_ADMIN where it is or CAP_SYS_ADMIN to go there, `INVAL` before Linux 5.2.
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
        // SAFETY: the kernel just made it and nobody else knows it.
        let place = NetworkNamespace::from(unsafe { OwnedFd::from_raw_fd(fd) });
        place.inside(|| Netdev::open(&name)).map_err(of_io)?
    }

    /// Says what the host may leave to be done to the frames that it sends: checksums, segments of TCP and, from Linux 6.2 on, of UDP.
    /// Without it frames come complete.
    ///
    /// # Errors
    /// `BADFD` when the interface is gone.
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
            // INVAL: a kind that it does not know.
            refused = last_errno();
        }
        Err(refused)
    }

    /// Reads one frame into `rooms`, one after the other, and what is left to be done to it; None where there is none. One that is
    /// longer than all gives more than their length, and its end is lost.
    ///
    /// # Errors
    /// `BADFD` when the interface is gone.
    ///
    /// # Cost
    /// One system call, and one copy by the kernel.
    pub fn receive(&self, header: &mut VirtioHeader, rooms: [&mut [u8]; 3]) -> Result<Option<usize>, Errno> {
        // A frame that is longer reaches into this.
        let mut rest = [0];
        let [first, second, third] = rooms;
        let mut parts = [header.as_mut_slice(), first, second, third, &mut rest].map(IoSliceMut::new);
        Ok(outcome((&self.0).read_vectored(&mut parts))?.map(|n| n.saturating_sub(HEADER)))
    }

    /// Writes one frame, with what is left to be done to it; false where there is no room for it.
    ///
    /// # Errors
    /// `IO` when the interface is down, `BADFD` when it is gone, `INVAL` for a frame shorter than its headers, or with a header that
    /// does not fit it.
    ///
    /// # Cost
    /// As [`TapQueue::receive`].
    pub fn send(&self, header: &VirtioHeader, frame: &[u8]) -> Result<bool, Errno> {
        if frame.is_empty() {
            // The system may take nothing at all for written, and never ask the driver.
            return Err(Errno::INVAL);
        }
        let parts = [header, frame].map(IoSlice::new);
        Ok(outcome((&self.0).write_vectored(&parts))?.is_some())
    }

    /// Becomes readable by the next frame.
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
