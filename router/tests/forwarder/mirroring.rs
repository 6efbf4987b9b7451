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
