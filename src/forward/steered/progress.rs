//! The progress of the transmit rings for which frames wait. COLD.
//!
//! While frames wait for a ring, a worker with steering takes in nothing (`steered.rs`). A ring that moves is waited
//! for, however slow it is. A ring that stands still, because its other side does, would hold up all other ports. So
//! after [`TIMEOUT`], or 64 rounds if they are longer, its frames are dropped, and frames do not wait for it again until
//! it moves.

use crate::sys::clock;
use std::time::Duration;

/// The time for which frames wait for a ring that stands still. It is longer than a scheduler usually lets a peer wait
/// that shares a processor with a few others, and short for the ports that are held up.
const TIMEOUT: Duration = Duration::from_millis(10);

/// The smallest number of rounds that make up [`TIMEOUT`]. A longer round counts for no more: a pause of this worker is
/// often one of the machine, in which the other side did not run either.
const ROUNDS: u32 = 64;

/// The progress of one ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Progress {
    /// No frames wait.
    #[default]
    Free,
    /// Frames wait. Since `seen` (frames that wait, frames in the ring) last changed, `waited` ticks were counted.
    Watched { seen: (usize, usize), last: u64, waited: u64 },
    /// The ring stood still too long, with this number of frames in it.
    Still { posted: usize },
}

/// The progress of the transmit rings of all ports, by a look at the start of each round in which frames wait.
#[derive(Debug, Default)]
pub(super) struct TxProgress {
    ports: Vec<Progress>,
    /// The number of ticks that a round counts for at most.
    longest_round: u64,
    /// A ring was not free at the last look.
    is_watching: bool,
}

impl Progress {
    /// Returns the progress after a look at the ring. Between two looks, frames join those that wait only if none
    /// waited at the first.
    fn looked_at(self, seen: (usize, usize), now: u64, longest_round: u64) -> Progress {
        let (waiting, posted) = seen;
        match self {
            Progress::Still { posted: before } if before == posted => self,
            _ if waiting == 0 => Progress::Free,
            Progress::Watched { seen: before, last, waited } if before == seen => {
                let waited = waited + now.saturating_sub(last).min(longest_round);
                if waited >= longest_round * u64::from(ROUNDS) {
                    Progress::Still { posted }
                } else {
                    Progress::Watched { seen, last: now, waited }
                }
            }
            _ => Progress::Watched { seen, last: now, waited: 0 },
        }
    }
}

impl TxProgress {
    /// Watches the rings of this number of ports.
    #[cold]
    pub(super) fn new(ports: usize) -> TxProgress {
        let timeout = TIMEOUT.as_nanos() as f64 * clock::ticks_per_ns();
        let longest_round = timeout as u64 / u64::from(ROUNDS);
        TxProgress { ports: vec![Progress::Free; ports], longest_round, is_watching: false }
    }

    /// Returns whether a ring was not free at the last look, so that it must be looked at in this round too.
    #[inline]
    pub(super) fn is_watching(&self) -> bool {
        self.is_watching
    }

    /// Returns whether a port's ring stood still too long.
    #[inline]
    pub(super) fn is_still(&self, port: usize) -> bool {
        self.is_watching && matches!(self.ports.get(port), Some(Progress::Still { .. }))
    }

    /// Notes at the start of a round how many frames wait for a port's ring, and how many are in it.
    pub(super) fn look(&mut self, port: usize, waiting: usize, posted: usize, now: u64) {
        if let Some(progress) = self.ports.get_mut(port) {
            *progress = progress.looked_at((waiting, posted), now, self.longest_round);
        }
    }

    /// Ends a look at all rings.
    pub(super) fn end_look(&mut self) {
        self.is_watching = self.ports.iter().any(|progress| *progress != Progress::Free);
    }

    /// Notes that a port's ring has moved, so that frames may wait for it again.
    pub(super) fn has_moved(&mut self, port: usize) {
        if let Some(progress) = self.ports.get_mut(port) {
            *progress = Progress::Free;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks at a ring once every `step` ticks, at most `rounds` times, of which each counts for up to 10. Returns the
    /// number of looks after which it had stood still too long.
    fn looks(step: u64, rounds: u64, seen: impl Fn(u64) -> (usize, usize)) -> Option<u64> {
        let mut progress = Progress::Free;
        (1..=rounds).find(|round| {
            progress = progress.looked_at(seen(*round), round * step, 10);
            matches!(progress, Progress::Still { .. })
        })
    }

    #[test]
    fn a_ring_stands_still_after_a_time_in_which_nothing_moves_and_not_after_one_long_round() {
        assert_eq!(looks(1, 1_000, |_| (5, 4)), Some(641));
        assert_eq!(looks(10, 1_000, |_| (5, 4)), Some(65));
        assert_eq!(looks(1_000_000, 1_000, |_| (5, 4)), Some(65), "long rounds count for no more");
    }

    #[test]
    fn a_ring_that_takes_or_completes_a_frame_at_times_is_waited_for() {
        let now_and_then = |round: u64| (100_000 - round as usize / 60, 4);
        assert_eq!(looks(10, 100_000, now_and_then), None, "it takes one");
        assert_eq!(looks(10, 100_000, |round| (5, 100_000 - round as usize / 60)), None, "it completes one");
        assert_eq!(looks(10, 100_000, |_| (0, 4)), None, "no frame waits");
    }

    #[test]
    fn frames_wait_again_once_a_ring_that_stood_still_has_moved() {
        let still = Progress::Still { posted: 4 };
        assert_eq!(still.looked_at((0, 4), 7, 10), still);
        assert_eq!(still.looked_at((0, 3), 7, 10), Progress::Free);
        assert_eq!(still.looked_at((5, 3), 7, 10), Progress::Watched { seen: (5, 3), last: 7, waited: 0 });
    }
}
