//! HOT: the built-in network at the far ends of each worker's two mem ports. Host 0 generates, host 1 verifies.

use super::phases::Phases;
use super::plan::Offer;
use netmem::forward::Meters;
use netmem::forward::traffic::{Fault, Hop, Outcome, Sink, Tally, Traffic, TrafficError};
use netmem::limits::BATCH_MAX;
use netmem::port::mem::MemDevice;
use std::sync::Arc;
use std::thread;

/// Packets sent and verified in one turn each.
const BURST: usize = BATCH_MAX;
/// Turns in which nothing moved, before other threads may run.
const PATIENCE: u32 = 64;

/// What every worker's mem ports are joined to.
pub struct Network {
    links: Vec<Link>,
}

/// Generator, sink, and the far ends of one worker's wires.
struct Link {
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
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
    /// A network that sends what is offered over each worker's wires, of rings with `ring` places, and expects it to come
    /// through `hop`. The number of packets is that of all together.
    ///
    /// # Errors
    /// [`TrafficError`] when there is no such traffic.
    pub fn new(
        devices: Vec<[MemDevice; 2]>,
        ring: u32,
        offer: &Offer,
        hop: Hop,
    ) -> Result<Network, TrafficError> {
        let links = devices.len() as u64;
        let link = |(number, devices)| {
            let packets = offer.packets.map_or(u64::MAX, |all| all / links + u64::from(number < all % links));
            Link::new(devices, ring, offer, packets, hop)
        };
        Ok(Network { links: (0..).zip(devices).map(link).collect::<Result<_, _>>()? })
    }

    /// Sends until there is nothing left to send or it is to stop, and verifies until the forwarders, whose
    /// meters these are, are drained.
    pub fn run(mut self, phases: &Phases, meters: &[Arc<Meters>]) -> Traveled {
        let _ended = Ended(phases);
        let mut idle = 0;
        while self.links.iter().any(|link| link.generator.left > 0) && !phases.is_sending_to_stop() {
            let moved: usize =
                self.links.iter_mut().zip(meters).map(|(link, meters)| link.turn(meters)).sum();
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
        self.links.iter().map(Link::traveled).fold(Traveled::default(), Traveled::with)
    }

    fn collect(&mut self) -> usize {
        self.links.iter_mut().map(Link::collect).sum()
    }
}

impl Link {
    fn new(
        devices: [MemDevice; 2],
        ring: u32,
        offer: &Offer,
        packets: u64,
        hop: Hop,
    ) -> Result<Link, TrafficError> {
        let generator = Generator {
            traffic: Traffic::new(offer.flows, offer.size)?,
            left: packets,
            window: offer.pause.then_some(u64::from(ring)),
            waiting: 0,
            sent: 0,
            refused: 0,
        };
        let sink = Sink::new(offer.flows, offer.size, hop)?;
        Ok(Link { devices, generator, sink, first_fault: None })
    }

    /// Sends a burst and collects what came; returns how many packets moved.
    #[inline]
    fn turn(&mut self, meters: &Meters) -> usize {
        let arrived = self.sink.tally().received;
        self.generator.send(&mut self.devices[0], arrived, meters) + self.collect()
    }

    /// Takes what both ports sent off the wires and verifies it; returns how many packets.
    ///
    /// Nothing should leave by port 0: what does is corrupt to the sink, by its link addresses.
    #[inline]
    fn collect(&mut self) -> usize {
        let Link { devices, sink, first_fault, .. } = self;
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

    fn traveled(&self) -> Traveled {
        let Link { generator: Generator { sent, refused, .. }, sink, first_fault, .. } = self;
        Traveled { sent: *sent, refused: *refused, sink: sink.tally(), first_fault: *first_fault }
    }
}

impl Traveled {
    /// Together with what another link counted.
    fn with(self, other: Traveled) -> Traveled {
        let (mine, its) = (self.sink, other.sink);
        let sink = Tally {
            received: mine.received + its.received,
            corrupt: mine.corrupt + its.corrupt,
            reordered: mine.reordered + its.reordered,
            duplicates: mine.duplicates + its.duplicates,
            missing: mine.missing + its.missing,
        };
        Traveled {
            sent: self.sent + other.sent,
            refused: self.refused + other.refused,
            sink,
            first_fault: self.first_fault.or(other.first_fault),
        }
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
