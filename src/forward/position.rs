//! The position of a worker in its round, for a thread that watches it.

use crate::stats::Count;

/// A call of a worker that may take long: a call of a port, or a rest without work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// [`Rx::rx`](crate::port::Rx::rx), and the decision about the frames that it returned.
    Rx,
    /// [`Tx::tx`](crate::port::Tx::tx).
    Tx,
    /// [`Complete::complete`](crate::port::Complete::complete), and freeing the frames that it returned.
    Complete,
    /// [`Fill::fill`](crate::port::Fill::fill), and allocating the frames that it takes.
    Fill,
    /// [`Wake::kick`](crate::port::Wake::kick), and the time until the next call.
    Kick,
    /// A rest without work.
    Rest,
}

impl Call {
    const ALL: [Call; 6] = [Call::Rx, Call::Tx, Call::Complete, Call::Fill, Call::Kick, Call::Rest];

    /// The name of the call.
    pub const fn name(self) -> &'static str {
        match self {
            Call::Rx => "rx",
            Call::Tx => "tx",
            Call::Complete => "complete",
            Call::Fill => "fill",
            Call::Kick => "kick",
            Call::Rest => "rest",
        }
    }
}

/// The last call that a worker began, written by it and read by any thread.
#[derive(Debug, Default)]
pub struct Position(Count);

/// The position of the call in the number; the port is below it. 0 means before the first call.
const CALL: u32 = 32;

impl Position {
    /// Records that the worker begins a call of the port numbered `port`.
    ///
    /// # Cost
    /// One relaxed store.
    #[inline(always)]
    pub(super) fn begin(&self, port: usize, call: Call) {
        self.0.set((call as u64 + 1) << CALL | port as u64);
    }

    /// The number of the port that was called (0 for a rest), and the call; None before the first one.
    pub fn get(&self) -> Option<(usize, Call)> {
        let number = self.0.get();
        let call = usize::try_from((number >> CALL).checked_sub(1)?).ok()?;
        Some((number as u32 as usize, *Call::ALL.get(call)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_call_is_told_with_its_port_and_none_before_the_first() {
        let position = Position::default();
        assert_eq!(position.get(), None);
        for call in Call::ALL {
            for port in [0, 1, 254] {
                position.begin(port, call);
                assert_eq!(position.get(), Some((port, call)));
            }
        }
    }
}
