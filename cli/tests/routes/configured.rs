//! The shipped configuration forwards, and is read again while packets pass.

use crate::running::wait_while_it_runs;
use crate::stalls::is_stall;
use crate::testbed::{Testbed, Wiring, scratch, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::{env, fs, thread};

/// `netmem forward` by a copy of the shipped file.
struct Configured {
    bed: Testbed,
    file: PathBuf,
    socket: PathBuf,
    /// The file with its output.
    said: PathBuf,
    child: Option<Child>,
}

impl Configured {
    fn start() -> Option<Configured> {
        let bed = Testbed::lay(Wiring::Routed, &["ping"])?;
        for (net, port, name) in [(1, "one", "eth0"), (2, "two", "eth1")] {
            bed.dut.ip(&format!("link set dev {port} down"));
            bed.dut.ip(&format!("link set dev {port} name {name}"));
            bed.dut.ip(&format!("link set dev {name} up"));
            bed.dut.ip(&format!("addr add 10.77.{net}.254/24 dev {name}"));
        }
        bed.dut.inside(|| fs::write("/proc/sys/net/ipv4/ip_forward", "0")).expect("ip_forward");
        let path = |end| scratch(&format!("configured.{end}"));
        let (file, socket, said) = (path("toml"), path("sock"), path("said"));
        let mut it = Configured { bed, file, socket, said, child: None };
        fs::write(&it.file, SHIPPED).expect("a file");
        let stderr = fs::File::create(&it.said).expect("a file");
        let mut command = it.bed.dut.command(env!("CARGO_BIN_EXE_netmem"));
        command.args(["forward", "--json", "--config"]).arg(&it.file).arg("--control").arg(&it.socket);
        let mut child = command.stdout(Stdio::piped()).stderr(stderr).spawn().expect("netmem starts");
        wait_while_it_runs(&mut child, "netmem answers", || it.rules().is_some());
        it.child = Some(child);
        Some(it)
    }

    /// The filter's rules as they are now.
    fn rules(&self) -> Option<Vec<String>> {
        let mut command = self.bed.dut.command(env!("CARGO_BIN_EXE_netmem"));
        command.args(["stat", "rules", "--json", "--control"]).arg(&self.socket);
        let said: Value = serde_json::from_slice(&command.output().expect("netmem").stdout).ok()?;
        let rules = said["rules"].as_array()?.iter();
        Some(rules.filter_map(|rule| rule["rule"].as_str().map(str::to_owned)).collect())
    }

    /// Frames that the local queue has taken.
    fn taken(&self) -> u64 {
        let mut command = self.bed.dut.command(env!("CARGO_BIN_EXE_netmem"));
        command.args(["stat", "local_queue", "--json", "--control"]).arg(&self.socket);
        let said: Value = serde_json::from_slice(&command.output().expect("netmem").stdout).expect("JSON");
        said["local_queue"][0]["taken"].as_u64().expect("a number")
    }

    /// Returns its output so far, without the lines about a worker that was given no core for a while.
    fn said(&self) -> Vec<String> {
        let said = fs::read_to_string(&self.said).expect("what it said");
        said.lines().filter(|line| !is_stall(line)).map(str::to_owned).collect()
    }

    /// Writes another file and requests a reload. Returns the line that netmem prints then.
    fn change(&self, text: &str) -> String {
        let before = self.said().len();
        fs::write(&self.file, text).expect("the file");
        let child = self.child.as_ref().expect("it was started");
        kill_process(Pid::from_child(child), Signal::HUP).expect("kill(2)");
        wait_until("netmem says what came of it", || self.said().len() > before);
        let line = self.said().swap_remove(before);
        let said = line.strip_prefix("netmem: ").expect("what came of it");
        said.strip_prefix("the configuration ").unwrap_or(said).to_owned()
    }

    /// Ends it as Ctrl-C does. Returns its output.
    fn end(mut self) -> Value {
        let child = self.child.take().expect("it was started");
        kill_process(Pid::from_child(&child), Signal::INT).expect("kill(2)");
        let out = child.wait_with_output().expect("wait");
        assert!(out.status.success(), "{:?}", self.said());
        serde_json::from_slice(&out.stdout).expect("a JSON object")
    }
}

impl Drop for Configured {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().and_then(|()| child.wait()).map(drop).ok();
        }
        let _ = (fs::remove_file(&self.file), fs::remove_file(&self.said));
    }
}

