//! A routing daemon learns thousands of routes from another one, loses them and learns them again, while packets pass.
//!
//! ```text
//!   h1                       dut                          h2  10.77.2.1   half of the networks
//!   eth0 ══════════════ one      two ═══════════════ eth0 ─┤
//!   packets to all          BIRD ◄────── BGP ───────► BIRD └─ h3  10.77.2.2   the other half (macvlan)
//! ```

use crate::bird::Bird;
use crate::comparison::assert_same;
use crate::iperf3::{bytes, transfer};
use crate::router::Router;
use crate::spray::{self, Ends, NETWORKS, Owner, address, networks};
use crate::testbed::{Namespace, scratch, wait_until};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

/// How long routes stay as they are.
const STAY: Duration = Duration::from_millis(300);
/// Each iperf3 transfer, in seconds.
const TRANSFER: &str = "8";

const SPEAKER: &str = "connect delay time 1; connect retry time 1; error wait time 1, 2; hold time 240;";

/// The daemon at the router. The routes that it learns go to the kernel.
fn learner() -> String {
    format!(
        "router id 10.77.2.254;
         protocol device {{ }}
         protocol kernel {{ ipv4 {{ import none; export all; }}; }}
         protocol bgp peer {{ local 10.77.2.254 as 65000; neighbor 10.77.2.1 as 65001; {SPEAKER}
             ipv4 {{ import all; export none; }}; }}"
    )
}

/// The daemon at h2, which has half of the networks itself and tells that the others are at h3.
fn teller() -> String {
    let routes = |owner, way: &str| {
        networks(owner).fold(String::new(), |mut routes, number| {
            writeln!(routes, "route {}/28 {way};", address(number, 0)).expect("a String");
            routes
        })
    };
    let (h2, h3) = (routes(Owner::H2, "blackhole"), routes(Owner::H3, "via 10.77.2.2"));
    format!(
        "router id 10.77.2.1;
         protocol device {{ }}
         protocol static of_h2 {{ ipv4; {h2} }}
         protocol static of_h3 {{ ipv4; {h3} }}
         protocol bgp peer {{ local 10.77.2.1 as 65001; neighbor 10.77.2.254 as 65000; {SPEAKER}
             ipv4 {{ import none; export all; }}; }}"
    )
}

/// A third host, on the link of h2, with its own MAC address. Returns None if the kernel has no macvlan.
fn third_host(router: &Router) -> Option<Namespace> {
    let h3 = Namespace::new("h3").expect("a third host");
    let netns = h3.name();
    let macvlan = format!("link add link eth0 name wire netns {netns} type macvlan mode bridge");
    if !router.bed.h2.makes("ip", &macvlan) {
        return None;
    }
    h3.ip("addr add 10.77.2.2/24 dev wire");
    h3.ip("link set wire up");
    h3.ip("route add default via 10.77.2.254");
    // Every address of the networks is the host's own.
    for host in [&router.bed.h2, &h3] {
        host.ip("route add local 100.64.0.0/10 dev lo");
    }
    Some(h3)
}

/// Removes one half of the routes and adds it again, then the other, until there are enough changes and each half was
/// removed once. Returns how often.
fn flap(teller: &Bird, enough: impl Fn() -> bool) -> usize {
    let mut flaps = 0;
    while flaps < 2 || !enough() {
        let half = ["of_h2", "of_h3"][flaps % 2];
        teller.do_as(&format!("disable {half}"), "disabled");
        thread::sleep(STAY);
        teller.do_as(&format!("enable {half}"), "enabled");
        thread::sleep(STAY);
        flaps += 1;
    }
    flaps
}

#[test]
fn ten_thousand_routes_that_bird_learns_and_loses_lead_no_packet_to_the_wrong_host() {
    let programs = ["bird", "birdc", "iperf3"];
    let Some(router) = Router::start_on(["xdp:one", "xdp:two"], &programs, &[]) else { return };
    let Some(h3) = third_host(&router) else { return };
    let (h1, h2) = (&router.bed.h1, &router.bed.h2);
    let (_learner, teller) = (Bird::start(&router.bed.dut, &learner()), Bird::start(h2, &teller()));
    wait_until("BIRD has told the kernel all", || router.stat("routes").len() > NETWORKS as usize);
    assert_same(&router);
    let (stop, done) = (AtomicBool::new(false), AtomicBool::new(false));
    let (come, flaps) = thread::scope(|scope| {
        let _ends = Ends([&stop, &done]);
        let receivers = [(h2, Owner::H2), (&h3, Owner::H3)]
            .map(|(host, owner)| (host, owner, &done))
            .map(|(host, owner, done)| scope.spawn(move || spray::receive(host, owner, done)));
        let numbers = (0..).map(|n: u32| n.wrapping_mul(2_654_435_761) % NETWORKS);
        let sender = scope.spawn(|| spray::send(h1, numbers.take_while(|_| !stop.load(Relaxed))));
        let tcp = scope.spawn(|| transfer(h1, h2, ("10.77.2.1", 5201), &["-t", TRANSFER]));
        let udp = ["-t", TRANSFER, "-u", "-b", "10M", "-l", "1200"];
        let udp = scope.spawn(move || transfer(h1, h2, ("10.77.2.1", 5202), &udp));
        let flaps = flap(&teller, || tcp.is_finished() && udp.is_finished());
        stop.store(true, Relaxed);
        sender.join().expect("a sender");
        done.store(true, Relaxed);
        let (tcp, udp) = (tcp.join().expect("TCP"), udp.join().expect("UDP"));
        assert!(bytes(&tcp, "sum_received") > 0 && bytes(&udp, "sum") > 0, "{tcp} {udp}");
        (receivers.map(|receiver| receiver.join().expect("a receiver")), flaps)
    });
    println!("{flaps} flaps: {come:?}, drops {}", router.stat("drops")[0]);
    assert!(come.iter().all(|come| come.right > 0 && come.wrong == 0), "{flaps} flaps: {come:?}");
    assert!(assert_same(&router) > NETWORKS as usize);
    assert_nothing_comes_by_routes_that_are_gone(&router, &teller, &h3);
    router.end();
}

