//! One worker of the experiment: it receives, steers, forwards and transmits through the product's own stages. The
//! network at both of its sides costs the same in every variant: a packet comes in as a descriptor of bytes that were
//! written before, and goes out as one that is looked at and not read.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use netmem::limits::{BATCH_MAX, CACHE_LINE, CHUNK_SHIFT};
use netmem::pool::{Batch, Pool};
use netmem::port::mem::{MemDevice, MemPort};
use netmem::port::{Complete, Fill, Rx, Tx};
use netmem::stats::{Count, Writer};
use netmem::steer::{Inbox, Outbox, Record, Source};
use netmem::sync::Worker;
use netmem::wire::{Headers, ipv4, udp};

/// Bytes of a packet. Its descriptor says up to [`NUMBERS`] more: the padding's length is its number within its flow, so
/// that order can be checked and not one byte need be read or written for it.
pub(super) const PACKET: usize = 512;

/// Flows. A frame is of the same flow always, by its place in memory.
pub(super) const FLOWS: usize = 64;

/// Numbers before they begin anew. No more packets than a fourth of this are under way in a flow.
const NUMBERS: u64 = 512;

/// Lines asked for ahead of their turn.
const AHEAD: usize = 8;

/// Which flow the frame is of whose data this is.
pub(super) fn flow_of(data: &[u8]) -> usize {
    (data.as_ptr().addr() >> CHUNK_SHIFT) % FLOWS
}

/// On a line of its own: written by one worker at a time.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(super) struct Own<T>(pub(super) T);

/// What has left, by whichever worker.
#[derive(Debug)]
pub(super) struct Left {
    /// The highest number of each flow that has left, plus one.
    next: Vec<Own<AtomicU64>>,
    /// Packets that left by each worker.
    pub(super) done: [Writer<Own<Count>>; 2],
    /// Packets that left behind one of their flow that came later.
    pub(super) late: [Writer<Own<Count>>; 2],
    /// Packets whose bytes did not sum up.
    pub(super) damaged: [Writer<Own<Count>>; 2],
}

impl Left {
    pub(super) fn new() -> Left {
        let next = (0..FLOWS).map(|_| Own::default()).collect();
        Left { next, done: Default::default(), late: Default::default(), damaged: Default::default() }
    }

    /// Notes a packet; true if it is late.
    fn note(&self, data: &[u8]) -> bool {
        // Relaxed: a flow that keeps its order is noted by one worker at a time, and what hands it to the next one orders
        // both; of one that does not, some may be missed.
        let next = &self.next[flow_of(data)].0;
        let expected = next.load(Ordering::Relaxed);
        let number = (data.len() - PACKET) as u64;
        let ahead = number.wrapping_sub(expected) % NUMBERS;
        if ahead >= NUMBERS / 2 {
            return true;
        }
        next.store(expected + ahead + 1, Ordering::Relaxed);
        false
    }

    /// Says of each flow that one packet more has left.
    #[cfg(test)]
    pub(super) fn skip(&self) {
        self.next.iter().for_each(|next| _ = next.0.fetch_add(1, Ordering::Relaxed));
    }

    /// Packets that left, by all workers.
    pub(super) fn total(&self) -> u64 {
        self.done.iter().map(|done| done.0.get()).sum()
    }
}

/// Where packets come in.
pub(super) struct Intake {
    pub(super) ports: Vec<(MemPort, MemDevice)>,
    pub(super) pool: Pool,
    pub(super) burst: usize,
    pub(super) lines: usize,
    /// Packets that may be under way; the network waits beyond that, so that none is dropped.
    pub(super) under_way: u64,
    /// The next number of each flow.
    pub(super) numbers: Vec<u64>,
    pub(super) received: u64,
    /// Packets that had left when it was looked up last.
    pub(super) left: u64,
}

/// One worker.
pub(super) struct Core {
    pub(super) w: Worker,
    pub(super) outbox: Outbox,
    pub(super) inbox: Inbox,
    pub(super) intake: Option<Intake>,
    pub(super) out: (MemPort, MemDevice),
    pub(super) sums: u64,
    pub(super) record: Record,
    pub(super) left: Arc<Left>,
}

