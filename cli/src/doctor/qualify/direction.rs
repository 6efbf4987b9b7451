//! One direction of a cable: its packets, and their results. HOT.

use crate::failure::Failure;
use crate::forward::worker_setup::Owner;
use netmem::pool::Batch;
use netmem::wire::{Ipv4, MacAddr, ethernet};
use netmem_traffic::{Addresses, Arrival, Arrivals, Expected, Span, Stream, StreamConfig};
use std::net::Ipv4Addr;

/// Maximum number of packets in flight, fewer than the slots of any ring on the path.
pub const IN_FLIGHT: u64 = 128;
/// Number of times that a packet crosses the cable. Its TTL shows the last lap, and then it is judged.
pub const LAPS: u8 = 32;
/// Number of flows, so that each queue of a card gets some.
const FLOWS: usize = 64;
/// Nanoseconds without any packet after which all packets in flight count as lost, and new ones are made.
const LOST: u64 = 1_000_000_000;
/// One direction.
pub struct Direction {
    stream: Stream,
    arrivals: Arrivals,
    source: Ipv4Addr,
    /// Packets to be sent.
    pub waiting: Batch,
    pub made: u64,
    /// Packets that are not waited for any more: the number made so far when no packet came for [`LOST`].
    given_up: u64,
    /// Number of receptions, over all laps.
    pub laps: u64,
    /// Received frames other than these packets.
    pub foreign: u64,
    /// The time at which the last packet came, or the first was made.
    pub last: u64,
}

impl Direction {
    /// Makes the direction from interface `number` to the other one.
    ///
    /// # Errors
    /// [`Failure::Input`] if there are no packets of these sizes.
    pub fn new(number: u8, macs: [MacAddr; 2], sizes: &[usize]) -> Result<Direction, Failure> {
        let (near, far) = (usize::from(number), 1 - usize::from(number));
        // RFC 2544's networks for measurements.
        let source = Ipv4Addr::new(198, 18, number, 1);
        let target = Ipv4Addr::new(198, 19, number, 1);
        let config = StreamConfig {
            stream: number.into(),
            flows: FLOWS,
            sizes: sizes.to_vec(),
            src_mac: macs[near],
            dst_mac: macs[far],
            addresses: Addresses::V4(Span::one(source), Span::one(target)),
            ttl: LAPS,
            ..StreamConfig::default()
        };
        let expected = Expected {
            stream: number.into(),
            ttl: Some(1),
            dst_mac: Some(macs[far]),
            src_mac: Some(macs[near]),
        };
        Ok(Direction {
            stream: Stream::new(config).map_err(Failure::input)?,
            arrivals: Arrivals::new(expected),
            source,
            waiting: Batch::new(),
            made: 0,
            given_up: 0,
            laps: 0,
            foreign: 0,
            last: 0,
        })
    }

    /// Returns the number of packets that finished their last lap unchanged, each counted once.
    pub fn whole(&self) -> u64 {
        self.arrivals.tally().distinct()
    }

    /// Returns the number of packets that came with a wrong byte.
    pub fn corrupt(&self) -> u64 {
        self.arrivals.tally().corrupt
    }

    /// Returns the number of packets that came twice.
    pub fn duplicates(&self) -> u64 {
        self.arrivals.tally().duplicates
    }

    /// Returns the number of packets that were made and are neither judged nor counted as lost.
    pub fn in_flight(&self) -> u64 {
        let tally = self.arrivals.tally();
        self.made.saturating_sub((tally.distinct() + tally.missing).max(self.given_up))
    }

    /// Judges a received burst. Packets with laps left wait to be sent, and the others stay in the batch.
    pub fn take(&mut self, batch: &mut Batch, now: u64) {
        let mut done = Batch::new();
        for mut frame in batch.drain() {
            let goes_on = match self.packet(frame.data_mut()) {
                Some(packet) if packet.ttl() > 1 => {
                    packet.decrement_ttl();
                    true
                }
                Some(_) => false,
                None => {
                    self.foreign += 1;
                    // A batch has room for the contents of another.
                    drop(done.push(frame));
                    continue;
                }
            };
            self.laps += 1;
            self.last = now;
            if !goes_on && self.arrivals.take(frame.data()) == Arrival::Foreign {
                self.foreign += 1;
            }
            drop(if goes_on { self.waiting.push(frame) } else { done.push(frame) });
        }
        *batch = done;
    }

    /// Makes packets in place of those that are not in flight any more.
    pub fn make(&mut self, owner: &mut Owner, now: u64) {
        if self.last == 0 {
            self.last = now;
        }
        if now.saturating_sub(self.last) > LOST {
            (self.given_up, self.last) = (self.made, now);
        }
        let wanted = IN_FLIGHT.saturating_sub(self.in_flight()).min(self.waiting.room() as u64) as usize;
        let first = self.waiting.len();
        owner.pool.alloc_burst(&mut owner.worker, &mut self.waiting, wanted);
        for frame in &mut self.waiting[first..] {
            // A frame has room for the largest size.
            if let Ok(room) = frame.put(self.stream.next_size()) {
                self.stream.write(room, now);
                self.made += 1;
            }
        }
    }

    /// Returns the IP header of one of these packets, or None for any other frame.
    fn packet<'a>(&self, frame: &'a mut [u8]) -> Option<&'a mut Ipv4> {
        let packet = frame.get_mut(ethernet::HEADER_LEN..)?;
        Ipv4::parse_mut(packet).ok().filter(|packet| packet.src() == self.source)
    }
}
