//! AF_XDP sockets: a UMEM, four rings, one queue of one interface.
//!
//! ```text
//!   new ─► register (or not: shared) ─► rings ─► bind / bind_shared ─► wake_tx, wake_rx, statistics ─► drop
//! ```
//! The order is the kernel's: rings are sized and mapped before the socket is bound.
//!
//! Source: Documentation/networking/af_xdp.rst, `linux/if_xdp.h`.

mod ring;

use super::broker::{self, Request};
use super::capability::with_lock_capability;
use super::errno::Errno;
pub use ring::{Descriptor, Entry, Ring, SharedIndex};

use super::region::Region;
use crate::limits::PAGE_SIZE;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt;
use rustix::net::xdp::{
    SocketAddrXdp, SocketAddrXdpFlags, SocketAddrXdpWithSharedUmem, XDP_PGOFF_RX_RING, XDP_PGOFF_TX_RING,
    XDP_UMEM_PGOFF_COMPLETION_RING, XDP_UMEM_PGOFF_FILL_RING, XdpOptionsFlags, XdpStatistics, XdpUmemReg,
    XdpUmemRegFlags,
};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, recv, send, socket_with,
};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::{fmt, fs};

/// The end of the kernel's receive headroom and the begin of a received packet, in bytes from its chunk's start
/// (XDP_PACKET_HEADROOM of `linux/bpf.h`).
pub const PACKET_HEADROOM: usize = 256;

/// The maximum number of packets of one send in copy mode (Linux 6.17; `linux/if_xdp.h`).
const XDP_MAX_TX_SKB_BUDGET: libc::c_int = 9;

/// The step at which the kernel refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketStep {
    /// Opening the socket.
    Open,
    /// Registering the region as UMEM.
    Register,
    /// Sizing or mapping a ring.
    Rings,
    /// Binding to the queue.
    Bind,
}

impl fmt::Display for SocketStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SocketStep::Open => "open AF_XDP socket",
            SocketStep::Register => "register UMEM",
            SocketStep::Rings => "make the rings",
            SocketStep::Bind => "bind to the queue",
        })
    }
}

/// The kernel refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{step}: {errno}")]
pub struct SocketError {
    /// The step that failed.
    pub step: SocketStep,
    /// The kernel's error.
    pub errno: Errno,
}

/// The number of slots of the four rings, each a power of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingSizes {
    /// For empty chunks that wait for packets.
    pub fill: u32,
    /// For packets that were received and are not taken yet.
    pub rx: u32,
    /// For packets to be sent.
    pub tx: u32,
    /// For packets that were sent and are not taken back yet.
    pub completion: u32,
}

impl Default for RingSizes {
    fn default() -> Self {
        RingSizes { fill: 2048, rx: 2048, tx: 2048, completion: 2048 }
    }
}

/// The four rings of one queue.
#[derive(Debug)]
pub struct Rings {
    /// netmem produces the addresses of empty chunks.
    pub fill: Ring<u64>,
    /// netmem consumes received packets.
    pub rx: Ring<Descriptor>,
    /// netmem produces packets to be sent.
    pub tx: Ring<Descriptor>,
    /// netmem consumes the addresses of sent packets.
    pub completion: Ring<u64>,
}

/// Whether the device may use the UMEM itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ZeroCopy {
    /// The kernel copies between the UMEM and its own packets.
    Never,
    /// The device uses the UMEM if its driver can; otherwise the kernel copies.
    #[default]
    Try,
    /// The device uses the UMEM. A driver that cannot do that is an error.
    Require,
}

/// Binds a socket with a page of its own to a queue, in copy mode, and closes it. If that succeeds, no socket was bound to
/// the queue any more, and the driver has given up the buffers of the last one that was.
///
/// The kernel refuses a second socket while the queue has a pool (xp_assign_dev). A pool leaves its queue only after the
/// driver has been told to give it up and has done so (xp_clear_dev: ndo_bpf with XDP_SETUP_XSK_POOL, which returns when
/// the device uses none of its buffers). The kernel does that from a work queue after the socket was closed.
///
/// # Errors
/// As [`Socket::bind`]: `BUSY` while the queue has a pool.
#[cold]
pub fn bind_for_a_moment(interface: u32, queue: u32) -> Result<(), SocketError> {
    #[repr(align(4096))]
    struct Page([u8; PAGE_SIZE]);
    let mut page = Box::new(Page([0; PAGE_SIZE]));
    let socket = Socket::new()?;
    // No address is ever published in the FILL ring, so the kernel writes into none of its chunks.
    socket.register_bytes((page.0.as_mut_ptr(), PAGE_SIZE), PAGE_SIZE)?;
    let _rings = socket.rings(&RingSizes { fill: 1, rx: 1, tx: 1, completion: 1 })?;
    socket.bind(interface, queue, ZeroCopy::Never, false)
}

