//! The border to DPDK's loops in C.
//!
//! Sound because each object of DPDK has one handle, which frees it. Several threads may use a mempool at once, each
//! with its own lcore id, which [`ready`] ensures. One thread at a time uses an end of a ring, by `&mut`.

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::marker::{PhantomData, PhantomPinned};
use std::num::NonZeroU32;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::Passed;
use crate::system::library::Library;

/// An object of DPDK. Only its address is known here.
#[repr(C)]
struct Opaque {
    _bytes: [u8; 0],
    _pinned: PhantomData<(*mut u8, PhantomPinned)>,
}

// All of these but the first two require that `rival_dpdk_thread` has returned 0 on the calling thread, that the pools
// and rings live, and that there is room for the number of pointers that is passed.
unsafe extern "C" {
    safe fn rival_dpdk_thread() -> c_int;
    safe fn rival_dpdk_version() -> *const c_char;
    fn rival_dpdk_frames_new(name: *const c_char, count: c_uint, bytes: c_uint, cache: c_uint)
    -> *mut Opaque;
    fn rival_dpdk_objects_new(
        name: *const c_char,
        ops: *const c_char,
        count: c_uint,
        bytes: c_uint,
        cache: c_uint,
    ) -> *mut Opaque;
    fn rival_dpdk_adopt_ops(table: *mut c_void, name: *const c_char) -> c_int;
    fn rival_dpdk_packets_new(
        name: *const c_char,
        count: c_uint,
        bytes: c_uint,
        cache: c_uint,
    ) -> *mut Opaque;
    fn rival_dpdk_out(pool: *const Opaque) -> c_uint;
    fn rival_dpdk_pool_free(pool: *mut Opaque);
    fn rival_dpdk_frames_single(pool: *mut Opaque, touched: c_int, ops: u64) -> u64;
    fn rival_dpdk_frames_bulk(
        pool: *mut Opaque,
        held: *mut *mut c_void,
        burst: c_uint,
        touched: c_int,
        ops: u64,
    ) -> u64;
    fn rival_dpdk_packets_single(pool: *mut Opaque, ops: u64) -> u64;
    fn rival_dpdk_packets_bulk(pool: *mut Opaque, held: *mut *mut c_void, burst: c_uint, ops: u64) -> u64;
    fn rival_dpdk_packets_take(pool: *mut Opaque, held: *mut *mut c_void, count: c_uint) -> c_int;
    fn rival_dpdk_packets_above_alias(pool: *mut Opaque) -> c_uint;
    fn rival_dpdk_packets_give(held: *mut *mut c_void, count: c_uint);
    fn rival_dpdk_ring_new(name: *const c_char, slots: c_uint) -> *mut Opaque;
    fn rival_dpdk_ring_free(ring: *mut Opaque);
    fn rival_dpdk_ring_send_one(ring: *mut Opaque, next: u64, ops: u64) -> u64;
    fn rival_dpdk_ring_send_burst(ring: *mut Opaque, next: u64, ops: u64) -> u64;
    fn rival_dpdk_ring_receive_one(ring: *mut Opaque, next: u64, ops: u64, wrong: *mut u64) -> u64;
    fn rival_dpdk_ring_receive_burst(ring: *mut Opaque, next: u64, ops: u64, wrong: *mut u64) -> u64;
    fn rival_dpdk_ids_new(name: *const c_char, slots: c_uint, one_consumer: c_int) -> *mut Opaque;
    fn rival_dpdk_ids_send(ring: *mut Opaque, ids: *const u32, count: c_uint) -> c_uint;
    fn rival_dpdk_ids_receive(ring: *mut Opaque, ids: *mut u32, count: c_uint) -> c_uint;
    fn rival_dpdk_packets_send(
        pool: *mut Opaque,
        ring: *mut Opaque,
        next: u64,
        ops: u64,
        refused: *mut u64,
    ) -> u64;
    fn rival_dpdk_packets_receive(ring: *mut Opaque, next: u64, ops: u64, wrong: *mut u64) -> u64;
}

