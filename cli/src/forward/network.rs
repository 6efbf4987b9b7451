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
    /// Packets that may be under way on each link, as many as a transmit ring holds; None where links cannot be paused.
    window: Option<u64>,
    /// What one link brings may leave by any other: all of them share one window.
    together: bool,
    /// One for all: what a worker received another may send.
    sink: Sink,
    first_fault: Option<Fault>,
}

/// The far ends of one worker's wires, and what sends into them.
struct Link {
    devices: [MemDevice; 2],
    /// None where the worker gets packets from other workers only.
    generator: Option<Generator>,
    /// Packets that the worker sent off.
    arrived: u64,
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

/// Counts the packets that never come back: those dropped, also on their way between workers, and those passed.
pub trait Ended {
    /// By one worker.
    fn of(&self, worker: usize) -> u64;
    /// By all workers, and between them.
    fn of_all(&self) -> u64;
}

impl Network {
    /// A network that sends what is offered over the wires of as many workers as are to receive, of rings with
    /// `ring` places, each flow over one wire, and expects it to come through `hop`. The number of packets is that of all
    /// together. Workers that are `together` hand packets to each other.
    ///
    /// # Errors
    /// [`TrafficError`] when there is no such traffic.
    pub fn new(
        devices: Vec<[MemDevice; 2]>,
        ring: u32,
        offer: &Offer,
        hop: Hop,
        together: bool,
    ) -> Result<Network, TrafficError> {
        let generators = offer.generators.min(devices.len());
        let (mut generating, mut links) = ((0..generators).map(|at| Generator::new(at, offer)), Vec::new());
        for devices in devices {
            links.push(Link { devices, generator: generating.next().transpose()?, arrived: 0 });
        }
        Ok(Network {
            links,
            window: offer.pause.then_some(u64::from(ring)),
            together,
            sink: Sink::new(generators * offer.flows, offer.size, hop)?,
            first_fault: None,
        })
    }

    /// Sends until there is nothing left to send or it is to stop, and verifies until the forwarders are drained;
    /// `ended` counts what never comes back.
    pub fn run(mut self, phases: &Phases, ended: &impl Ended) -> Traveled {
        let _over = Over(phases);
        let mut idle = 0;
        while self.generators().any(|generator| generator.left > 0) && !phases.is_sending_to_stop() {
            let moved = self.send(ended) + self.collect();
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
    fn send(&mut self, ended: &impl Ended) -> usize {
        let Some(window) = self.window else {
            return self.links.iter_mut().map(|link| link.send(BURST, false)).sum();
        };
        if !self.together {
            let each = |(number, link): (usize, &mut Link)| {
                let room = room(window, link.under_way(), BURST as u64, || ended.of(number));
                link.send(room, true)
            };
            return self.links.iter_mut().enumerate().map(each).sum();
        }
        let sent: u64 = self.generators().map(|generator| generator.sent).sum();
        // More may have arrived than was sent: routers send packets of their own.
        let under_way = sent.saturating_sub(self.sink.tally().received);
        let mut room = room(window, under_way, (self.links.len() * BURST) as u64, || ended.of_all());
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
        for link in links {
            for device in &mut link.devices {
                let arrived = device.collect(BURST, |frame| {
                    if let Outcome::Corrupt(fault) = sink.verify(frame) {
                        first_fault.get_or_insert(fault);
                    }
                });
                link.arrived += arrived as u64;
                collected += arrived;
            }
        }
        collected
    }
}

/// Packets that may be put on the way beside those that are `under_way` by what has arrived. What has `ended` is asked for only
/// where fewer than `bursts` would be left.
#[inline]
fn room(window: u64, under_way: u64, bursts: u64, ended: impl Fn() -> u64) -> usize {
    let short = window < under_way + bursts;
    let under_way = if short { under_way.saturating_sub(ended()) } else { under_way };
    usize::try_from(window.saturating_sub(under_way)).unwrap_or(usize::MAX)
}

impl Link {
    /// Packets that the link's generator sent and its worker has not sent off.
    #[inline]
    fn under_way(&self) -> u64 {
        self.generator.as_ref().map_or(0, |generator| generator.sent.saturating_sub(self.arrived))
    }

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
struct Over<'a>(&'a Phases);

impl Drop for Over<'_> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use netmem::port::mem::{MemConfig, MemPort, wire};
    use netmem::port::{Fill, Rx, Tx};
    use netmem::{Batch, Memory, MemoryConfig, Pool, PoolConfig};

    const RING: usize = 64;

    struct Nothing;

    impl Ended for Nothing {
        fn of(&self, _worker: usize) -> u64 {
            0
        }
        fn of_all(&self) -> u64 {
            0
        }
    }

    /// Two workers' links, and the ports that each worker has.
    fn two_links(together: bool) -> (Network, Vec<[MemPort; 2]>) {
        let config = MemConfig { ring: RING, coalesce: RING / 2 };
        let wires =
            |link: usize| [0, 1].map(|end| wire(&(2 * link + end).to_string(), &config).expect("a wire"));
        let (mut ports, mut devices) = (Vec::new(), Vec::new());
        for [one, other] in [0, 1].map(wires) {
            ports.push([one.0, other.0]);
            devices.push([one.1, other.1]);
        }
        let offer = Offer { generators: 2, flows: 5, size: 64, packets: None, pause: true };
        let network =
            Network::new(devices, RING as u32, &offer, Hop::Unchanged, together).expect("a network");
        (network, ports)
    }

    /// Seen on a loaded machine: what the second worker's link had no use for the first one's could have under way beside its own,
    /// twice what a transmit ring holds, and a network that was stopped between two looks lost 128 packets of links that pause.
    #[test]
    fn a_link_that_pauses_never_has_more_under_way_than_a_transmit_ring_holds() {
        let memory = Memory::new(&MemoryConfig { bytes: 4 << 20, ..MemoryConfig::default() }).unwrap();
        let mut w = memory.worker().unwrap();
        let pool = Pool::new(&memory, &mut w, &PoolConfig { frames: 512, ..PoolConfig::default() }).unwrap();
        for together in [false, true] {
            let (mut network, mut ports) = two_links(together);
            network.links[1].generator.as_mut().unwrap().left = 0;
            let [from, to] = &mut ports[0];
            for _worker_is_faster in 0..4 {
                from.refill(&mut w, &pool);
                while network.send(&Nothing) > 0 {}
                let mut frames = Batch::new();
                while from.rx(&mut w, &mut frames) > 0 {
                    to.tx(&mut w, &mut frames);
                    assert!(frames.is_empty(), "the ring is full, together: {together}");
                }
            }
            assert_eq!(
                (to.tx_posted(), network.links[0].under_way()),
                (RING, RING as u64),
                "together: {together}"
            );
        }
    }
}
