//! The flow limit: neither one flow nor all the flows of one port can take a whole inbox.

use super::config::FlowLimitConfig;
use crate::limits::BATCH_MAX;

/// Number of ports that are told apart: all.
const PORTS: usize = 1 << u8::BITS;

/// The last frames of an inbox that is nearly full, by flow (as the kernel's `skb_flow_limit`) and by the port that received them.
///
/// Invariant: `frames[b]` is the number of entries of bucket `b` in `history`, and `ports[p]` that of port `p`.
#[derive(Debug)]
pub(super) struct FlowLimit {
    /// The buckets and ports of the last frames, oldest at `next` once it is full.
    history: Vec<(u16, u8)>,
    next: usize,
    /// Number of frames of each bucket in the history.
    frames: Vec<u32>,
    /// Number of frames of each port in the history.
    ports: Vec<u32>,
    /// Number of frames in a full history.
    room: usize,
    /// Number of frames in the inbox beyond which flows are limited.
    begins_at: u32,
    /// Number of frames in the inbox beyond which ports are limited too.
    ports_begin_at: u32,
}

impl FlowLimit {
    /// Makes the limit of an inbox for `inbox` frames. Its last eighth is for the flows that do not fill it. That part has
    /// room for the history, of which one flow may make up half, and for a list, which is limited when it is sent and not
    /// before. The last half of that part, and at least two lists, is for the ports that do not fill it. A flood with forged
    /// sources is many flows, and comes by one port.
    pub(super) fn new(config: FlowLimitConfig, inbox: u32) -> FlowLimit {
        let room = config.history as usize;
        let last = (inbox / 8).max((room + BATCH_MAX) as u32);
        FlowLimit {
            history: Vec::with_capacity(room),
            next: 0,
            frames: vec![0; config.buckets as usize],
            ports: vec![0; PORTS],
            room,
            begins_at: inbox.saturating_sub(last).max(inbox / 2),
            ports_begin_at: inbox.saturating_sub((inbox / 16).max(2 * BATCH_MAX as u32)).max(inbox / 2),
        }
    }

    /// Returns the number of frames in the inbox beyond which flows are limited.
    pub(super) fn begins_at(&self) -> u32 {
        self.begins_at
    }

    /// Records a frame of the flow with this hash, received by this port, for an inbox that has `load` frames. Returns false
    /// if its flow makes up more than half of the last frames, or if there is room only for other ports and its port does; the
    /// frame must be dropped then.
    pub(super) fn admits(&mut self, hash: u32, port: u8, load: u32) -> bool {
        let bucket = hash as usize & (self.frames.len() - 1);
        let last = (bucket as u16, port);
        if self.history.len() < self.room {
            self.history.push(last);
        } else {
            let oldest = std::mem::replace(&mut self.history[self.next], last);
            self.frames[usize::from(oldest.0)] -= 1;
            self.ports[usize::from(oldest.1)] -= 1;
            self.next = (self.next + 1) % self.room;
        }
        self.frames[bucket] += 1;
        self.ports[usize::from(port)] += 1;
        let is_fair = |frames: u32| frames as usize <= self.room / 2;
        is_fair(self.frames[bucket]) && (load < self.ports_begin_at || is_fair(self.ports[usize::from(port)]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_is_dropped_once_it_makes_more_than_half_of_the_last_256_frames() {
        let mut limit = FlowLimit::new(FlowLimitConfig::default(), 1024);
        let admitted = (0..1000).filter(|_| limit.admits(7, 0, 800)).count();
        assert_eq!(admitted, 128);
        // 129 frames of other flows; of the last 256 this flow makes 127: those of the others leave the history first.
        assert!((0..129).all(|other| limit.admits(1000 + other % 16, 0, 800)));
        assert!((0..128).all(|_| limit.admits(7, 0, 800)) && !limit.admits(7, 0, 800));
    }

    #[test]
    fn flows_that_share_evenly_are_all_admitted() {
        let mut limit = FlowLimit::new(FlowLimitConfig { history: 16, buckets: 4 }, 1024);
        assert!((0..10_000).all(|frame| limit.admits(frame % 2, 0, 800)));
    }

    #[test]
    fn ports_that_share_evenly_are_all_admitted() {
        let mut limit = FlowLimit::new(FlowLimitConfig::default(), 1024);
        assert!((0..10_000).all(|frame| limit.admits(frame, (frame % 2) as u8, 1023)));
    }

    #[test]
    fn many_flows_of_one_port_leave_the_last_frames_of_an_inbox_to_other_ports() {
        let mut limit = FlowLimit::new(FlowLimitConfig::default(), 1024);
        assert!((0..10_000).all(|flow| limit.admits(flow, 3, 895)));
        assert!((0..10_000).all(|flow| !limit.admits(flow, 3, 896)));
        assert!((0..128).all(|flow| limit.admits(flow, 4, 1023)));
    }
}
