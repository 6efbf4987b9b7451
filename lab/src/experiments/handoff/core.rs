//! One worker of the experiment's own loop. It receives, steers, forwards and transmits through the product's own
//! stages. The network at both sides costs the same in every variant. A packet comes in as a descriptor of bytes
//! that were written before, and goes out as one that is examined and not read.

use std::hint::black_box;
use std::sync::Arc;

use netmem::limits::{BATCH_MAX, CACHE_LINE, CHUNK_SHIFT};
use netmem::pool::{Batch, Frame, Pool};
use netmem::port::mem::{MemDevice, MemPort};
use netmem::port::{Complete, Fill, Rx, Tx};
use netmem::steer::{Inbox, Outbox, RecordedQueue, Source, Toeplitz};
use netmem::sync::Worker;
use netmem::wire::{Headers, ipv4, udp};

use super::turn::{Arriving, FLOWS, Left, NUMBERS, PACKET, Turn};

/// Number of lines that are prefetched.
const AHEAD: usize = 8;

/// Returns the flow of the frame with this data.
pub(super) fn flow_of(data: &[u8]) -> usize {
    (data.as_ptr().addr() >> CHUNK_SHIFT) % FLOWS
}

/// The incoming packets.
pub(super) struct Intake {
    pub(super) ports: Vec<(MemPort, MemDevice)>,
    pub(super) pool: Pool,
    pub(super) burst: usize,
    pub(super) lines: usize,
    pub(super) arriving: Arriving,
    /// The next number of each flow.
    pub(super) numbers: Vec<u64>,
    /// Hashes each packet, if that is requested. The hash is not used.
    pub(super) hash: Option<Toeplitz>,
}

/// One worker.
pub(super) struct Core {
    pub(super) w: Worker,
    pub(super) outbox: Outbox,
    pub(super) inbox: Inbox,
    pub(super) intake: Option<Intake>,
    pub(super) out: (MemPort, MemDevice),
    pub(super) sums: u64,
    pub(super) record: RecordedQueue,
    /// True if a packet is only forwarded by the worker that consumes its flow.
    pub(super) consumed: bool,
    pub(super) left: Arc<Left>,
}

/// Returns the worker that consumes a flow.
pub(super) fn consumer_of(flow: usize) -> usize {
    flow % 2
}

impl Turn for Core {
    #[inline(never)]
    fn poll(&mut self) -> usize {
        let mut moved = self.receive();
        let mut frames = Batch::new();
        let is_first = self.outbox.worker() == 0;
        // Once: another worker may send forever, and the caller must read the clock.
        if let Some(source) = self.inbox.take(&mut self.w, &mut frames) {
            moved += frames.len();
            match (self.record, is_first) {
                (RecordedQueue::Worker, _) => self.consume(&mut frames),
                // It comes back after it was forwarded.
                (RecordedQueue::Received, true) => self.transmit(&mut frames),
                (RecordedQueue::Received, false) => {
                    self.work(&mut frames);
                    self.outbox.hand_off_or_drop(&mut self.w, 0, source, &mut frames);
                }
            }
        }
        self.outbox.flush(&mut self.w);
        moved
    }

    fn end(&mut self) -> u64 {
        self.intake.as_mut().map_or(0, |intake| intake.arriving.end())
    }

    fn complete(&mut self) -> u64 {
        let (port, device) = &mut self.out;
        device.collect(1, |_| ());
        let mut sent = Batch::new();
        while port.complete(&mut self.w, &mut sent) > 0 {
            sent.free(&mut self.w);
        }
        0
    }

    fn into_worker(self: Box<Self>) -> Worker {
        self.w
    }
}

impl Core {
    /// Receives a burst from each port. Packets that are steered elsewhere are listed, and the others are
    /// forwarded.
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
            self.consume(&mut frames);
        }
        self.outbox.flush(&mut self.w);
        self.intake = Some(intake);
        received
    }

    /// Forwards the packets that this worker consumes, and hands those of the other worker over.
    fn consume(&mut self, frames: &mut Batch) {
        if self.consumed {
            let (own, mut mine, mut others) = (self.outbox.worker(), Batch::new(), Batch::new());
            for frame in frames.drain() {
                let to = if consumer_of(flow_of(frame.data())) == own { &mut mine } else { &mut others };
                // Neither gets more than there were.
                let _ = to.push(frame);
            }
            self.outbox.hand_off_or_drop(&mut self.w, 1 - own, Source::default(), &mut others);
            *frames = mine;
        }
        self.forward(frames);
    }

    fn forward(&mut self, frames: &mut Batch) {
        if !frames.is_empty() {
            self.work(frames);
            self.transmit(frames);
        }
    }

    /// Sends packets back to their sender. If work is heavy the packet's bytes are summed first.
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

    /// Transmits on this worker's own queue. The network takes all at once, and returns finished frames to their
    /// pool.
    fn transmit(&mut self, frames: &mut Batch) {
        let Self { w, outbox, out: (port, device), left, .. } = self;
        let own = outbox.worker();
        while !frames.is_empty() {
            port.tx(w, frames);
            let mut late = 0;
            let done = device.collect(BATCH_MAX, |data| {
                late += u64::from(left.note(flow_of(data), (data.len() - PACKET) as u64));
            });
            left.late[own].add(|own| &own.0, late);
            left.done[own].add(|own| &own.0, done as u64);
            let mut sent = Batch::new();
            port.complete(w, &mut sent);
            sent.free(w);
        }
    }
}

impl Intake {
    fn receive(&mut self, port: usize, w: &mut Worker, left: &Left, frames: &mut Batch) {
        if !self.arriving.is_open(left) {
            return;
        }
        let (port, device) = &mut self.ports[port];
        port.refill(w, &self.pool);
        let numbers = &mut self.numbers;
        device.deliver(self.burst, |data| {
            let number = &mut numbers[flow_of(data)];
            *number += 1;
            PACKET + ((*number - 1) % NUMBERS) as usize
        });
        self.arriving.received += port.rx(w, frames) as u64;
        if let Some(hash) = &self.hash {
            // As the outbox does by a policy of flows.
            frames.iter().for_each(Frame::prefetch);
            frames.iter().for_each(|frame| _ = black_box(hash.flow(frame.data(), 0)));
        }
        for line in 0..self.lines {
            frames.iter().for_each(|frame| _ = black_box(frame.data().get(line * CACHE_LINE)));
        }
    }
}
