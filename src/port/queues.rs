//! The traits of a port: one for each queue, one for sleep, and [`Port`] over all of them.

use super::{PortCounters, PortState, WrapCounters};
use crate::limits::BATCH_MAX;
use crate::pool::{Batch, Frame, Pool};
use crate::sync::Worker;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// The fill queue: empty frames for the device to receive into.
///
/// The caller posts empty frames, or nothing is received. The implementer takes frames from the front of the batch
/// ([what is taken](Port#what-is-taken)), counts them as posted ([`Batch::post`]) and in [`PortCounters::filled`], and gives
/// each back by [`Rx::rx`] alone.
///
/// ```
/// use netmem::port::{Fill, mem};
/// # let config = netmem::page::MemoryConfig { bytes: 2 << 20, ..Default::default() };
/// # let memory = netmem::page::Memory::new(&config)?;
/// # let mut w = memory.worker()?;
/// # let pool = netmem::pool::Pool::new(&memory, &mut w, &netmem::pool::PoolConfig::default())?;
/// let (mut port, _device) = mem::wire("0", &mem::MemConfig { ring: 64, ..Default::default() })?;
/// assert_eq!(port.refill(&mut w, &pool), 64, "as many as the ring has slots");
/// assert_eq!((port.rx_posted(), port.fill_room()), (64, 0));
/// assert_eq!(pool.ledger().posted, 64);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Fill {
    /// Free slots of the fill ring.
    fn fill_room(&mut self) -> usize;

    /// Posts empty frames for reception, of `frames` from the front ([what is taken](Port#what-is-taken)); returns how many.
    fn fill(&mut self, w: &mut Worker, frames: &mut Batch) -> usize;

    /// Frames posted for reception and not yet received.
    fn rx_posted(&self) -> usize;

    /// Tops the fill ring up with empty frames of `pool`, in bulk; returns how many.
    ///
    /// A dry pool leaves the ring shorter: the device then drops and counts, and nothing waits.
    fn refill(&mut self, w: &mut Worker, pool: &Pool) -> usize {
        self.refill_to(w, pool, usize::MAX)
    }

    /// As [`Fill::refill`], up to `most` frames posted for reception: where several ports receive from one pool,
    /// none can take what another needs.
    fn refill_to(&mut self, w: &mut Worker, pool: &Pool, most: usize) -> usize {
        let mut filled = 0;
        let mut batch = Batch::new();
        loop {
            let want = self.fill_room().min(most.saturating_sub(self.rx_posted())).min(BATCH_MAX);
            if want == 0 || pool.alloc_burst(w, &mut batch, want) == 0 {
                return filled;
            }
            let taken = self.fill(w, &mut batch);
            filled += taken;
            batch.free(w);
            // A dry pool was looked through to give a short burst: to ask again would cost that once more.
            if taken < want {
                return filled;
            }
        }
    }

    /// The pool that the port receives into whichever is given to [`Fill::refill`]: its device is to see no other frames
    /// ([`bounce`](super::bounce)), so that [`Fill::fill`] takes none. By default None: it receives into what it is given.
    fn own_pool(&self) -> Option<&Pool> {
        None
    }
}

