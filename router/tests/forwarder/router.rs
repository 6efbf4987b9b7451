//! A router with two ports and its own addresses, for tests of its errors and its decisions, on the fast path and
//! on the full path.

use super::*;
use netmem::forward::PacketPath;
use netmem::forward::filter::filter;
use netmem::packet::HeadCache;
use netmem::pool::Frame;
use netmem::wire::{Ethernet, Ipv4, Ipv6, MacAddr, Udp, ethernet, ipv4, udp};
use netmem_router::icmp::{IcmpControl, IcmpCounters, IcmpLimit, Message, Suppression};
use netmem_router::route::{Change, FibControl, FibEntry, HopId, Neighbour, fib};
use netmem_router::{Allow, Interface, ReversePath};
use netmem_router::{NeighbourQueues, UnresolvedNeighbours, neighbour_queues};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use zerocopy::IntoBytes;

/// The router's ends of the two links.
pub const ENDS: [Interface; 2] = [
    Interface { mac: MacAddr::new([2, 0, 0, 0, 0, 0xfe]), mtu: 1500 },
    Interface { mac: MacAddr::new([2, 0, 0, 0, 1, 0xfe]), mtu: 1400 },
];
/// A host on each link.
pub const HOSTS: [MacAddr; 2] = [MacAddr::new([2, 0, 0, 0, 0, 1]), MacAddr::new([2, 0, 0, 0, 1, 1])];
/// The router's own addresses on each link.
const ADDRESSES: [&[&str]; 2] =
    [&["10.0.255.254/16", "fe80::1/64", "fd00:a::fe/64"], &["10.1.255.254/16", "fd00:b::fe/64"]];
/// The next hop of each network. A number is the port of a host.
const ROUTES: &[(&str, FibEntry)] = &[
    ("10.0.0.0/16", FibEntry::station(0, HOSTS[0])),
    ("10.1.0.0/16", FibEntry::station(1, HOSTS[1])),
    ("10.2.0.0/16", FibEntry::UNREACHABLE),
    ("10.3.0.0/16", FibEntry::PROHIBIT),
    ("10.4.0.0/16", FibEntry::BLACKHOLE),
    ("10.5.0.0/16", FibEntry::on_link(1)),
    ("10.0.255.254/32", FibEntry::LOCAL),
    ("10.0.255.255/32", FibEntry::LOCAL),
    ("10.1.255.254/32", FibEntry::LOCAL),
    ("fd00:a::/64", FibEntry::station(0, HOSTS[0])),
    ("fd00:b::/64", FibEntry::station(1, HOSTS[1])),
    ("fd00:2::/32", FibEntry::UNREACHABLE),
    ("fd00:3::/32", FibEntry::PROHIBIT),
    ("fd00:4::/32", FibEntry::BLACKHOLE),
    ("fd00:5::/32", FibEntry::on_link(1)),
    ("fd00:a::fe/128", FibEntry::LOCAL),
];
/// Neighbours on the link of port 1 that do not answer.
const SILENT: [&str; 2] = ["10.5.0.9", "fd00:5::9"];

/// The path that frames take through the router.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// As frames.
    Fast,
    /// As packets, through hooks.
    Full,
}

/// Both.
pub const WAYS: [Way; 2] = [Way::Fast, Way::Full];

/// The router, with a wire at each port.
pub struct RouterRig {
    rig: Rig,
    pub control: FibControl,
    icmp: Arc<IcmpCounters>,
    pub limit: IcmpControl,
    /// The neighbours that frames wait for, if the router lets frames wait.
    pub unresolved: Option<UnresolvedNeighbours>,
}

impl RouterRig {
    /// Makes a router whose frames take this path.
    pub fn new(way: Way) -> RouterRig {
        RouterRig::that_allows(way, Allow::default())
    }

    /// Makes a router that forwards packets which are forwarded only on request.
    pub fn that_allows(way: Way, allow: Allow) -> RouterRig {
        RouterRig::of(way, allow, None)
    }

