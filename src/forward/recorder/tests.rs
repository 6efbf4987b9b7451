//! Tests of the records of packets: by verdict, by later events, and when there are too many.
#![cfg(not(loom))]

mod queues;

use super::*;
use crate::forward::{Forwarder, PacketPath, filter};
use crate::packet::{HeadCache, HeadCacheConfig};
use crate::page::{Memory, MemoryConfig};
use crate::pool::{Pool, PoolConfig};
use crate::port::mem::{MemConfig, MemDevice, MemPort};
use crate::sync::Worker;
use std::time::{Duration, SystemTime};

const FROM: Source = Source { port: 1, queue: 5 };

/// Takes its verdict from the first byte, which it overwrites. Frames that waited go on by port 9.
struct AsTold;

impl AsTold {
    fn verdict(first: u8) -> Verdict {
        match first {
            0 => Verdict::Tx,
            1 => Verdict::Pass,
            2 => Verdict::Wait,
            3 => Verdict::Fragment,
            4 => Verdict::Drop(Reason::Own(1)),
            5 => Verdict::Redirect(1),
            n if usize::from(n) < 10 + Reason::ALL.len() && n >= 10 => {
                Verdict::Drop(Reason::ALL[usize::from(n) - 10])
            }
            port => Verdict::Redirect(port),
        }
    }
}

impl Decide for AsTold {
    fn decide(&mut self, _: Source, frame: &mut [u8]) -> Verdict {
        AsTold::verdict(std::mem::replace(&mut frame[0], 0xee))
    }

    fn reasons(&self) -> &'static [&'static str] {
        &["first", "second"]
    }

    fn decide_again(&mut self, _: Source, _: &mut Batch, verdicts: &mut Verdicts) {
        verdicts.fill(Verdict::Redirect(9));
    }
}

struct Rig {
    recorder: Recorder,
    recording: Recording,
    pool: Pool,
    w: Worker,
    _memory: Memory,
}

impl Rig {
    fn new(packets: usize) -> Rig {
        let memory =
            Memory::new(&MemoryConfig { bytes: 8 << 20, workers: 1, ..MemoryConfig::default() }).unwrap();
        let mut w = memory.worker().unwrap();
        let pool = Pool::new(&memory, &mut w, &PoolConfig { frames: 512, ..PoolConfig::default() }).unwrap();
        let (recorder, recording) = recorder(Box::new(AsTold), 2, RecorderConfig { packets });
        Rig { recorder, recording, pool, w, _memory: memory }
    }

    /// Decides about a burst of frames with these first bytes, each as long as its number plus 60.
    fn decide(&mut self, firsts: &[u8]) -> Batch {
        let mut burst = Batch::new();
        for (i, &first) in firsts.iter().enumerate() {
            let mut frame = self.pool.alloc(&mut self.w).unwrap();
            frame.put(60 + i).unwrap().fill(first);
            burst.push(frame).unwrap();
        }
        let mut verdicts = Verdicts::new();
        self.recorder.decide_burst(FROM, &mut burst, &mut verdicts);
        let wanted: Vec<_> = firsts.iter().map(|&first| Code::from(AsTold::verdict(first))).collect();
        assert_eq!(verdicts.codes().take(firsts.len()).collect::<Vec<_>>(), wanted);
        burst
    }

    fn recorded(&self) -> Vec<RecordedPacket> {
        assert_eq!(self.recording.read(0, 0), []);
        self.recording.read(usize::from(FROM.port), 0)
    }
}

