//! The two ends of any ring: free-running indices, each end keeping a copy of the other's.
//!
//! ```text
//!        consumer's index            producer's index            (u32, free-running, wrap at 2^32)
//!   ───────────┼═══════════════════════════┼──────────────
//!              └── ready to be consumed ───┘ └─ room ─ … up to consumer + size
//! ```
//! Invariant: `producer − consumer <= size` (wrapping). Each side owns one index and only reads the other;
//! it reads it only when its copy no longer suffices, so the line travels once per burst and not per item.
//!
//! The index the other side writes is untrusted (a kernel or a peer may write it): a distance larger than
//! the ring is [`Corrupt`] and nothing is read. The same code serves rings on the heap, AF_XDP and memif.
//!
//! | edge | written by | read by |
//! |---|---|---|
//! | `P` Release of the producer's index | [`Producer::publish`] | Acquire in [`Consumer::ready`]: the slots' contents |
//! | `C` Release of the consumer's index | [`Consumer::release`] | Acquire in [`Producer::room`]: the slots are free again |

/// One shared index of a ring, wherever it lives.
pub(crate) trait Index {
    /// The value, when this side is its only writer.
    fn load_relaxed(&self) -> u32;
    /// The value, seeing all that the other side did before it wrote it.
    fn load_acquire(&self) -> u32;
    /// Writes the value after all that this side did before.
    fn store_release(&self, value: u32);
}

/// The index of the other side is further away than the ring is long, so its memory cannot be trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("ring of {size} entries: the other side's index {theirs} is impossible beside ours {mine}")]
pub struct Corrupt {
    /// This side's index.
    pub mine: u32,
    /// The other side's index as read.
    pub theirs: u32,
    /// Entries of the ring.
    pub size: u32,
}

/// The producing end.
#[derive(Debug)]
pub(crate) struct Producer<I> {
    mine: I,
    theirs: I,
    size: u32,
    /// Next index to publish from; equals `mine` between calls.
    head: u32,
    /// The consumer's index as last read; `head − tail <= size`.
    tail: u32,
}

impl<I: Index> Producer<I> {
    /// A producer over `size` slots (a power of two), going on from where the indices stand.
    pub(crate) fn new(mine: I, theirs: I, size: u32) -> Self {
        debug_assert!(size.is_power_of_two());
        let head = mine.load_relaxed();
        // As if full: the first `room` reads the other side's index, and checks it.
        let tail = head.wrapping_sub(size);
        Producer { mine, theirs, size, head, tail }
    }

    /// Free slots, at most `want`; looks at the consumer's index only when the copy shows fewer.
    ///
    /// # Errors
    /// [`Corrupt`] when the consumer's index is impossible; the ring is as before.
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

    /// The array position of the `i`-th slot not yet published.
    #[inline]
    pub(crate) fn slot(&self, i: u32) -> usize {
        (self.head.wrapping_add(i) & (self.size - 1)) as usize
    }

    /// Makes the first `n` reserved slots visible; `n` is at most what [`Producer::room`] gave.
    #[inline]
    pub(crate) fn publish(&mut self, n: u32) {
        debug_assert!(n <= self.size - self.head.wrapping_sub(self.tail));
        self.head = self.head.wrapping_add(n);
        // Release: edge P, pairs with Consumer::ready.
        self.mine.store_release(self.head);
    }

    /// Slots published and not yet seen consumed.
    pub(crate) fn len(&self) -> u32 {
        self.head.wrapping_sub(self.tail)
    }

    /// Slots in all.
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
    /// Next index to consume; equals `mine` between calls.
    tail: u32,
    /// The producer's index as last read; `head − tail <= size`.
    head: u32,
}

impl<I: Index> Consumer<I> {
    /// A consumer over `size` slots (a power of two), going on from where its own index stands.
    pub(crate) fn new(mine: I, theirs: I, size: u32) -> Self {
        debug_assert!(size.is_power_of_two());
        let tail = mine.load_relaxed();
        Consumer { mine, theirs, size, tail, head: tail }
    }

    /// Slots ready to be consumed, at most `want`; looks at the producer's index only when the copy shows fewer.
    ///
    /// # Errors
    /// [`Corrupt`] when the producer's index is impossible; nothing may be read then.
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

    /// The array position of the `i`-th slot ready.
    #[inline]
    pub(crate) fn slot(&self, i: u32) -> usize {
        (self.tail.wrapping_add(i) & (self.size - 1)) as usize
    }

    /// Gives the first `n` slots back; `n` is at most what [`Consumer::ready`] gave.
    #[inline]
    pub(crate) fn release(&mut self, n: u32) {
        debug_assert!(n <= self.head.wrapping_sub(self.tail));
        self.tail = self.tail.wrapping_add(n);
        // Release: edge C, pairs with Producer::room.
        self.mine.store_release(self.tail);
    }

    /// Slots seen ready and not yet released.
    pub(crate) fn len(&self) -> u32 {
        self.head.wrapping_sub(self.tail)
    }

    #[cold]
    #[inline(never)]
    fn corrupt(&self, theirs: u32) -> Corrupt {
        Corrupt { mine: self.tail, theirs, size: self.size }
    }
}
