//! Datagrams that begin on this host, sent over AF_XDP by the kernel's routes, neighbours, addresses and MTUs while
//! these change.

#![allow(clippy::unwrap_used)]

#[allow(dead_code, reason = "shared with tests that use more of it")]
#[path = "../../tests/testbed/mod.rs"]
mod testbed;

use netmem::port::xdp::{Umem, XdpConfig, XdpPort};
use netmem::wire::MacAddr;
use netmem::{Batch, Complete, DmaMap, Memory, MemoryConfig, Pool, PoolConfig, Tx, Wake, Worker};
use netmem_router::{Interface, Output, OutputError, output};
use netmem_rtnetlink::{Follower, FollowerConfig, PortInterface};
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;
use testbed::{Namespace, Testbed, Wiring, wait_until};

/// The sender: a port on each of the two interfaces, and the table.
struct Sender {
    ports: Vec<XdpPort>,
    w: Worker,
    pool: Pool,
    output: Output,
}

impl Sender {
    /// Sends one datagram from port 4000, by the current table.
    fn send(&mut self, payload: &[u8], to: SocketAddr) -> Result<(), OutputError> {
        self.output.refresh();
        let mut frame = self.pool.alloc(&mut self.w).unwrap();
        frame.put_slice(payload).unwrap();
        let from = if to.is_ipv4() { "0.0.0.0:4000" } else { "[::]:4000" };
        let port = self.output.address(&mut frame, from.parse().unwrap(), to)?;
        let (port, mut frames) = (&mut self.ports[usize::from(port)], Batch::new());
        frames.push(frame).unwrap();
        assert_eq!(port.tx(&mut self.w, &mut frames), 1);
        port.kick();
        port.complete(&mut self.w, &mut frames);
        frames.free(&mut self.w);
        Ok(())
    }

    /// Sends until a datagram has arrived. Returns its source address.
    fn reach(&mut self, socket: &UdpSocket, payload: &[u8]) -> String {
        let to = socket.local_addr().unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        let mut from = None;
        wait_until(&format!("a datagram reaches {to}"), || {
            match self.send(payload, to) {
                Ok(())
                | Err(
                    OutputError::Unresolved(_)
                    | OutputError::NeighbourFailed(_)
                    | OutputError::NoRoute(_)
                    // An address is gone, and its route not yet.
                    | OutputError::NoSource(_),
                ) => {}
                Err(other) => panic!("{to}: {other}"),
            }
            let mut read = [0; 2000];
            from = socket
                .recv_from(&mut read)
                .ok()
                .filter(|(len, _)| read[..*len] == *payload)
                .map(|(_, from)| from);
            from.is_some()
        });
        from.unwrap().to_string()
    }
}

fn socket(at: &Namespace, address: &str) -> UdpSocket {
    at.inside(|| UdpSocket::bind(address).unwrap())
}

/// Follows the kernel of the machine between the hosts on a thread there until `stop`. Returns the sender.
fn begin<'scope>(
    bed: &'scope Testbed,
    scope: &'scope thread::Scope<'scope, '_>,
    stop: &'scope AtomicBool,
) -> Sender {
    let memory = Memory::new(&MemoryConfig { bytes: 16 << 20, ..MemoryConfig::default() }).unwrap();
    let mut w = memory.worker().unwrap();
    let config = PoolConfig { dma: DmaMap::Umem, ..PoolConfig::default() };
    let pool = Pool::new(&memory, &mut w, &config).unwrap();
    let umem = Umem::new(&memory);
    let config = XdpConfig { take: Some("none".parse().unwrap()), ..XdpConfig::default() };
    let mut open = |name| bed.dut.inside(|| XdpPort::open(&umem, &mut w, &pool, name, 0, &config).unwrap());
    let ports = vec![open("one"), open("two")];
    let (give, take) = channel();
    scope.spawn(move || {
        bed.dut.inside(move || {
            // The kernel's values of its interfaces replace these.
            let unknown = Interface { mac: MacAddr::default(), mtu: 1500 };
            let own = |name: &str| (unknown, PortInterface::RouterEnd(name.to_owned()));
            let config = FollowerConfig { ports: vec![own("one"), own("two")], ..FollowerConfig::default() };
            let (mut follower, fib) = Follower::start(config).unwrap();
            let (output, unresolved) = output(fib);
            follower.add_unresolved(unresolved);
            give.send(output).unwrap();
            while !stop.load(Relaxed) {
                follower.poll(Duration::from_millis(10)).unwrap();
            }
        });
    });
    Sender { ports, w, pool, output: take.recv().unwrap() }
}

/// Ends the follower, even if the test fails.
struct StopAtEnd<'a>(&'a AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// Two hosts, each in its own network with the machine between them, in both families.
fn lay() -> Option<Testbed> {
    let bed = Testbed::lay(Wiring::Bridged, &[])?;
    [&bed.h1, &bed.dut, &bed.h2].iter().for_each(|namespace| namespace.set_ipv6(true));
    for (host, interface, number) in [(&bed.h1, "one", 1), (&bed.h2, "two", 2)] {
        host.ip(&format!("addr add 10.70.{number}.7/24 dev eth0"));
        host.ip(&format!("addr add fd7{number}::7/64 dev eth0 nodad"));
        host.ip("addr add 10.99.0.1/32 dev lo");
        host.ip("addr add fd99::1/128 dev lo nodad");
        bed.dut.ip(&format!("addr add 10.70.{number}.254/24 dev {interface}"));
        bed.dut.ip(&format!("addr add fd7{number}::254/64 dev {interface} nodad"));
        // So that the hosts' kernels accept packets from there.
        host.ip(&format!("route add default via 10.70.{number}.254"));
        host.ip(&format!("-6 route add default via fd7{number}::254"));
    }
    Some(bed)
}

