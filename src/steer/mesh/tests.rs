//! Tests of lanes that change hands and of barriers, in every interleaving. Lines with marks stand for lines with
//! frames.

use super::*;
use crate::ring::tests::{model, thread};
use crate::steer::DEFAULT_KEY;
use crate::steer::label::Barrier;
use crate::sys::event::sleep_until_readable;
use std::os::fd::AsFd;
use std::time::Duration;

/// Returns worker entries without lanes.
fn members(workers: usize) -> Arc<Mesh> {
    let members = (0..workers).map(|_| Member::new().unwrap()).collect();
    let (policy, generation) = (Mutex::new(Arc::default()), CachePadded::new(AtomicU32::new(0)));
    let consumers = FlowConsumers::new(Toeplitz::new(&DEFAULT_KEY), 1);
    Arc::new(Mesh { lanes: Vec::new(), members, policy, consumers, generation })
}

fn incoming(lane: LaneReceiver<Line>) -> Incoming {
    Incoming { sender: 0, lane, received: Arc::default() }
}

fn take(incoming: &mut Incoming, numbers: &mut Vec<u32>) {
    incoming.lane.take(usize::MAX, |line| {
        numbers.push(line.take().word);
        1
    });
}

fn send(lane: &mut LaneSender<Line>, line: Line) {
    let mut line = Some(line);
    lane.send(Barrier::UNITS, |slot| _ = line.take().map(|line| slot.fill(line)));
}

#[test]
#[cfg_attr(miri, ignore = "Miri has no ppoll")]
fn a_lane_that_is_handed_over_is_read_on_in_order_and_its_new_reader_is_woken() {
    model(|| {
        let mesh = members(2);
        let (mut sender, reader) = lane(4, Progress::new(0, 0)).unwrap();
        let sending = thread::spawn({
            let mesh = Arc::clone(&mesh);
            move || {
                for number in 1..3 {
                    send(&mut sender, Line::marked(0, number));
                    mesh.wake(sender.progress());
                }
                sender
            }
        });
        let stopping = thread::spawn({
            let mesh = Arc::clone(&mesh);
            move || {
                let (mut lane, mut taken) = (incoming(reader), Vec::new());
                take(&mut lane, &mut taken);
                lane.lane.finish();
                mesh.hand_over(vec![lane], 0, 1).unwrap();
                taken
            }
        });
        mesh.bell(1).arm();
        let mut lanes = if mesh.has_handed_over(1) { mesh.take_handed_over(1) } else { Vec::new() };
        let sleeps = !lanes.iter_mut().any(|incoming| incoming.lane.has_items());
        let (sender, mut taken) = (sending.join().unwrap(), stopping.join().unwrap());
        let woken = sleep_until_readable(&[mesh.bell(1).as_fd()], Duration::ZERO);
        mesh.bell(1).disarm();
        lanes.extend(mesh.take_handed_over(1));
        let before = taken.len();
        lanes.iter_mut().for_each(|lane| take(lane, &mut taken));
        assert_eq!(taken, [1, 2]);
        assert!(!sleeps || woken || before == 2, "the successor sleeps on what was sent");
        assert_eq!(sender.progress().reader(), 1);
    });
}

#[test]
fn a_lane_handed_to_one_who_goes_is_given_back_or_without_a_reader() {
    model(|| {
        let mesh = members(2);
        let (sender, reader) = lane::<Line>(4, Progress::new(0, 0)).unwrap();
        let leaving = thread::spawn({
            let mesh = Arc::clone(&mesh);
            move || mesh.close_reader(1)
        });
        let back = mesh.hand_over(vec![incoming(reader)], 0, 1);
        leaving.join().unwrap();
        let expect = if back.is_err() { 0 } else { GONE };
        assert_eq!(sender.progress().reader(), expect);
    });
}

/// Seen: an inbox that was handed to a worker which handed over its own at the same moment was lost with its frames.
#[test]
fn lanes_handed_to_one_who_hands_over_at_that_moment_go_on_to_its_new_reader_or_come_back() {
    model(|| {
        let mesh = members(3);
        let [(first, from_first), (second, from_second)] =
            [0, 1].map(|reader| lane::<Line>(4, Progress::new(reader, 0)).unwrap());
        let stopping = thread::spawn({
            let mesh = Arc::clone(&mesh);
            move || {
                mesh.hand_over(vec![incoming(from_second)], 1, 2).unwrap();
                mesh.close_reader(1);
            }
        });
        let back = mesh.hand_over(vec![incoming(from_first)], 0, 1);
        stopping.join().unwrap();
        let readers = [&first, &second].map(|sender| sender.progress().reader());
        assert_eq!(readers, if back.is_err() { [0, 2] } else { [2, 2] });
        assert_eq!(mesh.take_handed_over(2).len(), 2 - usize::from(back.is_err()));
    });
}

#[test]
fn what_stands_behind_a_barrier_is_taken_after_what_it_waits_for_was_finished() {
    model(|| {
        let [old, new] = [0, 1].map(|reader| Progress::new(reader, 0));
        let (mut to_old, mut from_old) = lane(2, Arc::clone(&old)).unwrap();
        let (mut to_new, mut from_new) = lane(2, new).unwrap();
        let forwarded = Arc::new(AtomicU32::new(0));
        send(&mut to_old, Line::marked(0, 1));
        let position = to_old.sent();
        let reading = thread::spawn({
            let forwarded = Arc::clone(&forwarded);
            move || {
                from_old.take(1, |line| {
                    forwarded.store(line.take().word, Relaxed);
                    1
                });
                from_old.finish();
                from_old
            }
        });
        let sending = thread::spawn(move || {
            send(&mut to_new, Barrier { worker: 0, position }.line());
            send(&mut to_new, Line::marked(0, 2));
            to_new
        });
        let mut passed = 0;
        let mut look = || {
            let may_pass = |line: &Line| line.word != position || old.has_finished(position);
            // The barrier, whose position is 1, then the items behind it.
            passed += from_new.take(1, |line| {
                if !may_pass(&line) {
                    return 0;
                }
                line.forget();
                1
            });
            if passed > 0 {
                assert_eq!(forwarded.load(Relaxed), 1, "the old worker is not done");
            }
            passed
        };
        look();
        look();
        drop((reading.join().unwrap(), sending.join().unwrap()));
        while look() < 2 {}
    });
}

#[test]
#[cfg_attr(miri, ignore = "Miri has no ppoll")]
#[cfg(not(loom))]
fn a_worker_that_sleeps_between_bursts_gets_all_of_them() {
    const BURSTS: u32 = if cfg!(miri) { 200 } else { 20_000 };
    let mesh = members(1);
    let (mut sender, mut reader) = lane(64, Progress::new(0, 0)).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..BURSTS {
                while sender.room(1) == 0 {
                    std::thread::yield_now();
                }
                send(&mut sender, Line::marked(0, number));
                mesh.wake(sender.progress());
            }
        });
        let (bell, mut taken) = (mesh.bell(0), 0);
        while taken < BURSTS {
            bell.arm();
            if !reader.has_items() {
                assert!(sleep_until_readable(&[bell.as_fd()], Duration::from_secs(600)));
            }
            bell.disarm();
            reader.take(usize::MAX, |line| {
                assert_eq!(line.take().word, taken);
                taken += 1;
                1
            });
            reader.finish();
        }
    });
}
