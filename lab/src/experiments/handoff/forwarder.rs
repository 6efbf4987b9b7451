//! One worker that runs the product's forwarder: routes, a port for each network, and heads and filter rules if
//! requested. The headers' line of every packet is written when it comes in and compared when it leaves, by the worker
//! that receives and by the one that sends. A router changes this line, so it cannot be written once. A card's DMA would
//! take no core for it.

use std::sync::Arc;

use netmem::forward::{Forwarder, Meters};
use netmem::limits::{BATCH_MAX, CACHE_LINE};
use netmem::port::mem::MemDevice;
use netmem::sync::Worker;
use netmem_router::Fib;
use netmem_router::ip::forward_ip;
use netmem_traffic::{INTERFACES, Traffic};

use super::turn::{Arriving, FLOWS, Left, NUMBERS, Turn};
use crate::bench::SetUpError;
use crate::method::clock::{Clock, Tsc};

/// The offsets of a packet's flow and number in the payload, in the headers' line. No checksum covers them.
const FLOW: std::ops::Range<usize> = 46..48;
const NUMBER: std::ops::Range<usize> = 48..50;

/// The offset of the UDP checksum: 0, so that the number can change.
const CHECKSUM: std::ops::Range<usize> = 40..42;

/// The headers' line of a packet.
type Line = [u8; CACHE_LINE];

/// The headers' line of each flow as it comes in, and as it must leave.
#[derive(Debug)]
pub(super) struct Lines {
    /// As it comes in, and as it leaves.
    of_flow: [(Line, Line); FLOWS],
    /// Bytes of a packet.
    bytes: usize,
}

impl Lines {
    /// Makes the lines of the lab's traffic through this table, coming in on its first port.
    pub(super) fn new(fib: &Fib, bytes: usize) -> Result<Lines, SetUpError> {
        let mut traffic = Traffic::new(FLOWS, bytes).map_err(SetUpError::at("traffic"))?;
        let of_flow = std::array::from_fn(|_| {
            let mut packet = vec![0; bytes];
            traffic.write(&mut packet);
            packet[CHECKSUM].fill(0);
            packet[NUMBER].fill(0);
            let line = |packet: &[u8]| std::array::from_fn(|i| packet[i]);
            let incoming = line(&packet);
            forward_ip(&mut packet, &INTERFACES[0], fib);
            (incoming, line(&packet))
        });
        Ok(Lines { of_flow, bytes })
    }

    /// Writes the `nth` packet of all. The flows take turns. Returns its length.
    #[inline]
    fn write(&self, nth: u64, room: &mut [u8]) -> usize {
        let Some(place) = room.first_chunk_mut::<CACHE_LINE>() else { return 0 };
        *place = self.of_flow[nth as usize % FLOWS].0;
        place[NUMBER].copy_from_slice(&((nth / FLOWS as u64 % NUMBERS) as u16).to_be_bytes());
        self.bytes
    }

    /// Returns the flow and the number of a packet that left, or None if the packet is wrong.
    #[inline]
    fn read(&self, data: &[u8]) -> Option<(usize, u64)> {
        let (line, _) = data.split_first_chunk::<CACHE_LINE>().filter(|_| data.len() == self.bytes)?;
        let half = |at: std::ops::Range<usize>| u16::from_be_bytes([line[at.start], line[at.start + 1]]);
        let (flow, number) = (usize::from(half(FLOW)), half(NUMBER));
        let mut wanted = self.of_flow.get(flow)?.1;
        wanted[NUMBER].copy_from_slice(&number.to_be_bytes());
        (wanted == *line).then_some((flow, u64::from(number)))
    }
}

/// The incoming packets.
pub(super) struct Incoming {
    pub(super) devices: Vec<MemDevice>,
    pub(super) burst: usize,
    pub(super) arriving: Arriving,
}

/// One worker.
pub(super) struct Routing {
    pub(super) w: Worker,
    pub(super) forwarder: Forwarder,
    pub(super) meters: Arc<Meters>,
    pub(super) number: usize,
    pub(super) incoming: Option<Incoming>,
    pub(super) out: MemDevice,
    pub(super) lines: Arc<Lines>,
    pub(super) left: Arc<Left>,
    pub(super) generator: Generator,
}

