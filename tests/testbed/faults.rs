//! A link with faults.

use super::Testbed;
use netmem::forward::{CrossConnect, Forwarder, Idle};
use netmem::port::af_packet::{AfPacketConfig, AfPacketPort};
use netmem::port::fault::{FaultConfig, FaultCounters, FaultPort};
use netmem::{Memory, MemoryConfig, Pool, PoolConfig, Port};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

/// A forwarder between the hosts that loses, doubles and delays packets, until it is dropped.
pub struct Faults {
    of_ports: Vec<Arc<FaultCounters>>,
    stop: Arc<AtomicBool>,
}

impl Faults {
    /// Carries frames between the hosts, of which one in a thousand is lost, one comes twice and one comes late, each way.
    pub fn begin<'scope>(bed: &'scope Testbed, scope: &'scope thread::Scope<'scope, '_>) -> Faults {
        let memory =
            Memory::new(&MemoryConfig { bytes: 32 << 20, ..MemoryConfig::default() }).expect("memory");
        let mut w = memory.worker().expect("a worker");
        let pool = Pool::new(&memory, &mut w, &PoolConfig { frames: 8192, ..PoolConfig::default() })
            .expect("a pool");
        let chance = || "0.001".parse().expect("a chance");
        let (mut of_ports, mut ports) = (Vec::new(), Vec::new());
        for (seed, interface) in [(3, "one"), (5, "two")] {
            let config = FaultConfig {
                seed,
                drop: chance(),
                duplicate: chance(),
                reorder: chance(),
                ..FaultConfig::default()
            };
            let port = bed.dut.inside(|| {
                AfPacketPort::open(interface, &AfPacketConfig { ring: 1024, ..Default::default() })
                    .expect("a packet port")
            });
            let port = FaultPort::new(Box::new(port), pool.clone(), config);
            of_ports.push(port.faults());
            ports.push(Box::new(port) as Box<dyn Port>);
        }
        let stop = Arc::new(AtomicBool::new(false));
        let until = Arc::clone(&stop);
        let mut forwarder = Forwarder::new(ports, pool, Box::new(CrossConnect)).expect("a forwarder");
        forwarder.set_idle(Idle::Sleep);
        scope.spawn(move || forwarder.run(&mut w, &until));
        Faults { of_ports, stop }
    }

    /// Asserts that each port had more than this number of faults of each kind.
    pub fn assert_of_each_kind(&self, more_than: u64) {
        for (port, faults) in self.of_ports.iter().enumerate() {
            let FaultCounters { dropped, duplicated, reordered, .. } = &**faults;
            let done = [dropped, duplicated, reordered].map(|count| count.get());
            println!("port {port}: dropped, twice, late: {done:?}");
            assert!(done.iter().all(|done| *done > more_than), "port {port}: dropped, twice, late: {done:?}");
        }
    }
}

/// Ends the forwarder, also if the test fails.
impl Drop for Faults {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
    }
}