/// The receive queue: frames that the device has received into.
///
/// The caller owns the frames that it gets. The implementer appends no more than the batch has room for, in the order in
/// which they were received, each one a frame that [`Fill::fill`] took; and checks what the device says of it.
///
/// ```
/// use netmem::pool::Batch;
/// use netmem::port::{Fill, Rx, mem};
/// # let config = netmem::page::MemoryConfig { bytes: 2 << 20, ..Default::default() };
/// # let memory = netmem::page::Memory::new(&config)?;
/// # let mut w = memory.worker()?;
/// # let pool = netmem::pool::Pool::new(&memory, &mut w, &netmem::pool::PoolConfig::default())?;
/// let (mut port, mut device) = mem::wire("0", &mem::MemConfig::default())?;
/// port.refill(&mut w, &pool);
/// device.deliver(3, |room| {
///     room[..60].fill(7);
///     60
/// });
/// let mut frames = Batch::new();
/// assert_eq!(port.rx(&mut w, &mut frames), 3);
/// assert_eq!(frames[0].data(), [7; 60]);
/// frames.free(&mut w);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Rx {
    /// Appends received frames to `frames`, as many as are there and have room; returns how many.
    fn rx(&mut self, w: &mut Worker, frames: &mut Batch) -> usize;

    /// Packets that wait to be received; None where the device does not tell without giving them.
    ///
    /// # Cost
    /// A look at the device's index, or a system call: not for every round.
    fn rx_pending(&mut self) -> Option<usize> {
        None
    }

    /// Whether nothing will be received any more: all of a file has been.
    ///
    /// By default false: the peer of a link may always send more.
    fn rx_finished(&self) -> bool {
        false
    }

    /// Whether frames are to come with what their senders left to be done ([`Frame::offload`](crate::pool::Frame::offload)), where the
    /// device says it, instead of complete and cut, as they come unless this is asked for. One that is longer than a frame comes as
    /// several, each of as many segments as have room.
    ///
    /// Returns whether they do. By default nothing changes: the device says nothing of the kind.
    fn keep_offloads(&mut self, keep: bool) -> bool {
        let _ = keep;
        false
    }
}

/// The transmit queue: full frames for the device to send.
///
/// The caller keeps what was not taken, and asks for what was by [`Complete::complete`]. The implementer takes frames from the
/// front of the batch ([what is taken](Port#what-is-taken)), counts them as posted ([`Batch::post`]) and in
/// [`PortCounters::tx`], and gives each back by [`Complete::complete`] alone.
///
/// ```
/// use netmem::pool::Batch;
/// use netmem::port::{Complete, Tx, mem};
/// # let config = netmem::page::MemoryConfig { bytes: 2 << 20, ..Default::default() };
/// # let memory = netmem::page::Memory::new(&config)?;
/// # let mut w = memory.worker()?;
/// # let pool = netmem::pool::Pool::new(&memory, &mut w, &netmem::pool::PoolConfig::default())?;
/// let (mut port, mut device) = mem::wire("0", &mem::MemConfig { ring: 4, coalesce: 1 })?;
/// let mut frames = Batch::new();
/// pool.alloc_burst(&mut w, &mut frames, 6);
/// assert_eq!((port.tx(&mut w, &mut frames), frames.len()), (4, 2), "two find no slot, and stay");
/// assert_eq!((port.tx_posted(), port.can_retry_tx()), (4, true));
/// device.collect(4, |_sent| ());
/// assert_eq!(port.complete(&mut w, &mut frames), 4, "sent, and ours again");
/// frames.free(&mut w);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Tx {
    /// Posts frames for transmission, of `frames` from the front ([what is taken](Port#what-is-taken)); returns how many.
    fn tx(&mut self, w: &mut Worker, frames: &mut Batch) -> usize;

    /// Frames posted for transmission and not yet completed.
    fn tx_posted(&self) -> usize;

    /// Frames that were completed, copies of which a peer behind the device has not read yet: they are lost if the port is closed
    /// now. A port whose last frames matter waits, for some time, until there are none.
    ///
    /// By default none: with most devices what is completed has been sent. A peer that has taken packets and not yet said so counts
    /// as not having read them.
    fn tx_unread(&mut self) -> usize {
        0
    }

    /// Whether a later [`Tx::tx`] may take what this one did not: there is no room, and there will be.
    ///
    /// By default where frames are posted, whose completion makes room.
    fn can_retry_tx(&self) -> bool {
        self.tx_posted() > 0
    }

    /// Whether what is left to be done to a frame ([`Frame::offload`](crate::pool::Frame::offload)) is done behind this port, or told to
    /// whoever is there. One that does not carry it counts such a frame in [`PortCounters::tx_invalid`] and does not send it.
    ///
    /// By default not.
    fn carries_offloads(&self) -> bool {
        false
    }

    /// Takes those frames out of `frames` that the port can never carry; all stay in order. A caller that has frames left
    /// after [`Tx::tx`] asks for them, since offering them again would never end.
    ///
    /// By default none.
    fn take_unsendable(&self, _frames: &mut Batch) -> Batch {
        Batch::new()
    }

    /// Whether a frame that the port can never carry ([`take_unsendable`](Tx::take_unsendable)) is so for its length: it lies in more
    /// parts than the device sends as one packet. By default not.
    fn is_too_long(&self, _frame: &Frame) -> bool {
        false
    }
}