    /// Makes a router whose ports have these source checks.
    pub fn that_checks(way: Way, reverse_path: [ReversePath; 2]) -> RouterRig {
        RouterRig::that_checks_and_allows(way, reverse_path, Allow::default())
    }

    pub fn that_checks_and_allows(way: Way, reverse_path: [ReversePath; 2], allow: Allow) -> RouterRig {
        let mut first = Fib::new(ENDS.to_vec());
        (first.reverse_path, first.allow) = (reverse_path.into(), allow);
        RouterRig::from(way, first, None)
    }

    /// Makes a router that lets 64 frames wait for their neighbours.
    pub fn that_waits(way: Way) -> RouterRig {
        RouterRig::that_lets_wait(way, 64)
    }

    /// Makes a router that lets this many frames wait for their neighbours.
    pub fn that_lets_wait(way: Way, most: usize) -> RouterRig {
        let (queues, unresolved) = neighbour_queues(most);
        RouterRig { unresolved: Some(unresolved), ..RouterRig::of(way, Allow::default(), Some(queues)) }
    }

    fn of(way: Way, allow: Allow, queues: Option<NeighbourQueues>) -> RouterRig {
        let mut first = Fib::new(ENDS.to_vec());
        first.allow = allow;
        RouterRig::from(way, first, queues)
    }

    fn from(way: Way, mut first: Fib, queues: Option<NeighbourQueues>) -> RouterRig {
        first.table.set_flow_seed(7);
        let (mut control, reader) = fib(first);
        let mut changes: Vec<Change> = Vec::new();
        for ((net, hop), id) in ROUTES.iter().zip(0..) {
            changes.extend([Change::Hop(HopId(id), *hop), Change::Route(net.parse().unwrap(), HopId(id))]);
        }
        for (addresses, port) in ADDRESSES.iter().zip(0..) {
            let nets = addresses.iter().map(|text| text.parse().unwrap());
            changes.push(Change::Addresses(port, nets.collect()));
        }
        changes.push(Change::OwnAddresses(
            ADDRESSES.concat().iter().map(|text| text.parse().unwrap()).collect(),
        ));
        let silent = SILENT.map(|text| Neighbour { port: 1, address: text.parse().unwrap() });
        changes.extend(silent.map(|neighbour| Change::Neighbour(neighbour, None)));
        control.apply(changes);
        let mut decision = netmem_router::Router::new(reader);
        if let Some(queues) = queues {
            decision = decision.with_neighbour_queues(queues);
        }
        // Nearly all packets here are from one host.
        decision = decision.with_icmp_limit(IcmpLimit::in_all(1000, 50));
        let (icmp, limit) = (decision.icmp_counters(), decision.icmp_control());
        let mut rig = rig(2048, Box::new(decision));
        if way == Way::Full {
            let (filter, _) = filter(Vec::new()).unwrap();
            let path = PacketPath::new(HeadCache::new(&rig.memory).unwrap()).with_hooks(filter);
            rig.forwarder.set_packet_path(path);
        }
        rig.forwarder.poll(&mut rig.w);
        RouterRig { rig, control, icmp, limit, unresolved: None }
    }

    /// Lets a frame come in on a port. Returns the frames that leave, each with its port.
    pub fn pass(&mut self, from: usize, frame: &[u8]) -> Vec<(usize, Vec<u8>)> {
        let delivered = self.rig.devices[from].deliver(1, |room| {
            room[..frame.len()].copy_from_slice(frame);
            frame.len()
        });
        assert_eq!(delivered, 1);
        self.settle()
    }

    /// As [`pass`](Self::pass), for several frames in one burst.
    pub fn pass_burst(&mut self, from: usize, frames: &[Vec<u8>]) -> Vec<(usize, Vec<u8>)> {
        let mut next = frames.iter();
        let delivered = self.rig.devices[from].deliver(frames.len(), |room| {
            let frame = next.next().unwrap();
            room[..frame.len()].copy_from_slice(frame);
            frame.len()
        });
        assert_eq!(delivered, frames.len());
        self.settle()
    }

