//! The sender and the receiver: the product's own ports, generator and sink, on one worker.

use netmem::limits::BATCH_MAX;
use netmem::page::Memory;
use netmem::pool::{Batch, DmaMap, Frame, Pool, PoolConfig};
use netmem::port::{Port, PortState};
use netmem::sync::Worker;
use netmem::system::clock::monotonic_ns;
use netmem_traffic::{Arrival, Arrivals, Expected, Stream, StreamConfig};

use crate::bench::SetUpError;

/// What both ends work with.
pub(in crate::experiments) struct Tools {
    pub(in crate::experiments) memory: Memory,
    pub(in crate::experiments) worker: Worker,
    pub(in crate::experiments) pool: Pool,
}

impl Tools {
    /// A worker of `memory`, and a pool of `frames` frames.
    ///
    /// # Errors
    /// The step and the remedy.
    pub(in crate::experiments) fn new(memory: Memory, frames: usize) -> Result<Tools, SetUpError> {
        let mut worker = memory.worker().map_err(SetUpError::at("worker"))?;
        let config = PoolConfig { name: "peers".into(), frames, dma: DmaMap::Umem, ..PoolConfig::default() };
        let pool = Pool::new(&memory, &mut worker, &config).map_err(SetUpError::at("pool"))?;
        Ok(Tools { memory, worker, pool })
    }
}

/// Both ends of one path.
pub(in crate::experiments) struct Ends {
    tools: Tools,
    sender: Box<dyn Port>,
    receiver: Box<dyn Port>,
    stream: Stream,
    arrivals: Arrivals,
    /// Written, and not taken by the port yet.
    waiting: Batch,
    /// Received, and not judged yet.
    received: Vec<Frame>,
    sent: u64,
}

impl Ends {
    /// Ends of a stream as `config` has it, by these two ports.
    ///
    /// # Errors
    /// The step and the remedy.
    pub(in crate::experiments) fn new(
        tools: Tools,
        [sender, receiver]: [Box<dyn Port>; 2],
        config: StreamConfig,
    ) -> Result<Ends, SetUpError> {
        let expected = Expected { stream: config.stream, ..Expected::default() };
        let stream = Stream::new(config).map_err(SetUpError::at("stream"))?;
        let (arrivals, waiting, received) = (Arrivals::new(expected), Batch::new(), Vec::new());
        Ok(Ends { tools, sender, receiver, stream, arrivals, waiting, received, sent: 0 })
    }

    /// Whether both ports are up; the first reason why not.
    pub(in crate::experiments) fn are_up(&mut self) -> Result<(), String> {
        for port in [&mut self.sender, &mut self.receiver] {
            port.kick();
            if let PortState::Down(reason) = port.state() {
                return Err(format!("{}: {reason}", port.name()));
            }
        }
        Ok(())
    }

    /// Posts frames to receive into.
    pub(in crate::experiments) fn post(&mut self) {
        let Tools { worker, pool, .. } = &mut self.tools;
        self.receiver.refill(worker, pool);
        self.receiver.kick();
    }

    /// Writes the next burst of at most `n` packets, to be sent; returns how many wait for it.
    pub(in crate::experiments) fn write(&mut self, n: usize) -> usize {
        let Tools { worker, pool, .. } = &mut self.tools;
        let first = self.waiting.len();
        let wanted = n.min(BATCH_MAX).saturating_sub(first);
        pool.alloc_burst(worker, &mut self.waiting, wanted);
        let now = monotonic_ns();
        for frame in &mut self.waiting[first..] {
            // A frame has room for the largest packet.
            if let Ok(room) = frame.put(self.stream.next_size()) {
                self.stream.write(room, now);
            }
        }
        self.waiting.len()
    }

    /// Sends what is written, as far as the port takes it; returns how many packets.
    pub(in crate::experiments) fn send(&mut self) -> usize {
        let sent = self.sender.tx(&mut self.tools.worker, &mut self.waiting);
        self.sender.kick();
        self.sent += sent as u64;
        sent
    }

    /// Frees what was sent.
    pub(in crate::experiments) fn complete(&mut self) {
        let mut done = Batch::new();
        while self.sender.complete(&mut self.tools.worker, &mut done) > 0 {
            done.free(&mut self.tools.worker);
        }
        self.sender.kick();
    }

    /// Receives a burst, to be judged later; returns how many packets came.
    #[inline]
    pub(in crate::experiments) fn receive(&mut self) -> usize {
        let mut batch = Batch::new();
        let n = self.receiver.rx(&mut self.tools.worker, &mut batch);
        if n > 0 {
            self.received.extend(batch.drain());
        }
        n
    }

    /// Packets that have come and were not received; None where the port does not tell.
    #[inline]
    pub(in crate::experiments) fn waiting(&mut self) -> Option<usize> {
        self.receiver.rx_pending()
    }

    /// Lets the receiving port do what it does once in a round.
    pub(in crate::experiments) fn kick(&mut self) {
        self.receiver.kick();
    }

    /// Judges what was received and frees it; returns how many packets of the stream came whole.
    pub(in crate::experiments) fn judge(&mut self) -> usize {
        let mut whole = 0;
        let mut done = Batch::new();
        for frame in self.received.drain(..) {
            whole += usize::from(matches!(self.arrivals.take(frame.data()), Arrival::Good(_)));
            if let Err(frame) = done.push(frame) {
                done.free(&mut self.tools.worker);
                // There is room now.
                let _ = done.push(frame);
            }
        }
        done.free(&mut self.tools.worker);
        whole
    }

    /// Frames for packets that were sent.
    pub(in crate::experiments) fn sent(&self) -> u64 {
        self.sent
    }

    /// What arrived.
    pub(in crate::experiments) fn arrivals(&self) -> &Arrivals {
        &self.arrivals
    }

    /// Begins a new count: what was sent until now, and is lost, counts no more.
    pub(in crate::experiments) fn forget(&mut self, config: StreamConfig) -> Result<(), SetUpError> {
        let expected = Expected { stream: config.stream, ..Expected::default() };
        self.stream = Stream::new(config).map_err(SetUpError::at("stream"))?;
        self.waiting.free(&mut self.tools.worker);
        self.arrivals = Arrivals::new(expected);
        self.sent = 0;
        Ok(())
    }

    /// Closes both ports; what is left has the pool, whose frames are to be home.
    pub(in crate::experiments) fn close(self) -> Tools {
        let Ends { mut tools, sender, receiver, mut waiting, received, .. } = self;
        waiting.free(&mut tools.worker);
        drop((sender, receiver, received));
        tools
    }
}
