//! HOT: the built-in network at the far ends of each worker's two mem ports. Host 0 generates packets, and host 1
//! verifies them.

use super::offer::Offer;
use super::phases::Phases;
use crate::idle::Idle;
use netmem::limits::BATCH_MAX;
use netmem::port::mem::MemDevice;
use netmem_traffic::{Fault, Hop, Outcome, Sink, Tally, Traffic, TrafficError};
use std::thread;

/// Packets sent and verified in one turn each.
const BURST: usize = BATCH_MAX;

/// The network that every worker's mem ports are joined to.
pub struct Network {
    links: Vec<Link>,
    /// Maximum number of packets in flight on each link, as many as a transmit ring holds. None if links cannot be
    /// paused.
    window: Option<u64>,
    /// Packets of one link may leave by any other: all links share one window.
    together: bool,
    /// One sink for all, because another worker may send what one received.
    sink: Sink,
    first_fault: Option<Fault>,
}

/// The far ends of one worker's wires, and the generator that sends into them.
struct Link {
    devices: [MemDevice; 2],
    /// None if the worker only gets packets from other workers.
    generator: Option<Generator>,
    /// Packets that the worker transmitted.
    arrived: u64,
}

struct Generator {
    traffic: Traffic,
    /// Packets that are still to be sent.
    left: u64,
    /// Packets at the head of the next burst that were refused before.
    waiting: usize,
    sent: u64,
    refused: u64,
}

/// The counts of the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Traveled {
    /// Packets put onto the wires.
    pub sent: u64,
    /// Packets that were refused at first and tried again, each counted once.
    pub refused: u64,
    /// The counts of the sink.
    pub sink: Tally,
    /// The fault of the first corrupt frame.
    pub first_fault: Option<Fault>,
}

/// Counts the packets that never come back: those dropped, including between workers, and those passed.
pub trait Ended {
    /// Returns the count of one worker.
    fn of(&self, worker: usize) -> u64;
    /// Returns the count of all workers, and between them.
    fn of_all(&self) -> u64;
}

impl Network {
    /// Makes a network that sends the offered packets over the wires of all receiving workers, each flow over one
    /// wire, and expects them to come through `hop`. The wires' rings have `ring` slots. The number of packets is
    /// that of all workers together. Workers that are `together` hand packets to each other.
    ///
    /// # Errors
    /// [`TrafficError`] if there is no such traffic.
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

    /// Sends until nothing is left to send or it is to stop, and verifies until the forwarders are drained. `ended`
    /// counts the packets that never come back.
    pub fn run(&mut self, phases: &Phases, ended: &impl Ended) -> Traveled {
        let _over = Over(phases);
        let mut idle = Idle::default();
        while self.generators().any(|generator| generator.left > 0) && !phases.is_sending_to_stop() {
            let moved = self.send(ended) + self.collect();
            idle.round(moved > 0);
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

    /// Puts a burst onto each wire, as far as there is room. Returns the number of packets that the ports got.
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
        // More packets may have arrived than were sent: routers send packets of their own.
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

    /// Takes the packets that all ports transmitted off the wires and verifies them. Returns their number.
    ///
    /// No packet should leave by a port that a generator sends to. The sink counts such a packet as corrupt,
    /// because of its MAC addresses.
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

/// Returns the number of packets that may be sent in addition to those `under_way`. `ended` is called only if fewer
/// than `bursts` would be left.
#[inline]
fn room(window: u64, under_way: u64, bursts: u64, ended: impl Fn() -> u64) -> usize {
    let short = window < under_way + bursts;
    let under_way = if short { under_way.saturating_sub(ended()) } else { under_way };
    usize::try_from(window.saturating_sub(under_way)).unwrap_or(usize::MAX)
}

impl Link {
    /// Returns the number of packets that the link's generator sent and its worker has not transmitted.
    #[inline]
    fn under_way(&self) -> u64 {
        self.generator.as_ref().map_or(0, |generator| generator.sent.saturating_sub(self.arrived))
    }

    /// Puts a burst onto the wire, at most `room` packets if it can be paused. Returns the number of packets that
    /// the port got.
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

/// Records that the network has ended when it is dropped, even by a panic.
struct Over<'a>(&'a Phases);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.network_ended();
    }
}

impl Generator {
    /// Makes the `number`-th generator, with its share of the offered packets.
    fn new(number: usize, offer: &Offer) -> Result<Generator, TrafficError> {
        let flows = number * offer.flows..(number + 1) * offer.flows;
        let generators = offer.generators as u64;
        let share = |all| all / generators + u64::from((number as u64) < all % generators);
        let left = offer.packets.map_or(u64::MAX, share);
        let traffic = Traffic::of(flows, offer.size)?;
        Ok(Generator { traffic, left, waiting: 0, sent: 0, refused: 0 })
    }

    /// Returns the number of packets of the next burst.
    #[inline]
    fn burst(&self) -> usize {
        BURST.min(usize::try_from(self.left).unwrap_or(BURST))
    }

    /// Puts a burst onto the wire. Packets for which there is no room are dropped there.
    #[inline]
    fn send(&mut self, device: &mut MemDevice) -> usize {
        let burst = self.burst();
        let delivered = device.deliver_or_drop(burst, |room| self.traffic.write(room));
        self.count(burst);
        delivered
    }

    /// Puts a burst of at most `room` packets onto the wire. Packets for which there is no room wait.
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
    use netmem::port::mem::{MemConfig, MemPort};
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

    /// Returns two workers' links, and the ports of each worker.
    fn two_links(together: bool) -> (Network, Vec<[MemPort; 2]>) {
        let config = MemConfig { ring: RING, coalesce: RING / 2 };
        let wires = |link: usize| {
            [0, 1].map(|end| MemPort::pair(&(2 * link + end).to_string(), &config).expect("a wire"))
        };
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

    /// Seen on a loaded machine: the first worker's link had twice as many packets in flight as a transmit ring
    /// holds, because it used the room that the second worker's link did not need. A network that was stopped
    /// between two checks lost 128 packets of links that pause.
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
