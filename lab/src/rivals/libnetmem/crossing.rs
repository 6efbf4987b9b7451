//! Packets from one worker to another through a lane, as a program in C sends them: allocated, written and sent here,
//! then received, read and freed there.

use std::ffi::{c_char, c_int};
use std::ops::Range;
use std::ptr;
use std::sync::Arc;

use super::packets::{LINE, LibnetmemPackets};
use super::{BURST_MAX, OfWorker, Word, WorkerOpen, function, library};
use crate::rivals::dpdk::Passed;

type LaneOpen = unsafe extern "C" fn(Word, u32, *mut Word) -> c_int;
type OfLane = unsafe extern "C" fn(Word, Word) -> c_int;
type Send = unsafe extern "C" fn(Word, Word, *const Word, u32, *const c_char) -> c_int;
type Receive = unsafe extern "C" fn(Word, Word, *mut Word, u32, *const c_char) -> c_int;

/// A lane between two workers, with its functions. A drop closes it, on any thread.
pub struct Lane {
    packets: LibnetmemPackets,
    /// The worker of the other end, in the same memory as the packets' worker.
    receiver: Word,
    lane: Word,
    enter: OfWorker,
    leave: OfWorker,
    send: Send,
    receive: Receive,
    close: OfLane,
    worker_close: OfWorker,
}

impl Lane {
    fn open(frames: u32, frame_size: u32, cache: u32, slots: u32) -> Result<Lane, String> {
        let (packets, library) = (LibnetmemPackets::open(frames, frame_size, cache)?, library()?);
        // SAFETY: the types of these functions in netmem.h.
        let (worker_open, lane_open, join, mut lane) = unsafe {
            (
                function::<WorkerOpen>(library, c"netmem_worker_open")?,
                function::<LaneOpen>(library, c"netmem_lane_open")?,
                function::<OfLane>(library, c"netmem_lane_join")?,
                Lane {
                    packets,
                    receiver: Word::default(),
                    lane: Word::default(),
                    enter: function(library, c"netmem_worker_enter")?,
                    leave: function(library, c"netmem_worker_leave")?,
                    send: function(library, c"netmem_lane_send_packets_at")?,
                    receive: function(library, c"netmem_lane_receive_packets_at")?,
                    close: function(library, c"netmem_lane_close")?,
                    worker_close: function(library, c"netmem_worker_close")?,
                },
            )
        };
        let (memory, sender) = (lane.packets.opened.memory, lane.packets.opened.worker);
        // SAFETY: handles that were opened before, and destinations that live longer than the calls.
        let made = unsafe {
            [
                worker_open(memory, &raw mut lane.receiver),
                lane_open(sender, slots, &raw mut lane.lane),
                join(lane.receiver, lane.lane),
                (lane.leave)(sender),
                (lane.leave)(lane.receiver),
            ]
        };
        if made == [0; 5] {
            Ok(lane)
        } else {
            Err(format!("netmem_lane_open and what goes with it: {made:?}"))
        }
    }

    /// Gives the worker to this thread while `work` runs: rounds are on threads of their own.
    fn inside<T>(&self, worker: Word, work: impl FnOnce() -> T) -> T {
        // SAFETY: a worker that is open. If another thread has it, each call refuses it.
        unsafe { (self.enter)(worker) };
        let done = work();
        // SAFETY: as above.
        unsafe { (self.leave)(worker) };
        done
    }

    /// Returns the number of packets that neither worker has freed.
    pub fn out(&self) -> u64 {
        let packets = &self.packets;
        // SAFETY: workers that are open.
        let held = |worker| self.inside(worker, || unsafe { (packets.opened.held)(worker) }.max(0) as u64);
        held(packets.opened.worker) + held(self.receiver)
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        let sender = self.packets.opened.worker;
        // SAFETY: handles that were opened, or are 0, which is refused. The sender's worker is closed with its packets.
        unsafe {
            (self.enter)(sender);
            (self.enter)(self.receiver);
            (self.close)(sender, self.lane);
            (self.close)(self.receiver, self.lane);
            (self.worker_close)(self.receiver);
        }
    }
}

