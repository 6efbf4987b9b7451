//! HOT: the built-in network at the far ends of the two mem ports. Host 0 generates, host 1 verifies.

use super::plan::Offer;
use super::run::Phases;
use netmem::forward::traffic::{Fault, Hop, Outcome, Sink, Tally, Traffic, TrafficError};
use netmem::limits::BATCH_MAX;
use netmem::port::mem::MemDevice;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

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
    pause: bool,
    sent: u64,
    refused: u64,
}

/// What the network counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Traveled {
    /// Packets put onto the wire.
    pub sent: u64,
    /// Packets that found no place and were tried again, counted at every try.
    pub refused: u64,
    /// What the sink found.
    pub sink: Tally,
    /// What was wrong with the first corrupt frame.
    pub first_fault: Option<Fault>,
}

impl Network {
    /// A network that sends what is offered and expects it to come through `hop`.
    ///
    /// # Errors
    /// [`TrafficError`] when there is no such traffic.
    pub fn new(devices: [MemDevice; 2], offer: &Offer, hop: Hop) -> Result<Network, TrafficError> {
        let generator = Generator {
            traffic: Traffic::new(offer.flows, offer.size)?,
            left: offer.packets.unwrap_or(u64::MAX),
            pause: offer.pause,
            sent: 0,
            refused: 0,
        };
        Ok(Network { devices, generator, sink: Sink::new(offer.flows, offer.size, hop)?, first_fault: None })
    }

    /// Sends until there is nothing left to send or `phases` says to stop, verifies until the forwarder is drained.
    pub fn run(mut self, phases: &Phases) -> Traveled {
        let mut idle = 0;
        while self.generator.left > 0 && !phases.stop_sending.load(Relaxed) {
            let moved = self.generator.send(&mut self.devices[0]) + self.collect();
            idle = if moved == 0 { idle + 1 } else { 0 };
            if idle > PATIENCE {
                std::thread::yield_now();
            }
        }
        // Release: pairs with the Acquire in `run::Phases::sending_is_over`; all packets are in their ring.
        phases.sending_over.store(true, Release);
        // Acquire: pairs with the Release in `run`, which comes after the forwarder's last packet.
        while !phases.drained.load(Acquire) {
            if self.collect() == 0 {
                std::thread::yield_now();
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

impl Generator {
    /// Puts a burst onto the wire; returns how many packets the port got.
    #[inline]
    fn send(&mut self, device: &mut MemDevice) -> usize {
        let Generator { traffic, left, .. } = self;
        let burst = BURST.min(usize::try_from(*left).unwrap_or(BURST));
        let write = |room: &mut [u8]| traffic.write(room);
        let (delivered, sent) = if self.pause {
            let delivered = device.deliver(burst, write);
            self.refused += (burst - delivered) as u64;
            (delivered, delivered)
        } else {
            (device.deliver_or_drop(burst, write), burst)
        };
        self.sent += sent as u64;
        self.left -= sent as u64;
        delivered
    }
}
