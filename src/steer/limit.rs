//! The flow limit: one flow cannot take a whole inbox.

use super::config::FlowLimitConfig;
use crate::limits::BATCH_MAX;

/// The last frames of an inbox that is nearly full, by flow (as the kernel's `skb_flow_limit`).
///
/// Invariant: `frames[b]` is the number of times that `b` occurs in `history`.
#[derive(Debug)]
pub(super) struct FlowLimit {
    /// The buckets of the last frames, oldest at `next` once it is full.
    history: Vec<u16>,
    next: usize,
    /// Number of frames of each bucket in the history.
    frames: Vec<u32>,
    /// Number of frames in a full history.
    room: usize,
    /// Number of frames in the inbox beyond which flows are limited.
    begins_at: u32,
}

impl FlowLimit {
    /// Makes the limit of an inbox for `inbox` frames. Its last eighth is for the flows that do not fill it. That part has
    /// room for the history, of which one flow may make up half, and for a list, which is limited when it is sent and not
    /// before.
    pub(super) fn new(config: FlowLimitConfig, inbox: u32) -> FlowLimit {
        let room = config.history as usize;
        let last = (inbox / 8).max((room + BATCH_MAX) as u32);
        FlowLimit {
            history: Vec::with_capacity(room),
            next: 0,
            frames: vec![0; config.buckets as usize],
            room,
            begins_at: inbox.saturating_sub(last).max(inbox / 2),
        }
    }

    /// Returns the number of frames in the inbox beyond which flows are limited.
    pub(super) fn begins_at(&self) -> u32 {
        self.begins_at
    }

    /// Records a frame of the flow with this hash. Returns false if its flow makes up more than half of the last
    /// frames; the frame must be dropped then.
    pub(super) fn admits(&mut self, hash: u32) -> bool {
        let bucket = hash as usize & (self.frames.len() - 1);
        if self.history.len() < self.room {
            self.history.push(bucket as u16);
        } else {
            let oldest = std::mem::replace(&mut self.history[self.next], bucket as u16);
            self.frames[usize::from(oldest)] -= 1;
            self.next = (self.next + 1) % self.room;
        }
        self.frames[bucket] += 1;
        self.frames[bucket] as usize <= self.room / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_is_dropped_once_it_makes_more_than_half_of_the_last_256_frames() {
        let mut limit = FlowLimit::new(FlowLimitConfig::default(), 1024);
        let admitted = (0..1000).filter(|_| limit.admits(7)).count();
        assert_eq!(admitted, 128);
        // 129 frames of other flows; of the last 256 this flow makes 127: those of the others leave the history first.
        assert!((0..129).all(|other| limit.admits(1000 + other % 16)));
        assert!((0..128).all(|_| limit.admits(7)) && !limit.admits(7));
    }

    #[test]
    fn flows_that_share_evenly_are_all_admitted() {
        let mut limit = FlowLimit::new(FlowLimitConfig { history: 16, buckets: 4 }, 1024);
        assert!((0..10_000).all(|frame| limit.admits(frame % 2)));
    }
}