/// Opens a lane for `slots` packets of a pool of `frames` frames, with `cache` of them at the sender. Returns both its
/// ends.
///
/// # Errors
/// How to get the library, or which call failed.
pub fn lane(
    frames: u32,
    frame_size: u32,
    cache: u32,
    slots: u32,
) -> Result<(LaneSending, LaneReceiving, Arc<Lane>), String> {
    let lane = Arc::new(Lane::open(frames, frame_size, cache, slots)?);
    let sending = LaneSending { lane: Arc::clone(&lane), words: [Word::default(); BURST_MAX], left: 0..0 };
    Ok((sending, LaneReceiving { lane: Arc::clone(&lane) }, lane))
}

/// The sending end.
pub struct LaneSending {
    lane: Arc<Lane>,
    /// The last burst.
    words: [Word; BURST_MAX],
    /// The part of it that has had no room in the lane yet.
    left: Range<usize>,
}

impl LaneSending {
    /// Calls `work` on the thread that sends.
    pub fn inside<T>(&mut self, work: impl FnOnce(&mut LaneSending) -> T) -> T {
        let lane = Arc::clone(&self.lane);
        lane.inside(lane.packets.opened.worker, || work(self))
    }

    /// Sends as much of a burst as the lane has room for. Its packets have the numbers from `next` on, followed by
    /// `stamp` bytes.
    #[inline(always)]
    pub fn burst(&mut self, next: u64, stamp: u8) -> Passed {
        let (packets, mut wrong) = (&self.lane.packets, 0);
        if self.left.is_empty() {
            let got = packets.get::<false>(&mut self.words);
            wrong += packets.write_each(&self.words[..got], |at| {
                let mut line = [stamp; LINE];
                line[..8].copy_from_slice(&(next + at as u64).to_ne_bytes());
                line
            });
            wrong += (BURST_MAX - got) as u64;
            self.left = 0..got;
        }
        let words = &self.words[self.left.clone()];
        // SAFETY: handles that are open, and handles that the library returned.
        let sent = unsafe {
            let (worker, lane) = (packets.opened.worker, self.lane.lane);
            (self.lane.send)(worker, lane, words.as_ptr(), words.len() as u32, ptr::null())
        };
        let sent = sent.max(0) as usize;
        self.left.start += sent;
        Passed { items: sent as u64, wrong }
    }
}

impl Drop for LaneSending {
    fn drop(&mut self) {
        self.inside(|sending| {
            let (packets, left) = (&sending.lane.packets, sending.left.clone());
            packets.free(packets.opened.worker, &sending.words[left]);
        });
    }
}

/// The receiving end.
pub struct LaneReceiving {
    lane: Arc<Lane>,
}

impl LaneReceiving {
    /// Calls `work` on the thread that receives.
    pub fn inside<T>(&mut self, work: impl FnOnce(&mut LaneReceiving) -> T) -> T {
        let lane = Arc::clone(&self.lane);
        lane.inside(lane.receiver, || work(self))
    }

    /// Receives a burst, whose packets should have the numbers from `next` on, and frees it.
    #[inline(always)]
    pub fn burst(&mut self, next: u64) -> Passed {
        let (mut words, Lane { packets, receiver, .. }) = ([Word::default(); BURST_MAX], &*self.lane);
        // SAFETY: handles that are open, and room for the burst.
        let got = unsafe {
            (self.lane.receive)(*receiver, self.lane.lane, words.as_mut_ptr(), BURST_MAX as u32, ptr::null())
        };
        let words = &words[..got.max(0) as usize];
        let wrong = if words.is_empty() { 0 } else { packets.wrong(*receiver, words, next) };
        let freed = words.is_empty() || packets.free(*receiver, words);
        Passed { items: words.len() as u64, wrong: wrong + u64::from(!freed) }
    }
}
