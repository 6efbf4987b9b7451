//! The mark: whether an object is out, and how often it has been.

use std::ptr::NonNull;

/// The state that an object's mark tells.
///
/// An object is moved by one exchange of its mark, so of two frees at the same moment only one finds it
/// [`Out`](State::Out). The count rises with every change: who looks at an object that others may move (a
/// `validate`) reads the mark before and after, and believes what it saw between only if both are the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// With the cache.
    Free,
    /// With a holder.
    Out,
    /// On its way: whoever changed the mark is working on it.
    Moving,
}

/// A mark: 32 bits of state, mixed with the object's address so that a copy of another one is not taken for
/// it, and a 32-bit count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mark(pub(super) u64);

const FREE: u32 = 0x4652_4545;
const OUT: u32 = 0x4f55_5421;
const MOVING: u32 = 0x4d4f_5645;

impl Mark {
    pub(super) fn new(object: NonNull<u8>, state: State) -> Mark {
        Mark(u64::from(key(state) ^ mix(object)) << 32)
    }

    /// What it says; None if something wrote over it.
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
