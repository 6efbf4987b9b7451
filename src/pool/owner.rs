//! COLD: another worker becomes a pool's owner.
//!
//! The owner has the pool's cache and takes frames from the remote free queue. For all other workers the pool is a
//! depot under a lock. page_pool has the same step: a queue whose NAPI instance changes gets its direct recycling back
//! ([brouer17-pages], item 9).

use super::pool::Pool;
use crate::sync::Worker;

impl Pool {
    /// Makes `to` the pool's owner in place of `owner`. The frames in the cache, and the frames on the remote free
    /// queue, belong to `to` from now on. Frames that are out stay with their holders.
    ///
    /// Returns false, and changes nothing, if `owner` is not the pool's owner or `to` is a worker of another memory.
    ///
    /// ```
    /// use netmem::{Memory, MemoryConfig, Pool, PoolConfig};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let memory = Memory::new(&MemoryConfig { bytes: 4 << 20, workers: 2, ..Default::default() })?;
    /// let (mut first, mut second) = (memory.worker()?, memory.worker()?);
    /// let pool = Pool::new(&memory, &mut first, &PoolConfig { frames: 512, ..Default::default() })?;
    /// assert!(pool.hand_over(&mut first, &mut second));
    /// std::thread::spawn(move || pool.alloc(&mut second).map(|frame| frame.free(&mut second))).join().ok();
    /// # Ok(())
    /// # }
    /// ```
    #[cold]
    pub fn hand_over(&self, owner: &mut Worker, to: &mut Worker) -> bool {
        self.memory().roster().claimed(to) && self.shared.local.hand_over(owner, to)
    }

    /// Makes `w` the owner of a pool whose owner has left. Until then every frame of such a pool passes its depot,
    /// under a lock.
    ///
    /// A worker that was claimed after the owner had left may have its slot ([`Worker::slot`]). It owns the pools of that
    /// worker already.
    ///
    /// Returns whether `w` is the owner now. Returns false, and changes nothing, if another owner is still there, if another
    /// worker was faster, or if `w` is a worker of another memory.
    ///
    /// ```
    /// use netmem::{Memory, MemoryConfig, Pool, PoolConfig};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let memory = Memory::new(&MemoryConfig { bytes: 4 << 20, workers: 2, ..Default::default() })?;
    /// let (mut first, mut second) = (memory.worker()?, memory.worker()?);
    /// let pool = Pool::new(&memory, &mut first, &PoolConfig { frames: 512, ..Default::default() })?;
    /// assert!(!pool.adopt(&mut second), "its owner is there");
    /// drop(first);
    /// assert!(pool.adopt(&mut second));
    /// # Ok(())
    /// # }
    /// ```
    #[cold]
    pub fn adopt(&self, w: &mut Worker) -> bool {
        self.memory().roster().claimed(w) && self.shared.local.adopt(self.memory().roster(), w)
    }
}
