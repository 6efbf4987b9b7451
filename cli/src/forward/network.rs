//! HOT: the built-in network at the far ends of each worker's two mem ports. Host 0 generates, host 1 verifies.

use super::offer::Offer;
use super::phases::Phases;
use netmem::limits::BATCH_MAX;
use netmem::port::mem::MemDevice;
use netmem_traffic::{Fault, Hop, Outcome, Sink, Tally, Traffic, TrafficError};
use std::thread;

/// Packets sent and verified in one turn each.
const BURST: usize = BATCH_MAX;
/// Turns in which nothing moved, before other threads may run.
const PATIENCE: u32 = 64;

/// What every worker's mem ports are joined to.
pub struct Network {
    links: Vec<Link>,
    /// Packets that may be under way on all links; None where they cannot be paused.
    window: Option<u64>,
    /// One for all: what a worker received another may send.
    sink: Sink,
    first_fault: Option<Fault>,
}

/// The far ends of one worker's wires, and what sends into them.
struct Link {
    devices: [MemDevice; 2],
    /// None where the worker gets packets from other workers only.
    generator: Option<Generator>,
}

struct Generator {
    traffic: Traffic,
    /// Packets still to be sent.
    left: u64,
    /// Packets at the head of the next burst that were refused before.
    waiting: usize,
    sent: u64,
    refused: u64,
}

/// What the network counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Traveled {
    /// Packets put onto the wires.
    pub sent: u64,
    /// Packets that found no place at first and were tried again, each counted once.
    pub refused: u64,
    /// What the sink found.
    pub sink: Tally,
    /// What was wrong with the first corrupt frame.
    pub first_fault: Option<Fault>,
}

impl Network {
    /// A network that sends what is offered over the wires of as many workers as are to receive, of rings with
    /// `ring` places, each flow over one wire, and expects it to come through `hop`. The number of packets is that of all
    /// together.
    ///
    /// # Errors
    /// [`TrafficError`] when there is no such traffic.
    pub fn new(
        devices: Vec<[MemDevice; 2]>,
        ring: u32,
        offer: &Offer,
        hop: Hop,
    ) -> Result<Network, TrafficError> {
        let generators = offer.generators.min(devices.len());
        let (mut generating, mut links) = ((0..generators).map(|at| Generator::new(at, offer)), Vec::new());
        for devices in devices {
            links.push(Link { devices, generator: generating.next().transpose()? });
        }
        Ok(Network {
            links,
            window: offer.pause.then_some(u64::from(ring) * generators as u64),
            sink: Sink::new(generators * offer.flows, offer.size, hop)?,
            first_fault: None,
        })
    }

    /// Sends until there is nothing left to send or it is to stop, and verifies until the forwarders are drained;
    /// `ended` counts the packets that they dropped or passed on.
    pub fn run(mut self, phases: &Phases, ended: impl Fn() -> u64) -> Traveled {
        let _ended = Ended(phases);
        let mut idle = 0;
        while self.generators().any(|generator| generator.left > 0) && !phases.is_sending_to_stop() {
            let moved = self.send(&ended) + self.collect();
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
        let sum = |count: fn(&Generator) -> u64| self.generators().map(count).sum();
        Traveled {
            sent: sum(|generator| generator.sent),
            refused: sum(|generator| generator.refused),
            sink: self.sink.tally(),
            first_fault: self.first_fault,
        }
    }

    fn generators(&self) -> impl Iterator<Item = &Generator> {
        self.links.iter().filter_map(|link| link.generator.as_ref())
    }

    /// Puts a burst onto each wire, as far as it may; returns how many packets the ports got.
    #[inline]
    fn send(&mut self, ended: &impl Fn() -> u64) -> usize {
        let Some(window) = self.window else {
            return self.links.iter_mut().map(|link| link.send(BURST, false)).sum();
        };
        let sent: u64 = self.generators().map(|generator| generator.sent).sum();
        let bursts = (self.links.len() * BURST) as u64;
        let mut arrived = self.sink.tally().received;
        if window + arrived < sent + bursts {
            // What was dropped or passed on the way is not under way any more.
            arrived += ended();
        }
        let mut room = usize::try_from((window + arrived).saturating_sub(sent)).unwrap_or(usize::MAX);
        let mut moved = 0;
        for link in &mut self.links {
            let delivered = link.send(room, true);
            room -= delivered;
            moved += delivered;
        }
        moved
    }

    /// Takes what all ports sent off the wires and verifies it; returns how many packets.
    ///
    /// Nothing should leave by a port that a generator sends to: what does is corrupt to the sink, by its link addresses.
    #[inline]
    fn collect(&mut self) -> usize {
        let Network { links, sink, first_fault, .. } = self;
        let mut collected = 0;
        for device in links.iter_mut().flat_map(|link| &mut link.devices) {
            collected += device.collect(BURST, |frame| {
                if let Outcome::Corrupt(fault) = sink.verify(frame) {
                    first_fault.get_or_insert(fault);
                }
            });
        }
        collected
    }
}

impl Link {
    /// Puts a burst onto the wire, at most `room` packets where it can be paused; returns how many packets the port got.
    #[inline]
    fn send(&mut self, room: usize, paused: bool) -> usize {
        let Some(generator) = &mut self.generator else { return 0 };
        if paused {
            generator.send_paused(&mut self.devices[0], room)
        } else {
            generator.send(&mut self.devices[0])
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
    /// The `number`-th generator of its share of what is offered.
    fn new(number: usize, offer: &Offer) -> Result<Generator, TrafficError> {
        let flows = number * offer.flows..(number + 1) * offer.flows;
        let generators = offer.generators as u64;
        let share = |all| all / generators + u64::from((number as u64) < all % generators);
        let left = offer.packets.map_or(u64::MAX, share);
        let traffic = Traffic::of(flows, offer.size)?;
        Ok(Generator { traffic, left, waiting: 0, sent: 0, refused: 0 })
    }

    /// Packets of the next burst.
    #[inline]
    fn burst(&self) -> usize {
        BURST.min(usize::try_from(self.left).unwrap_or(BURST))
    }

    /// Puts a burst onto the wire; what finds no place is dropped there.
    #[inline]
    fn send(&mut self, device: &mut MemDevice) -> usize {
        let burst = self.burst();
        let delivered = device.deliver_or_drop(burst, |room| self.traffic.write(room));
        self.count(burst);
        delivered
    }

    /// Puts a burst of at most `room` packets onto the wire; what finds no place waits.
    #[inline]
    fn send_paused(&mut self, device: &mut MemDevice, room: usize) -> usize {
        let burst = self.burst();
        let delivered = device.deliver(burst.min(room), |room| self.traffic.write(room));
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
