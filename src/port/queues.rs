//! The traits of a port: one for each queue, one for sleep, and [`Port`], which combines them.

use super::{PortCounters, PortState, WrapCounters};
use crate::limits::BATCH_MAX;
use crate::pool::{Batch, Frame, Pool};
use crate::sync::Worker;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// The fill queue: empty frames for the device to receive into.
///
/// The caller must post empty frames; otherwise nothing is received. The implementer takes frames from the front of the
/// batch ([what is taken](Port#what-is-taken)). It counts them as posted ([`Batch::post`]) and in
/// [`PortCounters::filled`], and gives each back only by [`Rx::rx`].
///
/// ```
/// use netmem::port::{Fill, mem};
/// # let config = netmem::page::MemoryConfig { bytes: 2 << 20, ..Default::default() };
/// # let memory = netmem::page::Memory::new(&config)?;
/// # let mut w = memory.worker()?;
/// # let pool = netmem::pool::Pool::new(&memory, &mut w, &netmem::pool::PoolConfig::default())?;
/// let (mut port, _device) = mem::MemPort::pair("0", &mem::MemConfig { ring: 64, ..Default::default() })?;
/// assert_eq!(port.refill(&mut w, &pool), 64, "as many as the ring has slots");
/// assert_eq!((port.rx_posted(), port.fill_room()), (64, 0));
/// assert_eq!(pool.ledger().posted, 64);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Fill {
    /// Free slots of the fill ring.
    fn fill_room(&mut self) -> usize;

    /// Posts frames for reception, from the front of `frames` ([what is taken](Port#what-is-taken)). Returns how many
    /// were posted. The data of a posted frame is dropped, and what it receives begins behind the headroom of its pool.
    fn fill(&mut self, w: &mut Worker, frames: &mut Batch) -> usize;

    /// Number of frames posted for reception and not yet received.
    fn rx_posted(&self) -> usize;

    /// Tops the fill ring up with empty frames of `pool`, in bulk. Returns how many were posted.
    ///
    /// If the pool is dry, the ring stays shorter: the device then drops and counts packets, and nothing waits.
    fn refill(&mut self, w: &mut Worker, pool: &Pool) -> usize {
        self.refill_to(w, pool, usize::MAX)
    }

    /// As [`Fill::refill`], up to `most` frames posted for reception. If several ports receive from one pool, none can
    /// take the frames that another needs.
    fn refill_to(&mut self, w: &mut Worker, pool: &Pool, most: usize) -> usize {
        let mut filled = 0;
        let mut batch = Batch::new();
        loop {
            let want = self.fill_room().min(most.saturating_sub(self.rx_posted())).min(BATCH_MAX);
            if want == 0 || pool.alloc_burst(w, &mut batch, want) == 0 {
                return filled;
            }
            let had = batch.len();
            self.fill(w, &mut batch);
            // Not the number that it returns, which may be any.
            let taken = had.saturating_sub(batch.len());
            filled += taken;
            batch.free(w);
            // The whole dry pool was searched for a short burst. Asking again would repeat that cost.
            if taken < want {
                return filled;
            }
        }
    }

    /// Returns whether fewer than `most` frames are posted for reception although there is room for more: the pool had
    /// no more for the last refill. Code that sleeps until the device has work must then wake after a while and refill
    /// again, because no event reports the frames that return to the pool.
    ///
    /// By default false for a port that receives into a pool of its own: such a port, and a port around it, looks at that
    /// pool.
    fn lacks_frames(&mut self, most: usize) -> bool {
        self.own_pool().is_none() && self.fill_room() > 0 && self.rx_posted() < most
    }

    /// The pool that the port receives into, whichever pool is given to [`Fill::refill`]. Such a port's device must see
    /// no other frames ([`bounce`](super::bounce)), so its [`Fill::fill`] takes none. By default None: the port
    /// receives into the frames that it is given.
    fn own_pool(&self) -> Option<&Pool> {
        None
    }

    /// Returns whether the port can receive into frames of `pool`. It cannot if its device does not reach their memory, or
    /// they are too small for it: [`Fill::fill`] then takes none of them ([`PortCounters::wrong_memory`]), and nothing is
    /// received. By default true: the device reaches any memory.
    fn takes_frames_of(&self, _pool: &Pool) -> bool {
        true
    }

    /// Returns whether [`Fill::refill`] from `pool` can post frames: from the port's own pool, or since the port takes the
    /// frames of `pool`. A port that cannot be refilled is up and receives nothing.
    fn can_refill_from(&self, pool: &Pool) -> bool {
        self.own_pool().is_some() || self.takes_frames_of(pool)
    }
}

