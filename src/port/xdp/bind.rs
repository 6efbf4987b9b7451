//! Setting a port up: the UMEM it shares, the program on its interface, the socket on its queue. COLD.
//!
//! The order of the steps ensures that no packet finds the port half made. Name, state and queue are checked, the
//! socket is bound, the program is attached with no socket to redirect to, and the FILL ring is primed. Only then does
//! the program get the socket. Steps that another program may refuse come before any frame is posted. A failure at any
//! step drops the results of the steps before it.

use super::again::{BUSY_TRIES, bind_when_free, while_refused};
use super::attach::{Attachment, own_addresses};
use super::error::{Attempt, XdpError, watch};
use super::held::Held;
use super::own::OwnAddresses;
use super::registration::{BoundSocket, Registration};
use super::take::TakeControl;
use super::{Binding, Punt, Queues, XdpConfig, XdpPort, may_be_long};
use crate::limits::{CHUNK_SIZE, PAGE_SIZE};
use crate::page::Memory;
use crate::pool::Pool;
use crate::port::{Fill, Wake};
use crate::sync::Worker;
use crate::sync::shim::{Mutex, lock};
use crate::sys::bpf::{Punted, QUEUES_MAX, XdpMode};
use crate::sys::capability::locked_memory_limit;
use crate::sys::errno::Errno;
use crate::sys::netdev::{Netdev, NetdevId};
use crate::sys::region::Region;
use crate::sys::xdp::{RingSizes, Rings, Socket, sockets_here};
use std::os::fd::AsFd;
use std::sync::{Arc, Weak};

/// Entries of the largest ring.
const RING_MAX: u32 = 1 << 16;
/// The packet memory that any number of interfaces and queues share. A frame received on one is sent by another without
/// a copy. The interfaces may be those of several network namespaces, but with [`Punt::Control`] those of one.
#[derive(Debug)]
pub struct Umem {
    region: Arc<Region>,
    /// Bytes of a chunk: 2,048 or 4,096.
    chunk_size: usize,
    /// The current bindings. Held while a port opens or closes, so that no thread uses a socket while it closes.
    bound: Mutex<Bound>,
}

#[derive(Debug, Default)]
struct Bound {
    sockets: Vec<BoundSocket>,
    attachments: Vec<Weak<Attachment>>,
    /// Set from the first program on that punts control traffic, with its interface.
    own: Option<(Arc<OwnAddresses>, NetdevId)>,
    /// One for each interface whose ports do not take all packets; its ports hold it.
    takes: Vec<Weak<TakeControl>>,
}

impl Umem {
    /// Prepares the region of `memory` for sharing by ports. It is registered with the kernel by the first port, which
    /// pins its pages, and at most three times in all ([`XdpPort::open`]).
    pub fn new(memory: &Memory) -> Arc<Umem> {
        Umem::of(memory, CHUNK_SIZE)
    }

    /// As [`Umem::new`], for packets of up to `chunk_size` bytes less the kernel's headroom of 256. The pool's frames
    /// must be at least as large. The size is 2,048, as with `new`, or 4,096. Smaller frames are foreign to its ports.
    ///
    /// # Errors
    /// Returns [`XdpError::ChunkSize`] for any other size: the kernel takes no larger one.
    pub fn with_chunks(memory: &Memory, chunk_size: usize) -> Result<Arc<Umem>, XdpError> {
        if ![CHUNK_SIZE, PAGE_SIZE].contains(&chunk_size) {
            return Err(XdpError::ChunkSize(chunk_size));
        }
        Ok(Umem::of(memory, chunk_size))
    }

    fn of(memory: &Memory, chunk_size: usize) -> Arc<Umem> {
        Arc::new(Umem { region: memory.region().clone(), chunk_size, bound: Mutex::new(Bound::default()) })
    }

    /// The state in which none of its chunks is held.
    pub(super) fn nothing_held(&self) -> Held {
        Held::new(&self.region, self.chunk_size)
    }

    /// Bytes of a chunk: 2,048 or 4,096.
    pub fn chunk_size(&self) -> usize {
        self.chunk_size
    }

    /// Returns whether its ports can receive into frames of `pool`: they lie in its region, and each has a chunk to itself.
    pub(super) fn has_frames_of(&self, pool: &Pool) -> bool {
        Arc::ptr_eq(pool.memory().region(), &self.region) && pool.frame_size() >= self.chunk_size
    }

