//! The barn: full and empty sheaves that workers exchange as a whole.

use super::reference::Sheaf;

/// Maximum number of full sheaves in a barn, and of empty ones (Linux: 10 and 10).
const SHEAVES: usize = 10;

/// The sheaves of all workers, under the cache's barn lock.
#[derive(Debug)]
pub(super) struct Barn {
    /// The number of objects that each sheaf has room for.
    pub(super) capacity: usize,
    full: Vec<Sheaf>,
    empty: Vec<Sheaf>,
}

impl Barn {
    /// Makes an empty barn. It never holds more than its vectors have room for, so an exchange allocates at most a
    /// sheaf.
    pub(super) fn new(capacity: usize) -> Self {
        Barn { capacity, full: Vec::with_capacity(SHEAVES), empty: Vec::with_capacity(SHEAVES) }
    }

    /// Exchanges an empty sheaf for a full one. Returns None if there is no full sheaf. Otherwise returns whether the
    /// empty sheaf was dropped.
    pub(super) fn take_full(&mut self, empty: &mut Sheaf) -> Option<bool> {
        let full = self.full.pop()?;
        let empty = std::mem::replace(empty, full);
        let kept = self.empty.len() < SHEAVES && empty.room() == self.capacity;
        if kept {
            self.empty.push(empty);
        }
        Some(!kept)
    }

    /// Exchanges a full sheaf for an empty one. Returns None if the barn is full, or if the sheaf has another size.
    /// Otherwise returns whether the empty sheaf had to be made.
    pub(super) fn put_full(&mut self, full: &mut Sheaf) -> Option<bool> {
        // A sheaf of another size is from before a change of the size.
        if self.full.len() == SHEAVES || full.len() != self.capacity {
            return None;
        }
        let kept = self.empty.pop();
        let made = kept.is_none();
        let empty = kept.unwrap_or_else(|| Sheaf::new(self.capacity, self.capacity));
        self.full.push(std::mem::replace(full, empty));
        Some(made)
    }

    /// Takes all full sheaves out and drops the empty ones. From now on sheaves have room for `capacity` objects.
    pub(super) fn drain(&mut self, capacity: usize) -> impl Iterator<Item = Sheaf> + '_ {
        self.capacity = capacity;
        self.empty.clear();
        self.full.drain(..)
    }

    /// The number of sheaves, full and empty.
    pub(super) fn sheaves(&self) -> usize {
        self.full.len() + self.empty.len()
    }

    /// The number of objects in the full sheaves.
    pub(super) fn objects(&self) -> usize {
        self.full.iter().map(Sheaf::len).sum()
    }
}
