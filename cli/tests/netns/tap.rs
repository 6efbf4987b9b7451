//! A router at the far end of TAP interfaces.

use crate::links::Pair;
use crate::summary::Summary;
use crate::test_frames::Folder;
use crate::testbed::{Namespace, Testbed, Wiring, wait_until};
use serde_json::Value;
use std::path::Path;

/// The router's end of the link of `t0`, which is port 0.
const ROUTER: &str = "02:6e:65:74:00:00";

/// Frames that an interface has received.
fn received(place: &Namespace, interface: &str) -> u64 {
    let shown = place.ip(&format!("-s -j link show dev {interface}"));
    let shown: Value = serde_json::from_str(&shown).expect("JSON");
    shown[0]["stats64"]["rx"]["packets"].as_u64().expect("a number")
}

/// Returns a counter of port 0 of a running netmem. Returns None while it does not answer.
fn counter(place: &Namespace, socket: &Path, name: &str) -> Option<u64> {
    let mut command = place.command(env!("CARGO_BIN_EXE_netmem"));
    command.args(["stat", "ports", "--json", "--control"]).arg(socket);
    let said: Value = serde_json::from_slice(&command.output().expect("netmem").stdout).ok()?;
    said["ports"][0][name].as_u64()
}

/// A jumbo frame: the port has no room for it, and the next frame comes as before.
#[test]
fn frames_longer_than_there_is_room_for_are_counted_and_cost_no_others() {
    for (interface, port) in [("t0", "tap:t0"), ("eth0", "packet:one")] {
        let Some(bed) = Testbed::lay(Wiring::Bridged, &["ping"]) else { return };
        let place = if port.starts_with("tap") { &bed.h1 } else { &bed.dut };
        let folder = Folder::new("long");
        let socket = folder.path("socket");
        let control = format!("--control={}", socket.display());
        let out = format!("pcap:out={}", folder.path("out").display());
        let mut pair = Pair::start_with(place, [port, &out], &[&control]);
        let count = |name| counter(place, &socket, name);
        pair.wait_until("netmem answers", || count("rx_too_long") == Some(0));
        bed.dut.ip("link set dev one mtu 9000");
        bed.h1.ip(&format!("link set dev {interface} mtu 9000"));
        bed.h1.ip(&format!("addr add 10.78.1.1/24 dev {interface}"));
        bed.h1.ip(&format!("neigh add 10.78.1.254 lladdr {ROUTER} dev {interface}"));
        let send = |size: &str| {
            let words = ["-c", "1", "-W", "1", "-s", size, "10.78.1.254"];
            bed.h1.command("ping").args(words).output().expect("ping");
        };
        send("4000");
        wait_until("it was too long", || count("rx_too_long") == Some(1));
        send("1000");
        wait_until("the next one comes", || count("rx") > Some(0));
        pair.end();
    }
}

/// Sends a packet with DF to an address where no host answers.
fn ping(place: &Namespace, size: u32) {
    let words = ["-c", "1", "-W", "1", "-M", "do", "-s", &size.to_string(), "10.78.2.1"];
    place.command("ping").args(words).output().expect("ping");
}

/// Returns the number of packets that a running router has dropped as too long. Returns None while it does not answer.
fn too_long(place: &Namespace, socket: &Path) -> Option<u64> {
    let mut command = place.command(env!("CARGO_BIN_EXE_netmem"));
    command.args(["stat", "drops", "--json", "--control"]).arg(socket);
    let said: Value = serde_json::from_slice(&command.output().expect("netmem").stdout).ok()?;
    said["drops"][0]["pkt_too_big"].as_u64()
}

/// The router once read the MTU of an interface only when it opened the interface. It then sent packets of the old size
/// after the MTU had shrunk.
#[test]
fn a_router_follows_the_mtu_of_tap_interfaces_and_keeps_its_address_there() {
    for routes in ["static", "kernel"] {
        let Some(bed) = Testbed::lay(Wiring::Bridged, &["ping"]) else { return };
        let folder = Folder::new("tap-mtu");
        let socket = folder.path("socket");
        let control = format!("--control={}", socket.display());
        let route = "--route=10.78.2.0/24,1,02:00:00:00:00:02";
        let options = ["--routes", routes, route, &control];
        let mut router = Pair::start_as(&bed.h1, ["tap:t0", "tap:t1"], &options);
        router.wait_until("the router answers", || too_long(&bed.h1, &socket) == Some(0));
        bed.h1.ip("addr add 10.78.1.1/24 dev t0");
        bed.h1.ip(&format!("neigh add 10.78.1.254 lladdr {ROUTER} dev t0"));
        bed.h1.ip("route add 10.78.2.0/24 via 10.78.1.254");
        let reaches = |size| {
            let before = received(&bed.h1, "t1");
            ping(&bed.h1, size);
            received(&bed.h1, "t1") > before
        };
        wait_until("packets of 1,228 bytes reach t1", || reaches(1200));
        bed.h1.ip("link set dev t0 mtu 1400");
        bed.h1.ip("link set dev t1 mtu 1000");
        wait_until("they are too long for it", || {
            ping(&bed.h1, 1200);
            too_long(&bed.h1, &socket) > Some(0)
        });
        wait_until("shorter ones are not", || reaches(900));
        let out = router.end();
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(out.status.success(), "{said}");
        let summary = Summary::parse(&out.stdout);
        assert_eq!((summary.dropped("not_for_us"), summary.dropped("martian")), (0, 0), "{routes}");
        let followed = ["interface t0 now has MTU 1400", "interface t1 now has MTU 1000"];
        let followed = followed.iter().filter(|line| said.contains(**line)).count();
        // A router that follows the kernel's routes knows the MTU before it looks for the line.
        assert!(followed == 2 || routes == "kernel", "{said}");
    }
}

/// Seen: a TAP interface that a container got was gone for the router, for good, though the TAP went on.
#[test]
fn a_tap_interface_that_is_moved_to_another_namespace_goes_on_there() {
    let Some(bed) = Testbed::lay(Wiring::Bridged, &["ping"]) else { return };
    let folder = Folder::new("tap-moves");
    let socket = folder.path("socket");
    let control = format!("--control={}", socket.display());
    let out = format!("pcap:out={}", folder.path("out").display());
    let mut pair = Pair::start_with(&bed.dut, ["tap:t0", &out], &[&control]);
    let count = || counter(&bed.dut, &socket, "rx");
    pair.wait_until("netmem answers", || count().is_some());
    for (from, to, name) in
        [(&bed.dut, &bed.h1, "t0"), (&bed.h1, &bed.h2, "inside"), (&bed.h2, &bed.dut, "t0")]
    {
        let old = if name == "t0" && from.name() != bed.dut.name() { "inside" } else { "t0" };
        from.ip(&format!("link set dev {old} name {name} netns {}", to.name()));
        to.ip(&format!("link set dev {name} up"));
        to.ip(&format!("addr add 10.78.1.1/24 dev {name}"));
        to.ip(&format!("neigh add 10.78.1.254 lladdr {ROUTER} dev {name}"));
        wait_until("what is sent there comes", || {
            let before = count();
            let words = ["-c", "1", "-W", "1", "10.78.1.254"];
            to.command("ping").args(words).output().expect("ping");
            count() > before
        });
    }
    pair.end();
}
