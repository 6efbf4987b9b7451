//! The checks of a finished run's sums.

use super::network::Traveled;
use super::report::{PortReport, Report, WorkerReport, down};
use super::retention::{LocalQueueReport, MirrorReport};
use crate::args::LOST_BETWEEN;
use netmem::forward::Reason;

/// Returns one line for each failed check. If a signal `stopped` the run, a missing peer is not a failure: a person
/// who waits for a peer may stop the run.
pub fn broken(report: &Report, stopped: bool) -> Vec<String> {
    let mut broken = Vec::new();
    let Report { received, transmitted, held, passed, .. } = *report;
    let (fragmented, fragments) = (report.fragmented(), report.fragments());
    let (originated, dropped) = (report.icmp.originated, report.dropped_total());
    if received + originated + fragments != transmitted + dropped + held + passed + fragmented {
        broken.push(format!(
            "check failed: received {received} + originated {originated} + fragments {fragments} = transmitted {transmitted} \
             + dropped {dropped} + held {held} + passed {passed} + fragmented {fragmented}"
        ));
    }
    check_workers(report, &mut broken);
    if let Some(LocalQueueReport { taken, freed, kept }) = report.local_queue
        && (passed != taken || taken != freed + kept)
    {
        broken.push(format!("check failed: passed {passed} = taken {taken} = freed {freed} + kept {kept}"));
    }
    if let Some(MirrorReport { taken, missed, .. }) = report.mirror
        && report.completed != taken + missed
    {
        let completed = report.completed;
        broken.push(format!("check failed: completed {completed} = mirrored {taken} + missed {missed}"));
    }
    if let Some(filter) = &report.filter {
        let seen: u64 = filter.protocols.iter().map(|(_, packets)| packets).sum();
        let of = |names: &[&str]| -> u64 {
            report.dropped.iter().filter(|(name, _)| names.contains(name)).map(|(_, frames)| frames).sum()
        };
        let (headless, between) = (of(&[Reason::NoMem.name()]), of(&LOST_BETWEEN));
        if received != seen + headless + between {
            broken.push(format!(
                "check failed: received {received} = seen by the hooks {seen} + without a head {headless} + lost between \
                 workers {between}"
            ));
        }
    }
    if let Some(traveled) = &report.traveled {
        check_network(report, traveled, &mut broken);
    }
    for pool in report.pools.iter().filter(|pool| !pool.balanced()) {
        broken.push(format!("check failed: the states of pool {} add up to its total: {pool:?}", pool.name));
    }
    broken.extend(report.still_out.iter().map(|still_out| format!("check failed: {still_out}")));
    broken.extend(for_no_port(report));
    for port in &report.ports {
        broken.extend(down(&port.name, &port.state).filter(|_| !(stopped && has_peers(port))));
        broken.extend(port.complaint.iter().map(|complaint| format!("port {}: {complaint}", port.name)));
    }
    broken
}

/// Returns true if peers connect to the port. Such a port is down while it has no peer.
fn has_peers(port: &PortReport) -> bool {
    port.kind == "memif"
}

/// Returns a line for each port without a peer.
pub fn without_peers(report: &Report) -> Vec<String> {
    let with_peers = report.ports.iter().filter(|port| has_peers(port));
    with_peers.filter_map(|port| down(&port.name, &port.state)).collect()
}

/// Returns a line if the captures have only packets for another router.
fn for_no_port(report: &Report) -> Option<String> {
    let reads = |port: &&PortReport| port.kind == "pcap" && port.counter("rx") > 0;
    let of = |(name, frames): &(&str, u64)| (*name == Reason::NotForUs.name()).then_some(*frames);
    let dropped = report.dropped.iter().find_map(of)?;
    report.ports.iter().find(reads).filter(|_| dropped > 0 && dropped == report.received)?;
    let addresses: Vec<_> =
        report.ports.iter().map(|port| format!("{} has {}", port.name, port.detail)).collect();
    Some(format!(
        "check failed: all {dropped} frames were for other MAC addresses (not_for_us): {}; give the address to which \
         the capture's packets were sent, as in pcap:in=FILE,mac=MAC, or mac=any",
        addresses.join(", ")
    ))
}

