//! The sender and the receiver: the product's own ports, generator and sink, on one worker.

use netmem::limits::BATCH_MAX;
use netmem::page::Memory;
use netmem::pool::{Batch, DmaMap, Frame, Pool, PoolConfig};
use netmem::port::{Port, PortState};
use netmem::sync::Worker;
use netmem::system::clock::monotonic_ns;
use netmem_traffic::{Arrival, Arrivals, Expected, Stream, StreamConfig};

use crate::bench::SetUpError;

/// The worker and pool of both ends.
pub(in crate::experiments) struct Tools {
    pub(in crate::experiments) memory: Memory,
    pub(in crate::experiments) worker: Worker,
    pub(in crate::experiments) pool: Pool,
}

impl Tools {
    /// Makes a worker of `memory`, and a pool of `frames` frames.
    ///
    /// # Errors
    /// The failed step and the remedy.
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
    /// Written, and not accepted by the port yet.
    waiting: Batch,
    /// Received, and not judged yet.
    received: Vec<Frame>,
    sent: u64,
}

impl Ends {
    /// Makes the ends of a stream with `config`, on these two ports.
    ///
    /// # Errors
    /// The failed step and the remedy.
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

    /// Checks that both ports are up. The error is the first reason why not.
    pub(in crate::experiments) fn are_up(&mut self) -> Result<(), String> {
        for port in [&mut self.sender, &mut self.receiver] {
            port.kick();
            if let PortState::Down(reason) = port.state() {
                return Err(format!("{}: {reason}", port.name()));
            }
        }
        Ok(())
    }

    /// Posts frames for reception.
    pub(in crate::experiments) fn post(&mut self) {
        let Tools { worker, pool, .. } = &mut self.tools;
        self.receiver.refill(worker, pool);
        self.receiver.kick();
    }

    /// Writes the next burst of at most `n` packets to be sent. Returns the number of packets that wait.
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

    /// Sends the written packets, as far as the port accepts them. Returns their number.
    pub(in crate::experiments) fn send(&mut self) -> usize {
        let sent = self.sender.tx(&mut self.tools.worker, &mut self.waiting);
        self.sender.kick();
        self.sent += sent as u64;
        sent
    }

    /// Frees the sent frames.
    pub(in crate::experiments) fn complete(&mut self) {
        let mut done = Batch::new();
        while self.sender.complete(&mut self.tools.worker, &mut done) > 0 {
            done.free(&mut self.tools.worker);
        }
        self.sender.kick();
    }

    /// Receives a burst, to be judged later. Returns the number of packets.
    #[inline]
    pub(in crate::experiments) fn receive(&mut self) -> usize {
        let mut batch = Batch::new();
        let n = self.receiver.rx(&mut self.tools.worker, &mut batch);
        if n > 0 {
            self.received.extend(batch.drain());
        }
        n
    }

    /// Returns the number of packets that have come and were not received, or None if the port does not report it.
    #[inline]
    pub(in crate::experiments) fn waiting(&mut self) -> Option<usize> {
        self.receiver.rx_pending()
    }

    /// Lets the receiving port do its work of a round.
    pub(in crate::experiments) fn kick(&mut self) {
        self.receiver.kick();
    }

    /// Judges the received packets and frees them. Returns the number of unchanged packets of the stream.
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

    /// Returns the number of sent packets.
    pub(in crate::experiments) fn sent(&self) -> u64 {
        self.sent
    }

    /// Returns the arrivals.
    pub(in crate::experiments) fn arrivals(&self) -> &Arrivals {
        &self.arrivals
    }

    /// Begins a new count. Packets sent before, and lost, do not count any more.
    pub(in crate::experiments) fn forget(&mut self, config: StreamConfig) -> Result<(), SetUpError> {
        let expected = Expected { stream: config.stream, ..Expected::default() };
        self.stream = Stream::new(config).map_err(SetUpError::at("stream"))?;
        self.waiting.free(&mut self.tools.worker);
        self.arrivals = Arrivals::new(expected);
        self.sent = 0;
        Ok(())
    }

    /// Closes both ports. Returns the tools with the pool, to which all frames must return.
    pub(in crate::experiments) fn close(self) -> Tools {
        let Ends { mut tools, sender, receiver, mut waiting, received, .. } = self;
        waiting.free(&mut tools.worker);
        drop((sender, receiver, received));
        tools
    }
}
