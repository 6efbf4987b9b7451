//! Tests of workers that stop, and of workers that are gone.

use super::*;

#[test]
fn a_worker_that_stops_hands_its_inbox_over_in_order_and_its_senders_need_not_know() {
    let mut rig = rig(&steering(3, "map=rx0:1"));
    rig.steer(0, run(1, 0, 10));
    rig.flush(0);
    assert_eq!(rig.take(1).unwrap().1.len(), 10);
    rig.steer(0, run(1, 10, 10));
    rig.flush(0);
    rig.workers[2].inbox.as_mut().unwrap().bell().arm();
    rig.workers[1].inbox.take().unwrap().hand_over(2).unwrap();
    assert!(rig.workers[2].inbox.as_mut().unwrap().waiting());
    rig.workers[2].inbox.as_mut().unwrap().bell().disarm();
    assert_eq!(rig.take_all(2), run(1, 10, 10).collect::<Vec<_>>());
    // From now on the heir is woken.
    rig.workers[2].inbox.as_mut().unwrap().bell().arm();
    assert!(!rig.workers[2].inbox.as_mut().unwrap().waiting());
    rig.steer(0, run(1, 20, 10));
    rig.flush(0);
    assert_eq!(rig.mesh.stats()[1].wakeups, 1);
    rig.workers[2].inbox.as_mut().unwrap().bell().disarm();
    assert_eq!(rig.take_all(2), run(1, 20, 10).collect::<Vec<_>>());
    // The heir hands on the frames that it inherited.
    rig.steer(0, run(1, 30, 10));
    rig.flush(0);
    rig.workers[2].inbox.take().unwrap().hand_over(0).unwrap();
    assert_eq!(rig.take_all(0), run(1, 30, 10).collect::<Vec<_>>());
    assert_eq!(rig.mesh.stats()[1].drops.total(), 0);
    assert!(rig.pool.ledger().all_freed());
}

#[test]
fn an_inbox_cannot_be_handed_to_itself_to_nobody_or_to_one_who_is_gone() {
    let mut rig = rig(&steering(3, "map=rx0:1"));
    let inbox = rig.workers[1].inbox.take().unwrap();
    let inbox = inbox.hand_over(1).unwrap_err();
    let inbox = inbox.hand_over(3).unwrap_err();
    rig.workers[2].inbox = None;
    rig.workers[1].inbox = Some(inbox.hand_over(2).unwrap_err());
    rig.steer(0, run(1, 0, 10));
    rig.flush(0);
    assert_eq!(rig.take_all(1).len(), 10, "it is as it was");
}

#[test]
fn without_a_reader_frames_are_dropped_by_that_name_and_nothing_stays_queued() {
    let mut rig = rig(&steering(2, "map=rx0:1"));
    rig.steer(0, run(1, 0, 10));
    rig.flush(0);
    rig.workers[1].inbox = None;
    assert!(rig.pool.ledger().all_freed());
    rig.steer(0, run(1, 10, 10));
    rig.flush(0);
    let stats = rig.mesh.stats()[1];
    assert_eq!((stats.enqueued, stats.lost, stats.waiting), (10, 10, 0));
    assert_eq!(stats.drops, HandOffDrops { inbox_gone: 10, ..HandOffDrops::default() });
    assert!(rig.pool.ledger().all_freed());
}

#[test]
fn flows_move_on_from_a_worker_that_is_gone() {
    let mut rig = rig(&steering(3, "map=rx0:1"));
    rig.steer(0, run(1, 0, 10));
    rig.flush(0);
    rig.workers[1].inbox = None;
    rig.mesh.set_policy(&policy("map=rx0:2")).unwrap();
    rig.flush(0);
    rig.steer(0, run(1, 10, 10));
    rig.flush(0);
    assert_eq!(rig.take_all(2), run(1, 10, 10).collect::<Vec<_>>());
}

