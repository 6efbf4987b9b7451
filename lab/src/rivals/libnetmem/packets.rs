//! Packets as a program in C uses them: a head and a frame are allocated, a line is written, and both are freed.

use std::ffi::{c_char, c_int, c_void};
use std::ptr;

use super::{BURST_MAX, LibnetmemPool, OfWorker, Word, function, library};

type HeadsOpen = unsafe extern "C" fn(Word, *const c_void, *mut Word) -> c_int;
type ReadyOpen = unsafe extern "C" fn(Word, Word, Word, u32, *mut Word) -> c_int;
type Alloc = unsafe extern "C" fn(Word, Word, Word, *mut Word, u32, *const c_char) -> c_int;
type Free = unsafe extern "C" fn(Word, *const Word, u32, *const c_char) -> c_int;
type ReadyAlloc = unsafe extern "C" fn(Word, Word, *mut Word, u32, *const c_char) -> c_int;
type ReadyFree = unsafe extern "C" fn(Word, Word, *const Word, u32, *const c_char) -> c_int;
type Put = unsafe extern "C" fn(Word, Word, u32, *const c_char) -> *mut c_void;
type PutEach =
    unsafe extern "C" fn(Word, *const Word, *const u32, u32, *mut *mut Line, *const c_char) -> c_int;
type FirstParts = unsafe extern "C" fn(Word, *const Word, u32, *mut Part, *const c_char) -> c_int;
type Data = unsafe extern "C" fn(Word, Word, *const c_char) -> *const c_void;
type Len = unsafe extern "C" fn(Word, Word, *const c_char) -> c_int;

/// The source of packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// A frame and a head, which are put together at each use.
    Fresh,
    /// A ready pool, in which both stay together.
    Ready,
}

/// Bytes that are written in each packet: one line.
pub(super) const LINE: usize = 64;
type Line = [u8; LINE];

/// netmem_part.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Part {
    data: *const c_void,
    len: u32,
    headroom: u16,
    tailroom: u16,
}

impl Part {
    const NONE: Part = Part { data: ptr::null(), len: 0, headroom: 0, tailroom: 0 };
}

/// Packets of a pool of libnetmem, with heads and a ready pool. They are closed when dropped.
pub struct LibnetmemPackets {
    pub(super) opened: LibnetmemPool,
    heads: Word,
    ready: Word,
    alloc: Alloc,
    free: Free,
    ready_alloc: ReadyAlloc,
    ready_free: ReadyFree,
    put: Put,
    put_each: PutEach,
    first_parts: FirstParts,
    data: Data,
    len: Len,
    heads_close: OfWorker,
    ready_close: OfWorker,
}

impl LibnetmemPackets {
    /// Opens packets of a pool of `frames` frames of `frame_size` bytes, with `cache` of them, and `cache` ready
    /// packets, at its worker.
    ///
    /// # Errors
    /// How to get the library, or which call failed.
    pub fn open(frames: u32, frame_size: u32, cache: u32) -> Result<LibnetmemPackets, String> {
        let (opened, library) = (LibnetmemPool::open(frames, frame_size, cache)?, library()?);
        // SAFETY: the types of these functions in netmem.h.
        let (heads_open, ready_open, mut packets) = unsafe {
            (
                function::<HeadsOpen>(library, c"netmem_heads_open")?,
                function::<ReadyOpen>(library, c"netmem_ready_open")?,
                LibnetmemPackets {
                    opened,
                    heads: Word::default(),
                    ready: Word::default(),
                    alloc: function(library, c"netmem_packet_alloc_at")?,
                    free: function(library, c"netmem_packet_free_at")?,
                    ready_alloc: function(library, c"netmem_ready_alloc_at")?,
                    ready_free: function(library, c"netmem_ready_free_at")?,
                    put: function(library, c"netmem_packet_put_at")?,
                    put_each: function(library, c"netmem_packet_put_each_at")?,
                    first_parts: function(library, c"netmem_packet_first_parts_at")?,
                    data: function(library, c"netmem_packet_data_at")?,
                    len: function(library, c"netmem_packet_len_at")?,
                    heads_close: function(library, c"netmem_heads_close")?,
                    ready_close: function(library, c"netmem_ready_close")?,
                },
            )
        };
        let (worker, pool) = (packets.opened.worker, packets.opened.pool);
        // SAFETY: handles that were opened before, and destinations that live longer than the calls.
        let made = unsafe {
            let heads = heads_open(worker, ptr::null(), &raw mut packets.heads);
            (heads, ready_open(worker, packets.heads, pool, cache, &raw mut packets.ready))
        };
        if made == (0, 0) {
            Ok(packets)
        } else {
            Err(format!("netmem_heads_open, netmem_ready_open: {made:?}"))
        }
    }

    /// Allocates `ops` packets, `burst` at a time, writes a line of `stamp` into each, and frees them. Returns how many
    /// allocations failed.
    pub fn run(&mut self, from: Source, burst: usize, stamp: u8, ops: u32) -> u64 {
        match from {
            Source::Fresh => self.bursts::<false>(burst, stamp, ops),
            Source::Ready => self.bursts::<true>(burst, stamp, ops),
        }
    }

