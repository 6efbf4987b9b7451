//! HOT: frames to the socket.

use super::AfPacketLink;
use crate::limits::BATCH_MAX;
use crate::pool::Frame;
use crate::port::PortCounters;
use crate::port::virtio::header;
use crate::sys::errno::Errno;
use crate::sys::virtio::VirtioHeader;
use std::io::IoSlice;
use std::iter::once;
use std::ops::Range;
use std::time::{Duration, Instant};

/// How long a frame is offered again for which the kernel reports that it has no buffer or no memory.
const PATIENCE: Duration = Duration::from_millis(5);
/// How long refused frames are given up at once after others have shown that there was room.
const SHOWN: Duration = Duration::from_millis(100);

/// The frames that the kernel refused with ENOBUFS or ENOMEM. The kernel returns them in two cases: there is no room now,
/// or it drops this frame each time. A filter, the queueing discipline or the other end of a veth pair does so (ENOBUFS),
/// and the stack if it cannot cut the frame into segments (ENOMEM). In the second case the frame would hold up all later
/// frames.
///
/// While frames of this socket are on the way, they may fill the queue, and the oldest frame waits. If none are, the
/// frames behind it are offered too. If one of them is sent, there was room, and those before it that are refused once more
/// are given up.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    /// The time since which the oldest frame is refused.
    since: Option<Instant>,
    /// The number of frames, from the oldest on, that were refused since then.
    refused: usize,
    /// The last time at which there was room and frames were refused.
    room: Option<Instant>,
}

/// What became of the oldest frames.
#[derive(Debug, Default, PartialEq, Eq)]
struct Outcome {
    /// Number of those that are given up.
    lost: usize,
    /// Number of those that are sent.
    sent: usize,
}

impl Refusals {
    fn is_sent(&mut self) {
        (self.since, self.refused) = (None, 0);
    }

    /// Decides about the oldest of `frames` frames, which was refused `now`. `has_unsent`: frames of this socket are on
    /// the way. `offer` offers a range of the frames, and returns how many were sent.
    #[cold]
    fn decide(
        &mut self,
        (frames, now, has_unsent): (usize, Instant, bool),
        mut offer: impl FnMut(Range<usize>) -> Result<usize, Errno>,
    ) -> Outcome {
        let is_over = now.saturating_duration_since(*self.since.get_or_insert(now)) >= PATIENCE;
        if has_unsent {
            if is_over {
                self.is_sent();
            }
            return Outcome { lost: usize::from(is_over), sent: 0 };
        }
        // The oldest once more, since the last frame on the way may have made room after it was refused. Those that were
        // refused in an earlier round are offered again only before all are given up.
        let next = if is_over { 1 } else { self.refused.max(1) };
        for i in once(0).chain(next..frames) {
            match offer(i..frames) {
                Ok(sent @ 1..) => {
                    self.is_sent();
                    // Room may have come after they were refused.
                    let late = (0..i).filter(|&one| matches!(offer(one..one + 1), Ok(1..))).count();
                    let lost = i - late;
                    if lost > 0 {
                        self.room = Some(now);
                    }
                    return Outcome { lost, sent: sent + late };
                }
                Err(Errno::NOBUFS | Errno::NOMEM) => self.refused = self.refused.max(i + 1),
                _ => break,
            }
        }
        let has_room = self.room.is_some_and(|room| now.saturating_duration_since(room) < SHOWN);
        if !has_room && !is_over {
            return Outcome::default();
        }
        if !has_room {
            self.room = Some(now);
        }
        let lost = self.refused.clamp(1, frames);
        self.is_sent();
        Outcome { lost, sent: 0 }
    }
}

impl AfPacketLink {
    pub(super) fn send_burst(&mut self, frames: &[Frame], counters: &PortCounters) -> usize {
        let mut taken = 0;
        while taken < frames.len() && self.link.is_up() {
            match self.offer(&frames[taken..]) {
                Ok(0) => break,
                Ok(sent) => {
                    taken += sent;
                    self.refusals.is_sent();
                }
                Err(Errno::NOBUFS | Errno::NOMEM) => match self.refused(&frames[taken..], counters) {
                    // There may be no room: the remaining frames stay with the caller.
                    0 => break,
                    done => taken += done,
                },
                Err(Errno::AGAIN | Errno::INTR) => break,
                // The interface does not send such a frame. It is taken; otherwise it would be offered forever.
                Err(Errno::INVAL | Errno::MSGSIZE) => {
                    counters.tx_invalid.add(1);
                    taken += 1;
                }
                Err(errno) => {
                    self.link.heed(errno);
                    break;
                }
            }
        }
        taken
    }

    /// Sends frames from the first on. Returns how many the kernel took.
    fn offer(&self, frames: &[Frame]) -> Result<usize, Errno> {
        let parts: [(VirtioHeader, IoSlice<'_>); BATCH_MAX] = std::array::from_fn(|i| match frames.get(i) {
            Some(frame) => (header(frame), IoSlice::new(frame.data())),
            None => (VirtioHeader::default(), IoSlice::new(&[])),
        });
        self.socket.send(&parts[..frames.len().min(BATCH_MAX)])
    }