/// Returns the number of AF_XDP sockets that are open in the thread's network namespace, if /proc tells. The kernel
/// counts a socket no longer once it is closed, while its queue may be freed later.
#[cold]
pub fn sockets_here() -> Option<usize> {
    sockets_in(&fs::read_to_string("/proc/thread-self/net/protocols").ok()?)
}

/// Returns the third word of the line of AF_XDP: name, size, sockets.
fn sockets_in(protocols: &str) -> Option<usize> {
    let line = protocols.lines().find(|line| line.starts_with("XDP "))?;
    line.split_whitespace().nth(2)?.parse().ok()
}

/// The result of a wake-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// The kernel did the pending work.
    Done,
    /// The kernel lacks a resource at the moment (EAGAIN, EBUSY, ENOBUFS, ...): wake it again later.
    Again,
    /// The interface is down (ENETDOWN), gone (ENXIO), or the socket does not work.
    Down(Errno),
}

/// One AF_XDP socket; closed when dropped.
///
/// It is released (see `port::xdp`) only when its [`Rings`] are gone as well: drop them first.
#[derive(Debug)]
pub struct Socket {
    fd: OwnedFd,
    /// Whether it is bound so that packets may have several chunks. Relaxed: the thread that binds it gives it to
    /// others afterwards.
    several: AtomicBool,
}

impl From<Socket> for OwnedFd {
    fn from(socket: Socket) -> OwnedFd {
        socket.fd
    }
}

impl Socket {
    /// Opens a socket in the calling thread's network namespace.
    ///
    /// # Errors
    /// `PERM` without CAP_NET_RAW, `AFNOSUPPORT` on a kernel without AF_XDP.
    pub fn new() -> Result<Socket, SocketError> {
        let opened = match broker::current() {
            None => socket_with(AddressFamily::XDP, SocketType::RAW, SocketFlags::CLOEXEC, None),
            Some(broker) => broker::ask_for_one(broker, &Request::XdpSocket, &[]).map_err(Errno::from),
        };
        opened.map(|fd| Socket { fd, several: AtomicBool::new(false) }).map_err(SocketStep::Open.failed())
    }

    /// Wraps a socket that another process opened and handed over.
    ///
    /// # Errors
    /// `INVAL` if it is a socket of another kind. A socket that is bound already fails when it is registered.
    pub fn given(fd: OwnedFd) -> Result<Socket, SocketError> {
        let is_xdp = sockopt::socket_domain(&fd) == Ok(AddressFamily::XDP);
        let socket = Socket { fd, several: AtomicBool::new(false) };
        if is_xdp { Ok(socket) } else { Err(SocketError { step: SocketStep::Open, errno: Errno::INVAL }) }
    }

    /// Makes the whole of `region` the UMEM of this socket and of the sockets that will share it: chunks of
    /// `chunk_size` bytes (a power of two, 2,048 to a page), no headroom by netmem, aligned. The kernel pins its pages.
    ///
    /// # Errors
    /// `NOBUFS` if the user may not lock that much memory, `NOMEM` if the kernel is out of memory.
    ///
    /// # Safety
    /// From now on the kernel (or the device) writes into every chunk whose address is published in the FILL ring until
    /// it comes back, and reads every chunk published in the TX ring. The code that publishes an address owns its chunk
    /// and does not touch it any more.
    pub unsafe fn register(&self, region: &Region, chunk_size: usize) -> Result<(), SocketError> {
        self.register_bytes((region.base(), region.len()), chunk_size)
    }

    fn register_bytes(&self, (base, len): (*mut u8, usize), chunk_size: usize) -> Result<(), SocketError> {
        let registration = XdpUmemReg {
            addr: base.expose_provenance() as u64,
            len: len as u64,
            chunk_size: chunk_size as u32,
            headroom: 0,
            flags: XdpUmemRegFlags::empty(),
            tx_metadata_len: 0,
        };
        let register = || sockopt::set_xdp_umem_reg(&self.fd, registration);
        // A process that has a broker has given up the capability that it needs only during this call.
        let done = if broker::current().is_some() { with_lock_capability(register) } else { register() };
        done.map_err(SocketStep::Register.failed())
    }

