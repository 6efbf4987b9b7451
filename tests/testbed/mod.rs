//! Two hosts and a machine between them, all inside this one: three network namespaces joined by veth pairs.
//!
//! ```text
//!   h1                            dut                            h2
//!   eth0 ═══════════════════ one       two ═══════════════════ eth0
//!   10.77.0.1/24             (no addresses)             10.77.0.2/24     Wiring::Bridged
//!   10.77.1.1/24, via .254   (no addresses)   10.77.2.1/24, via .254     Wiring::Routed
//! ```
//! Frames cross only if a program in `dut` carries them: the kernel there has no address and does not forward.
//! The hosts leave checksums and segments to their cards, as hosts do. IPv6 is off, so that nobody speaks unasked. Where hosts are routed their neighbours are static.

mod child;
#[allow(dead_code, reason = "for tests of servers")]
mod faults;
#[allow(dead_code, reason = "for tests of sockets")]
mod listens;
mod namespace;
#[allow(dead_code, reason = "for tests of servers")]
mod served;
mod turn;

#[allow(unused_imports, reason = "for tests of servers")]
pub use faults::Faults;
#[allow(unused_imports, reason = "for tests of sockets")]
pub use listens::listens;
pub use namespace::Namespace;
#[allow(unused_imports, reason = "for tests of servers")]
pub use served::Served;

use namespace::xdp_sockets;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};
use std::{env, fs, io, process, thread};
use turn::Turn;

/// How long a test waits for what must happen. It guards against hangs, nothing else: the machine may stand still.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// Whether a socket with a timeout received nothing: its time was over, or a stop and a continue ended the wait
/// (signal(7)).
pub fn is_silence(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted)
}

/// The program of a package's example, which cargo builds beside this test's.
pub fn example(package: &str, name: &str) -> PathBuf {
    let here = env::current_exe().expect("this program's path");
    let program = here.ancestors().nth(2).expect("the build directory").join("examples").join(name);
    assert!(
        program.is_file(),
        "{}: build it first, cargo build -p {package} --example {name}",
        program.display()
    );
    program
}

/// A path below the temporary folder that no other test has.
#[allow(dead_code, reason = "for tests that write files")]
pub fn scratch(name: &str) -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    env::temp_dir().join(format!("netmem-{name}-{}-{}", process::id(), NEXT.fetch_add(1, Relaxed)))
}

/// The addresses of the hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wiring {
    /// Both are in one network: every one of their frames must cross unchanged, also ARP.
    Bridged,
    /// Each in its own, with the machine between them as a router that answers no ARP.
    Routed,
}

/// The three namespaces. They are removed when dropped, also by a panic.
pub struct Testbed {
    pub h1: Namespace,
    pub dut: Namespace,
    pub h2: Namespace,
    pub wiring: Wiring,
    _turn: Turn,
}

impl Testbed {
    /// As [`Testbed::lay_with_queues`], with one queue.
    pub fn lay(wiring: Wiring, programs: &[&str]) -> Option<Testbed> {
        Testbed::lay_with_queues(wiring, 1, programs)
    }

    /// Lays the testbed for the test that runs on this thread. Each interface has this number of queues. A flow stays
    /// on one queue, which the sender chooses by the flow's hash. If that is not possible, prints why on standard error
    /// and returns None. That is a failure if NETMEM_NO_SKIP is 1.
    ///
    /// `programs` are those that the test runs, beside ip.
    pub fn lay_with_queues(wiring: Wiring, queues: u32, programs: &[&str]) -> Option<Testbed> {
        let turn = Turn::wait();
        let laid = obstacle(programs).map_or_else(|| Testbed::join(wiring, queues, turn), Err);
        laid.map_err(|reason| skip(&reason)).ok()
    }

    fn join(wiring: Wiring, queues: u32, turn: Turn) -> Result<Testbed, String> {
        let (h1, dut, h2) = (Namespace::new("h1")?, Namespace::new("dut")?, Namespace::new("h2")?);
        let bed = Testbed { h1, dut, h2, wiring, _turn: turn };
        (1..=2).for_each(|number| bed.wire(number, queues));
        Ok(bed)
    }

    /// Joins host 1 or 2 to the machine between them. Each end has this number of queues. The link is as at first, if
    /// it was removed in between.
    pub fn wire(&self, number: u8, queues: u32) {
        let (host, port) = if number == 1 { (&self.h1, "one") } else { (&self.h2, "two") };
        let (mac, port_mac) = (host_mac(number), port_mac(number));
        let queues = format!("numtxqueues {queues} numrxqueues {queues}");
        let peer = format!("peer name {port} address {port_mac} {queues} netns {}", self.dut.name());
        host.ip(&format!("link add eth0 address {mac} {queues} type veth {peer}"));
        self.dut.ip(&format!("link set dev {port} up"));
        host.ip(&format!("addr add {}/24 dev eth0", self.address(number)));
        host.ip("link set dev eth0 up");
        host.wait_for_the_carrier("eth0");
        self.dut.wait_for_the_carrier(port);
        if self.wiring == Wiring::Routed {
            host.ip(&format!("neigh add 10.77.{number}.254 lladdr {port_mac} dev eth0"));
            host.ip(&format!("route add default via 10.77.{number}.254"));
        }
    }