const SHIPPED: &str = include_str!("../../../docs/forward.toml");

#[test]
fn the_shipped_file_forwards_and_is_read_again_without_losing_a_packet() {
    let Some(netmem) = Configured::start() else { return };
    netmem.bed.h1.ping("10.77.2.1", 3, "-i 0.05");
    let shipped = netmem.rules().expect("rules");
    thread::scope(|scope| {
        let pings = scope.spawn(|| netmem.bed.h1.ping("10.77.2.1", 60, "-i 0.05"));
        for rule in ["drop,proto=17,dport=1", "drop,proto=17,dport=2", "drop,proto=6,dport=3"] {
            let said = netmem.change(&SHIPPED.replace("drop,proto=udp,dport=1900", rule));
            assert_eq!(said, "configuration reloaded");
            assert_eq!(netmem.rules(), Some(vec![rule.to_owned()]));
        }
        pings.join().expect("each ping is answered");
    });
    assert_eq!(netmem.change(SHIPPED), "configuration reloaded");
    assert_eq!(netmem.rules(), Some(shipped));
    assert_eq!(netmem.end()["held"], 0);
}

/// Seen: the first rule that passes was refused until the next start, and so was a file without the last one.
#[test]
fn the_first_rule_that_passes_comes_and_the_last_one_goes_while_packets_pass() {
    let Some(netmem) = Configured::start() else { return };
    let passing = SHIPPED.replace("drop,proto=udp,dport=1900", "pass,proto=1");
    let pings = || {
        let words = ["-c", "3", "-i", "0.05", "-W", "1", "10.77.2.1"];
        netmem.bed.h1.command("ping").args(words).output().expect("ping").status.success()
    };
    for round in 1..=2 {
        netmem.bed.h1.ping("10.77.2.1", 3, "-i 0.05");
        assert_eq!(netmem.change(&passing), "configuration reloaded");
        assert!(!pings(), "they go to the local queue");
        wait_until("the local queue has them", || netmem.taken() == 3 * round);
        assert_eq!(netmem.change(SHIPPED), "configuration reloaded");
    }
    netmem.bed.h1.ping("10.77.2.1", 3, "-i 0.05");
    let summary = netmem.end();
    assert_eq!((&summary["passed"], &summary["local_queue"]["freed"]), (&6.into(), &6.into()), "{summary}");
}

#[test]
fn a_wrong_file_and_a_change_of_a_fixed_key_change_nothing() {
    let Some(netmem) = Configured::start() else { return };
    let before = netmem.rules();
    let rule = SHIPPED.replace("dport=1900", "dport=7");
    let line = |key: &str| 1 + SHIPPED.lines().position(|line| line.starts_with(key)).expect("a key");
    let place = |at: usize| format!("stays as it was: {}:{at}: ", netmem.file.display());
    let lines = SHIPPED.lines().count();
    for (text, said) in [
        (rule.replace("workers = 1", "workers = 0"), place(line("workers")) + "invalid value '0'"),
        (format!("{rule}\nsped = 3\n"), place(lines + 2) + "no key \"sped\""),
        (rule.replace("idle = \"sleep\"", "idle = true"), place(line("idle")) + "idle: write"),
        (rule.replace("frames = 16384", "frames = 8192"), "stays as it was: frames cannot change".to_owned()),
        (rule.replace("\"kernel\"", "\"static\""), place(line("mode")) + "--mode ip without"),
    ] {
        let seen = netmem.change(&text);
        assert!(seen.starts_with(&said), "{seen}");
        assert_eq!(netmem.rules(), before);
    }
    netmem.bed.h1.ping("10.77.2.1", 3, "-i 0.05");
    netmem.end();
}
