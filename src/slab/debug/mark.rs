//! The mark: whether an object is out, and how often it has been.

use std::ptr::NonNull;

/// The state in an object's mark.
///
/// An object is moved by one exchange of its mark, so if two threads free it at the same moment, only one finds it
/// [`Out`](State::Out). The count rises with every change. A thread that reads an object that others may move (a
/// `validate`) reads the mark before and after. It uses what it saw between only if both marks are the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// The object is in the cache.
    Free,
    /// The object is with a holder.
    Out,
    /// The object is being moved: the thread that changed the mark works on it.
    Moving,
}

/// A mark: 32 bits of state, mixed with the object's address so that a copy of another mark is not taken for it, and a
/// 32-bit count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mark(pub(super) u64);

const FREE: u32 = 0x4652_4545;
const OUT: u32 = 0x4f55_5421;
const MOVING: u32 = 0x4d4f_5645;

impl Mark {
    pub(super) fn new(object: NonNull<u8>, state: State) -> Mark {
        Mark(u64::from(key(state) ^ mix(object)) << 32)
    }

    /// The state of the mark. None if the mark was overwritten.
    pub(super) fn state(self, object: NonNull<u8>) -> Option<State> {
        let found = (self.0 >> 32) as u32 ^ mix(object);
        [State::Free, State::Out, State::Moving].into_iter().find(|&state| key(state) == found)
    }

    /// The mark after this one.
    pub(super) fn then(self, object: NonNull<u8>, state: State) -> Mark {
        Mark(Mark::new(object, state).0 | u64::from((self.0 as u32).wrapping_add(1)))
    }
}

fn key(state: State) -> u32 {
    match state {
        State::Free => FREE,
        State::Out => OUT,
        State::Moving => MOVING,
    }
}

fn mix(object: NonNull<u8>) -> u32 {
    (object.addr().get() >> 3) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_tells_its_state_for_its_own_object_only_and_changes_each_time() {
        let (here, there) = (NonNull::from(&1u8), NonNull::without_provenance(4096.try_into().unwrap()));
        let mut mark = Mark::new(here, State::Free);
        for state in [State::Moving, State::Out, State::Moving, State::Free, State::Out] {
            let next = mark.then(here, state);
            assert_eq!((next.state(here), next.state(there)), (Some(state), None));
            assert_ne!(next, mark);
            mark = next;
        }
        assert_eq!(Mark(0).state(here), None);
        assert_ne!(Mark::new(here, State::Free).then(here, State::Out).then(here, State::Free).0, mark.0);
    }
}
