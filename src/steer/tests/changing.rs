//! Tests in which the policy changes, and flows move, with frames on their way.

use super::*;

#[test]
fn after_a_change_of_the_map_a_flow_waits_at_its_new_worker_for_its_old_one() {
    let mut rig = rig(&steering(3, "map=rx0:1"));
    rig.steer(0, run(1, 0, 8));
    rig.flush(0);
    rig.mesh.set_policy(&policy("map=rx0:2")).unwrap();
    rig.flush(0);
    assert_eq!(rig.mesh.stats()[0].adopted, 0, "worker 1 stands still: nothing is taken from it");
    assert_eq!(rig.mesh.stats()[0].postponed, 1);
    rig.steer(0, run(1, 8, 8));
    rig.flush(0);
    // It has finished one of its lists, and is processing the next.
    assert_eq!(rig.take(1).unwrap().1.len(), 16);
    rig.steer(0, run(1, 16, 4));
    rig.flush(0);
    assert_eq!(rig.take(1).unwrap().1.len(), 4);
    rig.flush(0);
    assert_eq!(rig.mesh.stats()[0].adopted, 1);
    rig.steer(0, run(1, 20, 4));
    rig.flush(0);
    assert_eq!(rig.take(2), None, "worker 1 is still at work on numbers 16 to 19");
    assert!(rig.workers[2].inbox.as_mut().unwrap().waiting(), "it must not sleep");
    assert_eq!(rig.take(1), None);
    assert_eq!(rig.take(2), Some((FROM, run(1, 20, 4).collect())));
    assert_eq!(rig.take(2), None);
    assert!(!rig.workers[2].inbox.as_mut().unwrap().waiting());
}

#[test]
fn a_change_to_the_worker_itself_waits_for_the_others_too() {
    let mut rig = taken_back();
    assert_eq!(rig.steer(0, run(1, 6, 3)), [], "they go round by its own lane");
    rig.flush(0);
    assert_eq!(rig.take(0), None);
    rig.take(1);
    assert_eq!(rig.take(0), Some((FROM, run(1, 6, 3).collect())));
    assert_eq!(rig.steer(0, run(1, 9, 1)), [], "those are in work");
    rig.flush(0);
    assert_eq!(rig.take_all(0), [(1, 9)]);
    assert_eq!(rig.steer(0, run(1, 10, 1)), [(1, 10)], "straight from here on");
}

#[test]
fn a_change_that_takes_nothing_from_a_worker_that_stands_still_does_not_wait_for_it() {
    let mut rig = rig(&steering(4, "map=rx0:1,rx1:2"));
    rig.steer(0, run(1, 0, 8));
    rig.flush(0);
    rig.mesh.set_policy(&policy("map=rx0:1,rx1:3")).unwrap();
    rig.flush(0);
    assert_eq!(rig.mesh.stats()[0].adopted, 1);
    rig.steer_from(0, Source { port: 0, queue: 1 }, run(2, 0, 8));
    rig.flush(0);
    assert_eq!(rig.take(3).unwrap().1.len(), 8);
}

#[test]
fn a_policy_with_a_worker_that_is_not_there_changes_nothing() {
    let rig = rig(&steering(2, "map=rx0:1"));
    let error = rig.mesh.set_policy(&policy("map=rx0:2")).unwrap_err();
    assert_eq!(error.to_string(), "there is no worker 2: there are 2, from 0 to 1");
    assert_eq!((rig.mesh.policy(), rig.mesh.generation()), (policy("map=rx0:1"), 0));
    rig.mesh.set_policy(&policy("hash")).unwrap();
    assert_eq!(rig.mesh.policy().to_string(), "hash=0,1");
}