    /// As [`pass`](Self::pass), on port 0, for a frame that leaves by port 1 alone.
    #[track_caller]
    pub fn forward(&mut self, frame: &[u8]) -> Vec<u8> {
        let mut left = self.pass(0, frame);
        assert_eq!(left.iter().map(|(port, _)| *port).collect::<Vec<_>>(), [1]);
        left.remove(0).1
    }

    /// Routes a network to another hop.
    pub fn lead(&mut self, id: u32, net: &str, to: FibEntry) {
        let net = net.parse().unwrap();
        self.control.apply(vec![Change::Hop(HopId(id), to), Change::Route(net, HopId(id))]);
    }

    /// Lets a frame come in on a port this many times, and leaves the frames that are sent in the device.
    pub fn pour(&mut self, from: usize, times: usize, frame: &[u8]) {
        self.rig.devices[from].deliver(times, |room| {
            room[..frame.len()].copy_from_slice(frame);
            frame.len()
        });
        self.rig.forwarder.poll(&mut self.rig.w);
        self.rig.check();
    }

    /// Returns the frames that leave without further input.
    pub fn settle(&mut self) -> Vec<(usize, Vec<u8>)> {
        let mut left = Vec::new();
        for _ in 0..4 {
            self.rig.forwarder.poll(&mut self.rig.w);
            for (port, device) in self.rig.devices.iter_mut().enumerate() {
                device.collect(64, |data| left.push((port, data.to_vec())));
            }
        }
        self.rig.check();
        left
    }

    /// Returns the drops so far, by the reasons' names.
    pub fn drops(&self) -> Vec<(&'static str, u64)> {
        let meters = self.rig.forwarder.meters();
        let all = meters.drops.iter().map(|(reason, frames)| (reason.name(), frames));
        all.filter(|(_, frames)| *frames > 0).collect()
    }

    /// Returns the number of frames that wait now.
    pub fn held(&self) -> u64 {
        self.rig.forwarder.meters().held.get()
    }

    /// Returns the number of packets fragmented so far, and of their fragments.
    pub fn cut(&self) -> (u64, u64) {
        let meters = self.rig.forwarder.meters();
        (meters.fragmented.get(), meters.fragments.get())
    }

    /// Takes all free frames of the pool except this many.
    pub fn leave_frames(&mut self, left: usize) -> Vec<Frame> {
        let Rig { pool, w, .. } = &mut self.rig;
        let mut taken: Vec<_> = std::iter::from_fn(|| pool.alloc(w)).collect();
        taken.drain(..left).for_each(|frame| frame.free(w));
        taken
    }

    /// Returns the errors sent so far.
    pub fn said(&self) -> Vec<(Message, u64)> {
        self.icmp.messages().filter(|(_, count)| *count > 0).collect()
    }

    /// Returns the packets about which no error was sent so far.
    pub fn suppressed(&self) -> Vec<(Suppression, u64)> {
        self.icmp.suppressed().filter(|(_, count)| *count > 0).collect()
    }

    /// Ends the router. Asserts that every frame is back in the pool.
    pub fn end(self) {
        drop(self.control);
        self.rig.end();
    }
}

/// Makes a frame for port 0 of the router, from its host there.
pub fn frame(ethertype: u16, packet: &[u8]) -> Vec<u8> {
    [Ethernet::new(ENDS[0].mac, HOSTS[0], ethertype).as_bytes(), packet].concat()
}

/// Makes a UDP datagram with `payload` bytes in a frame for port 0. The family is that of its addresses.
pub fn datagram(src: &str, dst: &str, hops: u8, payload: usize) -> Vec<u8> {
    let length = (udp::HEADER_LEN + payload) as u16;
    let udp = Udp::new(4000, 33434, payload as u16);
    let body: Vec<u8> = (0..payload).map(|i| i as u8).collect();
    let body = [udp.as_bytes(), &body].concat();
    match (src.parse().unwrap(), dst.parse().unwrap()) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => over_v4(Ipv4::new(src, dst, ipv4::UDP, hops, length), &body),
        (IpAddr::V6(src), IpAddr::V6(dst)) => over_v6((src, dst), ipv4::UDP, hops, &body),
        _ => panic!("{src} and {dst} have different IP versions"),
    }
}