impl Core {
    /// A poll round; returns how many packets moved.
    #[inline(never)]
    pub(super) fn poll(&mut self) -> usize {
        let mut moved = self.receive();
        let mut frames = Batch::new();
        let is_first = self.outbox.worker() == 0;
        // Once: another worker may send for ever, and the caller wants to look at the clock.
        if let Some(source) = self.inbox.take(&mut self.w, &mut frames) {
            moved += frames.len();
            match (self.record, is_first) {
                (Record::Second, _) => self.forward(&mut frames),
                // Comes back, forwarded.
                (Record::First, true) => self.transmit(&mut frames),
                (Record::First, false) => {
                    self.work(&mut frames);
                    self.outbox.hand_off_or_drop(&mut self.w, 0, source, &mut frames);
                }
            }
        }
        self.outbox.flush(&mut self.w);
        moved
    }

    /// A burst from each port: what is steered elsewhere is listed, what stays is forwarded.
    fn receive(&mut self) -> usize {
        let Some(mut intake) = self.intake.take() else { return 0 };
        let (mut received, mut frames) = (0, Batch::new());
        for port in 0..intake.ports.len() {
            intake.receive(port, &mut self.w, &self.left, &mut frames);
            received += frames.len();
            self.outbox.steer_or_drop(
                &mut self.w,
                Source { port: port as u8, queue: port as u16 },
                &mut frames,
            );
            self.forward(&mut frames);
        }
        self.outbox.flush(&mut self.w);
        self.intake = Some(intake);
        received
    }

    fn forward(&mut self, frames: &mut Batch) {
        if !frames.is_empty() {
            self.work(frames);
            self.transmit(frames);
        }
    }

    /// Sends back to where it came from; where work is heavy the packet's bytes are summed up first.
    fn work(&mut self, frames: &mut Batch) {
        let (sums, mut damaged) = (self.sums, 0);
        frames.each_data_mut(AHEAD, |_, data| {
            let Some((headers, payload)) = Headers::over(data) else { return };
            std::mem::swap(&mut headers.link.dst, &mut headers.link.src);
            let length = usize::from(headers.ip.total_length()).saturating_sub(ipv4::HEADER_LEN);
            for _ in 0..sums {
                let datagram = black_box(payload.get(..length).unwrap_or_default());
                damaged += u64::from(!udp::intact(headers.ip.src(), headers.ip.dst(), datagram));
            }
        });
        self.left.damaged[self.outbox.worker()].add(|own| &own.0, damaged);
    }

    /// By this worker's own queue; the network takes all at once, and frames that it is done with go home.
    fn transmit(&mut self, frames: &mut Batch) {
        let Self { w, outbox, out: (port, device), left, .. } = self;
        let own = outbox.worker();
        while !frames.is_empty() {
            port.tx(w, frames);
            let mut late = 0;
            let done = device.collect(BATCH_MAX, |data| late += u64::from(left.note(data)));
            left.late[own].add(|own| &own.0, late);
            left.done[own].add(|own| &own.0, done as u64);
            let mut sent = Batch::new();
            port.complete(w, &mut sent);
            sent.free(w);
        }
    }

    /// Lets the network finish with everything.
    pub(super) fn complete(&mut self) {
        let (port, device) = &mut self.out;
        device.collect(1, |_| ());
        let mut sent = Batch::new();
        while port.complete(&mut self.w, &mut sent) > 0 {
            sent.free(&mut self.w);
        }
    }
}

impl Intake {
    fn receive(&mut self, port: usize, w: &mut Worker, left: &Left, frames: &mut Batch) {
        if self.received - self.left > self.under_way {
            self.left = left.total();
            if self.received - self.left > self.under_way {
                return;
            }
        }
        let (port, device) = &mut self.ports[port];
        port.refill(w, &self.pool);
        let numbers = &mut self.numbers;
        device.deliver(self.burst, |data| {
            let number = &mut numbers[flow_of(data)];
            *number += 1;
            PACKET + ((*number - 1) % NUMBERS) as usize
        });
        self.received += port.rx(w, frames) as u64;
        for line in 0..self.lines {
            frames.iter().for_each(|frame| _ = black_box(frame.data().get(line * CACHE_LINE)));
        }
    }
}