    /// Waits until the machine between the hosts carries packets from one to the other and back.
    ///
    /// # Panics
    /// When patience is at its end.
    #[allow(dead_code, reason = "for tests of programs between the hosts")]
    pub fn wait_for_the_path(&self) {
        let reply = || self.h1.command("ping").args(["-c", "1", "-W", "2", &self.address(2)]).output();
        wait_until("h2 answers h1", || reply().expect("ping").status.success());
    }

    /// The address of host 1 or 2.
    pub fn address(&self, host: u8) -> String {
        match self.wiring {
            Wiring::Bridged => format!("10.77.0.{host}"),
            Wiring::Routed => format!("10.77.{host}.1"),
        }
    }

    /// Returns the mode of the XDP program on an interface of the machine between the hosts, as ip(8) names it: `xdp`
    /// is native, `xdpgeneric` is generic, None is no program.
    pub fn program(&self, interface: &str) -> Option<String> {
        let link = self.dut.ip(&format!("-d link show dev {interface}"));
        link.split_whitespace().find(|word| word.starts_with("xdp")).map(str::to_owned)
    }

    /// Whether both interfaces of the machine between the hosts have an XDP program.
    pub fn has_programs(&self) -> bool {
        ["one", "two"].into_iter().all(|interface| self.program(interface).is_some())
    }

    /// AF_XDP sockets open in the machine between the hosts.
    pub fn sockets(&self) -> usize {
        self.dut.xdp_sockets()
    }

    /// Asserts that the machine between the hosts forwards no more frames: no program is on its interfaces, and there
    /// is no AF_XDP socket. Waits for that, since the kernel cleans up a killed process after its end.
    pub fn assert_nothing_left(&self) {
        let programs = || ["one", "two"].map(|interface| self.program(interface));
        wait_until("the XDP programs are gone", || programs() == [None, None]);
        wait_until("the AF_XDP sockets are gone", || self.sockets() == 0);
    }

    /// Takes the testbed away and asserts that its namespaces are gone with it.
    pub fn assert_gone(self) {
        let names = [&self.h1, &self.dut, &self.h2].map(|namespace| namespace.name().to_owned());
        assert!(names.iter().all(|name| Namespace::exists(name)), "{names:?}");
        drop(self);
        assert!(!names.iter().any(|name| Namespace::exists(name)), "of {names:?} some are left");
    }
}

/// The link address of host 1 or 2.
pub fn host_mac(host: u8) -> String {
    format!("02:00:00:00:0{host}:01")
}

/// The link address of the interface that faces host 1 or 2.
pub fn port_mac(host: u8) -> String {
    format!("02:00:00:00:0{host}:fe")
}

/// Waits until `what` has happened.
///
/// # Panics
/// When patience is at its end.
pub fn wait_until(what: &str, mut happened: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !happened() {
        assert!(begun.elapsed() < PATIENCE, "waited in vain until {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Why no testbed can be laid here, if something stands in the way.
fn obstacle(programs: &[&str]) -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("needs root".into());
    }
    let missing = ["ip"].iter().chain(programs).find(|program| !installed(program));
    if let Some(program) = missing {
        return Some(format!("needs the program {program}: install {}", package(program)));
    }
    let protocols = fs::read_to_string("/proc/net/protocols").unwrap_or_default();
    xdp_sockets(&protocols).is_none().then(|| "needs a kernel with CONFIG_XDP_SOCKETS".into())
}

fn installed(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|dir| dir.join(program).is_file())
}

/// Debian's package of a program.
fn package(program: &str) -> &str {
    match program {
        "bird" | "birdc" => "bird2",
        "dig" => "bind9-dnsutils",
        "ip" | "tc" => "iproute2",
        "nft" => "nftables",
        "ping" => "iputils-ping",
        "ps" => "procps",
        "tracepath" => "iputils-tracepath",
        "setcap" => "libcap2-bin",
        "setpriv" | "prlimit" | "taskset" => "util-linux",
        "dpdk-testpmd" => "dpdk",
        same => same,
    }
}

/// Prints, past the test runner's capture, that the test on this thread is skipped, and why.
fn skip(reason: &str) {
    let thread = thread::current();
    let test = thread.name().unwrap_or("a test");
    assert!(env::var("NETMEM_NO_SKIP").as_deref() != Ok("1"), "{test} must not be skipped: {reason}");
    let line = format!("SKIPPED {test}: {reason}\n");
    io::Write::write_all(&mut io::stderr(), line.as_bytes()).expect("standard error");
}