/// The completion queue: frames that the device has sent.
///
/// Completions do not come by themselves: a caller that transmits must ask, also when nothing else happens, or the
/// transmit ring stays full. The implementer gives back exactly the frames that [`Tx::tx`] took, each once, when the device
/// does not read them any more, and counts them in [`PortCounters::completed`]. See [`Tx`] for an example.
pub trait Complete {
    /// Appends frames that were sent, for the caller to free in bulk; returns how many.
    fn complete(&mut self, w: &mut Worker, frames: &mut Batch) -> usize;
}

/// Wake-ups in both directions: the worker wakes the device, and the device wakes the worker.
///
/// The caller kicks once a round, after the other calls. A worker that wants to sleep arms its ports, looks at what that
/// returns, sleeps on the descriptors, and disarms. The implementer makes the descriptor readable by whatever comes after
/// [`Wake::arm`], and says by its result what came before: so no wake-up is missed between the look and the sleep.
///
/// By default nothing wakes, and the port is polled when the sleep's time is up.
///
/// # The order
/// First forget what the descriptor said before, then arm, then look, and only then wait:
///
/// 1. [`Rx::rx`] and the other calls gave nothing.
/// 2. [`Wake::arm`]. True: something came since; go on with the next round.
/// 3. False: wait for [`Wake::wakeup_fd`] to become readable. What came after the second step made it so already.
/// 4. [`Wake::disarm`], and the next round.
///
/// The wait has a limit (50 ms, say) while something is under way that wakes nobody: frames posted for transmission, whose completion some
/// devices tell only when they are asked; frames that come home to a dry pool; an interface that is gone.
///
/// ```
/// use netmem::port::mem::{MemConfig, wire};
/// use netmem::{Batch, Fill, Memory, MemoryConfig, Pool, PoolConfig, Rx, Wake};
/// use rustix::event::{PollFd, PollFlags, Timespec, poll};
///
/// # let memory = Memory::new(&MemoryConfig { bytes: 2 << 20, ..Default::default() })?;
/// # let mut w = memory.worker()?;
/// # let pool = Pool::new(&memory, &mut w, &PoolConfig { frames: 64, ..Default::default() })?;
/// let (mut port, mut device) = wire("0", &MemConfig::default())?;
/// port.refill(&mut w, &pool);
/// let mut frames = Batch::new();
/// std::thread::scope(|scope| {
///     scope.spawn(|| device.deliver(1, |_room| 60)); // before, in between, or after
///     while port.rx(&mut w, &mut frames) == 0 {
///         if !port.arm() {
///             let limit = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
///             let fd = port.wakeup_fd().expect("a mem port has one");
///             let _ = poll(&mut [PollFd::from_borrowed_fd(fd, PollFlags::IN)], Some(&limit));
///         }
///         port.disarm();
///     }
/// });
/// assert_eq!(frames.len(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
/// The crate `netmem-tokio` does all this for tasks. Step by step:
/// ```
/// use netmem::port::{Fill, Wake, mem};
/// # let config = netmem::page::MemoryConfig { bytes: 2 << 20, ..Default::default() };
/// # let memory = netmem::page::Memory::new(&config)?;
/// # let mut w = memory.worker()?;
/// # let pool = netmem::pool::Pool::new(&memory, &mut w, &netmem::pool::PoolConfig::default())?;
/// let (mut port, mut device) = mem::wire("0", &mem::MemConfig::default())?;
/// port.refill(&mut w, &pool);
/// port.kick();
/// assert!(!port.arm(), "nothing is there yet: the worker may sleep");
/// device.deliver(1, |_room| 60);
/// assert!(port.wakeup_fd().is_some(), "which is readable now");
/// port.disarm();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Wake {
    /// Wakes the device where it asked for that; once in a poll round, after the other calls.
    fn kick(&mut self);

    /// The worker is about to sleep, after the other calls of a round: from now on the next frame that comes makes
    /// [`Wake::wakeup_fd`] readable. True if there is something already, and the worker had better not sleep.
    fn arm(&mut self) -> bool {
        false
    }

    /// The descriptor to sleep on while the port is armed; None where nothing would wake.
    ///
    /// It borrows the port, and may be another one after [`Wake::arm`]. An event loop that waits for long registers it in an epoll set of
    /// its own (epoll(7)), which forgets it when the port closes it. A duplicate says nothing more once the port is closed.
    fn wakeup_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// The worker is awake again.
    fn disarm(&mut self) {}
}

