//! The two ends of any ring: free-running indices. Each end keeps a copy of the other end's index.
//!
//! ```text
//!        consumer's index            producer's index            (u32, free-running, wrap at 2^32)
//!   ───────────┼═══════════════════════════┼──────────────
//!              └── ready to be consumed ───┘ └─ room ─ … up to consumer + size
//! ```
//! Invariant: `producer − consumer <= size` (wrapping). Each side owns one index and only reads the other index. It
//! reads it only when its copy no longer suffices, so the line travels once per burst and not once per item.
//!
//! The index that the other side writes is untrusted, because a kernel or a peer may write it. A distance larger than
//! the ring is [`Corrupt`], and nothing is read. The same code serves rings on the heap, AF_XDP and memif.
//!
//! | edge | written by | read by |
//! |---|---|---|
//! | `P` Release of the producer's index | [`Producer::publish`] | Acquire in [`Consumer::ready`]: the slots' contents |
//! | `C` Release of the consumer's index | [`Consumer::release`] | Acquire in [`Producer::room`]: the slots are free again |

/// One shared index of a ring, in any kind of memory.
pub(crate) trait Index {
    /// Reads the value. This side is its only writer.
    fn load_relaxed(&self) -> u32;
    /// Reads the value, and sees everything that the other side did before it wrote the value.
    fn load_acquire(&self) -> u32;
    /// Writes the value after everything that this side did before.
    fn store_release(&self, value: u32);
}

/// The index of the other side is further away than the ring is long, so its memory cannot be trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("ring of {size} entries: the other side's index {theirs} is impossible beside ours {mine}")]
pub struct Corrupt {
    /// This side's index.
    pub mine: u32,
    /// The other side's index, as it was read.
    pub theirs: u32,
    /// The number of entries of the ring.
    pub size: u32,
}

/// The producing end.
#[derive(Debug)]
pub(crate) struct Producer<I> {
    mine: I,
    theirs: I,
    size: u32,
    /// The next index to publish from. It equals `mine` between calls.
    head: u32,
    /// The consumer's index, as it was read last; `head − tail <= size`.
    tail: u32,
}

impl<I: Index> Producer<I> {
    /// Makes a producer over `size` slots (a power of two). It continues from the current indices.
    pub(crate) fn new(mine: I, theirs: I, size: u32) -> Self {
        debug_assert!(size.is_power_of_two());
        let head = mine.load_relaxed();
        // As if the ring were full: the first `room` reads the other side's index, and checks it.
        let tail = head.wrapping_sub(size);
        Producer { mine, theirs, size, head, tail }
    }

    /// The number of free slots, at most `want`. It reads the consumer's index only if the copy shows fewer.
    ///
    /// # Errors
    /// [`Corrupt`] if the consumer's index is impossible; the ring is unchanged.
    #[inline]
    pub(crate) fn room(&mut self, want: u32) -> Result<u32, Corrupt> {
        let mut used = self.head.wrapping_sub(self.tail);
        if self.size - used < want {
            // Acquire: edge C, pairs with Consumer::release.
            let theirs = self.theirs.load_acquire();
            used = self.head.wrapping_sub(theirs);
            if used > self.size {
                return Err(self.corrupt(theirs));
            }
            self.tail = theirs;
        }
        Ok((self.size - used).min(want))
    }

    /// The array index of the `i`-th slot that is not published yet.
    #[inline]
    pub(crate) fn slot(&self, i: u32) -> usize {
        (self.head.wrapping_add(i) & (self.size - 1)) as usize
    }

    /// Publishes the first `n` reserved slots. `n` is at most the result of [`Producer::room`].
    #[inline]
    pub(crate) fn publish(&mut self, n: u32) {
        debug_assert!(n <= self.size - self.head.wrapping_sub(self.tail));
        self.head = self.head.wrapping_add(n);
        // Release: edge P, pairs with Consumer::ready.
        self.mine.store_release(self.head);
    }

    /// The number of published slots that were not seen consumed yet.
    pub(crate) fn len(&self) -> u32 {
        self.head.wrapping_sub(self.tail)
    }

    /// The number of slots.
    pub(crate) fn size(&self) -> u32 {
        self.size
    }

    #[cold]
    #[inline(never)]
    fn corrupt(&self, theirs: u32) -> Corrupt {
        Corrupt { mine: self.head, theirs, size: self.size }
    }
}

/// The consuming end.
#[derive(Debug)]
pub(crate) struct Consumer<I> {
    mine: I,
    theirs: I,
    size: u32,
    /// The next index to consume. It equals `mine` between calls.
    tail: u32,
    /// The producer's index, as it was read last; `head − tail <= size`.
    head: u32,
}

impl<I: Index> Consumer<I> {
    /// Makes a consumer over `size` slots (a power of two). It continues from its own current index.
    pub(crate) fn new(mine: I, theirs: I, size: u32) -> Self {
        debug_assert!(size.is_power_of_two());
        let tail = mine.load_relaxed();
        Consumer { mine, theirs, size, tail, head: tail }
    }

    /// The number of slots ready to be consumed, at most `want`. It reads the producer's index only if the copy shows
    /// fewer.
    ///
    /// # Errors
    /// [`Corrupt`] if the producer's index is impossible; nothing may be read then.
    #[inline]
    pub(crate) fn ready(&mut self, want: u32) -> Result<u32, Corrupt> {
        let mut have = self.head.wrapping_sub(self.tail);
        if have < want {
            // Acquire: edge P, pairs with Producer::publish.
            let theirs = self.theirs.load_acquire();
            have = theirs.wrapping_sub(self.tail);
            if have > self.size {
                return Err(self.corrupt(theirs));
            }
            self.head = theirs;
        }
        Ok(have.min(want))
    }

    /// The array index of the `i`-th ready slot.
    #[inline]
    pub(crate) fn slot(&self, i: u32) -> usize {
        (self.tail.wrapping_add(i) & (self.size - 1)) as usize
    }

    /// Gives the first `n` slots back. `n` is at most the result of [`Consumer::ready`].
    #[inline]
    pub(crate) fn release(&mut self, n: u32) {
        debug_assert!(n <= self.head.wrapping_sub(self.tail));
        self.tail = self.tail.wrapping_add(n);
        // Release: edge C, pairs with Producer::room.
        self.mine.store_release(self.tail);
    }

    /// The number of slots that were seen ready and are not released yet.
    pub(crate) fn len(&self) -> u32 {
        self.head.wrapping_sub(self.tail)
    }

    #[cold]
    #[inline(never)]
    fn corrupt(&self, theirs: u32) -> Corrupt {
        Corrupt { mine: self.tail, theirs, size: self.size }
    }
}