/// The receive queue: frames that the device has received into.
///
/// The caller owns the frames that it gets. The implementer appends no more frames than the batch has room for, in the
/// order of reception. Each is a frame that [`Fill::fill`] took. The implementer checks every value that the device
/// reports about them.
///
/// ```
/// use netmem::pool::Batch;
/// use netmem::port::{Fill, Rx, mem};
/// # let config = netmem::page::MemoryConfig { bytes: 2 << 20, ..Default::default() };
/// # let memory = netmem::page::Memory::new(&config)?;
/// # let mut w = memory.worker()?;
/// # let pool = netmem::pool::Pool::new(&memory, &mut w, &netmem::pool::PoolConfig::default())?;
/// let (mut port, mut device) = mem::MemPort::pair("0", &mem::MemConfig::default())?;
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
    /// Appends received frames to `frames`, as many as have arrived and fit. Returns their number.
    fn rx(&mut self, w: &mut Worker, frames: &mut Batch) -> usize;

    /// Number of packets that wait to be received. None if the device cannot report it without delivering them.
    ///
    /// # Cost
    /// A look at the device's index, or a system call: do not call it every round.
    fn rx_pending(&mut self) -> Option<usize> {
        None
    }

    /// Returns whether nothing will be received any more: a whole file has been received.
    ///
    /// By default false: the peer of a link may always send more.
    fn rx_finished(&self) -> bool {
        false
    }

    /// Sets whether frames keep the work that their senders left to be done
    /// ([`Frame::offload`](crate::pool::Frame::offload)), if the device reports it. Without this, packets come
    /// completed and cut. With it, a packet longer than a frame comes as several, each of as many segments as fit.
    ///
    /// Returns whether frames keep it. By default nothing changes: the device reports no such work.
    fn keep_offloads(&mut self, keep: bool) -> bool {
        let _ = keep;
        false
    }
}

/// The transmit queue: full frames for the device to send.
///
/// The caller keeps the frames that were not taken, and gets the taken frames back by [`Complete::complete`]. The
/// implementer takes frames from the front of the batch ([what is taken](Port#what-is-taken)). It counts them as posted
/// ([`Batch::post`]) and in [`PortCounters::tx`], and gives each back only by [`Complete::complete`].
///
/// ```
/// use netmem::pool::Batch;
/// use netmem::port::{Complete, Tx, mem};
/// # let config = netmem::page::MemoryConfig { bytes: 2 << 20, ..Default::default() };
/// # let memory = netmem::page::Memory::new(&config)?;
/// # let mut w = memory.worker()?;
/// # let pool = netmem::pool::Pool::new(&memory, &mut w, &netmem::pool::PoolConfig::default())?;
/// let (mut port, mut device) = mem::MemPort::pair("0", &mem::MemConfig { ring: 4, coalesce: 1 })?;
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
    /// Posts frames for transmission, from the front of `frames` ([what is taken](Port#what-is-taken)). Returns how
    /// many were posted.
    fn tx(&mut self, w: &mut Worker, frames: &mut Batch) -> usize;

    /// Number of frames posted for transmission and not yet completed.
    fn tx_posted(&self) -> usize;

    /// Number of completed frames of which a peer behind the device has not read its copies yet. They are lost if the
    /// port is closed now. A program whose last frames matter waits, for some time, until there are none.
    ///
    /// By default none: most devices have sent the frames that they complete. Packets that a peer has taken without
    /// acknowledging them yet count as unread.
    fn tx_unread(&mut self) -> usize {
        0
    }

    /// Returns whether a later [`Tx::tx`] may take frames that this one did not: there is no room now, and there will
    /// be.
    ///
    /// By default true while frames are posted, since their completion makes room.
    fn can_retry_tx(&self) -> bool {
        self.tx_posted() > 0
    }

    /// Returns whether the open offload work of a frame ([`Frame::offload`](crate::pool::Frame::offload)) is done
    /// behind this port, or passed to the receiver. A port that does not carry offloads counts such a frame in
    /// [`PortCounters::tx_invalid`] and does not send it.
    ///
    /// By default false.
    fn carries_offloads(&self) -> bool {
        false
    }

    /// Takes the frames out of `frames` that the port can never carry; all stay in order. A caller that has frames left
    /// after [`Tx::tx`] calls this, since offering such frames again would never end.
    ///
    /// By default none.
    fn take_unsendable(&self, _frames: &mut Batch) -> Batch {
        Batch::new()
    }

    /// Returns whether the length is the reason why the port can never carry a frame
    /// ([`take_unsendable`](Tx::take_unsendable)): it lies in more parts than the device sends as one packet, or is
    /// longer than the interface's MTU allows. By default false.
    fn is_too_long(&self, _frame: &Frame) -> bool {
        false
    }
}

