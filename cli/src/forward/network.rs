//! HOT: the built-in network at the far ends of the two mem ports. Host 0 generates, host 1 verifies.

use super::phases::Phases;
use super::plan::Offer;
use netmem::forward::Meters;
use netmem::forward::traffic::{Fault, Hop, Outcome, Sink, Tally, Traffic, TrafficError};
use netmem::limits::BATCH_MAX;
use netmem::port::mem::MemDevice;
use std::thread;

/// Packets sent and verified in one turn each.
const BURST: usize = BATCH_MAX;
/// Turns in which nothing moved, before other threads may run.
const PATIENCE: u32 = 64;

/// Generator, sink, and the wires' far ends.
pub struct Network {
    devices: [MemDevice; 2],
    generator: Generator,
    sink: Sink,
    first_fault: Option<Fault>,
}

struct Generator {
    traffic: Traffic,
    /// Packets still to be sent.
    left: u64,
    /// Packets that may be under way; None where the link cannot be paused.
    window: Option<u64>,
    /// Packets at the head of the next burst that were refused before.
    waiting: usize,
    sent: u64,
    refused: u64,
}

/// What the network counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Traveled {
    /// Packets put onto the wire.
    pub sent: u64,
    /// Packets that found no place at first and were tried again, each counted once.
    pub refused: u64,
    /// What the sink found.
    pub sink: Tally,
    /// What was wrong with the first corrupt frame.
    pub first_fault: Option<Fault>,
}

impl Network {
    /// A network that sends what is offered over wires with rings of `ring` places, and expects it to come
    /// through `hop`.
    ///
    /// # Errors
    /// [`TrafficError`] when there is no such traffic.
    pub fn new(devices: [MemDevice; 2], ring: u32, offer: &Offer, hop: Hop) -> Result<Network, TrafficError> {
        let generator = Generator {
            traffic: Traffic::new(offer.flows, offer.size)?,
            left: offer.packets.unwrap_or(u64::MAX),
            window: offer.pause.then_some(u64::from(ring)),
            waiting: 0,
            sent: 0,
            refused: 0,
        };
        let sink = Sink::new(offer.flows, offer.size, hop)?;
        Ok(Network { devices, generator, sink, first_fault: None })
    }

    /// Sends until there is nothing left to send or it is to stop, and verifies until the forwarder, whose
    /// meters these are, is drained.
    pub fn run(mut self, phases: &Phases, meters: &Meters) -> Traveled {
        let _ended = Ended(phases);
        let mut idle = 0;
        while self.generator.left > 0 && !phases.is_sending_to_stop() {
            let arrived = self.sink.tally().received;
            let moved = self.generator.send(&mut self.devices[0], arrived, meters) + self.collect();
            idle = if moved == 0 { idle + 1 } else { 0 };
            if idle > PATIENCE {
                thread::yield_now();
            }
        }
        phases.sending_over();
        while !phases.is_drained() {
            if self.collect() == 0 {
                thread::yield_now();
            }
        }
        while self.collect() > 0 {}
        let Network { generator: Generator { sent, refused, .. }, sink, first_fault, .. } = self;
        Traveled { sent, refused, sink: sink.tally(), first_fault }
    }

    /// Takes what both ports sent off the wires and verifies it; returns how many packets.
    ///
    /// Nothing should leave by port 0: what does is corrupt to the sink, by its link addresses.
    #[inline]
    fn collect(&mut self) -> usize {
        let Network { devices, sink, first_fault, .. } = self;
        let mut collected = 0;
        for device in devices {
            collected += device.collect(BURST, |frame| {
                if let Outcome::Corrupt(fault) = sink.verify(frame) {
                    first_fault.get_or_insert(fault);
                }
            });
        }
        collected
    }
}

/// Says that the network has ended when it is dropped, also by a panic.
struct Ended<'a>(&'a Phases);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.network_ended();
    }
}

impl Generator {
    /// Puts a burst onto the wire; returns how many packets the port got. `arrived` came out at the other
    /// end.
    #[inline]
    fn send(&mut self, device: &mut MemDevice, arrived: u64, meters: &Meters) -> usize {
        let burst = BURST.min(usize::try_from(self.left).unwrap_or(BURST));
        let Some(window) = self.window else {
            let delivered = device.deliver_or_drop(burst, |room| self.traffic.write(room));
            self.count(burst);
            return delivered;
        };
        let mut ended = arrived;
        if window + ended < self.sent + burst as u64 {
            // What was dropped or passed on the way is not under way any more.
            ended += meters.drops.total() + meters.passed.get();
        }
        let room = (window + ended).saturating_sub(self.sent);
        let allowed = burst.min(usize::try_from(room).unwrap_or(burst));
        let delivered = device.deliver(allowed, |room| self.traffic.write(room));
        self.count(delivered);
        let waited = self.waiting.saturating_sub(delivered);
        self.waiting = burst - delivered;
        self.refused += (self.waiting - waited) as u64;
        delivered
    }

    #[inline]
    fn count(&mut self, sent: usize) {
        self.sent += sent as u64;
        self.left -= sent as u64;
    }
}