/// Returns whether the calling thread may use DPDK. Starts and registers what is missing.
fn ready() -> bool {
    rival_dpdk_thread() == 0
}

/// Returns a name that no pool or ring has had.
fn name() -> CString {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    // Digits and letters hold no NUL.
    CString::new(format!("netmem{}", NUMBER.fetch_add(1, Relaxed))).unwrap_or_default()
}

/// Returns the object that DPDK made, or why there is none.
fn made(object: *mut Opaque, what: &str) -> Result<NonNull<Opaque>, String> {
    NonNull::new(object).ok_or_else(|| format!("DPDK has no memory for {what}: ask for fewer"))
}

/// DPDK, started.
#[derive(Debug, Clone, Copy)]
pub struct Dpdk(());

impl Dpdk {
    /// Starts DPDK, if that has not been done.
    ///
    /// # Errors
    /// The cause and its remedy.
    pub fn start() -> Result<Dpdk, String> {
        ready().then_some(Dpdk(())).ok_or_else(|| {
            "its environment does not start: give it 512 MiB of memory, or leave the feature rivals out"
                .to_owned()
        })
    }

    /// Returns its name and version, as it reports them.
    pub fn version(&self) -> String {
        // SAFETY: a static string that ends in a NUL.
        unsafe { CStr::from_ptr(rival_dpdk_version()) }.to_string_lossy().into_owned()
    }

    /// Makes a mempool of `count` bare objects of `bytes`, with `cache` of them for each thread.
    ///
    /// # Errors
    /// There is no memory for it.
    pub fn frames(&self, count: usize, bytes: usize, cache: usize) -> Result<Frames, String> {
        let [count, bytes, cache] = [count, bytes, cache].map(|number| number as c_uint);
        // SAFETY: DPDK runs, and the name ends in a NUL.
        let pool = unsafe { rival_dpdk_frames_new(name().as_ptr(), count, bytes, cache) };
        Ok(Frames(Mempool(made(pool, "a mempool")?)))
    }

    /// Does the same as [`Dpdk::frames`], with the mempool ops of this name.
    ///
    /// # Errors
    /// There are no such ops, or there is no memory for it.
    pub fn objects(&self, ops: &CStr, count: usize, bytes: usize, cache: usize) -> Result<Frames, String> {
        let [count, bytes, cache] = [count, bytes, cache].map(|number| number as c_uint);
        // SAFETY: DPDK runs, and both names end in a NUL.
        let pool = unsafe { rival_dpdk_objects_new(name().as_ptr(), ops.as_ptr(), count, bytes, cache) };
        Ok(Frames(Mempool(made(pool, "a mempool of these ops")?)))
    }

    /// Registers here the mempool ops that a plug-in has registered with the DPDK that it is linked to. That is a
    /// shared one, which is never started. The functions of DPDK that the ops call work on the mempool that they are
    /// given, or only register a callback.
    ///
    /// # Errors
    /// The plug-in is linked to no DPDK, or to one of another version, or has no ops of this name.
    pub fn adopt_ops(&self, plug_in: Library, ops: &CStr) -> Result<(), String> {
        // SAFETY: the type in rte_version.h.
        let version = unsafe { plug_in.function::<unsafe extern "C" fn() -> *const c_char>(c"rte_version") };
        let found = plug_in.address(c"rte_mempool_ops_table").zip(version);
        let (table, version) = found.ok_or("it is linked to no DPDK")?;
        // SAFETY: it takes nothing and returns a static string that ends in a NUL.
        let theirs = unsafe { CStr::from_ptr(version()) }.to_string_lossy();
        if theirs != self.version() {
            return Err(format!("it is linked to {theirs}, and the lab to {}", self.version()));
        }
        // SAFETY: DPDK's table, of the version whose layout is known here, which no other code uses. A library stays
        // open. The name ends in a NUL.
        let adopted = unsafe { rival_dpdk_adopt_ops(table.as_ptr(), ops.as_ptr()) } == 0;
        adopted.then_some(()).ok_or_else(|| "it has registered no such ops".to_owned())
    }