    /// Refuses a pool whose frames its ports cannot receive into, and a worker of another memory.
    pub(super) fn check(&self, w: &Worker, pool: &Pool) -> Result<(), XdpError> {
        let name = || pool.name().to_owned();
        if !Arc::ptr_eq(pool.memory().region(), &self.region) {
            return Err(XdpError::WrongMemory { pool: name() });
        }
        if !self.has_frames_of(pool) {
            let (frame_size, chunk_size) = (pool.frame_size(), self.chunk_size);
            return Err(XdpError::SmallFrames { pool: name(), frame_size, chunk_size });
        }
        let is_ours = pool.memory().roster().claimed(w);
        is_ours.then_some(()).ok_or_else(|| XdpError::WrongWorker { pool: name() })
    }

    /// The region.
    pub fn region(&self) -> &Arc<Region> {
        &self.region
    }

    /// The addresses that the redirect programs of its ports treat as the host's own. They are those of the time when
    /// the first port was opened with [`Punt::Control`], until they are changed. None before that. They belong to the
    /// network namespace of that port. In another namespace no such port can be opened over this memory.
    pub fn own_addresses(&self) -> Option<Arc<OwnAddresses>> {
        lock(&self.bound).own.as_ref().map(|(own, _)| Arc::clone(own))
    }

    /// The packets that the ports of each interface take, for ports that do not take all.
    ///
    /// ```
    /// # let memory = netmem::Memory::new(&netmem::MemoryConfig { bytes: 4 << 20, ..Default::default() })?;
    /// let umem = netmem::Umem::new(&memory);
    /// for control in umem.take_controls() {
    ///     println!("{}: {}", control.interface(), control.get());
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn take_controls(&self) -> Vec<Arc<TakeControl>> {
        lock(&self.bound).takes.iter().filter_map(Weak::upgrade).collect()
    }

    /// Returns a socket bound to the queue and an attached program, which still passes packets on to the kernel's
    /// stack. A busy queue is tried that many more times.
    pub(super) fn bind(
        &self,
        netdev: &Netdev,
        attempt: &Attempt<'_>,
        config: &XdpConfig,
        (means, busy_tries): (Means, u32),
    ) -> Result<(Binding, Rings), XdpError> {
        if self.region.is_guarded() {
            return Err(XdpError::GuardPages);
        }
        check_usable(netdev, attempt)?;
        let (interface, queue) = (netdev.id(), attempt.queue);
        let watch = watch(attempt.interface)?;
        let mut bound = lock(&self.bound);
        bound.forget_closed();
        let mut several = means.are_generic() || may_be_long(netdev, config);
        let bind = |bound: &Bound, given, several| {
            bound.bind(self, (interface, several), attempt, config, (given, busy_tries))
        };
        let (socket, rings, attachment) = match means {
            Means::Own(Former { taking, .. }) => {
                let (mut socket, mut rings) = bind(&bound, None, several)?;
                let attachment = bound.attach(netdev, (taking, !socket.is_zero_copy()), config, attempt)?;
                if !several && attachment.mode() == XdpMode::Generic {
                    // The driver has no XDP. The program runs behind it, and gets packets that GRO has joined.
                    several = true;
                    drop((socket, rings));
                    (socket, rings) = bind(&bound, None, several)?;
                }
                (socket, rings, attachment)
            }
            Means::Granted(socket, attachment) => {
                let (socket, rings) = bind(&bound, Some(socket), several)?;
                let shared = Arc::downgrade(&attachment);
                if !bound.attachments.iter().any(|one| one.ptr_eq(&shared)) {
                    bound.attachments.push(shared);
                }
                (socket, rings, attachment)
            }
        };
        let socket = Arc::new(socket);
        bound.sockets.push(BoundSocket { interface, queue, socket: Arc::downgrade(&socket), several });
        Ok((Binding { attachment, socket, watch, is_watched: true }, rings))
    }

    /// Takes away a port's socket and its part of the program. First the redirection of packets to it stops, then its
    /// mappings (`queues`) are dropped, then its last descriptor. When this returns, the kernel has released the
    /// socket.
    pub(super) fn unbind(&self, queue: u32, binding: Binding, queues: Queues) {
        let Binding { attachment, socket, watch, .. } = binding;
        let mut bound = lock(&self.bound);
        if Arc::strong_count(&attachment) > 1 {
            // Other queues stay.
            attachment.remove(queue);
        }
        attachment.release();
        drop((queues, watch));
        drop(socket);
        bound.forget_closed();
    }
}

