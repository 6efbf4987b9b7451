//! The barn: full and empty sheaves that workers exchange whole.

use super::reference::Sheaf;

/// Full sheaves a barn holds at most, and empty ones (Linux: 10 and 10).
const SHEAVES: usize = 10;

/// Sheaves of all workers, under the cache's barn lock.
#[derive(Debug)]
pub(super) struct Barn {
    /// Objects each sheaf has room for.
    pub(super) capacity: usize,
    full: Vec<Sheaf>,
    empty: Vec<Sheaf>,
}

impl Barn {
    /// An empty barn; it never holds more than its vectors have room for, so no exchange allocates but for a sheaf.
    pub(super) fn new(capacity: usize) -> Self {
        Barn { capacity, full: Vec::with_capacity(SHEAVES), empty: Vec::with_capacity(SHEAVES) }
    }

    /// Changes an empty sheaf for a full one; None when there is none, else whether the empty one was let go.
    pub(super) fn take_full(&mut self, empty: &mut Sheaf) -> Option<bool> {
        let full = self.full.pop()?;
        let empty = std::mem::replace(empty, full);
        let kept = self.empty.len() < SHEAVES && empty.room() == self.capacity;
        if kept {
            self.empty.push(empty);
        }
        Some(!kept)
    }

    /// Changes a full sheaf for an empty one; None when the barn is full, or the sheaf is of another size, else whether
    /// the empty one had to be made.
    pub(super) fn put_full(&mut self, full: &mut Sheaf) -> Option<bool> {
        // A sheaf of another size is left from before the size was changed.
        if self.full.len() == SHEAVES || full.len() != self.capacity {
            return None;
        }
        let kept = self.empty.pop();
        let made = kept.is_none();
        let empty = kept.unwrap_or_else(|| Sheaf::new(self.capacity, self.capacity));
        self.full.push(std::mem::replace(full, empty));
        Some(made)
    }

    /// Takes all full sheaves out and lets the empty ones go; from now on sheaves have room for `capacity`.
    pub(super) fn drain(&mut self, capacity: usize) -> impl Iterator<Item = Sheaf> + '_ {
        self.capacity = capacity;
        self.empty.clear();
        self.full.drain(..)
    }

    /// Sheaves, full and empty.
    pub(super) fn sheaves(&self) -> usize {
        self.full.len() + self.empty.len()
    }

    /// Objects in the full sheaves.
    pub(super) fn objects(&self) -> usize {
        self.full.iter().map(Sheaf::len).sum()
    }
}
