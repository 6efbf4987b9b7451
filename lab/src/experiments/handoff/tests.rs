//! Small rigs, each on one thread.

use super::plan::{ALL_HANDED, Plan};
use super::*;
use crate::bench::tests::report_of;
use netmem::steer::Record;

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
        for record in [Record::First, Record::Second] {
            let plan = Plan { record, sums: 1, ports: 2, lines: 2, ..Plan::new("small", way) };
            let keeps_order = plan.keeps_order();
            let report = settled(plan);
            assert!(report.ok(), "{way:?} {record:?} {:?}", report.checks);
            assert_eq!(report.checks.iter().any(|check| check.name.contains("order kept")), keeps_order);
        }
    }
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
