//! Tests of a router in normal use, for NETMEM_SOAK_SECONDS: traffic of all kinds, links that go down, a peer that is
//! killed, settings and rules that change. Its resources at the end are those at the start.

use crate::forwarder::netmem;
use crate::iperf3::{PORT, transfer};
use crate::packets::Flood;
use crate::running::wait_while_it_runs;
use crate::summary::Summary;
use crate::testbed::{Testbed, Wiring, host_mac, scratch, wait_until};
use crate::traffic::{assert_ping_both_ways, ping_once};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs};

/// Rules of every other reload.
const RULES: &str = "rule = [\"drop,proto=udp,dport=1900\", \"accept\"]\n";

/// The resources of a process at rest.
#[derive(Debug, PartialEq, Eq)]
struct Held {
    descriptors: usize,
    threads: usize,
    /// For each pool its name, the frames with the program, and the frames with devices. A pool has more frames in
    /// total if more were needed at once.
    pools: Vec<(String, u64, u64)>,
}

/// A router of two interfaces and a memif port, and what changes it.
struct Soak {
    bed: Testbed,
    file: PathBuf,
    control: PathBuf,
    memif: PathBuf,
    /// The file with its output.
    said: PathBuf,
    child: Option<Child>,
}

impl Soak {
    fn start() -> Option<Soak> {
        let bed = Testbed::lay(Wiring::Routed, &["ping", "iperf3", "timeout"])?;
        let path = |end| scratch(&format!("soak.{end}"));
        let [file, control, memif, said] = ["toml", "sock", "memif", "said"].map(path);
        let mut soak = Soak { bed, file, control, memif, said, child: None };
        soak.configure("");
        let stderr = fs::File::create(&soak.said).expect("a file");
        let mut command = netmem(&soak.bed);
        command.args(["forward", "--json", "--config"]).arg(&soak.file);
        let mut child = command.stdout(Stdio::piped()).stderr(stderr).spawn().expect("netmem starts");
        let answers = || ping_once(&soak.bed.h1, &soak.bed.address(2));
        wait_while_it_runs(&mut child, "h2 answers h1", answers);
        soak.child = Some(child);
        Some(soak)
    }

    /// Writes the configuration, with further lines of it.
    fn configure(&self, further: &str) {
        let (memif, control) = (self.memif.display(), self.control.display());
        let route = |host: u8| format!("\"10.77.{host}.0/24,{},{}\"", host - 1, host_mac(host));
        let text = format!(
            "port = [\"xdp:one\", \"xdp:two\", \"memif:{memif},role=server\"]\nroute = [{}, {}]\ncontrol = \"{control}\"\n\
             path = \"full\"\nidle = \"sleep\"\n{further}",
            route(1),
            route(2)
        );
        fs::write(&self.file, text).expect("a file");
    }

    fn pid(&self) -> Pid {
        Pid::from_child(self.child.as_ref().expect("it runs"))
    }

    /// Reads the file again.
    fn reload(&self, further: &str) {
        self.configure(further);
        kill_process(self.pid(), Signal::HUP).expect("kill(2)");
    }

    fn tune(&self, key: &str, value: u32) {
        let mut command = netmem(&self.bed);
        command.args(["set", key, &value.to_string(), "--control"]).arg(&self.control);
        let out = command.output().expect("netmem");
        assert!(out.status.success(), "{key}: {}", String::from_utf8_lossy(&out.stderr));
    }

    /// A peer that sends by memif to the host behind the second interface until it is killed.
    fn peer(&self) -> Child {
        let mut command = netmem(&self.bed);
        command.arg("gen").arg(format!("--port=memif:{}", self.memif.display()));
        command.args(["--dst=10.77.2.1", "--src=10.78.0.1", "--rate=2000", "--size=imix", "--flows=50"]);
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("netmem starts")
    }

    /// Runs one round of everything. `n` is its number.
    fn round(&self, n: u32) {
        let mut peer = self.peer();
        let flood = Flood::start(&self.bed);
        self.tune("pool.rx.cache", [64, 512][n as usize % 2]);
        self.reload(["", RULES][n as usize % 2]);
        let interface = ["one", "two"][n as usize / 2 % 2];
        self.bed.dut.ip(&format!("link set dev {interface} down"));
        self.bed.dut.ip(&format!("link set dev {interface} up"));
        self.bed.wait_for_the_path();
        drop(flood);
        let direction: &[&str] = if n.is_multiple_of(2) { &[] } else { &["--reverse"] };
        transfer(
            &self.bed.h1,
            &self.bed.h2,
            (&self.bed.address(2), PORT),
            &[&["-n", "8M"], direction].concat(),
        );
        let udp = ["-u", "-b", "20M", "-t", "1", "-l", "1200"];
        transfer(&self.bed.h1, &self.bed.h2, (&self.bed.address(2), PORT), &udp);
        assert_ping_both_ways(&self.bed);
        peer.kill().and_then(|()| peer.wait()).expect("the peer ends");
    }

