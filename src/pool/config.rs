//! COLD: the settings of a pool, and the errors when one is made.

use super::colour::Start;
use super::dma::DmaMap;
use crate::limits::{CHUNK_SIZE, FRAME_SIZE_MAX, FRAMES_MAX};
use crate::sys::table::TableError;

/// The settings of a pool.
#[derive(Debug, Clone)]
pub struct PoolConfig {
    /// The name of the pool in reports. Default "pool".
    pub name: String,
    /// Maximum number of frames, 1..=2^22, rounded up to whole pages: of frames of 2,048 bytes, to an even number. The pool
    /// takes pages as it needs them. Default 4,096.
    pub frames: usize,
    /// Maximum number of frames that [`Pool::resize`](super::Pool::resize) can set, up to 2^22. A smaller number than
    /// `frames`, as the default 0, means `frames`.
    pub capacity: usize,
    /// Bytes of a frame: 2048 (default), 4096, 8192, 16384 or 32768.
    pub frame_size: usize,
    /// Bytes kept free before the data of a frame that is given out. Default 64.
    pub headroom: usize,
    /// Bytes of data that every frame has room for, at every colour. The rest of the frame is used for colours. Default
    /// [`PoolConfig::room`] of the frame size. A port that copies receives longer packets too, up to the frame size less the
    /// headroom: their data then begins earlier than the colour. A frame of AF_XDP has no colour, and the kernel leaves 256
    /// bytes free before the data.
    pub data: usize,
    /// Maximum number of frames in the owner's cache. page_pool has 128 for budgets of 64. Completions that are polled
    /// every 256 frames need twice their number, as in DPDK. 0: every frame passes the depot, under its lock. Default
    /// 512.
    pub cache: usize,
    /// The number of frames that the cache is refilled to, at most the size of the cache (page_pool: 64). Default 256.
    pub refill: usize,
    /// How the device addresses the frames. Default [`DmaMap::None`].
    pub dma: DmaMap,
    /// Whether to use the page stage's reserve, page by page, when there are no other pages. The pool does not keep
    /// such a page: it gives the page back as soon as its frames are free. Default false.
    pub urgent: bool,
    /// Whether all bytes of a frame are 0 when it is given out, also in its headroom and tailroom. The program, or a
    /// device that the frame is posted to, then sees no byte of an earlier use by this pool or another pool of the same
    /// memory.
    ///
    /// A frame is cleared when it is given out and not when it is freed, because a page that is new to the pool also
    /// has old bytes. Until then the old bytes lie in memory, and a peer that maps the memory can read them. The pieces
    /// of one frame ([`Fragments`](super::Fragments)) are cleared each time the frame is cut.
    ///
    /// It costs `frame_size` written bytes for each frame, and the pool's lock, because every allocation takes the cold
    /// path. The owner's cache and the [`ReadyPackets`](crate::packet::ReadyPackets) of the pool keep nothing then.
    /// Without this setting there is no cost, not even a branch. Default false.
    pub init_on_alloc: bool,
}

impl Default for PoolConfig {
    fn default() -> Self {
        PoolConfig {
            name: "pool".into(),
            frames: 4096,
            capacity: 0,
            frame_size: CHUNK_SIZE,
            headroom: HEADROOM,
            data: PoolConfig::room(CHUNK_SIZE),
            cache: 512,
            refill: 256,
            dma: DmaMap::None,
            urgent: false,
            init_on_alloc: false,
        }
    }
}

impl PoolConfig {
    /// The usual pool of frames of `frame_size` bytes: their data starts at one of eight colours, with
    /// [`room`](PoolConfig::room) behind each.
    pub fn of_frames(frame_size: usize) -> PoolConfig {
        PoolConfig { frame_size, data: PoolConfig::room(frame_size), ..PoolConfig::default() }
    }

    /// Whether a frame can have this size.
    pub(crate) fn has_size(frame_size: usize) -> bool {
        frame_size.is_power_of_two() && (CHUNK_SIZE..=FRAME_SIZE_MAX).contains(&frame_size)
    }

    /// Bytes of data that every frame of `frame_size` bytes has room for in a [usual pool](PoolConfig::of_frames): 1,518 in one
    /// of 2,048, which is an Ethernet frame; 3,584 in 4,096; 7,232 in 8,192; 14,528 in 16,384; 29,120 in 32,768.
    pub const fn room(frame_size: usize) -> usize {
        match frame_size {
            CHUNK_SIZE => 1518,
            _ => frame_size.saturating_sub(HEADROOM + Start::span(frame_size)),
        }
    }
}

/// Bytes kept free before the data by default.
const HEADROOM: usize = 64;

/// Why a pool could not be made.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum PoolError {
    /// A number in the configuration is out of range.
    #[error("{what} {value}: give {range}")]
    Range {
        /// The name of the number.
        what: &'static str,
        /// The value that was given.
        value: usize,
        /// The valid range.
        range: &'static str,
    },
    /// The headroom and the data do not fit into a frame.
    #[error(
        "headroom {headroom}: give at most {most}, which is the frame size {frame_size} less the data {data}"
    )]
    Headroom {
        /// The headroom that was given.
        headroom: usize,
        /// The largest one.
        most: usize,
        /// Bytes of a frame.
        frame_size: usize,
        /// Bytes of data that every frame shall have room for.
        data: usize,
    },
    /// The process has 65,535 pools already.
    #[error("there are 65535 pools already: close one first")]
    TooMany,
    /// There is no room for the table that maps chunks to pools.
    #[error(transparent)]
    Table(#[from] TableError),
    /// There is no memory for a table of the pool.
    #[error(
        "no memory for {bytes} bytes of {what}: give fewer frames, or allow the process more memory (ulimit -v)"
    )]
    NoMemory {
        /// The name of the table.
        what: &'static str,
        /// The bytes of the table.
        bytes: usize,
    },
    /// The owner is a worker of another memory.
    #[error("the owner is a worker of another memory: claim one from the memory that the pool is made of")]
    ForeignOwner,
}

/// Checks whether a pool can be made with these settings.
pub(super) fn check(config: &PoolConfig) -> Result<(), PoolError> {
    let size = config.frame_size;
    let room = size.saturating_sub(config.data);
    let checks = [
        ("frames", config.frames, (1..=FRAMES_MAX).contains(&config.frames), "1 to 4194304"),
        ("frame size", size, PoolConfig::has_size(size), "2048, 4096, 8192, 16384 or 32768"),
        ("data", config.data, (1..=size).contains(&config.data), "1 to the frame size"),
        ("capacity", config.capacity, config.capacity <= FRAMES_MAX, "0 to 4194304"),
    ];
    match checks.into_iter().find(|&(_, _, ok, _)| !ok) {
        Some((what, value, _, range)) => Err(PoolError::Range { what, value, range }),
        None if config.headroom > room => {
            let PoolConfig { headroom, frame_size, data, .. } = *config;
            Err(PoolError::Headroom { headroom, most: room, frame_size, data })
        }
        None => check_cache(config.cache, config.refill),
    }
}

/// Checks whether a cache can have this size and this refill.
pub(super) fn check_cache(cache: usize, refill: usize) -> Result<(), PoolError> {
    let checks = [
        ("cache", cache, cache <= 1 << 16, "0 to 65536"),
        ("refill", refill, cache == 0 || (1..=cache).contains(&refill), "1 to the cache"),
    ];
    match checks.into_iter().find(|&(_, _, ok, _)| !ok) {
        Some((what, value, _, range)) => Err(PoolError::Range { what, value, range }),
        None => Ok(()),
    }
}
