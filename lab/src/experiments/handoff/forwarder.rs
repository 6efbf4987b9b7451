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

use super::turn::{Arriving, FLOWS, Left, NUMBERS, PACKET, Turn};
use crate::bench::SetUpError;

/// The offsets of a packet's flow and number in the payload, in the headers' line. No checksum covers them.
const FLOW: std::ops::Range<usize> = 46..48;
const NUMBER: std::ops::Range<usize> = 48..50;

/// The offset of the UDP checksum: 0, so that the number can change.
const CHECKSUM: std::ops::Range<usize> = 40..42;

/// The headers' line of a packet.
type Line = [u8; CACHE_LINE];

/// The headers' line of each flow as it comes in, and as it must leave.
#[derive(Debug)]
pub(super) struct Lines([(Line, Line); FLOWS]);

impl Lines {
    /// Makes the lines of the lab's traffic through this table, coming in on its first port.
    pub(super) fn new(fib: &Fib) -> Result<Lines, SetUpError> {
        let mut traffic = Traffic::new(FLOWS, PACKET).map_err(SetUpError::at("traffic"))?;
        Ok(Lines(std::array::from_fn(|_| {
            let mut packet = [0; PACKET];
            traffic.write(&mut packet);
            packet[CHECKSUM].fill(0);
            packet[NUMBER].fill(0);
            let line = |packet: &[u8; PACKET]| std::array::from_fn(|i| packet[i]);
            let incoming = line(&packet);
            forward_ip(&mut packet, &INTERFACES[0], fib);
            (incoming, line(&packet))
        })))
    }

    /// Writes the `nth` packet of all. The flows take turns. Returns its length.
    #[inline]
    fn write(&self, nth: u64, room: &mut [u8]) -> usize {
        let Some(place) = room.first_chunk_mut::<CACHE_LINE>() else { return 0 };
        *place = self.0[nth as usize % FLOWS].0;
        place[NUMBER].copy_from_slice(&((nth / FLOWS as u64 % NUMBERS) as u16).to_be_bytes());
        PACKET
    }

    /// Returns the flow and the number of a packet that left, or None if the packet is wrong.
    #[inline]
    fn read(&self, data: &[u8]) -> Option<(usize, u64)> {
        let (line, _) = data.split_first_chunk::<CACHE_LINE>().filter(|_| data.len() == PACKET)?;
        let half = |at: std::ops::Range<usize>| u16::from_be_bytes([line[at.start], line[at.start + 1]]);
        let (flow, number) = (usize::from(half(FLOW)), half(NUMBER));
        let mut wanted = self.0.get(flow)?.1;
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
}

impl Turn for Routing {
    #[inline(never)]
    fn poll(&mut self) -> usize {
        self.receive();
        let moved = self.forwarder.poll(&mut self.w);
        self.collect();
        moved
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
    use super::*;

    #[test]
    fn a_packet_that_was_not_routed_or_was_changed_is_not_one_that_left_well() {
        let lines = Lines::new(&netmem_traffic::router()).unwrap();
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
