//! Paths of packets that begin on this host, in tables made by hand.

#![allow(clippy::unwrap_used)]

use super::*;
use crate::interface::Interface;
use crate::route::{Fib, Origin, Resolution, Rib, RibRoute, Target, Via, fib};
use ipnet::IpNet;
use netmem::{Memory, MemoryConfig, Pool, PoolConfig, Worker};

const OWN: [MacAddr; 2] = [MacAddr::new([2, 0, 0, 0, 1, 0]), MacAddr::new([2, 0, 0, 0, 1, 1])];
const NEAR: MacAddr = MacAddr::new([2, 0, 0, 0, 0, 7]);
const GATEWAY: MacAddr = MacAddr::new([2, 0, 0, 0, 0, 9]);

fn to(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// Two ports on the links 11 and 12, with these routes (prefix, target), neighbours and addresses.
struct Host {
    rib: Rib,
    fib: Fib,
}

impl Host {
    fn new() -> Host {
        let interfaces = vec![Interface { mac: OWN[0], mtu: 1500 }, Interface { mac: OWN[1], mtu: 9000 }];
        let nets = |nets: &[&str]| nets.iter().map(|net| net.parse().unwrap()).collect::<Box<[IpNet]>>();
        let addresses = vec![
            nets(&["192.0.2.1/24", "198.51.100.1/24", "fd00::1/64"]),
            nets(&["fe80::1/64", "203.0.113.1/24"]),
        ];
        let mut host =
            Host { rib: Rib::new([(11, 0), (12, 1)]), fib: Fib { interfaces, addresses, ..Fib::default() } };
        for (prefix, link) in
            [("192.0.2.0/24", 11), ("198.51.100.0/24", 11), ("fd00::/64", 11), ("203.0.113.0/24", 12)]
        {
            host.route(prefix, Host::by(link, None, None));
        }
        host.route("192.0.2.1/32", Target::Local);
        host.know(11, "192.0.2.7", NEAR);
        host.know(11, "fd00::7", NEAR);
        host
    }

    fn by(link: u32, gateway: Option<&str>, mtu: Option<u16>) -> Target {
        Target::paths(vec![Via { link, address: gateway.map(to), weight: 1, mtu, source: None }])
    }

    fn route(&mut self, prefix: &str, target: Target) {
        let prefix = prefix.parse().unwrap();
        let route = RibRoute { prefix, origin: Origin::Main, metric: 0, target, distinguisher: 0 };
        assert!(self.rib.insert(&route), "{prefix}");
    }

    fn know(&mut self, link: u32, address: &str, mac: MacAddr) {
        self.rib.set_neighbour(link, to(address), Resolution::Known(mac));
    }

    fn output(mut self) -> (Output, UnresolvedNeighbours) {
        self.fib.apply(&self.rib.take_changes());
        output(self.fib.into())
    }
}

fn pool(headroom: usize) -> (Worker, Pool) {
    let memory = Memory::new(&MemoryConfig { bytes: 4 << 20, ..MemoryConfig::default() }).unwrap();
    let mut w = memory.worker().unwrap();
    let pool =
        Pool::new(&memory, &mut w, &PoolConfig { frames: 16, headroom, ..PoolConfig::default() }).unwrap();
    (w, pool)
}

/// Sends a payload from an unspecified address to `to`. Returns the egress port and the datagram.
fn sent(output: &mut Output, payload: &[u8], to: &str) -> Result<(u8, Datagram), OutputError> {
    let (mut w, pool) = pool(64);
    let mut frame = pool.alloc(&mut w).unwrap();
    frame.put_slice(payload).unwrap();
    let to: SocketAddr = to.parse().unwrap();
    let from = if to.is_ipv4() { "0.0.0.0:4000" } else { "[::]:4000" };
    let port = output.address(&mut frame, from.parse().unwrap(), to);
    if port.is_err() {
        assert_eq!(frame.data(), payload, "the frame is as it was");
    }
    let port = port?;
    let (datagram, read) = Datagram::parse(frame.data()).expect("a datagram with its checksums");
    let dst = SocketAddr::new(to.ip(), to.port());
    assert_eq!((read, datagram.dst, datagram.src.port()), (payload, dst, 4000));
    Ok((port, datagram))
}

#[test]
fn a_payload_becomes_a_datagram_to_a_neighbour_from_the_address_of_its_network() {
    let mut host = Host::new();
    host.know(11, "198.51.100.7", GATEWAY);
    let (mut output, _wanted) = host.output();
    for (destination, source, station) in [
        ("192.0.2.7:7", "192.0.2.1:4000", NEAR),
        ("198.51.100.7:7", "198.51.100.1:4000", GATEWAY),
        ("[fd00::7]:7", "[fd00::1]:4000", NEAR),
    ] {
        let (port, datagram) = sent(&mut output, b"unasked", destination).unwrap();
        assert_eq!((port, datagram.src.to_string().as_str(), datagram.hop_limit), (0, source, 64));
        assert_eq!((datagram.src_mac, datagram.dst_mac), (OWN[0], station));
    }
}

#[test]
fn a_datagram_to_a_host_behind_a_router_is_sent_to_the_routers_mac_address() {
    let mut host = Host::new();
    host.route("0.0.0.0/0", Host::by(12, Some("203.0.113.9"), None));
    host.route("2001:db8::/32", Host::by(11, Some("fd00::7"), None));
    host.know(12, "203.0.113.9", GATEWAY);
    let (mut output, _wanted) = host.output();
    let (port, datagram) = sent(&mut output, b"far", "8.8.8.8:53").unwrap();
    assert_eq!((port, datagram.src_mac, datagram.dst_mac), (1, OWN[1], GATEWAY));
    assert_eq!(datagram.src.ip(), to("203.0.113.1"));
    let (port, datagram) = sent(&mut output, b"far", "[2001:db8::1]:53").unwrap();
    assert_eq!((port, datagram.dst_mac, datagram.src.ip()), (0, NEAR, to("fd00::1")));
}

#[test]
fn an_unknown_neighbour_is_requested_once_until_it_is_known() {
    let mut host = Host::new();
    host.fib.apply(&host.rib.take_changes());
    let (mut control, reader) = fib(host.fib.clone());
    let (mut output, mut unresolved) = output(reader);
    let names = |unresolved: &mut UnresolvedNeighbours| {
        let mut names = Vec::new();
        unresolved.read(|neighbour| names.push((neighbour.port, neighbour.address)));
        names
    };
    for address in ["203.0.113.5", "203.0.113.6", "203.0.113.5"] {
        let refused = sent(&mut output, b"first", &format!("{address}:7")).unwrap_err();
        assert_eq!(refused, OutputError::Unresolved(to(address)));
    }
    assert_eq!(names(&mut unresolved), [(1, to("203.0.113.5")), (1, to("203.0.113.6"))]);
    host.know(12, "203.0.113.5", NEAR);
    host.rib.set_neighbour(12, to("203.0.113.6"), Resolution::Failed);
    control.apply(host.rib.take_changes());
    assert!(sent(&mut output, b"before the round", "203.0.113.5:7").is_err());
    assert!(output.refresh());
    assert_eq!(sent(&mut output, b"second", "203.0.113.5:7").unwrap().1.dst_mac, NEAR);
    assert_eq!(
        sent(&mut output, b"second", "203.0.113.6:7"),
        Err(OutputError::NeighbourFailed(to("203.0.113.6")))
    );
    assert_eq!(names(&mut unresolved), []);
}

#[test]
fn a_scan_of_more_neighbours_than_there_are_request_slots_sends_no_further_requests() {
    let (mut output, mut unresolved) = Host::new().output();
    for last in 2..=255_u32 {
        for third in [2, 113] {
            let first = if third == 2 { 192 << 24 } else { 203 << 24 };
            let address = IpAddr::from(Ipv4Addr::from_bits(first | third << 8 | last));
            let _ = output.route(address);
        }
    }
    assert!(output.asked.len() <= REQUEST_SLOTS as usize);
    assert!(unresolved.read(|_| ()) <= REQUEST_SLOTS as usize);
}

#[test]
fn a_datagram_longer_than_the_mtu_of_the_link_or_the_route_is_refused_unchanged() {
    let mut host = Host::new();
    host.route("0.0.0.0/0", Host::by(11, Some("192.0.2.7"), Some(600)));
    host.route("2001:db8::/32", Host::by(11, Some("fd00::7"), Some(600)));
    let (mut output, _wanted) = host.output();
    // The headers of IP and UDP take 28 and 48 bytes. An IPv6 route carries at least 1,280 bytes.
    for (destination, mtu, most) in [
        ("192.0.2.7:7", 1500, 1472),
        ("8.8.8.8:7", 600, 572),
        ("[fd00::7]:7", 1500, 1452),
        ("[2001:db8::7]:7", 1280, 1232),
    ] {
        assert!(sent(&mut output, &vec![1; most], destination).is_ok(), "{destination}");
        let refused = sent(&mut output, &vec![1; most + 1], destination);
        assert_eq!(refused, Err(OutputError::TooLong { len: usize::from(mtu) + 1, mtu }), "{destination}");
    }
}

#[test]
fn each_reason_for_which_there_is_no_path_has_its_error() {
    let mut host = Host::new();
    host.route("10.1.0.0/16", Target::Blackhole);
    host.route("10.2.0.0/16", Target::Prohibit);
    host.route("10.3.0.0/16", Target::Unreachable);
    host.route("10.4.0.0/16", Host::by(99, None, None));
    host.route("2001:db8::/32", Host::by(12, Some("fe80::9"), None));
    host.know(12, "fe80::9", GATEWAY);
    let (mut output, _wanted) = host.output();
    for (destination, reason) in [
        ("10.1.0.1:7", OutputError::Refused as fn(IpAddr) -> OutputError),
        ("10.2.0.1:7", OutputError::Refused),
        ("10.3.0.1:7", OutputError::Refused),
        ("10.4.0.1:7", OutputError::NoRoute),
        ("10.5.0.1:7", OutputError::NoRoute),
        ("192.0.2.1:7", OutputError::Local),
        ("224.0.0.1:7", OutputError::Group),
        ("255.255.255.255:7", OutputError::Group),
        ("[ff02::1]:7", OutputError::Group),
        ("[2001:db8::7]:7", OutputError::NoSource),
    ] {
        let ip = destination.parse::<SocketAddr>().unwrap().ip();
        assert_eq!(sent(&mut output, b"nowhere", destination), Err(reason(ip)), "{destination}");
    }
}

#[test]
fn a_frame_without_headroom_or_with_an_address_of_another_family_is_refused_unchanged() {
    let (mut output, _wanted) = Host::new().output();
    let (mut w, pool) = pool(64);
    let mut frame = pool.alloc(&mut w).unwrap();
    frame.push(frame.headroom() - 10).unwrap();
    let near = "192.0.2.7:7".parse().unwrap();
    let refused = output.address(&mut frame, "0.0.0.0:1".parse().unwrap(), near).unwrap_err();
    assert!(matches!(refused, OutputError::NoRoom(_)), "{refused}");
    frame.free(&mut w);
    let mut frame = pool.alloc(&mut w).unwrap();
    frame.put_slice(b"payload").unwrap();
    let refused = output.address(&mut frame, "[fd00::1]:1".parse().unwrap(), near).unwrap_err();
    assert_eq!((refused, frame.data()), (OutputError::Headers(WriteError::MixedFamilies), &b"payload"[..]));
    // A given address is used, even if it is not this host's.
    assert_eq!(output.address(&mut frame, "192.0.2.99:1".parse().unwrap(), near), Ok(0));
    assert_eq!(Datagram::parse(frame.data()).unwrap().0.src, "192.0.2.99:1".parse().unwrap());
    frame.free(&mut w);
}

/// Found by reading: the kernel has a route for fe80::/64 on each link, and datagrams to a link-local address left by the first
/// of them, whatever the scope of the address.
#[test]
fn a_datagram_to_a_link_local_address_leaves_by_the_link_that_its_scope_names() {
    let mut host = Host::new();
    host.route("fe80::/64", Host::by(11, None, None));
    host.route("fe80::/64", Host::by(12, None, None));
    host.know(11, "fe80::7", NEAR);
    host.know(12, "fe80::7", GATEWAY);
    host.rib.set_port(13, Some(1));
    host.rib.set_port(13, None);
    let (mut output, mut unresolved) = host.output();
    let (port, datagram) = sent(&mut output, b"near", "[fe80::7%12]:7").unwrap();
    assert_eq!((port, datagram.dst_mac, datagram.src.ip()), (1, GATEWAY, to("fe80::1")));
    let (port, datagram) = sent(&mut output, b"near", "[fe80::7%11]:7").unwrap();
    assert_eq!(
        (port, datagram.dst_mac, datagram.src.ip()),
        (0, NEAR, to("fd00::1")),
        "it has no other source"
    );
    for (destination, reason) in [
        ("[fe80::7]:7", OutputError::Unscoped as fn(IpAddr) -> OutputError),
        ("[fe80::7%13]:7", OutputError::NoRoute),
        ("[fe80::1%12]:7", OutputError::Local),
        ("[fe80::8%12]:7", OutputError::Unresolved),
    ] {
        let ip = destination.parse::<SocketAddr>().unwrap().ip();
        assert_eq!(sent(&mut output, b"nowhere", destination), Err(reason(ip)), "{destination}");
    }
    assert_eq!(output.route(to("fe80::7")), Err(OutputError::Unscoped(to("fe80::7"))));
    let mut asked = Vec::new();
    unresolved.read(|neighbour| asked.push(neighbour));
    assert_eq!(asked, [Neighbour { port: 1, address: to("fe80::8") }]);
}