    /// Makes a mempool of `count` mbufs with room for `bytes` after the headroom, with `cache` of them for each thread.
    ///
    /// # Errors
    /// There is no memory for it.
    pub fn packets(&self, count: usize, bytes: usize, cache: usize) -> Result<Packets, String> {
        let [count, bytes, cache] = [count, bytes, cache].map(|number| number as c_uint);
        // SAFETY: as above.
        let pool = unsafe { rival_dpdk_packets_new(name().as_ptr(), count, bytes, cache) };
        Ok(Packets { pool: Arc::new(Mempool(made(pool, "a mempool of mbufs")?)), kept: Vec::new() })
    }

    /// Makes a ring of `slots`, a power of two, of which it uses all but one. One call passes [`BURST`] numbers, or one
    /// number if `singly`.
    ///
    /// # Errors
    /// There is no memory for it.
    pub fn ring(&self, slots: usize, singly: bool) -> Result<(Sending, Receiving), String> {
        let ring = Ring::new(slots)?;
        Ok((Sending { ring: Arc::clone(&ring), singly }, Receiving { ring, singly }))
    }

    /// Makes a ring of ids of `slots`, a power of two, of which it uses all but one. It has any number of senders, and
    /// any number of receivers unless `one_receiver`.
    ///
    /// # Errors
    /// There is no memory for it.
    pub fn ids(&self, slots: usize, one_receiver: bool) -> Result<(IdSending, IdReceiving), String> {
        // SAFETY: DPDK runs, and the name ends in a NUL.
        let ring = unsafe { rival_dpdk_ids_new(name().as_ptr(), slots as c_uint, one_receiver.into()) };
        let ring = Arc::new(Ring(made(ring, "a ring")?));
        Ok((IdSending(Arc::clone(&ring)), IdReceiving(ring)))
    }
}

/// Returns slots for `count` pointers.
fn places(count: usize) -> Vec<*mut c_void> {
    vec![ptr::null_mut(); count]
}

/// Invariant: the mempool lives, until this is dropped.
#[derive(Debug)]
struct Mempool(NonNull<Opaque>);

// SAFETY: a mempool may be used by any thread, and by several at once.
unsafe impl Send for Mempool {}
// SAFETY: as above.
unsafe impl Sync for Mempool {}

impl Mempool {
    fn out(&self) -> u64 {
        // SAFETY: it lives.
        u64::from(unsafe { rival_dpdk_out(self.0.as_ptr()) })
    }
}

impl Drop for Mempool {
    fn drop(&mut self) {
        // SAFETY: it is not used after this.
        unsafe { rival_dpdk_pool_free(self.0.as_ptr()) }
    }
}

/// A mempool of bare objects.
#[derive(Debug)]
pub struct Frames(Mempool);

impl Frames {
    /// Allocates and frees `burst` frames at a time, until `ops` frames have been freed. With `touch` the first line of
    /// each is written. Returns how many allocations failed.
    #[inline]
    pub fn run(&mut self, burst: usize, touch: bool, ops: u32) -> u64 {
        let (pool, touched, ops) = (self.0.0.as_ptr(), touch.into(), u64::from(ops));
        if !ready() {
            return ops;
        }
        if burst == 1 {
            // SAFETY: the thread is ready, the pool lives.
            return unsafe { rival_dpdk_frames_single(pool, touched, ops) };
        }
        let mut held = places(burst);
        // SAFETY: as above, and `held` has `burst` slots.
        unsafe { rival_dpdk_frames_bulk(pool, held.as_mut_ptr(), burst as c_uint, touched, ops) }
    }

    /// Returns the number of frames that are neither in the pool nor in a cache.
    pub fn out(&self) -> u64 {
        self.0.out()
    }
}

/// A mempool of mbufs.
#[derive(Debug)]
pub struct Packets {
    pool: Arc<Mempool>,
    /// Packets that are allocated until [`give_back`](Self::give_back).
    kept: Vec<*mut c_void>,
}

// SAFETY: any thread may free mbufs, and `kept` is used only by `&mut`.
unsafe impl Send for Packets {}
// SAFETY: as above.
unsafe impl Sync for Packets {}

