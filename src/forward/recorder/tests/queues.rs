//! Tests of the time that packets were between threads, and of events reported by a worker that did not decide.

use super::*;
use crate::forward::Steering;
use crate::forward::local_queue::{Retention, RetentionLimit, local_queue};
use crate::port::tests::moody::{Mood, Moody};
use crate::steer::{MeshConfig, RecordedQueue};

/// A worker that shares packets, with its recorder.
struct One {
    forwarder: Forwarder,
    w: Worker,
    device: MemDevice,
    /// Keeps the other port up.
    _far: MemDevice,
    recording: Recording,
}

/// Two workers, the first of which receives for the second. The transmit rings have this mood.
fn team(record: RecordedQueue, mood: Mood) -> (Memory, Vec<One>) {
    let memory =
        Memory::new(&MemoryConfig { bytes: 8 << 20, workers: 2, ..MemoryConfig::default() }).unwrap();
    let policy = "hash=1".parse().unwrap();
    let config = MeshConfig { workers: 2, policy, recorded_queue: record, ..MeshConfig::default() };
    let (_, ends) = Steering::between(&config).unwrap();
    let times = QueueTimes::new(512);
    let one = |end: Steering| {
        let mut w = memory.worker().unwrap();
        let pool = Pool::new(&memory, &mut w, &PoolConfig { frames: 512, ..PoolConfig::default() }).unwrap();
        let [(a, device), (b, _far)] =
            ["a", "b"].map(|name| MemPort::pair(name, &MemConfig::default()).unwrap());
        let (mut recorder, mut recording) = recorder(Box::new(AsTold), 2, RecorderConfig { packets: 256 });
        recorder.follow(&times, Some(end.worker() as u16), &mut recording);
        let ports: Vec<Box<dyn crate::port::Port>> = vec![Box::new(a), Box::new(Moody::new(b, mood))];
        let mut forwarder = Forwarder::new(ports, pool, Box::new(recorder)).unwrap();
        forwarder.set_steering(end);
        forwarder.poll(&mut w);
        One { forwarder, w, device, _far, recording }
    };
    let workers = ends.into_iter().map(one).collect();
    (memory, workers)
}

/// Worker 0 receives 8 packets with this first byte, and all workers go on until they have left. Returns what each has
/// recorded of them.
fn pass_on(workers: &mut [One], first: u8) -> [Vec<RecordedPacket>; 2] {
    let delivered = workers[0].device.deliver(8, |room| {
        room[..60].fill(first);
        60
    });
    assert_eq!(delivered, 8);
    for _ in 0..8 {
        for one in workers.iter_mut() {
            one.forwarder.poll(&mut one.w);
        }
    }
    [0, 1].map(|at: usize| workers[at].recording.read(0, 0))
}

fn dropped(packets: &[RecordedPacket]) -> Vec<Option<Reason>> {
    packets.iter().map(RecordedPacket::dropped).collect()
}

#[test]
fn lanes_between_workers_there_and_back_are_said_of_each_packet() {
    let (_memory, mut workers) = team(RecordedQueue::Received, Mood::Picky);
    let [here, there] = pass_on(&mut workers, 5);
    assert_eq!((here.len(), there.len()), (0, 8), "the second decided");
    for packet in there {
        assert_eq!((packet.queue, packet.verdict), (0, Some(Verdict::Redirect(1))));
        assert!(packet.lane.is_some() && packet.lane_back.is_some(), "{packet:?}");
        assert_eq!((packet.local_queue, packet.dropped()), (None, None));
    }
}

/// Observed: with workers that transmit for others, frames that a transmit ring refused were counted, and recorded for
/// no packet.
#[test]
fn what_a_transmit_ring_refuses_is_said_of_the_packet_whoever_decided_about_it() {
    let (_memory, mut workers) = team(RecordedQueue::Received, Mood::Mute);
    let [here, there] = pass_on(&mut workers, 5);
    assert_eq!((here.len(), dropped(&there)), (0, vec![Some(Reason::TxRefused); 8]));
    assert_eq!(workers[0].forwarder.meters().drops.get(Reason::TxRefused), 8);
    // The frames are used again, for packets that stay: nothing more is recorded for those before.
    let [_, again] = pass_on(&mut workers, 4);
    let wanted = [vec![Some(Reason::TxRefused); 8], vec![Some(Reason::Own(1)); 8]].concat();
    assert_eq!(dropped(&again), wanted);
}

#[test]
fn the_time_in_the_local_queue_is_said_once_a_reader_has_taken_the_packet() {
    let Rig { mut recorder, mut recording, pool, mut w, _memory: memory } = Rig::new(64);
    let times = QueueTimes::new(128);
    recorder.follow(&times, None, &mut recording);
    let (queue, mut reader) = local_queue(64);
    reader.record(&times);
    let mut retention = Retention::new(reader, RetentionLimit::new(3, Duration::MAX).into());
    let [(a, mut near), (b, _far)] =
        ["a", "b"].map(|name| MemPort::pair(name, &MemConfig::default()).unwrap());
    let mut forwarder = Forwarder::new(vec![Box::new(a), Box::new(b)], pool, Box::new(recorder)).unwrap();
    forwarder.set_local_queue(queue);
    deliver((&mut forwarder, &mut w), &mut near, 1, 10);
    let known = |recording: &Recording| {
        recording.read(0, 0).iter().map(|packet| packet.local_queue.is_some()).collect::<Vec<_>>()
    };
    assert_eq!(known(&recording), [false; 10], "they are there still");
    retention.turn(&mut w);
    assert_eq!(known(&recording), [true; 10]);
    deliver((&mut forwarder, &mut w), &mut near, 0, 10);
    assert_eq!(known(&recording), [[true; 10], [false; 10]].concat());
    drop((retention, forwarder, memory));
}