/// Makes a frame for port 0 with this header, whose lengths are valid, and this payload.
pub fn over_v4(header: Ipv4, payload: &[u8]) -> Vec<u8> {
    frame(ethernet::IPV4, &[header.as_bytes(), payload].concat())
}

/// Makes the same over IPv6.
pub fn over_v6((src, dst): (Ipv6Addr, Ipv6Addr), next: u8, hops: u8, payload: &[u8]) -> Vec<u8> {
    let header = Ipv6::new(src, dst, next, hops, payload.len() as u16);
    frame(ethernet::IPV6, &[header.as_bytes(), payload].concat())
}

/// Changes a frame's IPv4 header and recomputes its checksum.
pub fn with_v4(mut frame: Vec<u8>, change: impl FnOnce(&mut [u8])) -> Vec<u8> {
    let packet = &mut frame[ethernet::HEADER_LEN..];
    change(packet);
    let length = usize::from(packet[0] & 0xf) * 4;
    packet[10..12].fill(0);
    let checksum = netmem::wire::checksum::Sum::new().bytes(&packet[..length]).checksum();
    packet[10..12].copy_from_slice(&checksum.to_be_bytes());
    frame
}

/// An error as its receiver reads it.
#[derive(Debug, PartialEq, Eq)]
pub struct Said {
    pub src: IpAddr,
    pub dst: IpAddr,
    pub kind: u8,
    pub code: u8,
    pub rest: u32,
    pub hops: u8,
    pub tos: u8,
    pub quoted: Vec<u8>,
}

/// Reads the error in a frame that left for the host at port 0 with etherparse, which checks the checksums too.
pub fn read(frame: &[u8]) -> Said {
    use etherparse::{NetSlice, SlicedPacket, TransportSlice};
    let packet = SlicedPacket::from_ethernet(frame).unwrap();
    let (link, _) = Ethernet::parse(frame).unwrap();
    assert_eq!((link.dst, link.src), (HOSTS[0], ENDS[0].mac));
    let (src, dst, hops, tos): (IpAddr, IpAddr, u8, u8) = match packet.net.unwrap() {
        NetSlice::Ipv4(ip) => {
            let header = ip.header().to_header();
            assert_eq!(header.header_checksum, header.calc_header_checksum());
            let tos = header.dscp.value() << 2 | header.ecn.value();
            (
                Ipv4Addr::from(header.source).into(),
                Ipv4Addr::from(header.destination).into(),
                header.time_to_live,
                tos,
            )
        }
        NetSlice::Ipv6(ip) => {
            let header = ip.header().to_header();
            (
                header.source_addr().into(),
                header.destination_addr().into(),
                header.hop_limit,
                header.traffic_class,
            )
        }
        _ => panic!("no IP"),
    };
    let (bytes, quoted) = match packet.transport.unwrap() {
        TransportSlice::Icmpv4(icmp) => {
            assert_eq!(icmp.icmp_type().calc_checksum(icmp.payload()), icmp.checksum());
            (icmp.slice().to_vec(), icmp.payload().to_vec())
        }
        TransportSlice::Icmpv6(icmp) => {
            let (IpAddr::V6(src), IpAddr::V6(dst)) = (src, dst) else { panic!("{src}") };
            assert!(icmp.is_checksum_valid(src.octets(), dst.octets()));
            (icmp.slice().to_vec(), icmp.payload().to_vec())
        }
        other => panic!("no ICMP: {other:?}"),
    };
    let rest = u32::from_be_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]);
    Said { src, dst, kind: bytes[0], code: bytes[1], rest, hops, tos, quoted }
}
