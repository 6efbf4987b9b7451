//! Interfaces are set down, and taken away and made again, while two hosts flood the path between them.

use crate::forwarder::{Forwarder, netmem, said};
use crate::packets::Flood;
use crate::summary::Summary;
use crate::testbed::{Testbed, Wiring, scratch, wait_until};
use crate::traffic::assert_ping_both_ways;
use rustix::process::Signal;
use std::fs;

#[test]
fn the_path_is_back_whenever_an_interface_is_set_up_again_in_native_mode() {
    the_path_is_back(&["--xdp-mode=native"], set_down_and_up);
}

#[test]
fn the_path_is_back_whenever_an_interface_is_set_up_again_in_generic_mode() {
    the_path_is_back(&["--xdp-mode=generic"], set_down_and_up);
}

#[test]
fn the_path_is_back_whenever_an_interface_is_made_again_in_native_mode() {
    the_path_is_back(&["--xdp-mode=native"], take_away_and_make_again);
}

#[test]
fn the_path_is_back_whenever_an_interface_is_made_again_in_generic_mode() {
    the_path_is_back(&["--xdp-mode=generic"], take_away_and_make_again);
}

#[test]
fn the_path_of_packets_with_heads_is_back_whenever_an_interface_is_made_again_under_workers_that_sleep() {
    let options = ["--path=full", "--ready-packets=50", "--idle=sleep"];
    the_path_is_back(&options, take_away_and_make_again);
}

/// Twice for each interface.
fn the_path_is_back(options: &[&str], harm: fn(&Testbed, u8)) {
    let Some(bed) = Testbed::lay(Wiring::Routed, &["ping"]) else { return };
    let forwarder = Forwarder::start(&bed, options);
    bed.wait_for_the_path();
    for number in [1, 2, 1, 2] {
        let flood = Flood::start(&bed);
        harm(&bed, number);
        bed.wait_for_the_path();
        drop(flood);
        assert_ping_both_ways(&bed);
    }
    let out = forwarder.end(Signal::INT);
    let said = said(&out);
    assert!(out.status.success(), "{said}");
    assert!(said.lines().all(|line| line.contains("netmem: port xdp:")), "{said}");
    Summary::parse(&out.stdout).assert_adds_up();
    bed.assert_nothing_left();
}

fn set_down_and_up(bed: &Testbed, number: u8) {
    let interface = if number == 1 { "one" } else { "two" };
    bed.dut.ip(&format!("link set dev {interface} down"));
    bed.dut.ip(&format!("link set dev {interface} up"));
}

fn take_away_and_make_again(bed: &Testbed, number: u8) {
    let host = if number == 1 { &bed.h1 } else { &bed.h2 };
    host.ip("link del eth0");
    bed.wire(number, 1);
    wait_until("the programs are there again", || bed.has_programs());
}

/// Seen: with queues=all each reload was refused while an interface was away, and also after it had another number of
/// queues, because of `frames`, which nobody had written.
#[test]
fn a_rule_changes_while_an_interface_of_all_queues_is_away_and_when_it_is_back_with_more_queues() {
    let Some(bed) = Testbed::lay(Wiring::Bridged, &["ping"]) else { return };
    let (config, control) = (scratch("absence-config"), scratch("absence-control"));
    let rule = |port: u16| {
        fs::write(&config, format!("path = \"full\"\nrule = [\"drop,proto=udp,dport={port}\"]\n"))
            .expect("a file");
    };
    rule(7);
    rule(7);
    let at = format!("--control={}", control.display());
    let options = [&format!("--config={}", config.display())[..], &at];
    let mut forwarder = Forwarder::start_on(&bed, ["xdp:one,queues=all", "xdp:two,queues=all"], &options);
    let reloaded = |port: u16| {
        rule(port);
        let out = netmem(&bed).args(["reload", &at]).output().expect("netmem runs");
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        let out = netmem(&bed).args(["set", "rules", &at]).output().expect("netmem runs");
        let rules = String::from_utf8_lossy(&out.stdout).into_owned();
        assert!(rules.contains(&format!("dport={port}")), "{rules}");
    };
    bed.h2.ip("link del eth0");
    reloaded(8);
    bed.wire(2, 2);
    wait_until("the programs are there again", || bed.has_programs());
    reloaded(9);
    let mut before = Vec::new();
    let complained = forwarder.lines().any(|line| {
        before.push(line);
        before.last().is_some_and(|line| line.contains("receive queues of two have no port"))
    });
    assert!(complained && !before.iter().any(|line| line.contains("error")), "{before:#?}");
    // The kernel gets the packets of the new queue.
    assert_eq!(forwarder.end(Signal::INT).status.code(), Some(1));
    fs::remove_file(&config).expect("the configuration");
    bed.assert_nothing_left();
}

/// Seen: longer packets were lost, and the line about the new MTU did not say so.
#[test]
fn an_mtu_that_is_raised_beyond_the_frames_is_reported_with_the_remedy() {
    for (wiring, of_router) in [(Wiring::Routed, "address 02:00:00:00:01:fe and "), (Wiring::Bridged, "")] {
        let Some(bed) = Testbed::lay(wiring, &["ping"]) else { return };
        let mut forwarder = Forwarder::start_on(&bed, ["packet:one", "packet:two"], &[]);
        bed.dut.ip("link set dev one mtu 9000");
        let line = forwarder.lines().find(|line| line.contains("MTU 9000")).expect("a line");
        let wanted = format!(
            "netmem: interface one now has {of_router}MTU 9000: its packets have up to 9014 bytes, and a frame has room for 1514: \
             --frame-size 16384, or ip link set dev one mtu 1500"
        );
        assert_eq!(line, wanted);
        assert!(forwarder.end(Signal::INT).status.success());
        bed.assert_nothing_left();
    }
}

#[test]
fn the_path_is_back_by_the_new_address_of_an_interface_that_is_made_again() {
    let Some(bed) = Testbed::lay(Wiring::Routed, &["ping"]) else { return };
    let forwarder = Forwarder::start(&bed, &[]);
    bed.wait_for_the_path();
    let new = "02:00:00:00:01:aa";
    take_away_and_make_again(&bed, 1);
    bed.dut.ip(&format!("link set dev one address {new}"));
    bed.h1.ip(&format!("neigh replace 10.77.1.254 lladdr {new} dev eth0"));
    bed.wait_for_the_path();
    assert_ping_both_ways(&bed);
    let out = forwarder.end(Signal::INT);
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success() && said.contains(&format!("interface one now has address {new}")), "{said}");
    Summary::parse(&out.stdout).assert_adds_up();
}