impl XdpPort {
    /// Opens a port over `umem` on `queue` of `interface` in the calling thread's network namespace. Before the first packet
    /// comes, its FILL ring gets as many frames of `pool` as it has room for, at most a quarter of the pool.
    ///
    /// The first port of a UMEM registers it with the kernel, and others share that. A port that is zero-copy beside
    /// ports that are not, or the reverse, registers it once more, and so does one on a software device beside a card in
    /// copy mode. Each registration counts as locked memory (`ulimit -l`). Ports of several queues of one interface share
    /// one redirect program. A pool that runs dry leaves the ring shorter ([`Fill::refill`]).
    ///
    /// The interface receives frames to all MAC addresses (promiscuous mode) while a port takes all packets of a queue.
    /// If that is refused, [`complaint`](crate::port::Port::complaint) says so. With [`XdpConfig::take`] it is as it was.
    ///
    /// The port belongs to the opening process alone: in a child (fork(2)) it is down, with that reason.
    ///
    /// # Errors
    /// Returns [`XdpError`] with the step and the remedy. Nothing is left behind, and every frame is free again (in
    /// zero-copy mode, unless the kernel refused the last step: see [the module](super)). A queue that another UMEM's
    /// socket has is tried for five seconds before it is an error; one that a port of this UMEM has is an error at once.
    /// One that no socket has any more, and that the kernel has not freed yet, is tried for a minute.
    /// A pool of another memory than the UMEM is refused, and one whose frames are smaller than its chunks, and a worker
    /// of another memory.
    #[cold]
    pub fn open(
        umem: &Arc<Umem>,
        w: &mut Worker,
        pool: &Pool,
        interface: &str,
        queue: u32,
        config: &XdpConfig,
    ) -> Result<XdpPort, XdpError> {
        // At most a quarter: further ports are opened after this one.
        XdpPort::open_filled(umem, w, pool, (interface, queue), config, pool.frames() / 4)
    }

    /// As [`XdpPort::open`], with at most `most` frames in the FILL ring.
    pub(super) fn open_filled(
        umem: &Arc<Umem>,
        w: &mut Worker,
        pool: &Pool,
        (interface, queue): (&str, u32),
        config: &XdpConfig,
        most: usize,
    ) -> Result<XdpPort, XdpError> {
        check_rings(&config.rings)?;
        umem.check(w, pool)?;
        let attempt = Attempt::new(umem, interface, queue, config);
        let netdev = Netdev::open(interface).map_err(|errno| attempt.netdev("find the interface", errno))?;
        let means = Means::Own(Former::default());
        let (binding, rings) = umem.bind(&netdev, &attempt, config, (means, BUSY_TRIES))?;
        let mut port = XdpPort::new(umem.clone(), netdev, queue, config, binding, rings);
        port.refill_to(w, pool, most);
        // A driver that found the FILL ring empty when the socket was bound sleeps until it is woken.
        port.kick();
        // On failure the port is dropped, which frees its frames.
        port.let_packets_in(&attempt)?;
        Ok(port)
    }

    /// From now on the program redirects the queue's packets to the socket.
    pub(super) fn let_packets_in(&self, attempt: &Attempt<'_>) -> Result<(), XdpError> {
        let Some(Binding { attachment, socket, .. }) = &self.binding else { return Ok(()) };
        self.skip_statistics();
        attachment.insert(self.queue, socket.as_fd()).map_err(|error| attempt.bpf(&error))
    }
}

impl Bound {
    fn forget_closed(&mut self) {
        self.sockets.retain(|one| one.socket.strong_count() > 0);
        self.attachments.retain(|one| one.strong_count() > 0);
        self.takes.retain(|one| one.strong_count() > 0);
    }