/// The time that a worker takes to play the card: to write incoming packets and to put them into its port. It is taken in
/// few of the rounds, so that reading the clock costs nothing.
#[derive(Debug, Default)]
pub(super) struct Generator {
    rounds: u32,
    /// Ticks of the generator, and of the whole rounds.
    ticks: [u64; 2],
}

/// One round in so many is timed.
const TIMED: u32 = 64;

/// A round that takes longer was interrupted by a pause of the machine, and does not count.
const ROUND_NS: f64 = 1e5;

impl Generator {
    #[inline(always)]
    fn is_timed(&mut self) -> bool {
        self.rounds = self.rounds.wrapping_add(1);
        self.rounds.is_multiple_of(TIMED)
    }

    /// Returns its share of the time, in percent.
    fn share(&self) -> Option<f64> {
        let [own, all] = self.ticks.map(|ticks| ticks as f64);
        (all > 0.0).then(|| 100.0 * own / all)
    }
}

impl Turn for Routing {
    #[inline(never)]
    fn poll(&mut self) -> usize {
        if self.incoming.is_some() && self.generator.is_timed() {
            return self.timed_round();
        }
        self.receive();
        let moved = self.forwarder.poll(&mut self.w);
        self.collect();
        moved
    }

    fn generating(&self) -> Option<f64> {
        self.generator.share()
    }

    fn end(&mut self) -> u64 {
        self.incoming.as_mut().map_or(0, |incoming| incoming.arriving.end())
    }

    fn complete(&mut self) -> u64 {
        self.out.collect(1, |_| ());
        while self.forwarder.poll(&mut self.w) > 0 {}
        self.meters.drops.total()
    }

    fn into_worker(self: Box<Self>) -> Worker {
        self.w
    }
}

impl Routing {
    /// Runs a round. Takes the time of it if packets came in.
    #[cold]
    fn timed_round(&mut self) -> usize {
        let clock = Tsc::new();
        let received = |of: &Self| of.incoming.as_ref().map_or(0, |incoming| incoming.arriving.received);
        let (begun, before) = (clock.ticks(), received(self));
        self.receive();
        let generated = clock.ticks();
        let moved = self.forwarder.poll(&mut self.w);
        self.collect();
        let all_ticks = clock.ticks() - begun;
        let was_paused = all_ticks as f64 > ROUND_NS * clock.ticks_per_ns();
        if received(self) > before && !was_paused {
            let [own, all] = &mut self.generator.ticks;
            *own += generated - begun;
            *all += all_ticks;
        }
        moved
    }

    /// Puts a burst into each port.
    fn receive(&mut self) {
        let Self { incoming: Some(incoming), lines, left, .. } = self else { return };
        let Incoming { devices, burst, arriving } = incoming;
        for device in devices {
            if arriving.is_open(left) {
                let mut nth = arriving.received;
                device.deliver(*burst, |room| {
                    nth += 1;
                    lines.write(nth - 1, room)
                });
                arriving.received = nth;
            }
        }
    }

    /// Lets the network take every packet that leaves at once.
    fn collect(&mut self) {
        let Self { out, lines, left, number, .. } = self;
        loop {
            let (mut late, mut damaged) = (0, 0);
            let done = out.collect(BATCH_MAX, |data| match lines.read(data) {
                Some((flow, number)) => late += u64::from(left.note(flow, number)),
                None => damaged += 1,
            });
            left.late[*number].add(|own| &own.0, late);
            left.damaged[*number].add(|own| &own.0, damaged);
            left.done[*number].add(|own| &own.0, done as u64);
            if done < BATCH_MAX {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::turn::PACKET;
    use super::*;

    #[test]
    fn a_packet_that_was_not_routed_or_was_changed_is_not_one_that_left_well() {
        let lines = Lines::new(&netmem_traffic::router(), PACKET).unwrap();
        let mut packet = [0; PACKET];
        let nth = (5 * FLOWS + 7) as u64;
        assert_eq!(lines.write(nth, &mut packet), PACKET);
        assert_eq!(lines.read(&packet), None);
        forward_ip(&mut packet, &INTERFACES[0], &netmem_traffic::router());
        assert_eq!(lines.read(&packet), Some((7, 5)));
        assert_eq!(lines.read(&packet[..PACKET - 1]), None);
        packet[20] ^= 1;
        assert_eq!(lines.read(&packet), None);
    }
}
