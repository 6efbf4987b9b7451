//! The program under test, running between the hosts.

use crate::summary::Summary;
use crate::testbed::{Testbed, Wiring, host_mac, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::process::{Child, Command, ExitStatus, Output, Stdio};

/// The program `netmem`, inside the machine between the hosts.
pub fn netmem(bed: &Testbed) -> Command {
    bed.dut.command(env!("CARGO_BIN_EXE_netmem"))
}

/// A `netmem forward` on both interfaces. It is killed when dropped.
pub struct Forwarder {
    /// Sockets that it has when it is up: one for each queue of each interface.
    sockets: usize,
    /// Counts those that it has.
    count: fn(&Testbed) -> usize,
    /// None after its end has been waited for.
    child: Option<Child>,
}

impl Forwarder {
    /// Starts it as the testbed's wiring asks, with further options, and waits until it has both interfaces.
    ///
    /// # Panics
    /// When it ends instead.
    pub fn start(bed: &Testbed, options: &[&str]) -> Forwarder {
        Forwarder::start_on(bed, ["xdp:one", "xdp:two"], options)
    }

    /// As [`Forwarder::start`], with ports that say more of the two interfaces.
    pub fn start_on(bed: &Testbed, ports: [&str; 2], options: &[&str]) -> Forwarder {
        let workers = options.iter().find_map(|option| option.strip_prefix("--workers="));
        let each = workers.map_or(1, |number| number.parse().expect("a number of workers"));
        Forwarder::start_with(bed, ports, each, options)
    }

    /// As [`Forwarder::start_on`], with this number of queues of each interface.
    pub fn start_with(bed: &Testbed, ports: [&str; 2], queues: usize, options: &[&str]) -> Forwarder {
        let mut command = netmem(bed);
        command.arg("forward").args(ports.map(|port| format!("--port={port}"))).arg("--json").args(options);
        match bed.wiring {
            Wiring::Bridged => drop(command.args(["--mode", "cross-connect"])),
            Wiring::Routed => {
                for (port, host) in [(0, 1), (1, 2)] {
                    command.args(["--route", &format!("10.77.{host}.0/24,{port},{}", host_mac(host))]);
                }
            }
        }
        let is_packet = ports.iter().all(|port| port.starts_with("packet:"));
        Forwarder::spawn_counted(
            bed,
            &mut command,
            queues,
            if is_packet { packet_sockets } else { xdp_sockets },
        )
    }

    /// Starts it by this command, with this number of queues of each interface, and waits until it has both interfaces.
    pub fn spawn(bed: &Testbed, command: &mut Command, queues: usize) -> Forwarder {
        Forwarder::spawn_counted(bed, command, queues, xdp_sockets)
    }

    fn spawn_counted(
        bed: &Testbed,
        command: &mut Command,
        queues: usize,
        count: fn(&Testbed) -> usize,
    ) -> Forwarder {
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("netmem starts");
        let mut forwarder = Forwarder { sockets: 2 * queues, count, child: Some(child) };
        wait_until("netmem has both interfaces", || forwarder.is_up(bed));
        forwarder
    }

    /// The number of its process.
    pub fn pid(&self) -> u32 {
        self.child.as_ref().expect("it was not waited for").id()
    }

    fn is_up(&mut self, bed: &Testbed) -> bool {
        let child = self.child.as_mut().expect("it was not waited for");
        if child.try_wait().expect("wait").is_some() {
            let out = self.finish();
            panic!("netmem ended: {} {}", out.status, String::from_utf8_lossy(&out.stderr));
        }
        (self.count)(bed) == self.sockets
    }

    /// Ends it by a signal and waits for it.
    pub fn end(mut self, signal: Signal) -> Output {
        let child = self.child.as_ref().expect("it was not waited for");
        kill_process(Pid::from_child(child), signal).expect("kill(2)");
        self.finish()
    }

    /// Ends it as Ctrl-C does.
    ///
    /// # Panics
    /// When it fails, complains, or prints no summary.
    pub fn interrupt(self) -> Summary {
        summary_of(&self.end(Signal::INT))
    }

    fn finish(&mut self) -> Output {
        let child = self.child.take().expect("it was not waited for");
        child.wait_with_output().expect("wait")
    }
}

/// The AF_XDP sockets between the hosts, as soon as both interfaces have their program.
fn xdp_sockets(bed: &Testbed) -> usize {
    if bed.has_programs() { bed.sockets() } else { 0 }
}

/// The packet sockets between the hosts.
fn packet_sockets(bed: &Testbed) -> usize {
    let list = bed.dut.inside(|| fs::read_to_string("/proc/thread-self/net/packet")).expect("packet sockets");
    list.lines().count() - 1
}

impl Drop for Forwarder {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().and_then(|()| child.wait()).map(|_: ExitStatus| ()).ok();
        }
    }
}

/// The summary that a run printed which went well.
///
/// # Panics
/// When it did not.
pub fn summary_of(out: &Output) -> Summary {
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "netmem: {}\n{said}", out.status);
    let complaints = said.lines().filter(|line| !line.starts_with("netmem: set "));
    assert_eq!(complaints.collect::<Vec<_>>(), [""; 0], "netmem complained");
    Summary::parse(&out.stdout)
}