    /// The frames of each pool, as the ledger has them.
    fn pools(&self) -> Vec<(String, u64, u64)> {
        let number = |pool: &Value, name: &str| pool[name].as_u64().expect("a number");
        let row = |pool: &Value| {
            let name = pool["name"].as_str().expect("a name").to_owned();
            assert_eq!(number(pool, "miscounted"), 0, "{pool}");
            (name, number(pool, "owned"), number(pool, "posted"))
        };
        self.stat("pools").iter().map(row).collect()
    }

    fn stat(&self, of: &str) -> Vec<Value> {
        let mut command = netmem(&self.bed);
        command.args(["stat", of, "--json", "--control"]).arg(&self.control);
        let said: Value = serde_json::from_slice(&command.output().expect("netmem").stdout).expect("JSON");
        said[of].as_array().expect("records").clone()
    }

    fn held(&self) -> Held {
        let count = |of: &str| {
            let entries = fs::read_dir(format!("/proc/{}/{of}", self.pid().as_raw_nonzero()));
            entries.expect("it runs").count()
        };
        Held { descriptors: count("fd"), threads: count("task"), pools: self.pools() }
    }

    /// Returns its resources, after it has noticed that its peer is gone and nothing has changed for ten checks.
    fn settled(&self) -> Held {
        let is_gone = |port: &Value| port["kind"] == "memif" && port["state"] != "up";
        wait_until("the killed peer is gone", || self.stat("ports").iter().any(is_gone));
        let (mut held, mut looks) = (self.held(), 0);
        wait_until("what it holds does not change", || {
            let now = self.held();
            looks = if now == held { looks + 1 } else { 0 };
            held = now;
            looks == 10
        });
        held
    }

    /// Resident memory in KiB.
    fn resident(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid().as_raw_nonzero()));
        let status = status.expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a line VmRSS");
        line.trim().trim_end_matches(" kB").parse().expect("a number")
    }

    /// Ends it. Returns its report, and its output until then.
    fn end(mut self) -> (Summary, String) {
        let child = self.child.take().expect("it runs");
        kill_process(Pid::from_child(&child), Signal::INT).expect("kill(2)");
        let out = child.wait_with_output().expect("wait");
        let said = fs::read_to_string(&self.said).expect("what it said");
        // Its peer was killed, which is reported, and is not a failure of a run that a signal ends.
        assert!(out.status.success() && said.contains("is down: the peer is gone"), "{said}");
        (Summary::parse(&out.stdout), said)
    }
}

impl Drop for Soak {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().and_then(|()| child.wait()).map(drop).ok();
        }
        [&self.file, &self.said].into_iter().for_each(|file| drop(fs::remove_file(file)));
    }
}

/// Seconds of the test: a few unless NETMEM_SOAK_SECONDS is longer.
fn seconds() -> u64 {
    env::var("NETMEM_SOAK_SECONDS").ok().and_then(|seconds| seconds.parse().ok()).unwrap_or(20)
}

#[test]
fn a_router_under_mixed_traffic_and_changes_uses_no_more_at_the_end_than_at_first() {
    let Some(soak) = Soak::start() else { return };
    let (begun, whole) = (Instant::now(), Duration::from_secs(seconds()));
    let warm = Duration::from_secs(300).min(whole / 4);
    let mut rounds = 0;
    // Four rounds are a whole turn of all that changes.
    let mut run_until = |time: Duration| {
        let first = rounds;
        while begun.elapsed() < time || rounds < first + 4 || rounds % 4 != 0 {
            soak.round(rounds);
            rounds += 1;
        }
    };
    run_until(warm);
    let (held, resident) = (soak.settled(), soak.resident());
    run_until(whole);
    assert_eq!(soak.settled(), held, "after {rounds} rounds");
    let now = soak.resident();
    println!("{rounds} rounds in {:?}: {held:?}, {resident} KiB, at the end {now} KiB", begun.elapsed());
    // The allocator's own slack: less than a packet in a thousand rounds would leave behind.
    assert!(now <= resident + resident / 50 + 1024, "{resident} KiB grew to {now} KiB");
    let (summary, said) = soak.end();
    summary.assert_adds_up();
    let known = |line: &str| {
        ["netmem: port ", "netmem: set ", "netmem: configuration reloaded", "error: port memif:"]
            .iter()
            .any(|begin| line.starts_with(begin))
    };
    // Messages of the watchdog about a machine that was paused are not a fault. A worker that never continues would be
    // one.
    let stalls = |end: &str| said.lines().filter(|line| line.contains(end)).count();
    assert_eq!(stalls(" has not finished a round for "), stalls(" goes on, after "), "{said}");
    let ends = [" has not finished a round for ", " goes on, after "];
    let is_stall =
        |line: &str| line.starts_with("netmem: worker ") && ends.iter().any(|end| line.contains(end));
    let strange = said.lines().filter(|line| !line.is_empty() && !known(line) && !is_stall(line));
    let strange: Vec<&str> = strange.collect();
    assert!(strange.is_empty(), "{strange:?}");
}