impl Packets {
    /// Allocates, writes and frees `burst` packets of one line at a time, until `ops` packets have been freed. Returns
    /// how many allocations failed.
    #[inline]
    pub fn run(&mut self, burst: usize, ops: u32) -> u64 {
        let (pool, ops) = (self.pool.0.as_ptr(), u64::from(ops));
        if !ready() {
            return ops;
        }
        if burst == 1 {
            // SAFETY: the thread is ready, the pool lives.
            return unsafe { rival_dpdk_packets_single(pool, ops) };
        }
        let mut held = places(burst);
        // SAFETY: as above, and `held` has `burst` slots.
        unsafe { rival_dpdk_packets_bulk(pool, held.as_mut_ptr(), burst as c_uint, ops) }
    }

    /// Returns the number of packets that are neither in the pool nor in a cache.
    pub fn out(&self) -> u64 {
        self.pool.out()
    }

    /// Makes a ring of `slots`, a power of two, of which it uses all but one, for packets of this pool.
    ///
    /// # Errors
    /// There is no memory for it.
    pub fn ring(&self, slots: usize) -> Result<(PacketSending, PacketReceiving), String> {
        let ring = Ring::new(slots)?;
        let sending = PacketSending { ring: Arc::clone(&ring), pool: Arc::clone(&self.pool) };
        Ok((sending, PacketReceiving { ring, _pool: Arc::clone(&self.pool) }))
    }

    /// Frees the held packets, then takes and holds `count` packets. Returns false if there are not as many.
    pub fn hold(&mut self, count: usize) -> bool {
        self.give_back();
        let mut held = places(count);
        // SAFETY: the thread is ready if `ready` returns true, the pool lives, and `held` has `count` slots.
        let taken = ready()
            && unsafe { rival_dpdk_packets_take(self.pool.0.as_ptr(), held.as_mut_ptr(), count as c_uint) }
                == 0;
        if taken {
            self.kept = held;
        }
        taken
    }

    /// Takes and holds as many packets as are needed for this: single packets then leave and enter a slot of this
    /// thread's cache that lies a multiple of 4 KiB from the cache's counter. Returns false if there is no such slot.
    pub fn alias(&mut self) -> bool {
        // One packet that is allocated and freed fills the cache.
        if self.run(1, 1) > 0 {
            return false;
        }
        // SAFETY: the thread is ready, or no packet would have been allocated. The pool lives.
        let above = unsafe { rival_dpdk_packets_above_alias(self.pool.0.as_ptr()) };
        above > 0 && self.hold(above as usize)
    }

    /// Frees the kept packets.
    pub fn give_back(&mut self) {
        let mut kept = std::mem::take(&mut self.kept);
        if !kept.is_empty() && ready() {
            // SAFETY: the thread is ready. Each was taken from the pool once and is given back once.
            unsafe { rival_dpdk_packets_give(kept.as_mut_ptr(), kept.len() as c_uint) }
        }
    }
}

impl Drop for Packets {
    fn drop(&mut self) {
        self.give_back();
    }
}

/// Invariant: the ring lives, until this is dropped.
#[derive(Debug)]
struct Ring(NonNull<Opaque>);

// SAFETY: one thread at a time uses each end, by the only `&mut` to its handle.
unsafe impl Send for Ring {}
// SAFETY: as above.
unsafe impl Sync for Ring {}

impl Ring {
    fn new(slots: usize) -> Result<Arc<Ring>, String> {
        // SAFETY: the name ends in a NUL. The caller has a handle that only a started DPDK gives.
        let ring = unsafe { rival_dpdk_ring_new(name().as_ptr(), slots as c_uint) };
        Ok(Arc::new(Ring(made(ring, "a ring")?)))
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: both ends are gone.
        unsafe { rival_dpdk_ring_free(self.0.as_ptr()) }
    }
}

/// The sending end of a ring of numbers.
#[derive(Debug)]
pub struct Sending {
    ring: Arc<Ring>,
    singly: bool,
}

