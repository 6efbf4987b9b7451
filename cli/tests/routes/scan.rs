//! A scan of the network behind one port, and new neighbours behind the other.

use crate::router::Router;
use crate::spray::Ends;
use crate::testbed::{Namespace, wait_until};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use std::{env, thread};

/// Packets sent one behind the other, and the pause after them: some 20,000 a second.
const BURST: (u32, Duration) = (20, Duration::from_millis(1));
/// Number of new neighbours of each family that are pinged, unless `NETMEM_NEIGHBOURS` is set. In that case nine of ten
/// have to answer the first ping, which waits five seconds.
const NEIGHBOURS: usize = 5;

/// The number of an address in the scan: each once, all over the network.
fn scattered(number: u32) -> u32 {
    number.wrapping_mul(0x9e37_79b1)
}

/// One of an /8, or of a /64.
fn scanned(v6: bool, number: u32) -> IpAddr {
    match v6 {
        false => Ipv4Addr::from_bits(11 << 24 | scattered(number) >> 8).into(),
        true => Ipv6Addr::new(0xfd77, 2, 0, 0, 0, 9, (scattered(number) >> 16) as u16, number as u16).into(),
    }
}

/// Sends to one address after the other until it is asked to stop.
fn scan(from: &Namespace, v6: bool, stop: &AtomicBool) {
    let any = if v6 { "[::]:0" } else { "0.0.0.0:0" };
    let socket = from.inside(|| UdpSocket::bind(any).expect("a UDP socket"));
    for number in (1_u32..).take_while(|_| !stop.load(Relaxed)) {
        // The host's own queue may be full.
        let _ = socket.send_to(b"anybody there?", (scanned(v6, number), 9));
        if number % BURST.0 == 0 {
            thread::sleep(BURST.1);
        }
    }
}

/// One ping of the second host, behind the scanned port, to an address behind the other one.
fn answers(router: &Router, address: &str) -> bool {
    let words = ["-c", "1", "-W", "5", address];
    router.bed.h2.command("ping").args(words).output().expect("ping").status.success()
}

/// A router that lets a network behind its second port be scanned, and knows the host there.
fn scannable(v6: bool) -> Option<Router> {
    let router = Router::start(&["ping"], &[])?;
    crate::traffic::add_ipv6(&router);
    router.bed.dut.ip("route add 11.0.0.0/8 dev two");
    let known = if v6 { "fd77:1::1" } else { "10.77.1.1" };
    wait_until("the hosts know each other", || answers(&router, known));
    Some(router)
}

/// Returns how many of this number of new neighbours answer the first ping. All do after a while.
fn answered(router: &Router, v6: bool, neighbours: usize) -> usize {
    let address = |number: usize| match v6 {
        false => format!("10.77.1.{}", 100 + number),
        true => format!("fd77:1::{:x}", 0x100 + number),
    };
    let length = if v6 { "64 nodad" } else { "24" };
    for number in 0..neighbours {
        router.bed.h1.ip(&format!("addr add {}/{length} dev eth0", address(number)));
    }
    let mut at_once = 0;
    for number in 0..neighbours {
        at_once += usize::from(answers(router, &address(number)));
        wait_until("a new neighbour answers", || answers(router, &address(number)));
    }
    at_once
}

/// Seen: new neighbours behind other ports answered none of 30 pings while an /8 or a /64 was scanned at 20,000
/// addresses a second.
#[test]
fn new_neighbours_behind_other_ports_answer_while_one_port_is_scanned() {
    let wanted = env::var("NETMEM_NEIGHBOURS").ok().map(|many| many.parse::<usize>().expect("a number"));
    for v6 in [false, true] {
        let Some(router) = scannable(v6) else { return };
        let (stop, neighbours) = (AtomicBool::new(false), wanted.unwrap_or(NEIGHBOURS));
        let at_once = thread::scope(|scope| {
            let _ends = Ends([&stop]);
            scope.spawn(|| scan(&router.bed.h1, v6, &stop));
            // More are asked for than there are places for.
            wait_until("the scan is felt", || router.number("drops", "neigh_queue_full") > 2_000);
            answered(&router, v6, neighbours)
        });
        println!("{at_once} of {neighbours} new neighbours answered at once, v6 {v6}");
        assert!(wanted.is_none_or(|wanted| at_once * 10 >= wanted * 9), "{at_once} of {neighbours}");
        assert!(router.number("netlink", "neigh_requests") > 0);
        router.end();
    }
}

/// Seen: above 512 entries the kernel forgot the host behind the scanned port, which sends no requests itself. No
/// packet reached it for a minute.
#[test]
fn a_host_behind_the_scanned_port_that_the_kernel_forgets_is_still_reached() {
    let Some(router) = scannable(false) else { return };
    let stop = AtomicBool::new(false);
    let forgotten = || router.number("netlink", "forgotten");
    thread::scope(|scope| {
        let _ends = Ends([&stop]);
        scope.spawn(|| scan(&router.bed.h1, false, &stop));
        wait_until("the scan is felt", || router.number("drops", "neigh_queue_full") > 2_000);
        for _ in 0..3 {
            let before = forgotten();
            // The kernel forgets all neighbours of an interface that changes in this.
            for how in ["off", "on"] {
                router.bed.dut.ip(&format!("link set two arp {how}"));
            }
            wait_until("the kernel forgets a host", || forgotten() > before);
            wait_until("it is reached", || answers(&router, "10.77.1.1"));
        }
    });
    router.end();
}
