//! A slab's state in one word: `{head: 16, inuse: 16, tag: 32}`, changed by one 64-bit CAS.
//!
//! Free objects are pushed one or many at a time, and taken only by detaching the whole freelist: a single pop
//! would have to read the link inside an object that another thread may already own. The tag counts every
//! change, so a word never comes back to an old value while someone still compares with it (ABA).

/// The unpacked word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Word {
    /// Index + 1 of the first free object; 0 when there is none.
    pub(crate) head: u16,
    /// Objects that are not on the freelist.
    pub(crate) inuse: u16,
    tag: u32,
}

impl Word {
    /// A new slab's: everything in use, that is, with whoever makes it.
    pub(crate) fn all_out(objects: u16) -> Word {
        Word { head: 0, inuse: objects, tag: 0 }
    }

    pub(crate) fn unpack(word: u64) -> Word {
        Word { head: word as u16, inuse: (word >> 16) as u16, tag: (word >> 32) as u32 }
    }

    pub(crate) fn pack(self) -> u64 {
        u64::from(self.head) | u64::from(self.inuse) << 16 | u64::from(self.tag) << 32
    }

    /// The word after `n` objects, linked from `head` on, were pushed.
    pub(crate) fn pushed(self, head: u16, n: u16) -> Word {
        Word { head, inuse: self.inuse - n, tag: self.tag.wrapping_add(1) }
    }

    /// The word after the whole freelist was detached from a slab of `objects`.
    pub(crate) fn detached(self, objects: u16) -> Word {
        Word { head: 0, inuse: objects, tag: self.tag.wrapping_add(1) }
    }
}

#[cfg(test)]
mod tests {
    use super::Word;

    #[test]
    fn every_field_survives_packing_and_every_change_is_a_new_word() {
        let mut word = Word::all_out(u16::MAX);
        for step in 0..70_000u32 {
            let next = if step % 2 == 0 { word.pushed(7, 9) } else { word.detached(u16::MAX) };
            assert_eq!(Word::unpack(next.pack()), next);
            assert_ne!(next.pack(), word.pack());
            word = next;
        }
    }
}
