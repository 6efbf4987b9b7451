//! Small rigs, each on one thread.

use super::plan::{ALL_HANDED, By, Plan};
use super::*;
use crate::bench::tests::report_of;
use netmem::steer::RecordedQueue;

fn settled(plan: Plan) -> crate::json::Report {
    let rig = Rig::new(plan).unwrap();
    rig.turn(200);
    report_of(false, |bench| _ = rig.settle(bench))
}

#[test]
fn every_way_and_policy_accounts_for_every_packet_and_keeps_what_it_says() {
    for way in [
        Way::One,
        ALL_HANDED,
        Way::Queues,
        Way::Handed("hash"),
        Way::Handed("flow"),
        Way::Handed("round-robin"),
    ] {
        for record in [RecordedQueue::Received, RecordedQueue::Worker] {
            let plan = Plan { record, sums: 1, ports: 2, lines: 2, ..Plan::new("small", way) };
            let keeps_order = plan.keeps_order();
            let report = settled(plan);
            assert!(report.ok(), "{way:?} {record:?} {:?}", report.checks);
            assert_eq!(report.checks.iter().any(|check| check.name.contains("order kept")), keeps_order);
        }
    }
}

/// Seen: Ctrl-C in the first set-up made this check of the rigs fail that had not run yet.
#[test]
fn a_rig_that_a_stop_kept_from_running_fails_no_check_and_one_that_ran_idle_does() {
    for stopped in [true, false] {
        let rig = Rig::new(Plan { sums: 1, ..Plan::new("small", Way::One) }).unwrap();
        let report = report_of(stopped, |bench| _ = rig.settle(bench));
        assert_eq!(report.ok(), stopped, "{:?}", report.checks);
        let is_noted = |note: &String| note.starts_with("not checked (stopped before it began): ");
        assert_eq!(report.notes.iter().any(is_noted), stopped, "{:?}", report.notes);
    }
}

#[test]
fn the_forwarder_accounts_for_every_packet_and_each_leaves_as_a_router_sends_it() {
    for way in [Way::One, ALL_HANDED, Way::Queues, Way::Handed("hash")] {
        for (by, ports) in [(By::Frames, 1), (By::Packets, 2)] {
            let report = settled(Plan { by, ports, ..Plan::new("small", way) });
            assert!(report.ok(), "{way:?} {by:?} {:?}", report.checks);
            assert_eq!(report.checks.iter().filter(|check| check.name.contains("order kept")).count(), 1);
        }
    }
}

#[test]
fn the_first_of_two_queues_gets_its_share_of_small_packets_and_the_generators_time_is_known() {
    for percent in [10, 25] {
        let plan = Plan { by: By::Frames, bytes: 64, skew: Some(percent), ..Plan::new("small", Way::Queues) };
        let rig = Rig::new(plan).unwrap();
        rig.turn(5_000);
        let [first, second] = rig.left();
        let share = 100 * first / (first + second);
        assert!(share.abs_diff(percent) <= 2, "{share} % instead of {percent}");
        let generating = rig.generating().unwrap();
        assert!((0.1..99.9).contains(&generating), "{generating} %");
        let report = report_of(false, |bench| _ = rig.settle(bench));
        assert!(report.ok(), "{:?}", report.checks);
    }
}

#[test]
fn a_worker_that_hashes_and_a_forwarder_that_reads_account_for_every_packet_and_say_so() {
    for plan in [
        Plan { hashed: true, ..Plan::new("small", Way::One) },
        Plan { by: By::Frames, reads: true, ..Plan::new("small", ALL_HANDED) },
    ] {
        let (label, reads) = (plan.label(), plan.reads);
        assert_eq!(label.params.contains_key("hash"), !reads);
        assert_eq!(label.params["touched"], 2048 * if reads { 512 } else { 64 });
        let report = settled(plan);
        assert!(report.ok(), "{:?}", report.checks);
    }
}

#[test]
fn flows_that_follow_their_consumer_travel_once_and_others_twice() {
    let travelled = |policy| {
        let plan = Plan { consumed: true, sums: 1, ..Plan::new("small", Way::Handed(policy)) };
        let rig = Rig::new(plan).unwrap();
        rig.turn(200);
        let (handed, left) = (rig.handed(), rig.total());
        let report = report_of(false, |bench| _ = rig.settle(bench));
        assert!(report.ok(), "{policy}: {:?}", report.checks);
        handed as f64 / left as f64
    };
    let (by_hash, by_flow) = (travelled("hash"), travelled("flow"));
    assert!((0.45..=0.55).contains(&by_flow), "one in two has its consumer elsewhere: {by_flow}");
    assert!(by_hash > 0.9, "of those by hash half come to the wrong one of two: {by_hash}");
}

#[test]
fn each_step_of_a_sweep_is_one_worker_all_handed_over_and_two_queues() {
    let three = |group: &Group| matches!(group[..], [ref a, ref b, ref c] if a.way == Way::One && b.way == ALL_HANDED && c.way == Way::Queues);
    let groups = groups::sweeps(8, &groups::RINGS);
    for step in ["ring-1024", "ring-1048576", "ports-1", "ports-4", "pressure-50", "pressure-80"] {
        let name = format!("netmem/{step}-one");
        let group = groups.iter().find(|group| group[0].variant == name).unwrap();
        assert!(three(group), "{step}: {group:?}");
    }
    let skewed = |group: &&Group| group.iter().any(|plan| plan.skew.is_some());
    let forwarder = groups::forwarder(&groups::RINGS);
    assert!(forwarder.iter().filter(|group| !skewed(group)).all(three));
    assert_eq!(forwarder.iter().filter(skewed).count(), 1);
}

#[test]
fn a_packet_that_is_late_fails_its_check() {
    let rig = Rig::new(Plan::new("small", ALL_HANDED)).unwrap();
    rig.turn(200);
    rig.skip();
    rig.turn(200);
    let report = report_of(false, |bench| _ = rig.settle(bench));
    assert!(!report.ok(), "{:?}", report.checks);
}

/// Found in a review: two queues had twice the working set of the two variants that they were compared with, under the
/// same label.
#[test]
fn a_larger_working_set_posts_as_many_more_frames_in_two_queues_together_as_in_one() {
    let posted = |plan: &Plan| {
        let rig = Rig::new(plan.clone()).unwrap();
        rig.turn(200);
        let posted = rig.posted();
        assert!(report_of(false, |bench| _ = rig.settle(bench)).ok());
        (posted, plan.label().params["frames_bytes"].as_u64().unwrap() / CHUNK_SIZE as u64)
    };
    for by in [By::Loop, By::Frames, By::Packets] {
        for way in [Way::One, ALL_HANDED, Way::Queues] {
            // A forwarder posts frames to its output port too, as many in both.
            let plan = |ring| Plan { by, ring, ..Plan::new("small", way) };
            let ((fewer, small), (more, large)) = (posted(&plan(8192)), posted(&plan(16_384)));
            // Some of the last bursts have not been replaced yet.
            let (added, wanted) = (more - fewer, large - small);
            assert!(added.abs_diff(wanted) < wanted / 20, "{by:?} {way:?}: {added} instead of {wanted}");
        }
    }
}