#[test]
fn datagrams_without_a_request_follow_the_kernels_routes_neighbours_and_addresses_as_they_change() {
    let Some(bed) = lay() else { return };
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let _stop = StopAtEnd(&stop);
        let mut sender = begin(&bed, scope, &stop);
        // Neighbours: none is known, and the kernel asks for each.
        let near =
            [socket(&bed.h1, "10.70.1.7:7"), socket(&bed.h1, "[fd71::7]:7"), socket(&bed.h2, "10.70.2.7:7")];
        let from = near.each_ref().map(|socket| sender.reach(socket, b"near"));
        assert_eq!(from, ["10.70.1.254:4000", "[fd71::254]:4000", "10.70.2.254:4000"]);
        // Routes, which lead first to one host and then to the other.
        for (family, gateways, address) in
            [("", ["10.70.2.7", "10.70.1.7"], "10.99.0.1:7"), ("-6", ["fd72::7", "fd71::7"], "[fd99::1]:7")]
        {
            let prefix = if family.is_empty() { "10.99.0.0/24" } else { "fd99::/64" };
            bed.dut.ip(&format!("{family} route add {prefix} via {}", gateways[0]));
            let from = sender.reach(&socket(&bed.h2, address), b"by the second");
            assert!(from.contains(if family.is_empty() { "10.70.2.254" } else { "fd72::254" }), "{from}");
            bed.dut.ip(&format!("{family} route replace {prefix} via {}", gateways[1]));
            let from = sender.reach(&socket(&bed.h1, address), b"by the first");
            assert!(from.contains(if family.is_empty() { "10.70.1.254" } else { "fd71::254" }), "{from}");
        }
        // A neighbour with a new MAC address.
        bed.h1.ip("link set dev eth0 address 02:00:00:00:77:77");
        bed.dut.ip("neigh replace 10.70.1.7 lladdr 02:00:00:00:77:77 dev one");
        assert_eq!(sender.reach(&near[0], b"moved"), "10.70.1.254:4000");
        // A new address of the machine itself.
        bed.dut.ip("addr del 10.70.1.254/24 dev one");
        bed.dut.ip("addr add 10.70.1.253/24 dev one");
        wait_until("it speaks from its new address", || {
            sender.reach(&near[0], b"renamed") == "10.70.1.253:4000"
        });
    });
}

#[test]
fn a_datagram_may_be_as_long_as_the_mtu_of_the_route_and_the_link_while_these_change() {
    let Some(bed) = lay() else { return };
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let _stop = StopAtEnd(&stop);
        let mut sender = begin(&bed, scope, &stop);
        let near = socket(&bed.h1, "10.70.1.7:7");
        sender.reach(&near, &[1; 1472]);
        let to = near.local_addr().unwrap();
        assert_eq!(sender.send(&[1; 1473], to), Err(OutputError::TooLong { len: 1501, mtu: 1500 }));
        bed.dut.ip("route add 10.99.0.0/24 via 10.70.1.7 mtu 600");
        let far = socket(&bed.h1, "10.99.0.1:7");
        sender.reach(&far, &[2; 572]);
        assert_eq!(
            sender.send(&[2; 573], far.local_addr().unwrap()),
            Err(OutputError::TooLong { len: 601, mtu: 600 })
        );
        bed.dut.ip("link set dev one mtu 1400");
        wait_until("the link carries less", || {
            sender.send(&[1; 1372], to) == Ok(()) && sender.send(&[1; 1373], to).is_err()
        });
        assert_eq!(sender.send(&[1; 1373], to), Err(OutputError::TooLong { len: 1401, mtu: 1400 }));
    });
}

/// Seen: a router without CAP_NET_ADMIN counted requests for neighbours as made. The kernel had refused each, and nothing
/// said so.
#[test]
fn requests_of_a_process_without_cap_net_admin_count_as_refused_and_not_as_made() {
    let Some(bed) = lay() else { return };
    let follow = || {
        let unknown = Interface { mac: MacAddr::default(), mtu: 1500 };
        let ports = vec![(unknown, PortInterface::RouterEnd("one".to_owned()))];
        let (mut follower, fib) =
            Follower::start(FollowerConfig { ports, ..FollowerConfig::default() }).unwrap();
        let (mut output, unresolved) = output(fib);
        follower.add_unresolved(unresolved);
        let tables = follower.tables();
        wait_until("a neighbour is requested", || {
            output.refresh();
            output.route([10, 70, 1, 7].into()).expect_err("it is not known yet");
            follower.poll(Duration::from_millis(1)).unwrap();
            tables.counters().neigh_requests + tables.counters().neigh_refused > 0
        });
        let counters = tables.counters();
        (follower.may_request_neighbours(), counters.neigh_requests > 0, counters.neigh_refused > 0)
    };
    bed.dut.inside(|| {
        let all = capabilities(None).unwrap();
        let effective = all.effective - CapabilitySet::NET_ADMIN;
        set_capabilities(None, CapabilitySets { effective, ..all }).unwrap();
        let without = follow();
        set_capabilities(None, all).unwrap();
        assert_eq!((without, follow()), ((false, false, true), (true, true, false)));
    });
}
