//! Real packets with heads, ready pools, rules, a local queue and a mirror, ended in the middle of traffic.

use crate::forwarder::{Forwarder, netmem};
use crate::summary::Summary;
use crate::testbed::{Testbed, Wiring, scratch, wait_until};
use crate::traffic::{assert_ping_both_ways, assert_tcp_both_ways};
use crate::wire::Wire;
use std::process::{Child, Stdio};

#[test]
fn hosts_reach_each_other_by_packets_without_ready_pools() {
    hosts_reach_each_other(&["--path=full", "--ready-heads=0", "--ready-packets=0"]);
}

#[test]
fn hosts_reach_each_other_by_packets_with_ready_heads_and_pairs() {
    hosts_reach_each_other(&["--path=full", "--ready-heads=64/16/32", "--ready-packets=50", "--rule=accept"]);
}

#[test]
fn hosts_reach_each_other_while_a_mirror_holds_clones_of_what_was_sent() {
    let Some(summary) = hosts_reach_each_other(&["--mirror=500", "--ready-packets=50"]) else { return };
    assert_eq!(summary.number("mirror.kept"), 500);
}

/// Ping and TCP cross in both directions. Then the run is ended while a host floods the path, and its counters must add
/// up.
fn hosts_reach_each_other(options: &[&str]) -> Option<Summary> {
    let bed = Testbed::lay(Wiring::Routed, &["ping", "iperf3"])?;
    let forwarder = Forwarder::start(&bed, options);
    bed.wait_for_the_path();
    assert_ping_both_ways(&bed);
    assert_tcp_both_ways(&bed);
    let _flood = Flood::start(&bed);
    let summary = forwarder.interrupt();
    summary.assert_adds_up();
    bed.assert_nothing_left();
    Some(summary)
}

#[test]
fn rules_drop_and_pass_real_packets_by_count_in_mid_traffic() {
    let Some(bed) = Testbed::lay(Wiring::Routed, &["ping"]) else { return };
    let rules =
        ["--rule=pass,proto=icmp,in=1", "--rule=drop,dst=10.77.2.0/24,dport=9000", "--local-queue=20"];
    let forwarder = Forwarder::start(&bed, &[&["--path=full", "--ready-packets=50"], &rules[..]].concat());
    let flood = Flood::start(&bed);
    let summary = forwarder.interrupt();
    drop(flood);
    summary.assert_adds_up();
    // Requests cross. The answers, which come in by port 1, are held.
    assert!(summary.number("passed") > 0 && summary.number("transmitted") > 0);
    assert_eq!(summary.number("local_queue.taken"), summary.number("passed"));
    bed.assert_nothing_left();
}

#[test]
fn tunables_are_changed_through_the_socket_while_a_mirror_holds_clones_in_mid_traffic() {
    let Some(bed) = Testbed::lay(Wiring::Routed, &["ping"]) else { return };
    let socket = scratch("netns");
    let socket = socket.to_str().expect("a path in UTF-8");
    let options = [
        "--path=full",
        "--ready-packets=50",
        "--mirror=200",
        "--local-queue=50",
        "--rule=pass,proto=icmp,in=1",
    ];
    let forwarder = Forwarder::start(&bed, &[&["--control", socket], &options[..]].concat());
    let flood = Flood::start(&bed);
    for max in ["0", "300", "7", "64"] {
        for (key, value) in [
            ("ready.packets.max", max),
            ("ready.heads.size", "32"),
            ("pool.rx.cache", "64"),
            ("local_queue.packets", max),
            ("rules", "accept,in=0 pass,proto=icmp"),
        ] {
            let out = netmem(&bed).args(["set", key, value, "--control", socket]).output().expect("netmem");
            assert!(out.status.success(), "{key} {value}: {}", String::from_utf8_lossy(&out.stderr));
        }
        let before = Wire::read(&bed.h2, "eth0").rx;
        wait_until("packets go on reaching h2", || Wire::read(&bed.h2, "eth0").rx > before + 100);
    }
    let summary = forwarder.interrupt();
    drop(flood);
    summary.assert_adds_up();
    assert!(summary.number("mirror.taken") > 0 && summary.number("passed") > 0);
    assert_eq!(summary.number("ready_packets.max"), 64);
    bed.assert_nothing_left();
}

/// Pings from h1 to h2, as many as go, until dropped.
pub struct Flood(Child);

impl Flood {
    /// Starts it and waits until packets are under way.
    pub fn start(bed: &Testbed) -> Flood {
        let mut command = bed.h1.command("ping");
        command.args(["-f", "-W", "1", &bed.address(2)]).stdout(Stdio::null()).stderr(Stdio::null());
        let flood = Flood(command.spawn().expect("ping"));
        let before = Wire::read(&bed.h2, "eth0").rx;
        wait_until("packets reach h2", || Wire::read(&bed.h2, "eth0").rx > before + 100);
        flood
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        self.0.kill().and_then(|()| self.0.wait()).map(drop).ok();
    }
}
