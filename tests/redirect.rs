//! `examples/redirect.rs` between two hosts, and the library's ports when a thread panics.

#[allow(dead_code, reason = "shared with tests that use more of it")]
mod testbed;

use netmem::page::{Memory, MemoryConfig};
use netmem::pool::{Pool, PoolConfig};
use netmem::port::xdp::{Umem, XdpConfig, XdpPort};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::process::{Child, Command};
use testbed::{Testbed, Wiring, example, wait_until};

/// The example's program.
fn redirect() -> PathBuf {
    example("netmem", "redirect")
}

/// A running program, killed when dropped.
struct Running(Child);

impl Running {
    fn start(command: &mut Command) -> Running {
        Running(command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}")))
    }

    fn end(&mut self) {
        self.0.kill().and_then(|()| self.0.wait()).map(drop).ok();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}

#[test]
fn hosts_ping_each_other_through_the_example() {
    let Some(bed) = Testbed::lay(Wiring::Bridged, &["ping"]) else { return };
    let program = redirect();
    let mut example = Running::start(bed.dut.command(&program.display().to_string()).args(["one", "two"]));
    wait_until("the example has both interfaces", || {
        assert_eq!(example.0.try_wait().expect("wait"), None, "the example ended");
        bed.has_programs() && bed.sockets() == 2
    });
    bed.wait_for_the_path();
    for (from, to) in [(&bed.h1, 2), (&bed.h2, 1)] {
        // 1472 bytes of payload make the largest frame that the wire takes.
        from.ping(&bed.address(to).to_string(), 200, "-i 0.002 -s 1472");
    }
    example.end();
    bed.assert_nothing_left();
    bed.assert_gone();
}

#[test]
fn a_panic_takes_the_ports_off_their_interfaces() {
    let Some(bed) = Testbed::lay(Wiring::Bridged, &[]) else { return };
    let panicked = bed.dut.inside(|| {
        catch_unwind(AssertUnwindSafe(|| {
            let memory = Memory::new(&MemoryConfig::default()).expect("memory");
            let mut w = memory.worker().expect("a worker");
            let pool = Pool::new(&memory, &mut w, &PoolConfig::default()).expect("a pool");
            let umem = Umem::new(&memory);
            let config = XdpConfig::default();
            let mut open = |name| XdpPort::open(&umem, &mut w, &pool, name, 0, &config).expect("a port");
            let _ports = [open("one"), open("two")];
            assert!(bed.has_programs() && bed.sockets() == 2);
            panic!("on purpose");
        }))
    });
    let message = panicked.expect_err("a panic");
    assert_eq!(message.downcast_ref(), Some(&"on purpose"));
    bed.assert_nothing_left();
}
