//! The example `http` and curl of another host: 100 MiB, unchanged, by one and by eight at once, over a clean link and
//! one with faults.

#![allow(clippy::unwrap_used)]

#[allow(dead_code, reason = "shared with tests that use more of it")]
#[path = "../../tests/testbed/mod.rs"]
mod testbed;

use std::process::{Child, Stdio};
use std::thread;
use testbed::{Faults, Namespace, Served, Testbed, Wiring, example, wait_until};

const FILE: usize = 100 << 20;

/// The example on an interface of a namespace; killed when dropped.
struct Server(Child);

impl Server {
    fn start(at: &Namespace, interface: &str, address: &str, file: &Served) -> Server {
        let mut command = at.command(&example("netmem-smoltcp", "http").display().to_string());
        let server = command.args([interface, address]).arg(&file.path).spawn().expect("the example starts");
        let server = Server(server);
        wait_until("the server has its interface", || at.xdp_sockets() == 1);
        server
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.0.kill().and_then(|()| self.0.wait()).map(drop).ok();
    }
}

/// Fetches the file that many times at once, and checks each copy.
fn fetch(from: &Namespace, address: &str, at_once: usize, file: &Served) {
    let curl = || {
        let mut command = from.command("curl");
        command.args([
            "-sS",
            "--http1.1",
            "--retry-connrefused",
            "--retry",
            "9",
            &format!("http://{address}/file"),
        ]);
        let out = command.stderr(Stdio::inherit()).output().unwrap();
        assert!(out.status.success(), "curl: {}", out.status);
        let (came, len) = (out.stdout.len(), file.bytes.len());
        assert!(out.stdout == file.bytes, "{came} bytes came, and not the file's {len}");
    };
    thread::scope(|scope| (0..at_once).for_each(|_| drop(scope.spawn(curl))));
}

#[test]
fn curl_fetches_a_hundred_mebibytes_eight_times_at_once_while_the_kernel_answers_ping() {
    let Some(bed) = Testbed::lay(Wiring::Bridged, &["curl", "ping"]) else { return };
    bed.dut.ip("addr add 10.77.0.254/24 dev one");
    let file = Served::new("served", FILE);
    let _server = Server::start(&bed.dut, "one", "10.77.0.254", &file);
    fetch(&bed.h1, "10.77.0.254", 1, &file);
    thread::scope(|scope| {
        scope.spawn(|| fetch(&bed.h1, "10.77.0.254", 8, &file));
        bed.h1.ping("10.77.0.254", 50, "-i 0.02");
    });
}

#[test]
fn curl_fetches_by_ipv6_too() {
    let Some(bed) = Testbed::lay(Wiring::Bridged, &["curl", "ping"]) else { return };
    [&bed.h1, &bed.dut].iter().for_each(|namespace| namespace.set_ipv6(true));
    bed.dut.ip("addr add fd77::254/64 dev one nodad");
    bed.h1.ip("addr add fd77::1/64 dev eth0 nodad");
    let file = Served::new("served-by-ipv6", FILE);
    let _server = Server::start(&bed.dut, "one", "fd77::254", &file);
    fetch(&bed.h1, "[fd77::254]", 2, &file);
    bed.h1.ping("fd77::254", 10, "-i 0.02");
}

#[test]
fn curl_fetches_a_file_whole_over_a_link_that_loses_duplicates_and_delays() {
    let Some(bed) = Testbed::lay(Wiring::Bridged, &["curl"]) else { return };
    let file = Served::new("served-with-faults", FILE);
    thread::scope(|scope| {
        let faults = Faults::begin(&bed, scope);
        let _server = Server::start(&bed.h2, "eth0", "10.77.0.2", &file);
        fetch(&bed.h1, "10.77.0.2", 1, &file);
        fetch(&bed.h1, "10.77.0.2", 8, &file);
        faults.assert_of_each_kind(10);
    });
}

/// Seen: each socket was in TIME-WAIT for ten seconds after its request, and the connection of the 33rd was refused.
#[test]
fn more_requests_than_sockets_in_ten_seconds_are_all_answered() {
    let Some(bed) = Testbed::lay(Wiring::Bridged, &["curl"]) else { return };
    bed.dut.ip("addr add 10.77.0.254/24 dev one");
    let file = Served::new("served-often", 4096);
    let _server = Server::start(&bed.dut, "one", "10.77.0.254", &file);
    // The first request may be repeated, until the server listens. None of the others may be.
    fetch(&bed.h1, "10.77.0.254", 1, &file);
    let mut curl = bed.h1.command("curl");
    curl.args(["-sS", "--http1.1", "--fail-early", "http://10.77.0.254/[1-100]"]);
    let out = curl.stderr(Stdio::inherit()).output().unwrap();
    assert!(out.status.success(), "curl: {}", out.status);
    assert!(out.stdout == file.bytes.repeat(100), "{} bytes came", out.stdout.len());
}
