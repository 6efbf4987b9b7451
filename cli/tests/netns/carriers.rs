//! The other end of a port's interface is set down: the port stays up, and says that it has no carrier.

use crate::forwarder::{Forwarder, netmem, said};
use crate::testbed::{Testbed, Wiring, scratch, wait_until};
use rustix::process::Signal;
use serde_json::Value;
use std::io::{Read, Write};
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

/// The state of the first port in `netmem stat`.
fn state(bed: &Testbed, control: &str) -> String {
    let out = netmem(bed).args(["stat", "ports", "--json", control]).output().expect("netmem runs");
    let said: Value = serde_json::from_slice(&out.stdout).expect("an answer");
    said["ports"][0]["state"].as_str().expect("a state").to_owned()
}

/// Seen: `netmem_port_up` stayed 1, `netmem stat` said `up`, and no line came.
fn a_lost_carrier_is_reported(kind: &str) {
    let Some(bed) = Testbed::lay(Wiring::Bridged, &["ping"]) else { return };
    let (control, metrics) = (scratch("carrier-control"), scratch("carrier-metrics"));
    let control = format!("--control={}", control.display());
    let options = [&control[..], &format!("--metrics={}", metrics.display())];
    let ports = ["one", "two"].map(|interface| format!("{kind}:{interface}"));
    let forwarder = Forwarder::start_on(&bed, [&ports[0], &ports[1]], &options);
    let port = &ports[0];
    let has = |name: &str, value: u8| {
        let page = scraped(&metrics);
        page.contains(&format!("\n{name}{{port=\"{port}\",number=\"0\"}} {value}\n"))
    };
    wait_until("the carrier is seen", || {
        has("netmem_port_carrier", 1) && has("netmem_port_carrier_losses_total", 0)
    });
    bed.h1.ip("link set dev eth0 down");
    wait_until("the loss is seen", || {
        has("netmem_port_carrier", 0) && has("netmem_port_carrier_losses_total", 1)
    });
    assert_eq!(state(&bed, &control), "up, no carrier");
    let is_up = format!("\nnetmem_port_up{{port=\"{port}\",worker=\"0\",number=\"0\",kind=\"{kind}\"}} 1\n");
    assert!(scraped(&metrics).contains(&is_up), "{}", scraped(&metrics));
    bed.h1.ip("link set dev eth0 up");
    wait_until("the carrier is seen again", || has("netmem_port_carrier", 1));
    assert_eq!(state(&bed, &control), "up");
    bed.wait_for_the_path();
    // An interface that is down itself has no carrier to tell of.
    bed.dut.ip("link set dev one down");
    let name = format!("\nnetmem_port_downs_total{{port=\"{port}\",worker=\"0\",number=\"0\"}} 1\n");
    wait_until("the end is seen", || {
        let page = scraped(&metrics);
        page.contains(&name) && !page.contains(&format!("\nnetmem_port_carrier{{port=\"{port}\""))
    });
    let out = forwarder.end(Signal::INT);
    let said = said(&out);
    let lines: Vec<&str> = said.lines().filter(|line| line.contains("carrier")).collect();
    let wanted = [
        format!(
            "netmem: port {port} is up, no carrier: there is no cable at interface one, or its other end is down"
        ),
        format!("netmem: port {port} is up, and its interface one has a carrier again"),
    ];
    assert_eq!(lines, wanted, "{said}");
    bed.assert_nothing_left();
}

#[test]
fn the_lost_carrier_of_a_packet_port_is_in_the_log_the_state_and_the_metrics() {
    a_lost_carrier_is_reported("packet");
}

#[test]
fn the_lost_carrier_of_an_xdp_port_is_in_the_log_the_state_and_the_metrics() {
    a_lost_carrier_is_reported("xdp");
}