    /// Binds a socket on the queue, over a registration of the UMEM that suits it, or over a new one.
    fn bind(
        &self,
        umem: &Umem,
        (interface, several): (NetdevId, bool),
        attempt: &Attempt<'_>,
        config: &XdpConfig,
        (mut given, tries): (Option<Socket>, u32),
    ) -> Result<(Socket, Rings), XdpError> {
        let queue = attempt.queue;
        if self.sockets.iter().any(|one| one.interface.is(interface) && one.queue == queue) {
            return Err(XdpError::QueueBound { interface: attempt.interface.into(), queue });
        }
        let interface = interface.index();
        // Without privileges no other socket can be opened.
        let is_given = given.is_some();
        let mut open = |registration: &Registration, busy_tries: u32| {
            let socket = given.take().map_or_else(Socket::new, Ok)?;
            if let Registration::Own(_) = registration {
                // SAFETY: only FillQueue and TxQueue (burst, burst_long) publish addresses. They take the addresses
                // from frames that they consume. A frame is the only claim to its chunk, and it is minted again only
                // when the kernel has given the chunk back.
                let register = || unsafe { socket.register(&umem.region, umem.chunk_size) };
                // Memory that a killed program had locked counts for its user until the kernel has released it.
                let tries = if fits_the_limit(&umem.region) { tries } else { 0 };
                while_refused(Errno::NOBUFS, tries, register)?;
            }
            let rings = socket.rings(&config.rings)?;
            let bind = || match registration {
                Registration::Own(zero_copy) => socket.bind(interface, queue, *zero_copy, several),
                Registration::Shared(first) => socket.bind_shared(interface, queue, first),
            };
            let ours = 1 + self.sockets.iter().filter(|one| one.socket.strong_count() > 0).count();
            // A socket that was granted belongs to the granter's namespace. Its sockets are not counted here.
            let is_held = || is_given || sockets_here().is_none_or(|sockets| sockets > ours);
            bind_when_free(busy_tries, is_held, bind)?;
            Ok((socket, rings))
        };
        let (first, others) = Registration::choose(&self.sockets, config.zero_copy, several);
        let mut opened = open(&first, tries);
        for other in others {
            if opened.is_ok() || is_given {
                break;
            }
            // A queue that is still busy is busy for each of them.
            opened = open(&other, 0);
        }
        opened.map_err(|error| attempt.socket(error))
    }

    /// Returns the program on the interface: the one that another port of this UMEM attached, or a new one. A new one
    /// takes the packets that `taking` names, or otherwise those of the configuration. It may wait until there are any.
    fn attach(
        &mut self,
        netdev: &Netdev,
        (taking, may_wait): (Option<Arc<TakeControl>>, bool),
        config: &XdpConfig,
        attempt: &Attempt<'_>,
    ) -> Result<Arc<Attachment>, XdpError> {
        let interface = netdev.id();
        let is_there = |one: &Weak<Attachment>| one.upgrade().filter(|one| one.is_on(interface));
        if let Some(attachment) = self.attachments.iter().find_map(is_there) {
            return attachment.check(config, attempt).map(|()| attachment);
        }
        let punted = match config.punt {
            Punt::Nothing => Punted::Nothing,
            Punt::Neighbours => Punted::Neighbours,
            Punt::Control => Punted::Control(self.own_addresses(interface, attempt)?),
        };
        let new = || {
            let taking = Arc::new(TakeControl::new(netdev.name(), config.take.as_ref()?));
            self.takes.push(Arc::downgrade(&taking));
            Some(taking)
        };
        let taking = taking.or_else(new);
        let attachment = Arc::new(Attachment::new(netdev, config.mode, punted, taking, may_wait, attempt)?);
        self.attachments.push(Arc::downgrade(&attachment));
        Ok(attachment)
    }

    /// Returns the own addresses, which are read at the first call. Those of another namespace would leave to the kernel
    /// packets that are not for it, and not those that are.
    fn own_addresses(
        &mut self,
        interface: NetdevId,
        attempt: &Attempt<'_>,
    ) -> Result<Arc<OwnAddresses>, XdpError> {
        let (own, first) = match self.own.take() {
            Some(known) => known,
            None => (own_addresses(attempt)?, interface),
        };
        let (own, first) = self.own.insert((own, first));
        if !first.is_beside(interface) {
            return Err(XdpError::OtherNamespace { interface: attempt.interface.into() });
        }
        Ok(Arc::clone(own))
    }
}

/// The means to bind a port: what it may open and attach itself, or a grant.
pub(super) enum Means {
    Own(Former),
    Granted(Socket, Arc<Attachment>),
}

/// What a port that has lost its interface goes on with. Default: a port that had none.
#[derive(Default)]
pub(super) struct Former {
    /// The packets that it took.
    pub(super) taking: Option<Arc<TakeControl>>,
    /// The mode that its program ran in.
    pub(super) mode: Option<XdpMode>,
}

impl Means {
    /// Returns whether the program is known to run in generic mode. Then packets of several chunks are requested at
    /// once, since a second socket finds the queue busy for a while. An interface that comes back is usually the same.
    fn are_generic(&self) -> bool {
        let mode = match self {
            Means::Own(former) => former.mode,
            Means::Granted(_, attachment) => Some(attachment.mode()),
        };
        mode == Some(XdpMode::Generic)
    }
}

