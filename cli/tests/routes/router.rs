//! The program under test, between the hosts.

use crate::stalls::without_stalls;
use crate::testbed::{Namespace, Testbed, Wiring, scratch, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::{env, fs};

/// Two hosts, a machine between them whose kernel has addresses and does not forward, and netmem that does.
pub struct Router {
    pub bed: Testbed,
    socket: PathBuf,
    /// None after its end has been waited for.
    child: Option<Child>,
}

/// Two hosts, and a machine between them whose kernel has addresses, does not forward, and takes nothing from router
/// advertisements.
pub fn addressed(programs: &[&str]) -> Option<Testbed> {
    let bed = Testbed::lay(Wiring::Routed, programs)?;
    bed.dut.set_ipv6(true);
    set(&bed.dut, &[("ipv4/ip_forward", "0"), ("ipv6/conf/all/accept_dad", "0")]);
    for (net, port) in [(1, "one"), (2, "two")] {
        bed.dut.ip(&format!("addr add 10.77.{net}.254/24 dev {port}"));
        bed.dut.ip(&format!("addr add fd77:{net}::254/64 dev {port} nodad"));
        set(&bed.dut, &[(&format!("ipv6/conf/{port}/accept_ra"), "0")]);
    }
    Some(bed)
}

/// Gives settings below `/proc/sys/net` of a namespace their values.
pub fn set(place: &Namespace, settings: &[(&str, &str)]) {
    for (key, value) in settings {
        place.inside(|| fs::write(format!("/proc/sys/net/{key}"), value)).expect(key);
    }
}

impl Router {
    /// Starts it with further options, and waits until it forwards. If that is not possible, prints why and returns
    /// None.
    pub fn start(programs: &[&str], options: &[&str]) -> Option<Router> {
        Router::start_on(["packet:one", "packet:two"], programs, options)
    }

    /// The same on these ports.
    pub fn start_on(ports: [&str; 2], programs: &[&str], options: &[&str]) -> Option<Router> {
        Some(Router::start_in(addressed(programs)?, ports, options))
    }

    /// The same in a testbed that is there, whose machine between the hosts has its addresses.
    pub fn start_in(bed: Testbed, ports: [&str; 2], options: &[&str]) -> Router {
        let mut router = Router { bed, socket: scratch("routes"), child: None };
        router.run(ports, options);
        router
    }

    /// Starts netmem.
    fn run(&mut self, [one, two]: [&str; 2], options: &[&str]) {
        let mut command = self.netmem(&["forward", "--port", one, "--port", two]);
        command.args(["--routes", "kernel", "--json", "--control"]).arg(&self.socket).args(options);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("netmem starts");
        self.child = Some(child);
        wait_until("netmem answers", || {
            let child = self.child.as_mut().expect("it was started");
            if child.try_wait().expect("wait").is_some() {
                let out = self.finish();
                panic!("netmem ended: {} {}", out.status, String::from_utf8_lossy(&out.stderr));
            }
            self.ask("netlink").is_some()
        });
    }

    fn netmem(&self, words: &[&str]) -> Command {
        let mut command = self.bed.dut.command(env!("CARGO_BIN_EXE_netmem"));
        command.args(words);
        command
    }

    fn ask(&self, what: &str) -> Option<Value> {
        let out =
            self.netmem(&["stat", what, "--json", "--control"]).arg(&self.socket).output().expect("netmem");
        let said: Value = serde_json::from_slice(&out.stdout).ok()?;
        out.status.success().then(|| said[what].clone())
    }

    /// The records of a section of `netmem stat`.
    pub fn stat(&self, what: &str) -> Vec<Value> {
        let records = self.ask(what).unwrap_or_else(|| panic!("netmem stat {what} failed"));
        records.as_array().expect("records").clone()
    }

    /// A number in the only record of a section.
    pub fn number(&self, what: &str, name: &str) -> u64 {
        self.stat(what)[0][name].as_u64().unwrap_or_else(|| panic!("no number {name} in {what}"))
    }

    /// Whether one ping from the first host is answered.
    pub fn pings(&self, address: &str) -> bool {
        let words = ["-c", "1", "-W", "1", address];
        self.bed.h1.command("ping").args(words).output().expect("ping").status.success()
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        let child = self.child.as_ref().expect("it was started");
        kill_process(Pid::from_child(child), signal).expect("kill(2)");
    }

    /// Ends it as Ctrl-C does. Returns its output.
    ///
    /// # Panics
    /// When it fails or complains.
    pub fn end(self) -> Value {
        self.end_saying("")
    }

    /// Does the same as [`end`](Self::end), and allows lines with this text on standard error.
    pub fn end_saying(self, complaint: &str) -> Value {
        let (summary, said) = self.end_with();
        let expected = |line: &str| line.is_empty() || !complaint.is_empty() && line.contains(complaint);
        assert!(said.lines().all(expected), "{said}");
        summary
    }

    /// Does the same as [`end`](Self::end), and also returns its standard error, without the lines about a worker that
    /// was given no core for a while and then went on.
    pub fn end_with(mut self) -> (Value, String) {
        self.signal(Signal::INT);
        let out = self.finish();
        let said = without_stalls(&String::from_utf8_lossy(&out.stderr));
        assert!(out.status.success(), "{}: {said}", out.status);
        (serde_json::from_slice(&out.stdout).expect("a JSON object"), said)
    }

    fn finish(&mut self) -> Output {
        self.child.take().expect("it was started").wait_with_output().expect("wait")
    }
}

impl Drop for Router {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().and_then(|()| child.wait()).map(drop).ok();
        }
    }
}
