//! The program under test, running between the hosts.

use crate::running::wait_while_it_runs;
use crate::stalls::{is_stall, without_stalls};
use crate::summary::Summary;
use crate::testbed::{Namespace, Testbed, Wiring, host_mac, scratch};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Output, Stdio};

/// The program `netmem`, inside the machine between the hosts.
pub fn netmem(bed: &Testbed) -> Command {
    bed.dut.command(env!("CARGO_BIN_EXE_netmem"))
}

/// A `netmem forward` on both interfaces. It is killed when dropped.
pub struct Forwarder {
    /// None after its end has been waited for.
    child: Option<Child>,
}

impl Forwarder {
    /// Starts it as the testbed's wiring asks, with further options, and waits until it takes packets of both
    /// interfaces.
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

    /// Starts it by this command, with this number of queues of each interface, and waits until it takes packets of
    /// both.
    pub fn spawn(bed: &Testbed, command: &mut Command, queues: usize) -> Forwarder {
        Forwarder::spawn_counted(bed, command, queues, xdp_sockets)
    }

    fn spawn_counted(
        bed: &Testbed,
        command: &mut Command,
        queues: usize,
        count: fn(&Testbed) -> usize,
    ) -> Forwarder {
        let readiness = Readiness::of(command);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("netmem starts");
        wait_while_it_runs(&mut child, "netmem has both interfaces", || count(bed) == 2 * queues);
        wait_while_it_runs(&mut child, "netmem takes packets", || readiness.is_said());
        Forwarder { child: Some(child) }
    }

    /// The number of its process.
    pub fn pid(&self) -> u32 {
        self.child.as_ref().expect("it was not waited for").id()
    }

    /// Its lines as they come, without those about a worker that was given no core for a while. [`Forwarder::end`] does
    /// not return them then.
    pub fn lines(&mut self) -> impl Iterator<Item = String> + use<> {
        let child = self.child.as_mut().expect("it was not waited for");
        let lines = BufReader::new(child.stderr.take().expect("it is piped")).lines();
        lines.map_while(Result::ok).filter(|line| !is_stall(line))
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

/// The word of a run that each of its workers has polled its ports, as a service manager gets it. The programs and the
/// sockets are there a moment before, when no packet crosses yet.
struct Readiness {
    path: PathBuf,
    socket: UnixDatagram,
}

impl Readiness {
    /// That of the run which this command will start, as whatever user.
    fn of(command: &mut Command) -> Readiness {
        let path = scratch("ready");
        // A killed process that had this number has left one.
        fs::remove_file(&path).ok();
        let socket = UnixDatagram::bind(&path).expect("a socket");
        socket.set_nonblocking(true).expect("a mode");
        fs::set_permissions(&path, Permissions::from_mode(0o777)).expect("chmod");
        command.env("NOTIFY_SOCKET", &path);
        Readiness { path, socket }
    }

    fn is_said(&self) -> bool {
        let mut said = [0; 64];
        self.socket.recv(&mut said).is_ok_and(|n| said[..n] == *b"READY=1")
    }
}

impl Drop for Readiness {
    fn drop(&mut self) {
        fs::remove_file(&self.path).ok();
    }
}

/// The AF_XDP sockets between the hosts, as soon as both interfaces have their program.
fn xdp_sockets(bed: &Testbed) -> usize {
    if bed.has_programs() { bed.sockets() } else { 0 }
}

/// The packet sockets between the hosts.
fn packet_sockets(bed: &Testbed) -> usize {
    bound_packet_sockets(&bed.dut)
}

/// The packet sockets of a namespace that get packets. They are listed a moment before they are bound.
pub fn bound_packet_sockets(place: &Namespace) -> usize {
    let list = place.inside(|| fs::read_to_string("/proc/thread-self/net/packet")).expect("packet sockets");
    // Below a line of titles: address, references, type, protocol, interface, whether it is bound.
    list.lines().skip(1).filter(|socket| socket.split_whitespace().nth(5) == Some("1")).count()
}

impl Drop for Forwarder {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().and_then(|()| child.wait()).map(|_: ExitStatus| ()).ok();
        }
    }
}

/// What a run said on standard error, without the lines about a worker that was given no core for a while and then went
/// on.
pub fn said(out: &Output) -> String {
    without_stalls(&String::from_utf8_lossy(&out.stderr))
}

/// The summary that a run printed which went well.
///
/// # Panics
/// When it did not.
pub fn summary_of(out: &Output) -> Summary {
    let said = said(out);
    assert!(out.status.success(), "netmem: {}\n{said}", out.status);
    let complaints = said.lines().filter(|line| !line.starts_with("netmem: set "));
    assert_eq!(complaints.collect::<Vec<_>>(), [""; 0], "netmem complained");
    Summary::parse(&out.stdout)
}