/// The completion queue: frames that the device has sent.
///
/// Completions do not come by themselves. A caller that transmits must ask for them, even if nothing else happens;
/// otherwise the transmit ring stays full. The implementer gives back exactly the frames that [`Tx::tx`] took, each
/// once. It gives a frame back after the device's last read of it, and counts it in [`PortCounters::completed`]. See
/// [`Tx`] for an example.
pub trait Complete {
    /// Appends sent frames to `frames`, for the caller to free in bulk. Returns their number.
    fn complete(&mut self, w: &mut Worker, frames: &mut Batch) -> usize;
}

/// Wake-ups in both directions: the worker wakes the device, and the device wakes the worker.
///
/// The caller kicks once a round, after the other calls. A worker that wants to sleep arms its ports, checks the
/// result, sleeps on the descriptors, and disarms the ports. The implementer makes the descriptor readable by any event
/// after [`Wake::arm`], and reports events before it in the result. So no wake-up is missed between the check and the
/// sleep.
///
/// By default no event wakes the worker, and the port is polled when the sleep ends.
///
/// # The order
/// First clear the descriptor's old events, then arm, then check, and only then wait:
///
/// 1. [`Rx::rx`] and the other calls returned nothing.
/// 2. Call [`Wake::arm`]. If it returns true, frames have come since: go on with the next round.
/// 3. If it returns false, wait for [`Wake::wakeup_fd`] to become readable. Events after the second step have already
///    made it readable.
/// 4. Call [`Wake::disarm`], and start the next round.
///
/// The wait needs a limit (50 ms, say) while an event is pending that does not wake the worker. Such events are
/// completions of posted frames, which some devices report only when asked, frames that return to a dry pool, and an
/// interface that is gone.
///
/// ```
/// use netmem::port::mem::{MemConfig, MemPort};
/// use netmem::{Batch, Fill, Memory, MemoryConfig, Pool, PoolConfig, Rx, Wake};
/// use rustix::event::{PollFd, PollFlags, Timespec, poll};
///
/// # let memory = Memory::new(&MemoryConfig { bytes: 2 << 20, ..Default::default() })?;
/// # let mut w = memory.worker()?;
/// # let pool = Pool::new(&memory, &mut w, &PoolConfig { frames: 64, ..Default::default() })?;
/// let (mut port, mut device) = MemPort::pair("0", &MemConfig::default())?;
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
/// let (mut port, mut device) = mem::MemPort::pair("0", &mem::MemConfig::default())?;
/// port.refill(&mut w, &pool);
/// port.kick();
/// assert!(!port.arm(), "nothing is there yet: the worker may sleep");
/// device.deliver(1, |_room| 60);
/// assert!(port.wakeup_fd().is_some(), "which is readable now");
/// port.disarm();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Wake {
    /// Wakes the device if it asked for that. Call it once in a poll round, after the other calls.
    fn kick(&mut self);

    /// Prepares for sleep; call it after the other calls of a round. From now on the next frame that comes makes
    /// [`Wake::wakeup_fd`] readable. Returns true if frames have already come; then the worker must not sleep.
    #[must_use = "true: frames have come, so the worker must not sleep"]
    fn arm(&mut self) -> bool {
        false
    }

    /// The descriptor to sleep on while the port is armed; None if no event would make one readable.
    ///
    /// It borrows the port, and may be another one after [`Wake::arm`]. An event loop that waits for a long time
    /// registers it in an epoll set of its own (epoll(7)). The set forgets it when the port closes it. A duplicate
    /// reports nothing after the port is closed.
    fn wakeup_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// The worker is awake again.
    fn disarm(&mut self) {}
}