#[test]
fn a_flow_leaves_a_busy_worker_only_when_all_its_frames_are_finished() {
    let mut rig = rig(&steering(3, "flow=1,2"));
    rig.steer(0, run(1, 0, 1));
    rig.flush(0);
    let first = if rig.mesh.stats()[1].enqueued == 1 { 1 } else { 2 };
    let other = 3 - first;
    // Its worker is busy with another flow from now on, and has not finished the first frame.
    assert_eq!(rig.hand_off(0, first, run(2, 0, 60)), []);
    rig.flush(0);
    rig.steer(0, run(1, 1, 1));
    rig.flush(0);
    assert_eq!(rig.mesh.stats()[other].enqueued, 0, "a frame of it is on its way to the first");
    // The first worker takes 60 frames, number 0 among them, comes back for more and gets the rest, which it is now
    // processing.
    assert_eq!(rig.take(first).unwrap().1.len(), 62);
    rig.workers[first].inbox.as_mut().unwrap().finish();
    assert_eq!(rig.hand_off(0, first, run(2, 60, 60)), []);
    rig.flush(0);
    rig.steer(0, run(1, 2, 1));
    rig.flush(0);
    assert_eq!(rig.take_all(other), [(1, 2)], "all its frames are finished, and its worker is busy");
    assert_eq!(rig.mesh.stats()[0].flow_moves, 1);
}

#[test]
fn flows_of_one_batch_spread_over_idle_workers() {
    let mut rig = rig(&steering(3, "flow=1,2"));
    rig.steer(0, (0..40).map(|flow| (flow, 0)));
    rig.flush(0);
    let [one, two] = [1, 2].map(|worker| rig.take_all(worker).len());
    assert_eq!((one + two, one.abs_diff(two) <= 4), (40, true), "{one} and {two}");
}

#[test]
fn a_flow_with_several_frames_in_one_batch_is_not_moved_between_them() {
    let mut rig = rig(&steering(3, "flow=1,2"));
    for round in 0..5 {
        rig.steer(0, run(1, 60 * round, 60));
        rig.flush(0);
        let [one, two] = [1, 2].map(|worker| rig.take_all(worker).len());
        assert_eq!((one + two, one.min(two)), (60, 0), "half a batch makes its worker busier than the other");
    }
}

#[test]
fn a_flow_goes_to_the_worker_that_consumes_it_once_its_old_one_is_done() {
    let mut rig = rig(&steering(3, "flow=1,2"));
    let flow = rig.flow_of(1);
    rig.mesh.consumers().set(flow, 2);
    rig.steer(0, run(1, 0, 3));
    rig.flush(0);
    assert_eq!(rig.take(2).unwrap().1.len(), 3, "its consumer is known");
    rig.mesh.consumers().set(flow, 1);
    rig.steer(0, run(1, 3, 3));
    rig.flush(0);
    assert_eq!(rig.take_all(1), [], "worker 2 has the first three in work");
    assert_eq!(rig.take_all(2), run(1, 3, 3).collect::<Vec<_>>());
    rig.steer(0, run(1, 6, 3));
    rig.flush(0);
    assert_eq!(rig.take_all(1), run(1, 6, 3).collect::<Vec<_>>(), "worker 2 is done with all");
    assert_eq!(rig.mesh.stats()[0].flow_moves, 1);
}

#[test]
fn a_consumer_that_the_policy_does_not_choose_from_counts_as_none() {
    let mut rig = rig(&steering(3, "flow=1,2"));
    let consumers = rig.mesh.consumers();
    let flow = rig.flow_of(1);
    for nobody in [0, 64, usize::MAX] {
        consumers.set(flow, nobody);
    }
    assert_eq!(consumers.get(flow), None);
    consumers.set(flow, 0);
    assert_eq!(consumers.get(flow), Some(0));
    rig.steer(0, run(1, 0, 3));
    rig.flush(0);
    assert_eq!(rig.take_all(1).len() + rig.take_all(2).len(), 3);
    rig.mesh.consumers().clear(flow);
    assert_eq!(rig.mesh.consumers().get(flow), None);
}
