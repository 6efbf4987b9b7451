//! Mirrors: clones of sent frames, held while the forwarder goes on.

use super::*;
use netmem::forward::PacketPath;
use netmem::forward::mirror::{MirrorReader, mirror};
use netmem::packet::{HeadCache, ReadyPackets};
use netmem::pool::SharedFrame;
use std::collections::VecDeque;

impl Rig {
    fn mirrored(&mut self, frames: u32) -> MirrorReader {
        let (mirror, reader) = mirror(frames);
        self.forwarder.add_mirror(mirror);
        self.forwarder.poll(&mut self.w);
        reader
    }

    /// Sends `n` packets through. A sink verifies them, and `between` runs each round.
    fn forward(&mut self, n: usize, mut between: impl FnMut(&mut Worker)) {
        let (mut traffic, mut sink) =
            (Traffic::new(5, 200).unwrap(), Sink::new(5, 200, Hop::Routed).unwrap());
        let mut sent = 0;
        while sent < n {
            sent += self.devices[0].deliver((n - sent).min(64), |room| traffic.write(room));
            self.forwarder.poll(&mut self.w);
            self.devices[1].collect(64, |data| check(&mut sink, data));
            between(&mut self.w);
            self.check();
        }
        self.settle(|data| check(&mut sink, data));
        assert_eq!((sink.tally().received, sink.tally().corrupt), (n as u64, 0));
    }
}

#[test]
fn clones_are_unchanged_while_other_frames_are_reused_and_are_freed_at_the_last_release() {
    for packets in [false, true] {
        let mut rig = rig(1024, ip());
        if packets {
            let heads = HeadCache::new(&rig.memory).unwrap();
            let pairs = ReadyPackets::new(&rig.pool, &heads, 50);
            rig.forwarder.set_packet_path(PacketPath::new(heads).with_ready_packets(pairs));
        }
        let (mut one, mut other) = (rig.mirrored(1024), rig.mirrored(1024));
        let (mut held, mut seen) = (VecDeque::<SharedFrame>::new(), 0);
        let mut sink = Sink::new(5, 200, Hop::Routed).unwrap();
        rig.forward(5_000, |w| {
            seen += one.read(64, |claim| held.push_back(claim));
            other.read(64, |claim| claim.free(w));
            while held.len() > 300 {
                let oldest = held.pop_front().unwrap();
                check(&mut sink, oldest.data());
                oldest.free(w);
            }
        });
        let missed = one.counters().missed.get() + other.counters().missed.get();
        assert_eq!((missed, one.counters().taken.get()), (0, 5_000), "both kept up");
        one.read(5_000, |claim| held.push_back(claim));
        assert!(seen > 4_000 && rig.pool.ledger().owned as usize >= held.len());
        held.into_iter().for_each(|claim| {
            check(&mut sink, claim.data());
            drop(claim);
        });
        assert_eq!((sink.tally().received, sink.tally().corrupt, sink.tally().reordered), (5_000, 0, 0));
        drop((one, other));
        rig.end();
    }
}

#[test]
fn a_tap_whose_reader_stopped_counts_missed_frames_and_one_that_is_gone_holds_none() {
    let mut rig = rig(1024, ip());
    let (still, gone) = (rig.mirrored(64), rig.mirrored(64));
    let counters = gone.counters();
    drop(gone);
    rig.forward(1_000, |_| ());
    assert_eq!((still.counters().taken.get(), still.counters().missed.get()), (64, 936));
    assert_eq!((counters.taken.get(), counters.missed.get()), (0, 1_000));
    assert_eq!(rig.pool.ledger().owned, 64);
    drop(still);
    rig.end();
}

/// Seen: an `xdp` port gives sent frames back empty, and every mirrored frame was empty then.
#[test]
fn frames_that_a_port_gives_back_empty_are_mirrored_whole() {
    for packets in [false, true] {
        let (mut rig, _) = moody_rig(1024, ip, Mood::Emptying);
        if packets {
            let heads = HeadCache::new(&rig.memory).unwrap();
            rig.forwarder.set_packet_path(PacketPath::new(heads));
        }
        let mut reader = rig.mirrored(1024);
        let mut sink = Sink::new(5, 200, Hop::Routed).unwrap();
        rig.forward(1_000, |w| {
            reader.read(64, |claim| {
                check(&mut sink, claim.data());
                claim.free(w);
            });
        });
        reader.read(1_000, |claim| check(&mut sink, claim.data()));
        assert_eq!((sink.tally().received, sink.tally().corrupt, sink.tally().reordered), (1_000, 0, 0));
        drop(reader);
        rig.end();
    }
}

/// Seen: the answer to each packet came before the packet, since the ports were asked for sent frames one after the
/// other.
#[test]
fn a_packet_comes_before_its_answer_whichever_ports_they_leave_by() {
    let mut rig = rig(1024, cross_connect());
    let mut reader = rig.mirrored(1024);
    let mut read = Vec::new();
    for n in 0..20 {
        for (port, direction) in [(0, 1), (1, 0)] {
            rig.devices[port].deliver(1, |room| {
                room[..60].fill(2 * n + port as u8);
                60
            });
            rig.forwarder.poll(&mut rig.w);
            if n % 2 == 0 {
                rig.devices[direction].collect(64, |_| ());
            }
        }
        rig.settle(|_| ());
        reader.read(64, |claim| read.push(claim.data()[0]));
    }
    assert_eq!(read, (0..40).collect::<Vec<u8>>());
    drop(reader);
    rig.end();
}

/// A frame that a port had before there was a mirror is not known any more as it was.
#[test]
fn frames_that_a_port_had_before_the_mirror_was_added_are_not_mirrored() {
    let mut rig = rig(1024, cross_connect());
    let deliver = |rig: &mut Rig| {
        rig.devices[0].deliver(3, |room| {
            room[..60].fill(1);
            60
        });
        rig.forwarder.poll(&mut rig.w);
    };
    rig.forwarder.poll(&mut rig.w);
    deliver(&mut rig);
    let mut reader = rig.mirrored(64);
    deliver(&mut rig);
    rig.settle(|_| ());
    let counters = reader.counters();
    assert_eq!((reader.read(64, drop), counters.taken.get(), counters.missed.get()), (3, 3, 0));
    drop(reader);
    rig.end();
}
