//! The constants that all stages share.

/// Bytes in one page: the unit of the page stage.
pub const PAGE_SIZE: usize = 4096;

/// Bytes in one chunk: the unit in which frames are numbered. A page is two chunks.
pub const CHUNK_SIZE: usize = 2048;

/// log2 of [`CHUNK_SIZE`].
pub const CHUNK_SHIFT: u32 = CHUNK_SIZE.trailing_zeros();

/// Bytes of the largest frame.
pub const FRAME_SIZE_MAX: usize = 32 << 10;

/// The largest MTU whose packets most drivers take in one buffer with an XDP program. Some take up to 500 bytes more.
pub const ONE_BUFFER_MTU_MAX: u32 = 3000;

/// The maximum number of frames in one [`Pool`](crate::pool::Pool).
pub const FRAMES_MAX: usize = 1 << 22;

/// The largest order of the buddy allocator: blocks of 2^10 pages, 4 MiB.
pub const ORDER_MAX: u8 = 10;

/// The largest order whose per-worker lists have many blocks, and the largest order of a slab.
pub const LOCAL_ORDER_MAX: u8 = 3;

/// The maximum number of workers of one memory.
pub const WORKERS_MAX: usize = 64;

/// The maximum number of frames in one [`Batch`](crate::pool::Batch).
pub const BATCH_MAX: usize = 64;

/// Bytes of a cache line on the supported machines.
pub const CACHE_LINE: usize = 64;
