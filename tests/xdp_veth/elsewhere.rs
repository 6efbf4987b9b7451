//! Ports of interfaces in another network namespace than that of the thread that polls them.

use crate::absence::{is_up, poll_until, says};
use crate::netns::{Wire, in_namespace, ip, veth};
use crate::{Bench, bench, ethernet, program_on, small, wait_for};
use netmem::pool::{Batch, Pool};
use netmem::port::tap::{self, TapConfig};
use netmem::port::{Fill, Port, Rx, Wake, af_packet};
use netmem::sync::Worker;
use netmem::system::netns::inside;

/// Another namespace, gone when dropped.
struct There(String);

impl There {
    fn new() -> There {
        let there = There(format!("netmem-{}-there", std::process::id()));
        ip(&format!("netns add {}", there.0));
        there.set("/proc/sys/net/ipv6/conf/default/disable_ipv6");
        there
    }

    fn set(&self, key: &str) {
        inside(&self.0, || std::fs::write(key, "1").ok()).unwrap();
    }

    fn ip(&self, words: &str) {
        ip(&format!("-n {} {words}", self.0));
    }

    /// A veth pair whose ends have these numbers.
    fn veth(&self, a0: u32, a1: u32) {
        self.ip(&format!("link add a0 index {a0} type veth peer name a1 index {a1}"));
        self.ip("link set dev a0 up");
        self.ip("link set dev a1 up");
    }

    fn inside<T: Send>(&self, f: impl FnOnce() -> T + Send) -> T {
        inside(&self.0, f).unwrap()
    }
}

impl Drop for There {
    fn drop(&mut self) {
        ip(&format!("netns del {}", self.0));
    }
}

/// Sends frames from the far end there until one comes by the port.
fn assert_receives(there: &There, port: &mut dyn Port, w: &mut Worker, pool: &Pool) {
    let wire = there.inside(|| Wire::open("a1"));
    wait_for("a frame from there", || {
        let mut frames = Batch::new();
        wire.send(&ethernet(7));
        port.refill(w, pool);
        port.kick();
        port.rx(w, &mut frames);
        let come = frames.iter().any(|frame| frame.data() == ethernet(7));
        frames.free(w);
        come.then_some(())
    });
}

#[test]
fn a_port_comes_back_in_the_namespace_it_was_opened_in_and_uses_nothing_of_the_pollers_namespace() {
    const TEST: &str = "elsewhere::a_port_comes_back_in_the_namespace_it_was_opened_in_and_uses_nothing_of_the_pollers_namespace";
    in_namespace(TEST, || {
        let there = There::new();
        // Here the number is another interface's that the one there will have later.
        veth("b0", "b1", 1);
        let index = number_of("b0");
        there.veth(77, 78);
        let Bench { mut w, pool, umem, memory: _memory } = bench(256);
        let mut port = {
            let (umem, w, pool) = (&umem, &mut w, &pool);
            there.inside(|| netmem::port::xdp::XdpPort::open(umem, w, pool, "a0", 0, &small())).unwrap()
        };
        assert_receives(&there, &mut port, &mut w, &pool);
        for _ in 0..2 {
            there.ip("link del dev a0");
            poll_until(&mut port, &mut w, &pool, says("is gone"));
            there.veth(index, 78);
            poll_until(&mut port, &mut w, &pool, is_up);
            assert!(program_on("b0").is_none(), "what is here is not its own");
            assert_receives(&there, &mut port, &mut w, &pool);
        }
        drop(port);
        assert!(pool.ledger().all_home(), "{:?}", pool.ledger());
        there.ip("link del dev a0");
    });
}

#[test]
fn a_packet_port_comes_back_in_the_namespace_it_was_opened_in() {
    const TEST: &str = "elsewhere::a_packet_port_comes_back_in_the_namespace_it_was_opened_in";
    in_namespace(TEST, || {
        let there = There::new();
        there.veth(77, 78);
        let Bench { mut w, pool, .. } = bench(256);
        let mut port = there.inside(|| af_packet::open("a0", 64)).unwrap();
        for _ in 0..2 {
            assert_receives(&there, &mut port, &mut w, &pool);
            there.ip("link del dev a0");
            poll_until(&mut port, &mut w, &pool, says("is gone"));
            there.veth(79, 80);
            poll_until(&mut port, &mut w, &pool, is_up);
        }
        assert_receives(&there, &mut port, &mut w, &pool);
    });
}

#[test]
fn a_packet_port_receives_again_where_the_next_interface_has_the_number_of_the_one_that_went() {
    const TEST: &str = "elsewhere::a_packet_port_receives_again_where_the_next_interface_has_the_number_of_the_one_that_went";
    in_namespace(TEST, || {
        let there = There::new();
        there.veth(77, 78);
        let Bench { mut w, pool, .. } = bench(256);
        let mut port = there.inside(|| af_packet::open("a0", 64)).unwrap();
        for down in [false, true] {
            assert_receives(&there, &mut port, &mut w, &pool);
            if down {
                // Then the socket does not even get an event.
                there.ip("link set dev a0 down");
                poll_until(&mut port, &mut w, &pool, says("is down"));
            }
            there.ip("link del dev a0");
            there.veth(77, 78);
            assert_receives(&there, &mut port, &mut w, &pool);
        }
        assert!(is_up(&port.state()), "{:?}", port.state());
    });
}

#[test]
fn a_tap_port_receives_again_where_the_next_interface_has_the_number_of_the_one_that_went() {
    const TEST: &str =
        "elsewhere::a_tap_port_receives_again_where_the_next_interface_has_the_number_of_the_one_that_went";
    in_namespace(TEST, || {
        let there = There::new();
        ip("tuntap add dev t0 mode tap");
        ip("link set dev t0 up");
        let index = number_of("t0");
        let Bench { mut w, pool, .. } = bench(256);
        let mut port = tap::open("t0", &TapConfig { ring: 64, ..TapConfig::default() }).unwrap();
        poll_until(&mut port, &mut w, &pool, is_up);
        // The first one that is made in a namespace has the same number in each.
        there.ip("tuntap add dev t0 mode tap");
        ip("link del dev t0");
        there.ip(&format!("link set dev t0 netns {}", std::process::id()));
        ip("link set dev t0 up");
        assert_eq!(number_of("t0"), index);
        let wire = Wire::open("t0");
        wait_for("a frame from the host", || {
            let mut frames = Batch::new();
            wire.send(&ethernet(7));
            port.refill(&mut w, &pool);
            port.kick();
            port.rx(&mut w, &mut frames);
            let come = frames.iter().any(|frame| frame.data() == ethernet(7));
            frames.free(&mut w);
            come.then_some(())
        });
    });
}

/// The number of an interface here.
fn number_of(interface: &str) -> u32 {
    let shown = ip(&format!("-o link show dev {interface}"));
    shown.split(':').next().unwrap().trim().parse().unwrap()
}