/// With h3's routes gone, packets to its networks are dropped, each for want of a route.
fn assert_nothing_comes_by_routes_that_are_gone(router: &Router, teller: &Bird, h3: &Namespace) {
    teller.do_as("disable of_h3", "disabled");
    wait_until("they are gone", || router.stat("routes").len() < NETWORKS as usize);
    assert_same(router);
    let (stop, before) = (AtomicBool::new(false), router.number("drops", "no_route"));
    let come = thread::scope(|scope| {
        let ends = Ends([&stop]);
        let receiver = scope.spawn(|| spray::receive(h3, Owner::H3, &stop));
        wait_until("so many are dropped", || {
            // More of them each time: what finds a full buffer on its way is lost before the router.
            spray::send(&router.bed.h1, networks(Owner::H3).take(200));
            router.number("drops", "no_route") >= before + 200
        });
        drop(ends);
        receiver.join().expect("a receiver")
    });
    assert_eq!((come.right, come.wrong), (0, 0));
}

/// IPv6 routes that never change, and those that come and go, some before them in the kernel's order and some behind.
const STABLE: u32 = 20_000;
const CHURNING: u32 = 200;

fn stable() -> impl Iterator<Item = String> {
    (0..STABLE).map(|n| format!("{:x}:{:x}::/32", 0x2100 + (n >> 12), 1 + (n & 0xfff)))
}

/// Does these with ip(8), all at once.
fn ipv6_batch(router: &Router, lines: impl Iterator<Item = String>) {
    let path = scratch("batch");
    fs::write(&path, lines.collect::<String>()).expect("a file for ip -batch");
    router.bed.dut.ip(&format!("-6 -batch {}", path.display()));
    fs::remove_file(path).expect("the file");
}

/// Moves the routes that come and go behind the stable ones, or before them.
fn churn(router: &Router, from: &str, to: &str) {
    let moved = |n| format!("route del {from}:{n:x}::/32 dev two\nroute add {to}:{n:x}::/32 dev two\n");
    ipv6_batch(router, (1..=CHURNING).map(moved));
}

/// The kernel's dump skips routes while others are removed, and reports no error. The router once treated skipped routes as
/// removed ones, and 27 of 60,000 routes stayed missing.
#[test]
fn ipv6_routes_that_never_change_stay_known_while_others_come_and_go_and_an_unrelated_link_flaps() {
    let Some(router) = Router::start(&[], &[]) else { return };
    ipv6_batch(&router, stable().map(|prefix| format!("route add {prefix} via fd77:2::1\n")));
    ipv6_batch(&router, (1..=CHURNING).map(|n| format!("route add 2000:{n:x}::/32 dev two\n")));
    router.bed.dut.ip("link add name extra type veth peer name other");
    router.bed.dut.ip("link set extra up");
    assert!(assert_same(&router) > STABLE as usize);
    let (stop, before) = (AtomicBool::new(false), router.number("netlink", "resyncs"));
    let missing = thread::scope(|scope| {
        let ends = Ends([&stop]);
        let churned = scope.spawn(|| {
            while !stop.load(Relaxed) {
                churn(&router, "2000", "3000");
                churn(&router, "3000", "2000");
            }
        });
        wait_until("all was asked for twice", || {
            // Its carrier goes and comes back, and a resync reads the kernel's routes.
            router.bed.dut.ip("link set other up");
            router.bed.dut.ip("link set other down");
            router.number("netlink", "resyncs") >= before + 2
        });
        let routes = router.stat("routes");
        drop(ends);
        churned.join().expect("routes that come and go");
        let known: BTreeSet<_> = routes.iter().filter_map(|route| route["name"].as_str()).collect();
        stable().filter(|prefix| !known.contains(prefix.as_str())).collect::<Vec<_>>()
    });
    println!("{} dumps were disturbed", router.number("netlink", "unsettled"));
    assert!(missing.is_empty(), "{} are missing: {:?}", missing.len(), missing.first());
    assert!(assert_same(&router) > STABLE as usize);
    router.end();
}