/// The queues of a device as one value, and information about the device.
///
/// All calls work on bursts: as many frames as fit or exist. None fails or waits for the device. A device that can no
/// longer be trusted goes [`PortState::Down`].
///
/// While the device stays as it is, none blocks or allocates, except `kick` of `pcap` and `trace` ports, which reads and
/// writes files. A change of the device has its price: the call that finds a fault makes the text of its reason. When a
/// memif peer or an interface comes or goes, `kick`, `arm` and `disarm` make system calls, memory and threads. A memif
/// client makes and clears all memory for its next server in one of them, 4 MiB with the default settings.
///
/// # What is taken
/// Of the frames offered to [`Fill::fill`] and [`Tx::tx`], the taken frames are exactly those that are no longer in the
/// batch. The call returns their number. They are the first frames for which there is room, among those that the device
/// can carry. With several queues, this holds for each queue. A frame that the port can never carry is counted. It is
/// either passed over and stays behind the others ([`PortCounters::wrong_memory`], [`PortCounters::tx_invalid`]), or taken
/// and completed (`tx_invalid`). So the frames of one flow are taken in order, and stay in order.
///
/// # Imports
/// Every queue's methods can be called on a `dyn Port`, and on `P: Port`, without importing a trait. On a port's own
/// type, import the queue's trait: `use netmem::port::{Complete, Fill, Port, Rx, Tx, Wake};`.
///
/// # Example
/// A round of a dataplane that sends back the frames it receives:
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
/// `examples/zero_copy_port.rs` contains a port outside of this crate that hands frames over without a copy. A port
/// that copies implements [`Device`](super::copying::Device).
pub trait Port: Fill + Rx + Tx + Complete + Wake + Send {
    /// Kind and place, as on the command line: `xdp:eth0`, `memif:/run/vpp/memif.sock`, `mem:0`.
    fn name(&self) -> &str;

    /// The kind: `xdp`, `memif`, `mem`.
    fn kind(&self) -> &'static str;

    /// The state of the port: whether it carries frames.
    fn state(&self) -> PortState;

    /// Returns whether the port is down for good: it carries frames again only after it was closed and opened again. By default
    /// false: a port that is down comes up when its link, peer or interface comes back.
    fn is_failed(&self) -> bool {
        false
    }

    /// The reason for a failure that does not concern the frames, which the port still carries: a trace that cannot be
    /// written, a memif peer that cannot be watched or woken, an interface that has got queues without a port. By
    /// default None.
    fn complaint(&self) -> Option<String> {
        None
    }

    /// What the user of the port should know and is no failure: a trace that has reached its limit, a packet that the port
    /// could not cut. By default None.
    fn notice(&self) -> Option<String> {
        None
    }

    /// Its counters, readable from any thread. A port made elsewhere keeps their [`Writer`](crate::stats::Writer), and
    /// adds to them: what a port around it counts there ([`bounce`](super::bounce)) would be lost if they were replaced.
    fn counters(&self) -> Arc<PortCounters>;

    /// The additional counters of wrapping ports, the outermost first. By default none.
    fn wrap_counters(&self) -> Vec<Arc<dyn WrapCounters>> {
        Vec::new()
    }
}