    /// Makes and maps the four rings.
    ///
    /// # Errors
    /// `INVAL` if a size is not a power of two, `NOMEM` if the kernel is out of memory.
    pub fn rings(&self, sizes: &RingSizes) -> Result<Rings, SocketError> {
        self.make_rings(sizes).map_err(SocketStep::Rings.failed())
    }

    fn make_rings(&self, sizes: &RingSizes) -> Result<Rings, Errno> {
        let fd = self.fd.as_fd();
        sockopt::set_xdp_umem_fill_ring_size(fd, sizes.fill)?;
        sockopt::set_xdp_umem_completion_ring_size(fd, sizes.completion)?;
        sockopt::set_xdp_rx_ring_size(fd, sizes.rx)?;
        sockopt::set_xdp_tx_ring_size(fd, sizes.tx)?;
        self.raise_tx_budget(sizes.tx);
        let offsets = sockopt::xdp_mmap_offsets(fd)?;
        Ok(Rings {
            fill: Ring::map(fd, XDP_UMEM_PGOFF_FILL_RING, &offsets.fr, sizes.fill)?,
            rx: Ring::map(fd, XDP_PGOFF_RX_RING, &offsets.rx, sizes.rx)?,
            tx: Ring::map(fd, XDP_PGOFF_TX_RING, &offsets.tx, sizes.tx)?,
            completion: Ring::map(fd, XDP_UMEM_PGOFF_COMPLETION_RING, &offsets.cr, sizes.completion)?,
        })
    }

    /// Lets one send take the whole TX ring. Kernels before 6.17 refuse, and take 32 packets at a time.
    fn raise_tx_budget(&self, packets: u32) {
        let value = (&raw const packets).cast();
        let len = size_of::<u32>() as libc::socklen_t;
        // SAFETY: the value is one u32 that outlives the call. A refusal only costs system calls.
        unsafe { libc::setsockopt(self.fd.as_raw_fd(), libc::SOL_XDP, XDP_MAX_TX_SKB_BUDGET, value, len) };
    }

    /// Binds to `queue` of the interface number `interface`, over the UMEM registered on this socket. With `several`, a
    /// packet that is longer than a chunk comes in several chunks ([`Descriptor::CONTINUED`]), if the kernel can do
    /// that (Linux 6.6).
    ///
    /// # Errors
    /// `BUSY` if the queue is taken, `INVAL` if there is no such queue, `NODEV` if there is no such interface,
    /// `OPNOTSUPP` if zero-copy is required and its driver cannot do it.
    pub fn bind(
        &self,
        interface: u32,
        queue: u32,
        zero_copy: ZeroCopy,
        several: bool,
    ) -> Result<(), SocketError> {
        let copy = match zero_copy {
            ZeroCopy::Never => SocketAddrXdpFlags::XDP_COPY,
            ZeroCopy::Try => SocketAddrXdpFlags::empty(),
            ZeroCopy::Require => SocketAddrXdpFlags::XDP_ZEROCOPY,
        };
        let flags = copy | SocketAddrXdpFlags::XDP_USE_NEED_WAKEUP;
        let bound = |flags| bind(&self.fd, &SocketAddrXdp::new(flags, interface, queue));
        let done = match several {
            true => match bound(flags | SocketAddrXdpFlags::XDP_USE_SG) {
                // A kernel that does not know the flag.
                Err(Errno::INVAL) => bound(flags),
                done => done.inspect(|()| self.several.store(true, Relaxed)),
            },
            false => bound(flags),
        };
        done.map_err(SocketStep::Bind.failed())
    }

    /// Whether packets of several chunks are received and sent: [`Socket::bind`] requested it, and the kernel can do
    /// it.
    pub fn takes_several(&self) -> bool {
        self.several.load(Relaxed)
    }

