//! The barn: full and empty sheaves that workers exchange whole.

use super::local::Sheaf;

/// Full sheaves a barn holds at most, and empty ones (Linux: 10 and 10).
const SHEAVES: usize = 10;

/// Sheaves of all workers, under the cache's barn lock.
#[derive(Debug)]
pub(crate) struct Barn {
    full: Vec<Sheaf>,
    empty: Vec<Sheaf>,
}

impl Barn {
    /// An empty barn; it never holds more than its vectors have room for, so no exchange allocates.
    pub(crate) fn new() -> Self {
        Barn { full: Vec::with_capacity(SHEAVES), empty: Vec::with_capacity(SHEAVES) }
    }

    /// Changes an empty sheaf for a full one; false when there is none.
    pub(crate) fn take_full(&mut self, empty: &mut Sheaf) -> bool {
        let Some(full) = self.full.pop() else { return false };
        let empty = std::mem::replace(empty, full);
        if self.empty.len() < SHEAVES {
            self.empty.push(empty);
        }
        true
    }

    /// Changes a full sheaf for an empty one; false when the barn is full.
    pub(crate) fn put_full(&mut self, full: &mut Sheaf, capacity: usize) -> bool {
        if self.full.len() == SHEAVES {
            return false;
        }
        let empty = self.empty.pop().unwrap_or_else(|| Sheaf::new(capacity, capacity));
        self.full.push(std::mem::replace(full, empty));
        true
    }

    /// Takes all full sheaves out.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Sheaf> + '_ {
        self.full.drain(..)
    }

    /// Objects in the full sheaves.
    pub(crate) fn objects(&self) -> usize {
        self.full.iter().map(Sheaf::len).sum()
    }
}