/// Checks each worker by itself.
fn check_workers(report: &Report, broken: &mut Vec<String>) {
    for (number, worker) in report.workers.iter().enumerate() {
        let WorkerReport { received, taken, handed, originated, transmitted, .. } = *worker;
        let WorkerReport { dropped, held, passed, fragmented, fragments, .. } = *worker;
        let (came, went) = (received + taken + originated + fragments, transmitted + dropped + held + passed);
        if came != went + handed + fragmented {
            broken.push(format!(
                "check failed: worker {number}: received {received} + taken {taken} + originated {originated} \
                 + fragments {fragments} = transmitted {transmitted} + dropped {dropped} + held {held} + passed {passed} \
                 + handed {handed} + fragmented {fragmented}"
            ));
        }
    }
}

/// Checks the sums if this process has both ends of the wires.
fn check_network(report: &Report, traveled: &Traveled, broken: &mut Vec<String>) {
    let Report { received, transmitted, .. } = *report;
    let Traveled { sent, sink, first_fault, .. } = traveled;
    let rx_drops: u64 = report.ports.iter().map(|port| port.rx_drops()).sum();
    if *sent != received + rx_drops {
        broken.push(format!("check failed: sent {sent} = received {received} + rx drops {rx_drops}"));
    }
    let completed: u64 = report.ports.iter().map(|port| port.counter("completed")).sum();
    if transmitted != completed {
        broken.push(format!("check failed: transmitted {transmitted} = completed {completed}"));
    }
    if transmitted != sink.received {
        broken.push(format!(
            "check failed: transmitted {transmitted} = received by the sink {}",
            sink.received
        ));
    }
    if sink.corrupt > 0 {
        let first = first_fault.map_or("unknown", |fault| fault.name());
        broken.push(format!("check failed: corrupt {} = 0 (the first one: {first})", sink.corrupt));
    }
    if sink.duplicates > 0 {
        broken.push(format!("check failed: packets that came twice {} = 0", sink.duplicates));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forward::report::{FilterReport, sample};
    use netmem::pool::StillOut;
    use netmem::port::PortState;
    use netmem_traffic::Fault;

    /// Returns the lines for the sample after this change.
    fn said(change: impl FnOnce(&mut Report, &mut Traveled)) -> Vec<String> {
        let mut report = sample();
        let mut traveled = report.traveled.unwrap();
        change(&mut report, &mut traveled);
        report.traveled = report.traveled.map(|_| traveled);
        broken(&report, false)
    }

    #[test]
    fn a_run_whose_counters_add_up_reports_no_broken_check() {
        assert_eq!(said(|_, _| ()), [""; 0]);
    }

    #[test]
    fn each_equality_that_does_not_hold_is_named_with_its_numbers() {
        assert_eq!(
            said(|report, _| report.held = 3),
            [
                "check failed: received 100 + originated 3 + fragments 3 = transmitted 93 + dropped 8 + held 3 + passed 0 \
                 + fragmented 1"
            ]
        );
        assert_eq!(
            said(|report, _| report.workers[0].taken = 5),
            [
                "check failed: worker 0: received 100 + taken 5 + originated 3 + fragments 3 = transmitted 93 + dropped 8 + held 4 \
                 + passed 0 + handed 0 + fragmented 1"
            ]
        );
        let local_queue = LocalQueueReport { taken: 5, freed: 3, kept: 1 };
        assert_eq!(
            said(|report, _| report.local_queue = Some(local_queue)),
            ["check failed: passed 0 = taken 5 = freed 3 + kept 1"]
        );
        let mirror = MirrorReport { taken: 80, missed: 9, kept: 0 };
        assert_eq!(
            said(|report, _| report.mirror = Some(mirror)),
            ["check failed: completed 93 = mirrored 80 + missed 9"]
        );
        let filter = FilterReport { unmatched: 0, rules: Vec::new(), protocols: vec![("udp", 99)] };
        assert_eq!(
            said(|report, _| report.filter = Some(filter)),
            ["check failed: received 100 = seen by the hooks 99 + without a head 0 + lost between workers 0"]
        );
        assert_eq!(
            said(|_, traveled| traveled.sent = 101),
            ["check failed: sent 101 = received 100 + rx drops 0"]
        );
        assert_eq!(
            said(|_, traveled| traveled.sink.received = 89),
            ["check failed: transmitted 93 = received by the sink 89"]
        );
        let uncompleted = said(|report, _| report.ports[1].counters.clear());
        assert_eq!(uncompleted, ["check failed: transmitted 93 = completed 0"]);
    }

    /// Seen: with a full inbox, a run on the full path reported missing packets.
    #[test]
    fn packets_lost_between_workers_are_not_missed_by_the_hooks() {
        let filter = FilterReport { unmatched: 0, rules: Vec::new(), protocols: vec![("udp", 92)] };
        let lost = said(|report, _| {
            report.filter = Some(filter);
            report.dropped = vec![("inbox_full", 8)];
        });
        assert_eq!(lost, [""; 0]);
    }

    #[test]
    fn a_local_queue_that_took_other_packets_than_were_passed_and_one_that_lost_some_are_both_named() {
        let held_by = |local_queue| {
            said(|report, _| {
                (report.passed, report.received, report.workers[0].received) = (5, 105, 105);
                report.workers[0].passed = 5;
                report.traveled = None;
                report.local_queue = Some(local_queue);
            })
        };
        assert_eq!(held_by(LocalQueueReport { taken: 5, freed: 3, kept: 2 }), [""; 0]);
        let other = held_by(LocalQueueReport { taken: 4, freed: 3, kept: 1 });
        assert_eq!(other, ["check failed: passed 5 = taken 4 = freed 3 + kept 1"]);
        let lost = held_by(LocalQueueReport { taken: 5, freed: 3, kept: 1 });
        assert_eq!(lost, ["check failed: passed 5 = taken 5 = freed 3 + kept 1"]);
    }

    #[test]
    fn corrupt_and_repeated_packets_are_named() {
        let corrupt = said(|_, traveled| {
            traveled.sink.corrupt = 1;
            traveled.first_fault = Some(Fault::Ttl);
        });
        assert_eq!(corrupt, ["check failed: corrupt 1 = 0 (the first one: ttl)"]);
        let twice = said(|_, traveled| traveled.sink.duplicates = 2);
        assert_eq!(twice, ["check failed: packets that came twice 2 = 0"]);
    }

    #[test]
    fn a_pool_that_lost_a_frame_and_a_port_that_is_down_are_named() {
        let lost = said(|report, _| report.pools[0].free -= 1);
        assert!(lost.len() == 1 && lost[0].contains("pool rx") && lost[0].contains("free: 59"), "{lost:?}");
        let out = said(|report, _| report.still_out = Some(StillOut(report.pools[0].clone(), Vec::new())));
        assert!(out.len() == 1 && out[0].contains("still out"), "{out:?}");
        let down = said(|report, _| report.ports[0].state = PortState::Down("gone".into()));
        assert_eq!(down, ["port mem:0 is down: gone"]);
        let mut report = sample();
        report.ports[0].state = PortState::Down("no peer".into());
        assert_eq!(broken(&report, true), ["port mem:0 is down: no peer"]);
        report.ports[0].kind = "memif";
        assert_eq!(
            (broken(&report, true), without_peers(&report)),
            (vec![], vec!["port mem:0 is down: no peer".into()])
        );
        assert_eq!(broken(&report, false), ["port mem:0 is down: no peer"]);
    }

    #[test]
    fn interfaces_have_no_far_end_to_compare_with() {
        let alone = said(|report, _| {
            report.traveled = None;
            report.ports[1].counters.clear();
        });
        assert_eq!(alone, [""; 0]);
    }
}
