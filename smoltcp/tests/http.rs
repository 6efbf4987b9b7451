//! The example `http` and curl of another host: 100 MiB, as they were, by one and by eight at once, over a clean link and one with faults.

#![allow(clippy::unwrap_used)]

#[allow(dead_code, reason = "shared with tests that use more of it")]
#[path = "../../tests/testbed/mod.rs"]
mod testbed;

use netmem::forward::{CrossConnect, Forwarder};
use netmem::port::af_packet;
use netmem::port::fault::{FaultConfig, FaultCounters, FaultPort};
use netmem::{Memory, MemoryConfig, Pool, PoolConfig, Port};
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::{env, fs, thread};
use testbed::{Namespace, Testbed, Wiring, example, wait_until};

const FILE: usize = 100 << 20;

/// A file of bytes that look random; gone when dropped.
struct Served(PathBuf, Vec<u8>);

impl Served {
    fn new(name: &str) -> Served {
        let mut state = 7_u64;
        let mut word = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_le_bytes()
        };
        let bytes: Vec<u8> = (0..FILE / 8).flat_map(|_| word()).collect();
        let path = env::temp_dir().join(format!("netmem-{name}-{}", std::process::id()));
        fs::write(&path, &bytes).unwrap();
        Served(path, bytes)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        fs::remove_file(&self.0).ok();
    }
}

/// The example on an interface of a namespace; killed when dropped.
struct Server(Child);

impl Server {
    fn start(at: &Namespace, interface: &str, address: &str, file: &Served) -> Server {
        let mut command = at.command(&example("netmem-smoltcp", "http").display().to_string());
        let server = command.args([interface, address]).arg(&file.0).spawn().expect("the example starts");
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

/// Fetches the file so many times at once, each as it was.
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
        assert!(out.stdout == file.1, "{} bytes came, and not the file's {FILE}", out.stdout.len());
    };
    thread::scope(|scope| (0..at_once).for_each(|_| drop(scope.spawn(curl))));
}

#[test]
fn curl_fetches_a_hundred_mebibytes_eight_times_at_once_while_the_kernel_answers_ping() {
    let Some(bed) = Testbed::lay(Wiring::Bridged, &["curl", "ping"]) else { return };
    bed.dut.ip("addr add 10.77.0.254/24 dev one");
    let file = Served::new("served");
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
    let file = Served::new("served-by-ipv6");
    let _server = Server::start(&bed.dut, "one", "fd77::254", &file);
    fetch(&bed.h1, "[fd77::254]", 2, &file);
    bed.h1.ping("fd77::254", 10, "-i 0.02");
}

/// What the forwarder between the hosts did to their packets.
struct Faults {
    of_ports: Vec<Arc<FaultCounters>>,
    stop: Arc<AtomicBool>,
}

impl Faults {
    /// Carries frames between the hosts, of which one in a thousand is lost, one comes twice and one comes late, each way.
    fn begin<'scope>(bed: &'scope Testbed, scope: &'scope thread::Scope<'scope, '_>) -> Faults {
        let memory = Memory::new(&MemoryConfig { bytes: 32 << 20, ..MemoryConfig::default() }).unwrap();
        let mut w = memory.worker().unwrap();
        let pool = Pool::new(&memory, &mut w, &PoolConfig { frames: 8192, ..PoolConfig::default() }).unwrap();
        let chance = || "0.001".parse().unwrap();
        let (mut of_ports, mut ports) = (Vec::new(), Vec::new());
        for (seed, interface) in [(3, "one"), (5, "two")] {
            let config = FaultConfig {
                seed,
                drop: chance(),
                duplicate: chance(),
                reorder: chance(),
                ..FaultConfig::default()
            };
            let port = bed.dut.inside(|| af_packet::open(interface, 1024).unwrap());
            let port = FaultPort::new(Box::new(port), pool.clone(), config);
            of_ports.push(port.faults());
            ports.push(Box::new(port) as Box<dyn Port>);
        }
        let stop = Arc::new(AtomicBool::new(false));
        let until = Arc::clone(&stop);
        let mut forwarder = Forwarder::new(ports, pool, Box::new(CrossConnect)).unwrap();
        forwarder.set_idle(netmem::forward::Idle::Sleep);
        scope.spawn(move || forwarder.run(&mut w, &until));
        Faults { of_ports, stop }
    }
}

#[test]
fn what_is_lost_comes_twice_or_late_on_the_link_curl_has_whole() {
    let Some(bed) = Testbed::lay(Wiring::Bridged, &["curl"]) else { return };
    let file = Served::new("served-with-faults");
    thread::scope(|scope| {
        let faults = Faults::begin(&bed, scope);
        let stop = StopAtEnd(Arc::clone(&faults.stop));
        let _server = Server::start(&bed.h2, "eth0", "10.77.0.2", &file);
        fetch(&bed.h1, "10.77.0.2", 1, &file);
        fetch(&bed.h1, "10.77.0.2", 8, &file);
        for (port, faults) in faults.of_ports.iter().enumerate() {
            let FaultCounters { dropped, duplicated, reordered, .. } = &**faults;
            let done = [dropped, duplicated, reordered].map(|count| count.get());
            assert!(done.iter().all(|done| *done > 10), "port {port}: dropped, twice, late: {done:?}");
            println!("port {port}: dropped, twice, late: {done:?}");
        }
        drop(stop);
    });
}

/// Ends the forwarder, also where the test fails.
struct StopAtEnd(Arc<AtomicBool>);

impl Drop for StopAtEnd {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}