/// Seen: the load of a worker without an inbox stayed at 0, so the policy `flow` took it for the idlest, and its flows
/// never left it.
#[test]
fn the_policy_flow_gives_no_flow_to_a_worker_that_is_gone() {
    let offered = |number| (0..40).map(move |flow| (flow, number)).collect::<Vec<_>>();
    for (before, is_consumer) in [(false, false), (true, false), (false, true), (true, true)] {
        let mut rig = rig(&steering(3, "flow=1,2"));
        if is_consumer {
            (0..40).for_each(|flow| rig.mesh.consumers().set(rig.flow_of(flow), 1));
        }
        if before {
            assert_eq!(rig.steer(0, offered(0)), []);
            rig.flush(0);
            assert!(rig.mesh.stats()[1].enqueued > 0);
            rig.take_all(2);
        }
        rig.workers[1].inbox = None;
        for number in 1..3 {
            assert_eq!(rig.offer(0, FROM, offered(number)), [vec![], vec![]], "{before} {is_consumer}");
            rig.flush(0);
            assert_eq!(rig.take_all(2), offered(number));
        }
        assert!(rig.mesh.stats().iter().all(|stats| stats.drops.total() == 0));
        assert!(rig.pool.ledger().all_freed());
    }
}

#[test]
fn the_policy_flow_keeps_flows_here_if_all_others_are_gone() {
    let mut rig = rig(&steering(3, "flow"));
    rig.workers[1].inbox = None;
    rig.workers[2].inbox = None;
    rig.mesh.consumers().set(rig.flow_of(1), 2);
    assert_eq!(rig.offer(0, FROM, run(1, 0, 5)), [run(1, 0, 5).collect::<Vec<_>>(), vec![]]);
    assert_eq!(rig.hand_off(0, 0, run(1, 5, 5)), []);
    let both = || run(1, 10, 5).chain(run(2, 0, 5));
    assert_eq!(rig.offer(0, FROM, both()), [vec![], vec![]], "behind those in its own lane");
    rig.flush(0);
    assert_eq!(rig.take_all(0), run(1, 5, 5).chain(both()).collect::<Vec<_>>());
    assert_eq!(rig.offer(0, FROM, run(1, 15, 5)), [run(1, 15, 5).collect::<Vec<_>>(), vec![]]);
    assert!(rig.mesh.stats().iter().all(|stats| stats.drops.total() == 0));
}

#[test]
fn if_all_workers_of_the_policy_flow_are_gone_its_frames_stay_or_are_dropped_and_none_is_kept_here() {
    let mut rig = rig(&steering(3, "flow=1,2"));
    rig.workers[1].inbox = None;
    rig.workers[2].inbox = None;
    let offered: Vec<_> = (0..40).map(|flow| (flow, 0)).collect();
    assert_eq!(rig.offer(0, FROM, offered.clone()), [vec![], offered.clone()]);
    assert_eq!(rig.steer(0, offered), []);
    rig.flush(0);
    let stats = rig.mesh.stats();
    assert_eq!(stats[1].drops, HandOffDrops { inbox_gone: 40, ..HandOffDrops::default() });
    assert_eq!((stats[2].drops.total(), stats[0].kept), (0, 0));
    assert!(rig.pool.ledger().all_freed());
}

#[test]
fn lanes_handed_to_a_worker_that_goes_before_it_has_looked_are_without_a_reader() {
    let mut rig = rig(&steering(3, "map=rx0:1"));
    rig.steer(0, run(1, 0, 10));
    rig.flush(0);
    rig.workers[1].inbox.take().unwrap().hand_over(2).unwrap();
    rig.workers[2].inbox = None;
    assert!(rig.pool.ledger().all_freed());
    rig.steer(0, run(1, 10, 10));
    rig.flush(0);
    assert_eq!(rig.mesh.stats()[1].drops.inbox_gone, 10);
}

#[test]
fn an_outbox_that_is_dropped_sends_what_was_listed_home_counted() {
    let mut rig = rig(&steering(2, "map=rx0:1"));
    rig.steer(0, run(1, 0, 10));
    rig.workers.remove(0);
    assert!(rig.pool.ledger().all_freed());
    assert_eq!(rig.take_all(0), [], "worker 1, the first now");
    assert_eq!(rig.mesh.stats()[1].drops.inbox_gone, 10);
}

#[test]
fn a_worker_without_an_inbox_does_not_overtake_the_one_that_its_flows_come_from() {
    let mut rig = taken_back();
    rig.workers[0].inbox = None;
    assert_eq!(rig.steer(0, run(1, 6, 3)), []);
    rig.flush(0);
    assert_eq!(rig.mesh.stats()[0].drops.inbox_gone, 3);
    rig.take(1);
    assert_eq!(rig.steer(0, run(1, 9, 1)), [(1, 9)]);
}
