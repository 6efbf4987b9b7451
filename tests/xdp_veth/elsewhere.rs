//! Ports of interfaces in another network namespace than that of the thread that polls them.

use crate::absence::{is_up, poll_until, says};
use crate::netns::{Wire, in_namespace, ip, veth};
use crate::{Bench, bench, ethernet, program_on, small, wait_for};
use netmem::pool::{Batch, Pool};
use netmem::port::af_packet::{AfPacketConfig, AfPacketPort};
use netmem::port::tap::{TapConfig, TapPort};
use netmem::port::xdp::{Punt, Umem, XdpConfig, XdpError, XdpPort};
use netmem::port::{Fill, Port, Rx, Wake};
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

/// Opens a port on queue 0 of the interface `a0` there, over the memory of `here`.
fn open_there(there: &There, here: &mut Bench, config: &XdpConfig) -> Result<XdpPort, XdpError> {
    let Bench { umem, w, pool, .. } = here;
    there.inside(|| XdpPort::open(umem, w, pool, "a0", 0, config))
}

/// Sends frames from the far end there until one comes by the port.
fn assert_receives(there: &There, port: &mut dyn Port, w: &mut Worker, pool: &Pool) {
    assert_receives_from(&there.inside(|| Wire::open("a1")), port, w, pool);
}

/// Sends frames from the far end until one comes by the port.
fn assert_receives_from(wire: &Wire, port: &mut dyn Port, w: &mut Worker, pool: &Pool) {
    wait_for("a frame from the far end", || {
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
        assert!(pool.ledger().all_freed(), "{:?}", pool.ledger());
        there.ip("link del dev a0");
    });
}

/// Found: on the same queue the second port was refused, as if the first one were bound to it. On another queue it shared
/// the first one's program, which was not on its interface, and received nothing.
#[test]
fn interfaces_with_one_number_in_two_namespaces_each_have_a_port_over_one_memory() {
    const TEST: &str =
        "elsewhere::interfaces_with_one_number_in_two_namespaces_each_have_a_port_over_one_memory";
    in_namespace(TEST, || {
        let there = There::new();
        ip(
            "link add a0 index 77 numrxqueues 2 numtxqueues 2 type veth peer name a1 index 78 numrxqueues 1 numtxqueues 1",
        );
        ip("link set dev a0 up");
        ip("link set dev a1 up");
        there.veth(77, 78);
        let mut here = bench(512);
        for queue in [1, 0] {
            let mut one = here.open_with("a0", queue, &small()).unwrap();
            let mut other = open_there(&there, &mut here, &small()).unwrap();
            assert_eq!((one.netdev().index(), other.netdev().index()), (77, 77));
            assert_receives(&there, &mut other, &mut here.w, &here.pool);
            if queue == 0 {
                // The far end here has one queue, whose packets come by this one.
                assert_receives_from(&Wire::open("a1"), &mut one, &mut here.w, &here.pool);
            }
            drop(other);
            assert!(program_on("a0").is_some(), "that of the other namespace is not its own");
            drop(one);
            assert!(program_on("a0").is_none());
            assert!(here.pool.ledger().all_freed(), "{:?}", here.pool.ledger());
        }
    });
}

#[test]
fn an_interface_that_is_in_another_namespace_for_a_while_is_used_there_and_then_here_again() {
    const TEST: &str =
        "elsewhere::an_interface_that_is_in_another_namespace_for_a_while_is_used_there_and_then_here_again";
    in_namespace(TEST, || {
        let there = There::new();
        ip("link add a0 index 77 type veth peer name a1");
        ip("link set dev a0 up");
        ip("link set dev a1 up");
        let mut here = bench(512);
        let mut port = here.open("a0").unwrap();
        // The far end stays here.
        let wire = Wire::open("a1");
        for _ in 0..2 {
            assert_receives_from(&wire, &mut port, &mut here.w, &here.pool);
            ip(&format!("link set dev a0 netns {}", there.0));
            there.ip("link set dev a0 up");
            poll_until(&mut port, &mut here.w, &here.pool, says("is gone"));
            wait_for("its program to leave the interface", || {
                port.kick();
                (port.rx_posted() == 0).then_some(())
            });
            let mut meanwhile = open_there(&there, &mut here, &small()).unwrap();
            assert_receives_from(&wire, &mut meanwhile, &mut here.w, &here.pool);
            poll_until(&mut port, &mut here.w, &here.pool, says("is gone"));
            drop(meanwhile);
            there.ip(&format!("link set dev a0 netns {}", std::process::id()));
            ip("link set dev a0 up");
            poll_until(&mut port, &mut here.w, &here.pool, is_up);
        }
        assert_receives_from(&wire, &mut port, &mut here.w, &here.pool);
        drop(port);
        assert!(here.pool.ledger().all_freed(), "{:?}", here.pool.ledger());
    });
}

/// Found: the program there left packets to this namespace's addresses to the kernel, and took those to its own.
#[test]
fn a_port_in_a_second_namespace_that_needs_its_own_addresses_is_refused_over_the_same_umem() {
    const TEST: &str =
        "elsewhere::a_port_in_a_second_namespace_that_needs_its_own_addresses_is_refused_over_the_same_umem";
    in_namespace(TEST, || {
        let there = There::new();
        veth("a0", "a1", 1);
        there.veth(77, 78);
        let config = XdpConfig { punt: Punt::Control, ..small() };
        let mut here = bench(512);
        let port = here.open_with("a0", 0, &config).unwrap();
        let refused = open_there(&there, &mut here, &config).unwrap_err();
        assert_eq!(refused, XdpError::OtherNamespace { interface: "a0".into() });
        // A port that needs no addresses is not refused.
        drop(open_there(&there, &mut here, &small()).unwrap());
        // With a UMEM of its own, as the error says.
        here.umem = Umem::new(&here.memory);
        let other = open_there(&there, &mut here, &config).unwrap();
        drop((port, other));
        assert!(here.pool.ledger().all_freed(), "{:?}", here.pool.ledger());
    });
}

#[test]
fn a_packet_port_comes_back_in_the_namespace_it_was_opened_in() {
    const TEST: &str = "elsewhere::a_packet_port_comes_back_in_the_namespace_it_was_opened_in";
    in_namespace(TEST, || {
        let there = There::new();
        there.veth(77, 78);
        let Bench { mut w, pool, .. } = bench(256);
        let mut port = there
            .inside(|| AfPacketPort::open("a0", &AfPacketConfig { ring: 64, ..Default::default() }))
            .unwrap();
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
        let mut port = there
            .inside(|| AfPacketPort::open("a0", &AfPacketConfig { ring: 64, ..Default::default() }))
            .unwrap();
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
        let mut port = TapPort::open("t0", &TapConfig { ring: 64, ..TapConfig::default() }).unwrap();
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
