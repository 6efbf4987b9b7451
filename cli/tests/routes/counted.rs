//! What `netmem stat` counts is in the metrics too.

use crate::router::Router;
use crate::testbed::{scratch, wait_until};
use std::io::{Read, Write};
use std::net::UdpSocket;
use std::os::unix::net::UnixStream;
use std::path::Path;

/// The metrics of a run that serves them at `path`.
fn scraped(path: &Path) -> String {
    let mut stream = UnixStream::connect(path).expect("it listens");
    stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").expect("it reads");
    let mut page = String::new();
    stream.read_to_string(&mut page).expect("it answers");
    page
}

/// The value of a sample.
fn value(page: &str, sample: &str) -> f64 {
    let line = page.lines().find_map(|line| line.strip_prefix(sample)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {sample} in {page}")).parse().expect("a number")
}

/// Seen: an emptied table of routes, the hits of a rule and the ICMP errors were in no metric.
#[test]
fn routes_neighbours_rules_icmp_errors_and_the_process_are_in_the_metrics_too() {
    let metrics = scratch("counted-metrics");
    let rule = "drop,proto=17,dport=1900";
    let options = [&format!("--metrics={}", metrics.display())[..], "--path=full", &format!("--rule={rule}")];
    let Some(router) = Router::start(&["ping"], &options) else { return };
    wait_until("the path is there", || router.pings("10.77.2.1"));
    let before = value(&scraped(&metrics), "netmem_routes");
    assert_eq!(before, router.number("netlink", "routes") as f64);
    router.bed.dut.ip("route add 192.0.2.0/24 via 10.77.2.1");
    wait_until("the route is counted", || value(&scraped(&metrics), "netmem_routes") == before + 1.0);
    router.bed.h1.inside(|| {
        let socket = UdpSocket::bind("10.77.1.1:0").expect("a socket");
        for _ in 0..3 {
            socket.send_to(b"datagram", "10.77.2.1:1900").expect("it is sent");
        }
    });
    let _ = router.bed.h1.command("ping").args(["-c1", "-W1", "-t1", "10.77.2.1"]).output();
    let hits = format!("netmem_rule_packets_total{{rule=\"{rule}\"}}");
    wait_until("the hits and the error are counted", || {
        let page = scraped(&metrics);
        let errors = value(&page, "netmem_icmp_errors_total{message=\"time_exceeded\"}");
        value(&page, &hits) == 3.0 && errors == 1.0
    });
    let page = scraped(&metrics);
    for (sample, least) in [
        ("netmem_neighbours{state=\"known\"}", 2.0),
        ("netmem_neighbours{state=\"failed\"}", 0.0),
        ("netmem_rule_unmatched_packets_total", 2.0),
        ("netmem_icmp_suppressed_errors_total{reason=\"limited\"}", 0.0),
        ("process_open_fds", 10.0),
        ("process_max_fds", 10.0),
        ("process_cpu_seconds_total", 1e-6),
    ] {
        assert!(value(&page, sample) >= least, "{sample}: {page}");
    }
    router.end();
}