    #[inline(never)]
    fn bursts<const READY: bool>(&mut self, burst: usize, stamp: u8, ops: u32) -> u64 {
        let (mut words, mut refused) = ([Word::default(); BURST_MAX], 0);
        let n = burst.min(BURST_MAX);
        for _ in 0..ops / n as u32 {
            let got = self.get::<READY>(&mut words[..n]);
            refused += (n - got) as u64;
            refused += match words[..got] {
                [word] => u64::from(!self.write(word, [stamp; LINE])),
                ref words => self.write_each(words, |_| [stamp; LINE]),
            };
            refused += u64::from(!self.give::<READY>(&words[..got]));
        }
        refused
    }

    /// Allocates one more burst, and writes a number of its own into each packet. Returns how many do not hold theirs
    /// when all are written.
    pub fn corrupted(&mut self, burst: usize) -> u64 {
        let (mut words, mut whole) = ([Word::default(); BURST_MAX], 0);
        let n = burst.min(BURST_MAX);
        let got = self.get::<false>(&mut words[..n]);
        for (&word, number) in words[..got].iter().zip(1..) {
            self.write(word, [number; LINE]);
        }
        for (&word, number) in words[..got].iter().zip(1..) {
            // SAFETY: a handle that the library returned. The packet's data is read while it is allocated, up to its
            // length.
            unsafe {
                let (data, len) = (
                    (self.data)(self.opened.worker, word, ptr::null()),
                    (self.len)(self.opened.worker, word, ptr::null()),
                );
                whole +=
                    u64::from(len == LINE as c_int && data.cast::<[u8; LINE]>().read() == [number; LINE]);
            }
        }
        self.give::<false>(&words[..got]);
        n as u64 - whole
    }

    #[inline(always)]
    pub(super) fn get<const READY: bool>(&self, words: &mut [Word]) -> usize {
        let Self { opened: LibnetmemPool { worker, pool, .. }, heads, ready, .. } = *self;
        let (places, n) = (words.as_mut_ptr(), words.len() as u32);
        // SAFETY: handles that are open, and room for the burst.
        let got = unsafe {
            if READY {
                (self.ready_alloc)(worker, ready, places, n, ptr::null())
            } else {
                (self.alloc)(worker, heads, pool, places, n, ptr::null())
            }
        };
        got.max(0) as usize
    }

    /// Makes a line the packet's data. Returns whether there was a packet with room.
    #[inline(always)]
    pub(super) fn write(&self, word: Word, line: [u8; LINE]) -> bool {
        // SAFETY: null, or this number of bytes of the packet, which is allocated.
        unsafe {
            let to = (self.put)(self.opened.worker, word, LINE as u32, ptr::null()).cast::<[u8; LINE]>();
            if !to.is_null() {
                to.write(line);
            }
            !to.is_null()
        }
    }

    /// Makes a line the data of each packet, by one call; `line` returns that of the packet at an index. Returns how many packets
    /// had no room.
    #[inline(always)]
    pub(super) fn write_each(&self, words: &[Word], line: impl Fn(usize) -> Line) -> u64 {
        let mut places = [ptr::null_mut(); BURST_MAX];
        let n = words.len().min(BURST_MAX) as u32;
        // SAFETY: handles that the library returned, and arrays of that length.
        _ = unsafe {
            let lens = [LINE as u32; BURST_MAX];
            let worker = self.opened.worker;
            (self.put_each)(worker, words.as_ptr(), lens.as_ptr(), n, places.as_mut_ptr(), ptr::null())
        };
        let mut refused = words.len() as u64 - u64::from(n);
        for (at, place) in places[..n as usize].iter().enumerate() {
            // SAFETY: null, or this number of bytes of the packet, which is allocated.
            match unsafe { place.as_mut() } {
                Some(place) => *place = line(at),
                None => refused += 1,
            }
        }
        refused
    }

    #[inline(always)]
    fn give<const READY: bool>(&self, words: &[Word]) -> bool {
        let worker = self.opened.worker;
        if !READY {
            return self.free(worker, words);
        }
        // SAFETY: handles that the library returned.
        unsafe { (self.ready_free)(worker, self.ready, words.as_ptr(), words.len() as u32, ptr::null()) == 0 }
    }

    /// Frees packets of this worker. Returns whether all were freed.
    #[inline(always)]
    pub(super) fn free(&self, worker: Word, words: &[Word]) -> bool {
        // SAFETY: handles that the library returned.
        unsafe { (self.free)(worker, words.as_ptr(), words.len() as u32, ptr::null()) == 0 }
    }

    /// Reads the number at the start of each packet of this worker, by one call for their addresses. Returns how many have others
    /// than those from `next` on.
    #[inline(always)]
    pub(super) fn wrong(&self, worker: Word, words: &[Word], next: u64) -> u64 {
        let (mut parts, n) = ([Part::NONE; BURST_MAX], words.len().min(BURST_MAX));
        // SAFETY: handles that the library returned, and an array of that length.
        _ = unsafe { (self.first_parts)(worker, words.as_ptr(), n as u32, parts.as_mut_ptr(), ptr::null()) };
        let is_wrong = |(part, number): &(&Part, u64)| {
            // SAFETY: null, or the line that was written into the packet, which is allocated.
            let found = unsafe { part.data.cast::<u64>().as_ref() };
            found != Some(number)
        };
        parts[..n].iter().zip(next..).filter(is_wrong).count() as u64
    }

    /// Returns the number of packets that the worker has not freed.
    pub fn out(&self) -> u64 {
        self.opened.out()
    }
}

impl Drop for LibnetmemPackets {
    fn drop(&mut self) {
        // SAFETY: handles that were opened, or are 0, which is refused. The pool is closed after them.
        unsafe {
            (self.ready_close)(self.ready);
            (self.heads_close)(self.heads);
        }
    }
}