/// The queues of a device as one value, and information about the device.
///
/// All calls are bursts: as many frames as fit or are there. None blocks, allocates or fails; a device that can no longer
/// be trusted goes [`PortState::Down`].
///
/// # What is taken
/// Of the frames offered to [`Fill::fill`] and [`Tx::tx`] exactly those are taken that are not in the batch any more, as
/// many as the call returns. They are the first ones for which there is room, of those that the device can carry; with
/// several queues, of those for each queue. A frame that the port can never carry is counted, and either passed over
/// ([`PortCounters::foreign`], [`PortCounters::tx_invalid`]), so that it stays behind the others, or taken and completed
/// (`tx_invalid`). So the frames of one flow are taken in order, and stay in order.
///
/// # Imports
/// Every queue's methods can be called on a `dyn Port`, and where `P: Port`, with no trait imported. On a port's own
/// type they want the queue's trait: `use netmem::port::{Complete, Fill, Port, Rx, Tx, Wake};`.
///
/// # Example
/// A round of a dataplane that sends back what it receives:
/// ```
/// use netmem::pool::{Batch, Pool};
/// use netmem::port::Port;
/// use netmem::sync::Worker;
///
/// fn round(port: &mut dyn Port, w: &mut Worker, pool: &Pool, frames: &mut Batch) {
///     port.refill(w, pool);
///     port.rx(w, frames);
///     port.tx(w, frames);
///     // What found no room is dropped.
///     frames.free(w);
///     port.complete(w, frames);
///     frames.free(w);
///     port.kick();
/// }
/// ```
/// A port written outside of this crate that hands frames over without a copy is in `examples/zero_copy_port.rs`; one that
/// copies implements [`Device`](super::copying::Device).
pub trait Port: Fill + Rx + Tx + Complete + Wake + Send {
    /// Kind and place, as on the command line: `xdp:eth0`, `memif:/run/vpp/memif.sock`, `mem:0`.
    fn name(&self) -> &str;

    /// The kind: `xdp`, `memif`, `mem`.
    fn kind(&self) -> &'static str;

    /// Whether it carries frames.
    fn state(&self) -> PortState;

    /// What went wrong with it beside its frames, which it carries on: a trace that cannot be written. By default nothing.
    fn complaint(&self) -> Option<String> {
        None
    }

    /// Its counters, to be read from any thread; a port made elsewhere keeps the [`Writer`](crate::stats::Writer) of its own.
    fn counters(&self) -> Arc<PortCounters>;

    /// What it counts besides, and the ports within it, the outermost first. By default nothing.
    fn wrap_counters(&self) -> Vec<Arc<dyn WrapCounters>> {
        Vec::new()
    }
}

/// Methods of a wrapper that the port within answers: `delegate!(within fn kick(&mut self); fn arm(&mut self) -> bool;);`
macro_rules! delegate {
    ($within:ident) => {};
    ($within:ident fn $name:ident(&mut self $(, $arg:ident: $of:ty)*) $(-> $to:ty)?; $($rest:tt)*) => {
        #[inline]
        fn $name(&mut self $(, $arg: $of)*) $(-> $to)? {
            self.$within.$name($($arg),*)
        }
        $crate::port::queues::delegate!($within $($rest)*);
    };
    ($within:ident fn $name:ident(&self $(, $arg:ident: $of:ty)*) $(-> $to:ty)?; $($rest:tt)*) => {
        #[inline]
        fn $name(&self $(, $arg: $of)*) $(-> $to)? {
            self.$within.$name($($arg),*)
        }
        $crate::port::queues::delegate!($within $($rest)*);
    };
}
pub(crate) use delegate;