    /// Sends what can be sent behind a first frame that the kernel refused. Returns how many frames are sent or given up.
    #[cold]
    fn refused(&mut self, frames: &[Frame], counters: &PortCounters) -> usize {
        let frames = &frames[..frames.len().min(BATCH_MAX)];
        let mut refusals = std::mem::take(&mut self.refusals);
        let now = (frames.len(), Instant::now(), self.socket.has_unsent());
        let Outcome { lost, sent } = refusals.decide(now, |range| self.offer(&frames[range]));
        self.refusals = refusals;
        counters.tx_lost.add(lost as u64);
        lost + sent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Frames of an interface: true: it refuses this one each time.
    struct Offered {
        frames: Vec<bool>,
        has_room: bool,
        offers: usize,
    }

    impl Offered {
        fn new(frames: &[bool]) -> Offered {
            Offered { frames: frames.to_vec(), has_room: true, offers: 0 }
        }

        fn decide(&mut self, refusals: &mut Refusals, now: Instant, has_unsent: bool) -> [usize; 2] {
            let outcome = refusals.decide((self.frames.len(), now, has_unsent), |range| {
                self.offers += 1;
                let sent = self.frames[range].iter().take_while(|&&is_bad| !is_bad && self.has_room).count();
                if sent == 0 { Err(Errno::NOBUFS) } else { Ok(sent) }
            });
            [outcome.lost, outcome.sent]
        }
    }

    /// Seen: packets that the far end refused, ten in a row, cost 5 ms each, and most of a good flow was lost.
    #[test]
    fn refused_frames_hold_up_none_behind_them_if_nothing_is_on_the_way() {
        let (mut refusals, now) = (Refusals::default(), Instant::now());
        let mut offered = Offered::new(&[[true; 10], [false; 10]].concat());
        assert_eq!(offered.decide(&mut refusals, now, false), [10, 10]);
    }

    #[test]
    fn a_full_queue_loses_no_frame_before_the_patience_is_over() {
        let (mut refusals, begun) = (Refusals::default(), Instant::now());
        let mut offered = Offered { has_room: false, ..Offered::new(&[false; 4]) };
        for round in 0..5 {
            // Full of our frames, then of those of others.
            let has_unsent = round < 3;
            let now = begun + Duration::from_micros(100 * round);
            assert_eq!(offered.decide(&mut refusals, now, has_unsent), [0, 0]);
        }
        assert_eq!(offered.offers, 4 + 1, "each once, and the oldest once a round");
        offered.has_room = true;
        assert_eq!(offered.decide(&mut refusals, begun + PATIENCE / 2, false), [0, 4]);
        // The next has its own patience.
        offered.has_room = false;
        assert_eq!(offered.decide(&mut refusals, begun + 3 * PATIENCE, false), [0, 0]);
    }

    /// The frames on the way may fill the queue, so a frame that could be sent now is no proof.
    #[test]
    fn the_oldest_frame_alone_is_lost_after_the_patience_while_frames_are_on_the_way() {
        let (mut refusals, begun) = (Refusals::default(), Instant::now());
        let mut offered = Offered::new(&[true, false, true]);
        assert_eq!(offered.decide(&mut refusals, begun, true), [0, 0]);
        assert_eq!(offered.decide(&mut refusals, begun + PATIENCE, true), [1, 0]);
        assert_eq!(offered.decide(&mut refusals, begun + PATIENCE, true), [0, 0]);
        assert_eq!(offered.offers, 0);
    }

    #[test]
    fn frames_that_are_all_refused_wait_once_and_not_each() {
        let (mut refusals, begun) = (Refusals::default(), Instant::now());
        let mut offered = Offered::new(&[true; 64]);
        assert_eq!(offered.decide(&mut refusals, begun, false), [0, 0]);
        let mut now = begun + PATIENCE;
        assert_eq!(offered.decide(&mut refusals, now, false), [64, 0]);
        now += SHOWN / 2;
        assert_eq!(offered.decide(&mut refusals, now, false), [64, 0]);
        now += SHOWN;
        assert_eq!(offered.decide(&mut refusals, now, false), [0, 0], "it may be another cause now");
    }

    #[test]
    fn a_frame_for_which_room_came_late_is_not_lost() {
        let (mut refusals, now) = (Refusals::default(), Instant::now());
        assert_eq!(Offered::new(&[false, true, false]).decide(&mut refusals, now, false), [0, 1]);
        assert_eq!(refusals.room, None);
    }

    /// Found in a review: a queue that drained between two offers had the frames given up that were refused before.
    #[test]
    fn frames_that_were_refused_before_there_was_room_are_sent_behind_the_first_that_found_it() {
        let (mut refusals, mut offers) = (Refusals::default(), Vec::new());
        let outcome = refusals.decide((4, Instant::now(), false), |range| {
            offers.push(range.clone());
            if offers.len() < 3 { Err(Errno::NOBUFS) } else { Ok(range.len()) }
        });
        assert_eq!((outcome, refusals.room), (Outcome { lost: 0, sent: 4 }, None));
        assert_eq!(offers, [0..4, 1..4, 2..4, 0..1, 1..2]);
    }
}
