//! HOT: a worker's two sheaves.
//!
//! A sheaf is an array of free objects. The worker works on the main one; the spare stands by so that a worker
//! that goes up and down around a full or an empty sheaf does not go to the barn each time.

use crate::sync::Lifo;

/// A free object: its offset in the region, in units of 8 bytes.
pub(crate) type Ref = u32;

/// log2 of the bytes in a [`Ref`]'s unit.
pub(crate) const REF_SHIFT: u32 = 3;

/// An array of free objects.
pub(crate) type Sheaf = Lifo<Ref>;

/// One worker's sheaves.
#[derive(Debug)]
pub(crate) struct Local {
    pub(crate) main: Sheaf,
    pub(crate) spare: Sheaf,
}

impl Local {
    pub(crate) fn new(capacity: usize) -> Self {
        let sheaf = || Lifo::new(capacity, capacity);
        Local { main: sheaf(), spare: sheaf() }
    }

    /// The object freed last; swaps the sheaves when the main one is empty.
    #[inline(always)]
    pub(crate) fn pop(&mut self) -> Option<Ref> {
        match self.main.pop() {
            None if self.spare.len() > 0 => {
                std::mem::swap(&mut self.main, &mut self.spare);
                self.main.pop()
            }
            popped => popped,
        }
    }

    /// Keeps an object; swaps the sheaves when the main one is full; false when both are.
    #[inline(always)]
    pub(crate) fn push(&mut self, object: Ref) -> bool {
        if self.main.push(object) {
            return true;
        }
        if self.spare.room() == 0 {
            return false;
        }
        std::mem::swap(&mut self.main, &mut self.spare);
        self.main.push(object)
    }

    /// Objects in both sheaves.
    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        self.main.len() + self.spare.len()
    }

    /// Takes everything out.
    pub(crate) fn drain(&mut self, mut give: impl FnMut(Ref)) {
        self.main.drain(&mut give);
        self.spare.drain(&mut give);
    }
}
