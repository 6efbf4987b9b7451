//! Transfers by iperf3.

// Each test file uses its part of this.
#![allow(dead_code)]

use crate::testbed::{Namespace, PATIENCE, wait_until};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

/// The default port of servers.
pub const PORT: u16 = 5201;

/// Runs a transfer from `client` to `server`, at its `address`, with these options. Returns the client's report.
///
/// # Panics
/// When it fails.
pub fn transfer(
    client: &Namespace,
    server: &Namespace,
    (address, port): (&str, u16),
    options: &[&str],
) -> Value {
    let mut server = Server::start(server, port);
    let (patience, port) = (PATIENCE.as_secs().to_string(), port.to_string());
    let mut command = client.command("timeout");
    command.args([&patience, "iperf3", "--json", "-c", address, "-p", &port]).args(options);
    let out = command.output().expect("iperf3");
    let said = String::from_utf8_lossy(&out.stdout);
    assert!(out.status.success(), "iperf3 {options:?}: {} {said}", out.status);
    server.wait();
    serde_json::from_str(&said).expect("a report")
}

/// Whether a stream of `count` bytes arrives by TCP. With `--reverse` among the options the server sends it.
///
/// The server stops counting when the client reports its end, and the sockets may still hold data then. By default that
/// may be all data, so their buffers are bounded here.
pub fn arrives(
    client: &Namespace,
    server: &Namespace,
    at: (&str, u16),
    count: u64,
    options: &[&str],
) -> bool {
    let report = transfer(client, server, at, &[&["-n", &count.to_string(), "-w", "128K"], options].concat());
    let (sent, received) = (bytes(&report, "sum_sent"), bytes(&report, "sum_received"));
    println!("iperf3 {at:?} {options:?}: sent {sent}, received {received}");
    sent >= count && received > count / 2
}

/// Returns what a report says about one end: `sum_sent` and `sum_received` of TCP, `sum` of UDP.
pub fn bytes(report: &Value, end: &str) -> u64 {
    report["end"][end]["bytes"].as_u64().unwrap_or_else(|| panic!("no bytes of {end} in {report}"))
}

/// An iperf3 server that serves one client. It is killed when dropped.
struct Server(Child);

impl Server {
    /// Starts it and waits until it listens.
    fn start(host: &Namespace, port: u16) -> Server {
        let mut command = host.command("iperf3");
        command.args(["-s", "-1", "--forceflush", "-p", &port.to_string()]);
        let mut server = Server(command.stdout(Stdio::piped()).spawn().expect("iperf3"));
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