impl Sending {
    /// Sends numbers from `next` on, until `ops` have been sent or the ring stayed full.
    #[inline]
    pub fn send(&mut self, next: u64, ops: u64) -> Passed {
        let send = if self.singly { rival_dpdk_ring_send_one } else { rival_dpdk_ring_send_burst };
        // SAFETY: the ring lives, and this is its one sending end. It needs no lcore.
        Passed { items: unsafe { send(self.ring.0.as_ptr(), next, ops) }, wrong: 0 }
    }
}

/// The receiving end of a ring of numbers.
#[derive(Debug)]
pub struct Receiving {
    ring: Arc<Ring>,
    singly: bool,
}

impl Receiving {
    /// Receives numbers, which must begin at `next`, until `ops` have come or the ring stayed empty.
    #[inline]
    pub fn receive(&mut self, next: u64, ops: u64) -> Passed {
        let receive = if self.singly { rival_dpdk_ring_receive_one } else { rival_dpdk_ring_receive_burst };
        let mut done = Passed::default();
        // SAFETY: the ring lives, and this is its one receiving end. It needs no lcore.
        done.items = unsafe { receive(self.ring.0.as_ptr(), next, ops, &raw mut done.wrong) };
        done
    }
}

/// A sending end of a ring of ids. A clone is another sending end of the same ring.
#[derive(Debug, Clone)]
pub struct IdSending(Arc<Ring>);

impl IdSending {
    /// Sends ids from the front of `ids`. Returns how many had room.
    #[inline]
    pub fn send(&self, ids: &[NonZeroU32]) -> usize {
        // SAFETY: the ring lives and takes ids of this size from any number of threads. It needs no lcore.
        unsafe { rival_dpdk_ids_send(self.0.0.as_ptr(), ids.as_ptr().cast(), ids.len() as c_uint) as usize }
    }
}

/// The receiving end of a ring of ids.
#[derive(Debug)]
pub struct IdReceiving(Arc<Ring>);

impl IdReceiving {
    /// Receives ids into the front of `ids`. Returns how many.
    #[inline]
    pub fn receive(&mut self, ids: &mut [u32]) -> usize {
        // SAFETY: the ring lives and gives ids of this size. This is its one receiving end. It needs no lcore.
        unsafe { rival_dpdk_ids_receive(self.0.0.as_ptr(), ids.as_mut_ptr(), ids.len() as c_uint) as usize }
    }
}

/// The sending end of a ring of packets.
#[derive(Debug)]
pub struct PacketSending {
    ring: Arc<Ring>,
    /// The pool of the packets.
    pool: Arc<Mempool>,
}

impl PacketSending {
    /// Allocates packets, writes a line into each that begins with its number, counted from `next` on, and sends them,
    /// until `ops` have been sent or the ring stayed full.
    #[inline]
    pub fn send(&mut self, next: u64, ops: u64) -> Passed {
        let mut done = Passed { items: 0, wrong: u64::from(!ready()) };
        if done.wrong == 0 {
            let (pool, ring) = (self.pool.0.as_ptr(), self.ring.0.as_ptr());
            // SAFETY: the thread is ready. The pool and the ring live, and this is the ring's one sending end.
            done.items = unsafe { rival_dpdk_packets_send(pool, ring, next, ops, &raw mut done.wrong) };
        }
        done
    }
}

/// The receiving end of a ring of packets.
#[derive(Debug)]
pub struct PacketReceiving {
    ring: Arc<Ring>,
    /// Lives as long as packets may wait in the ring.
    _pool: Arc<Mempool>,
}

impl PacketReceiving {
    /// Receives packets, reads each one's number, which must begin at `next`, and frees it, until `ops` have come or
    /// the ring stayed empty.
    #[inline]
    pub fn receive(&mut self, next: u64, ops: u64) -> Passed {
        let mut done = Passed { items: 0, wrong: u64::from(!ready()) };
        if done.wrong == 0 {
            let ring = self.ring.0.as_ptr();
            // SAFETY: the thread is ready. The ring and the pool live, and this is the ring's one receiving end. Its
            // other end sends only packets.
            done.items = unsafe { rival_dpdk_packets_receive(ring, next, ops, &raw mut done.wrong) };
        }
        done
    }
}
