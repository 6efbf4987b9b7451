//! The packet's head, and the cache heads come from.

use super::packet::Packet;
use crate::page::Memory;
use crate::pool::Frame;
use crate::slab::{Cache, CacheConfig, CacheError, SlabStats};
use crate::sync::Worker;

/// What is known of a packet beside its bytes. One cache line.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Head {
    /// The bytes.
    pub(super) frame: Frame,
    /// The receive queue it came by, if it came by one.
    pub(super) rx_queue: Option<u16>,
    /// The flow's hash; 0 while nobody has computed it.
    pub(super) flow_hash: u32,
}

const _: () = assert!(size_of::<Head>() == 64);

/// The cache of packet heads of one memory.
#[derive(Debug, Clone)]
pub struct Heads {
    cache: Cache<Head>,
}

impl Heads {
    /// Makes the cache.
    ///
    /// # Errors
    /// [`CacheError`].
    #[cold]
    pub fn new(memory: &Memory) -> Result<Heads, CacheError> {
        // Never merged, as in Linux since 6.6: bulk frees want neighbours of one slab (source 000).
        let config = CacheConfig { name: "packet_head".into(), merge: false, ..CacheConfig::default() };
        Heads::with(memory, &config)
    }

    /// Makes the cache with settings of one's own.
    ///
    /// # Errors
    /// [`CacheError`].
    #[cold]
    pub fn with(memory: &Memory, config: &CacheConfig) -> Result<Heads, CacheError> {
        Ok(Heads { cache: Cache::new(memory, config)? })
    }

    /// Gives a frame a head: it becomes a packet.
    ///
    /// # Errors
    /// The frame, when there is no memory for a head.
    ///
    /// # Cost
    /// A head from the worker's sheaf, and one line to write.
    #[inline]
    pub fn attach(&self, w: &mut Worker, frame: Frame) -> Result<Packet, Frame> {
        let head = Head { frame, rx_queue: None, flow_hash: 0 };
        self.cache.alloc(w, head).map(Packet::new).map_err(|head| head.frame)
    }

    /// Takes a packet's head off: it becomes a frame again.
    #[inline]
    pub fn detach(&self, w: &mut Worker, packet: Packet) -> Frame {
        self.cache.take(w, packet.into_head()).frame
    }

    /// Gives a packet back: its frame to the frame's pool, its head to the cache.
    #[inline]
    pub fn free(&self, w: &mut Worker, packet: Packet) {
        self.detach(w, packet).free(w);
    }

    /// The cache's counters.
    pub fn stats(&self) -> SlabStats {
        self.cache.stats()
    }
}
