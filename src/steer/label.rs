//! The information that a line between workers carries about its frames, and lines that carry only a condition.

use crate::limits::WORKERS_MAX;
use crate::pool::Line;

/// The place where a frame was received. The next worker needs it and cannot read it from the frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Source {
    /// The port's number at the worker that received.
    pub port: u8,
    /// The receive queue: of the port, or of the second worker ([`RecordedQueue`](super::RecordedQueue)).
    pub queue: u16,
}

impl Source {
    /// Returns the source as a line carries it.
    #[inline(always)]
    pub(super) fn word(self) -> u32 {
        u32::from(self.port) << 16 | u32::from(self.queue)
    }

    /// Returns the source in this word.
    #[inline(always)]
    pub(super) fn of(word: u32) -> Source {
        Source { port: (word >> 16) as u8, queue: word as u16 }
    }
}

/// A line without frames. The items behind it in its lane may be taken when the same sender's lane to `worker` is
/// finished up to `position`. So frames of flows that were moved here do not overtake those that went there before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Barrier {
    pub(super) worker: u8,
    pub(super) position: u32,
}

/// Workers' numbers are used as marks.
const _: () = assert!(WORKERS_MAX <= 128);

impl Barrier {
    /// The number of units it counts for, so that a lane is not finished while a barrier is in it.
    pub(super) const UNITS: u32 = 1;

    /// Returns the barrier as a line of a lane.
    pub(super) fn line(self) -> Line {
        Line::marked(self.worker, self.position)
    }

    /// Returns the barrier that this line is, if it is one.
    #[inline(always)]
    pub(super) fn of(line: &Line) -> Option<Barrier> {
        line.mark().map(|worker| Barrier { worker, position: line.word })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_and_a_line_say_what_was_written_on_them() {
        for source in [(0, 0), (255, 0xffff), (1, 0x100)].map(|(port, queue)| Source { port, queue }) {
            assert_eq!(Source::of(source.word()), source);
        }
        for (worker, position) in [(0, 0), (63, u32::MAX)] {
            let barrier = Barrier { worker, position };
            let line = barrier.line();
            assert_eq!((Barrier::of(&line), line.len()), (Some(barrier), 0));
        }
    }
}