    /// Binds to `queue` of the interface number `interface`, over the UMEM of `first`, which is bound to another queue
    /// or interface. Copy mode, need_wakeup and packets of several chunks are those of `first`.
    ///
    /// # Errors
    /// As [`Socket::bind`]; `OPNOTSUPP` also if `first` is zero-copy and this interface cannot be.
    pub fn bind_shared(&self, interface: u32, queue: u32, first: &Socket) -> Result<(), SocketError> {
        let addr = SocketAddrXdp::new(SocketAddrXdpFlags::XDP_SHARED_UMEM, interface, queue);
        let shared = SocketAddrXdpWithSharedUmem { addr, shared_umem_fd: first.fd.as_fd() };
        bind(&self.fd, &shared).map_err(SocketStep::Bind.failed())?;
        self.several.store(first.takes_several(), Relaxed);
        Ok(())
    }

    /// Whether the device uses the UMEM itself. Also false if the kernel cannot say (before 5.3).
    pub fn is_zero_copy(&self) -> bool {
        sockopt::xdp_options(&self.fd)
            .is_ok_and(|flags| flags.contains(XdpOptionsFlags::XDP_OPTIONS_ZEROCOPY))
    }

    /// Whether it is bound to an interface that still exists.
    pub fn is_bound(&self) -> bool {
        self.wake_rx() != Wake::Down(Errno::NXIO)
    }

    /// The kernel's counters.
    ///
    /// # Errors
    /// The error of getsockopt(2).
    pub fn statistics(&self) -> Result<XdpStatistics, Errno> {
        sockopt::xdp_statistics(&self.fd)
    }

    /// Wakes the kernel to send the packets in the TX ring. Never blocks.
    ///
    /// # Cost
    /// One system call; in copy mode it sends the packets on this core.
    pub fn wake_tx(&self) -> Wake {
        outcome(send(&self.fd, &[], SendFlags::DONTWAIT | SendFlags::NOSIGNAL).map(drop))
    }

    /// Wakes the driver to take from the FILL ring, and shows whether the interface is up. Never blocks.
    ///
    /// # Cost
    /// One system call; three before Linux 5.11.
    pub fn wake_rx(&self) -> Wake {
        match recv(&self.fd, &mut [0u8; 0], RecvFlags::DONTWAIT) {
            Err(Errno::OPNOTSUPP) => self.poll_rx(),
            done => outcome(done.map(drop)),
        }
    }

    /// Does the same as [`Socket::wake_rx`] on a kernel whose AF_XDP sockets have no recv(2): poll(2) wakes the driver
    /// there, and send(2) shows whether the interface is up.
    #[cold]
    fn poll_rx(&self) -> Wake {
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        // The result for the socket is not needed, and poll(2) has woken the driver in any case.
        poll(&mut [PollFd::new(&self.fd, PollFlags::IN)], Some(&at_once)).ok();
        self.wake_tx()
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl SocketStep {
    fn failed(self) -> impl Fn(Errno) -> SocketError {
        move |errno| SocketError { step: self, errno }
    }
}

fn outcome(done: Result<(), Errno>) -> Wake {
    match done {
        Ok(()) => Wake::Done,
        Err(Errno::AGAIN | Errno::BUSY | Errno::NOBUFS | Errno::NOMEM | Errno::INTR) => Wake::Again,
        Err(errno) => Wake::Down(errno),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_ring_or_a_busy_device_asks_for_another_wake_up_and_a_lost_device_is_down() {
        assert_eq!(outcome(Ok(())), Wake::Done);
        for passing in [Errno::AGAIN, Errno::BUSY, Errno::NOBUFS] {
            assert_eq!(outcome(Err(passing)), Wake::Again);
        }
        for lost in [Errno::NETDOWN, Errno::NXIO, Errno::BADF] {
            assert_eq!(outcome(Err(lost)), Wake::Down(lost));
        }
    }

    #[test]
    fn the_sockets_of_a_namespace_are_in_the_line_of_their_protocol() {
        let text = "protocol  size sockets  memory press maxhdr  slab module\n\
                    XDP       1088      3      -1   NI       0   no   kernel\n\
                    PACKET    1536     12      -1   NI       0   no   kernel\n";
        assert_eq!(
            (sockets_in(text), sockets_in("protocol  size sockets\n"), sockets_in("")),
            (Some(3), None, None)
        );
    }

    #[test]
    fn an_error_names_the_step_that_failed() {
        let error = SocketStep::Register.failed()(Errno::NOBUFS);
        assert!(error.to_string().starts_with("register UMEM: "), "{error}");
    }
}