#[test]
fn packets_are_recorded_as_they_came_with_each_verdict_there_is() {
    let mut rig = Rig::new(256);
    let firsts: Vec<u8> = (0..10 + Reason::ALL.len() as u8).chain([255]).collect();
    let before = SystemTime::now();
    let bursts: Vec<_> = firsts.chunks(20).map(|firsts| rig.decide(firsts)).collect();
    let recorded = rig.recorded();
    assert_eq!(recorded.len(), firsts.len());
    for (i, (packet, &first)) in recorded.iter().zip(&firsts).enumerate() {
        assert_eq!((packet.number, packet.queue, packet.len), (i as u64, 5, 60 + i % 20));
        assert_eq!(packet.bytes, vec![first; packet.len], "as it came");
        assert_eq!(packet.verdict, Some(AsTold::verdict(first)));
        assert_eq!((packet.lost, packet.waited, packet.is_answered), (None, None, false));
        let slack = Duration::from_secs(60);
        assert!(packet.time > before - slack && packet.time < SystemTime::now() + slack);
    }
    assert_eq!(recorded[4].dropped().map(|reason| rig.recording.name(reason)), Some("second"));
    let numbers: Vec<_> = rig.recording.read(1, 30).iter().map(|packet| packet.number).collect();
    assert_eq!(numbers, (30..firsts.len() as u64).collect::<Vec<_>>());
    let some: Vec<_> = rig.recording.read_some(1, 30, 3).iter().map(|packet| packet.number).collect();
    assert_eq!((some, rig.recording.read_some(1, 30, 0)), (vec![30, 31, 32], vec![]));
    drop(bursts);
}

#[test]
fn what_happens_behind_the_verdict_is_noted_with_the_packet_it_happened_to() {
    let mut rig = Rig::new(64);
    let mut burst = rig.decide(&[200, 200, 2, 2, 15, 1]);
    rig.recorder.lost(None, Reason::TxFull, &burst[1..2]);
    rig.recorder.lost(None, Reason::LocalQueueFull, &burst[5..]);
    rig.recorder.lost(None, Reason::NeighQueueFull, &burst[3..4]);
    let mut waited = Batch::new();
    waited.push(burst.drain().nth(2).unwrap()).unwrap();
    rig.recorder.decide_again(FROM, &mut waited, &mut Verdicts::new());
    let recorded = rig.recorded();
    let dropped: Vec<_> = recorded.iter().map(RecordedPacket::dropped).collect();
    let ttl = AsTold::verdict(15);
    let Verdict::Drop(by_verdict) = ttl else { panic!("{ttl:?}") };
    let wanted = [None, Some(Reason::TxFull), None, Some(Reason::NeighQueueFull), Some(by_verdict)];
    assert_eq!(dropped, [&wanted[..], &[Some(Reason::LocalQueueFull)]].concat());
    assert_eq!(recorded[2].verdict, Some(Verdict::Redirect(9)));
    assert!(recorded[2].waited.is_some() && recorded[3].waited.is_none());
    assert_eq!(recorded[1].verdict, Some(Verdict::Redirect(200)), "as it was decided");
}

#[test]
fn what_becomes_of_pieces_and_replies_is_not_said_of_the_packet_that_had_their_frame_before() {
    let mut rig = Rig::new(64);
    let burst = rig.decide(&[200]);
    rig.recorder.made(&burst);
    rig.recorder.lost(None, Reason::TxFull, &burst);
    assert_eq!(rig.recorded()[0].dropped(), None);
}

#[test]
fn the_last_packets_are_kept_and_nothing_is_said_of_one_that_is_not_there() {
    let mut rig = Rig::new(64);
    let first = rig.decide(&[200]);
    for round in 0..10 {
        drop(rig.decide(&[100 + round; 50]));
    }
    let recorded = rig.recorded();
    assert_eq!((recorded.len(), rig.recording.room()), (64, 64));
    assert_eq!((recorded[0].number, recorded[63].number), (437, 500));
    rig.recorder.lost(None, Reason::TxFull, &first);
    assert!(rig.recorded().iter().all(|packet| packet.dropped().is_none()));
}

#[test]
fn what_is_dropped_undecided_is_a_packet_of_its_own_whatever_its_frame_had_before() {
    let mut rig = Rig::new(64);
    let burst = rig.decide(&[200]);
    rig.recorder.lost(Some(FROM), Reason::NoMem, &burst);
    let recorded = rig.recorded();
    assert_eq!((recorded.len(), recorded[0].dropped()), (2, None));
    assert_eq!((recorded[1].verdict, recorded[1].bytes[0]), (Some(Verdict::Drop(Reason::NoMem)), 0xee));
}