/// Returns whether the user may lock the whole region, if nothing else of theirs is locked.
fn fits_the_limit(region: &Region) -> bool {
    locked_memory_limit().is_none_or(|limit| region.len() as u64 <= limit)
}

/// Refuses an interface that is not up or does not have the queue.
pub(super) fn check_usable(netdev: &Netdev, attempt: &Attempt<'_>) -> Result<(), XdpError> {
    let interface = || attempt.interface.to_owned();
    if !netdev.is_up().map_err(|errno| attempt.netdev("read its flags", errno))? {
        return Err(XdpError::InterfaceDown { interface: interface() });
    }
    let queues = netdev.queues().map_err(|errno| attempt.netdev("count its queues", errno))?;
    // A queue that receives and does not send would swallow the frames given to `tx`.
    let queues = queues.map(|queues| queues.rx.min(queues.tx));
    if attempt.queue >= queues.unwrap_or(QUEUES_MAX) {
        return Err(XdpError::NoSuchQueue { interface: interface(), queue: attempt.queue, queues });
    }
    Ok(())
}

/// Refuses sizes that the kernel would refuse without naming the size.
pub(super) fn check_rings(sizes: &RingSizes) -> Result<(), XdpError> {
    let RingSizes { fill, rx, tx, completion } = *sizes;
    for (ring, size) in [("FILL", fill), ("RX", rx), ("TX", tx), ("COMPLETION", completion)] {
        if !size.is_power_of_two() || size > RING_MAX {
            return Err(XdpError::RingSize { ring, size, min: 1, max: RING_MAX });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Bench, bench};
    use super::*;
    use crate::page::MemoryConfig;
    use crate::pool::PoolConfig;

    /// Returns the reason why a port cannot be opened. No frame is in use afterwards.
    fn refused(interface: &str, config: &XdpConfig) -> XdpError {
        let Bench { memory, mut w, pool } = bench(8);
        let error = XdpPort::open(&Umem::new(&memory), &mut w, &pool, interface, 0, config).unwrap_err();
        assert!(pool.ledger().all_freed(), "{:?}", pool.ledger());
        error
    }

    #[test]
    fn ring_sizes_that_are_no_power_of_two_are_refused_by_name() {
        for (size, ring) in [(0, "TX"), (3, "TX"), (1 << 17, "TX")] {
            let rings = RingSizes { tx: size, ..RingSizes::default() };
            let config = XdpConfig { rings, ..XdpConfig::default() };
            let error = refused("lo", &config);
            assert_eq!(error, XdpError::RingSize { ring, size, min: 1, max: RING_MAX });
        }
    }

    #[test]
    fn memory_with_guard_pages_is_refused_with_what_to_choose() {
        let hardening = "all".parse().unwrap();
        let config = MemoryConfig { bytes: 2 << 20, hardening, ..Default::default() };
        let memory = Memory::new(&config).unwrap();
        let mut w = memory.worker().unwrap();
        let pool = Pool::new(&memory, &mut w, &PoolConfig { frames: 64, ..Default::default() }).unwrap();
        let opened = XdpPort::open(&Umem::new(&memory), &mut w, &pool, "lo", 0, &XdpConfig::default());
        let error = opened.unwrap_err();
        assert_eq!(error, XdpError::GuardPages);
        assert!(error.to_string().ends_with("leave guard out (random,clear,canary)"), "{error}");
    }

    /// Found: the port bound a socket, dropped it for another one, found the queue still busy with the first, and reported a
    /// socket of another program.
    #[test]
    fn a_port_that_was_in_generic_mode_binds_one_socket_when_its_interface_is_back() {
        let by = |mode| Means::Own(Former { mode, ..Former::default() }).are_generic();
        assert!(by(Some(XdpMode::Generic)));
        assert!(!by(Some(XdpMode::Native)) && !by(None));
    }

    #[test]
    fn chunks_that_the_kernel_does_not_take_are_refused() {
        let Bench { memory, .. } = bench(8);
        for size in [0, 1024, 3000, 8192, 65_536] {
            assert_eq!(Umem::with_chunks(&memory, size).unwrap_err(), XdpError::ChunkSize(size));
        }
        assert!(Umem::with_chunks(&memory, 2048).is_ok() && Umem::with_chunks(&memory, 4096).is_ok());
    }

    #[test]
    fn an_interface_that_is_not_there_is_named() {
        let error = refused("nosuch0", &XdpConfig::default());
        assert_eq!(error, XdpError::UnknownInterface { interface: "nosuch0".into() });
    }
}
