//! What the hosts send each other: pings, and TCP by iperf3.

use crate::testbed::{Namespace, PATIENCE, Testbed, wait_until};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

/// Bytes that each TCP transfer carries.
const TCP_BYTES: u64 = 64 << 20;

/// Waits until the path carries packets between the hosts.
pub fn wait_for_the_path(bed: &Testbed) {
    let reply = || bed.h1.command("ping").args(["-c", "1", "-W", "2", &bed.address(2)]).output();
    wait_until("h2 answers h1", || reply().expect("ping").status.success());
}

/// Asserts that each host answers every ping of the other.
pub fn assert_ping_both_ways(bed: &Testbed) {
    for (from, to) in [(&bed.h1, 2), (&bed.h2, 1)] {
        from.ping(&bed.address(to).to_string(), 5, "-i 0.2 -s 1000");
    }
}

/// Asserts that a TCP transfer from h1 to h2 completes, and one from h2 to h1.
pub fn assert_tcp_both_ways(bed: &Testbed) {
    for direction in [&[][..], &["--reverse"]] {
        let mut server = Server::start(&bed.h2);
        let bytes = TCP_BYTES.to_string();
        let mut client = bed.h1.command("timeout");
        client.args([
            &PATIENCE.as_secs().to_string(),
            "iperf3",
            "--json",
            "-c",
            &bed.address(2),
            "-n",
            &bytes,
        ]);
        let out = client.args(direction).output().expect("iperf3");
        let said = String::from_utf8_lossy(&out.stdout);
        assert!(out.status.success(), "iperf3 {direction:?}: {} {said}", out.status);
        let report: Value = serde_json::from_str(&said).expect("a report");
        let bytes = |end: &str| report["end"][end]["bytes"].as_u64().expect("bytes");
        // The server counts until the client says that it is done, with its last window still on the way.
        let (sent, received) = (bytes("sum_sent"), bytes("sum_received"));
        assert!(sent >= TCP_BYTES && received > TCP_BYTES / 2, "{direction:?}: {said}");
        server.wait();
    }
}

/// An iperf3 server that serves one client; killed when dropped.
struct Server(Child);

impl Server {
    /// Starts it and waits until it listens.
    fn start(host: &Namespace) -> Server {
        let mut command = host.command("iperf3");
        let child =
            command.args(["-s", "-1", "--forceflush"]).stdout(Stdio::piped()).spawn().expect("iperf3");
        let mut server = Server(child);
        let lines = BufReader::new(server.0.stdout.as_mut().expect("its output")).lines();
        let listens = lines.map_while(Result::ok).any(|line| line.contains("listening"));
        assert!(listens, "the iperf3 server does not listen");
        server
    }

    fn wait(&mut self) {
        wait_until("the iperf3 server ends", || self.0.try_wait().expect("wait").is_some());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.0.kill().and_then(|()| self.0.wait()).map(drop).ok();
    }
}