#[test]
fn of_a_long_packet_its_first_bytes_are_kept_and_its_length() {
    let mut rig = Rig::new(64);
    let mut burst = Batch::new();
    for len in [1, 7, 8, 9, 143, 144, 145, 1400] {
        let mut frame = rig.pool.alloc(&mut rig.w).unwrap();
        frame.put(len).unwrap().iter_mut().zip(0..).for_each(|(byte, i): (_, u32)| *byte = i as u8);
        burst.push(frame).unwrap();
    }
    rig.recorder.decide_burst(FROM, &mut burst, &mut Verdicts::new());
    for (packet, len) in rig.recorded().iter().zip([1, 7, 8, 9, 143, 144, 145, 1400]) {
        let wanted: Vec<u8> = (0..len.min(144)).map(|i| i as u8).collect();
        assert_eq!((packet.len, &packet.bytes), (len, &wanted));
    }
}

/// Returns a forwarder of two ports with rules, heads, and a transmit ring that is not emptied.
fn forwarder(rig: Rig, rule: &str) -> (Forwarder, [MemDevice; 2], Recording, Worker, Memory) {
    let Rig { recorder, recording, pool, w, _memory: memory } = rig;
    let [(a, near), (b, far)] =
        ["a", "b"].map(|name| MemPort::pair(name, &MemConfig { ring: 16, coalesce: 1 }).unwrap());
    let mut forwarder = Forwarder::new(vec![Box::new(a), Box::new(b)], pool, Box::new(recorder)).unwrap();
    let heads = HeadCache::with(&memory, &HeadCacheConfig::default()).unwrap();
    let rules = vec![rule.parse().unwrap()];
    let (filter, _control) = filter::filter(rules).unwrap();
    forwarder.set_packet_path(PacketPath::new(heads).with_hooks(filter));
    (forwarder, [near, far], recording, w, memory)
}

/// Delivers frames with this first byte, and forwards them, until that many have been received.
fn deliver((forwarder, w): (&mut Forwarder, &mut Worker), device: &mut MemDevice, first: u8, frames: usize) {
    let mut received = 0;
    while received < frames {
        device.deliver(frames - received, |room| {
            room[..60].fill(first);
            60
        });
        received += forwarder.poll(w);
    }
}

#[test]
fn what_rules_drop_and_what_cannot_go_where_it_was_sent_is_recorded_of_packets_too() {
    let (mut forwarder, [mut near, mut far], recording, mut w, _memory) =
        forwarder(Rig::new(256), "drop,in=1");
    let dropped = |port| {
        let recorded: Vec<_> = recording.read(port, 0).iter().map(RecordedPacket::dropped).collect();
        (
            recorded.len(),
            [None, Some(Reason::NoRoute), Some(Reason::TxFull), Some(Reason::FilterDrop)]
                .map(|reason| recorded.iter().filter(|dropped| **dropped == reason).count()),
        )
    };
    // No port has this number.
    deliver((&mut forwarder, &mut w), &mut near, 201, 10);
    assert_eq!(dropped(0), (10, [0, 10, 0, 0]));
    deliver((&mut forwarder, &mut w), &mut far, 5, 10);
    assert_eq!(dropped(1), (10, [0, 0, 0, 10]));
    // Nothing takes the frames that leave by port 1: the ring has 16 slots, and a batch waits for it.
    deliver((&mut forwarder, &mut w), &mut near, 5, 200);
    let (recorded, [sent, no_route, full, by_rule]) = dropped(0);
    let drops = &forwarder.meters().drops;
    assert_eq!((recorded, no_route, by_rule), (210, 10, 0));
    assert_eq!((full as u64, drops.get(Reason::FilterDrop)), (drops.get(Reason::TxFull), 10));
    assert!(full > 0 && sent + full == 200, "{sent} {full}");
}
