//! Frames through a router that sends errors. A sequence has up to eight frames, each with two bytes of length
//! before its bytes.
//!
//! The first byte of a length gives the options of a frame. The lowest bit is the port. With the next bit its MAC
//! address and checksum are corrected first, so that later code is reached. The third selects the full path for all
//! frames. With the fourth the frame is first made a whole packet of a host there, and the fifth is its family.
//! Every frame that leaves is one that a router may send, and every frame is accounted for.

#![allow(clippy::unwrap_used, missing_docs)]

use netmem::forward::filter::filter;
use netmem::forward::{Forwarder, PacketPath};
use netmem::packet::HeadCache;
use netmem::page::{BackingPreference, Memory, MemoryConfig};
use netmem::pool::{Pool, PoolConfig};
use netmem::port::Port;
use netmem::port::mem::{MemConfig, MemDevice, MemPort};
use netmem::sync::Worker;
use netmem::wire::{Ethernet, Icmp, Ipv4, Ipv6, MacAddr, ethernet, icmp};
use netmem_router::Interface;
use netmem_router::Router;
use netmem_router::icmp::{IcmpLimit, Message};
use netmem_router::route::{Change, Fib, FibEntry, HopId, fib};

const FRAMES_MAX: usize = 8;
const ENDS: [Interface; 2] = [
    Interface { mac: MacAddr::new([2, 0, 0, 0, 0, 0xfe]), mtu: 1500 },
    Interface { mac: MacAddr::new([2, 0, 0, 0, 1, 0xfe]), mtu: 600 },
];
const HOST: MacAddr = MacAddr::new([2, 0, 0, 0, 1, 1]);

struct Scene {
    memory: Memory,
    w: Worker,
    pool: Pool,
    forwarder: Forwarder,
    devices: [MemDevice; 2],
}

impl Scene {
    fn new(full: bool) -> Scene {
        let config = MemoryConfig {
            bytes: 512 << 10,
            workers: 1,
            backing: BackingPreference::Small,
            ..MemoryConfig::default()
        };
        let memory = Memory::new(&config).unwrap();
        let mut w = memory.worker().unwrap();
        let pool = Pool::new(&memory, &mut w, &PoolConfig { frames: 64, ..PoolConfig::default() }).unwrap();
        let ring = MemConfig { ring: 32, coalesce: 1 };
        let ((a, near), (b, far)) = (MemPort::pair("0", &ring).unwrap(), MemPort::pair("1", &ring).unwrap());
        let ports: Vec<Box<dyn Port>> = vec![Box::new(a), Box::new(b)];
        let mut forwarder = Forwarder::new(ports, pool.clone(), Box::new(router())).unwrap();
        if full {
            let (filter, _) = filter(Vec::new()).unwrap();
            forwarder.set_packet_path(PacketPath::new(HeadCache::new(&memory).unwrap()).with_hooks(filter));
        }
        forwarder.poll(&mut w);
        Scene { memory, w, pool, forwarder, devices: [near, far] }
    }

    /// Lets a frame come in. Returns the number of errors that leave because of it.
    fn pass(&mut self, port: usize, frame: &[u8]) -> usize {
        let delivered = self.devices[port].deliver(1, |room| {
            let n = frame.len().min(room.len());
            room[..n].copy_from_slice(&frame[..n]);
            n
        });
        assert_eq!(delivered, 1);
        let mut errors = 0;
        for _ in 0..4 {
            self.forwarder.poll(&mut self.w);
            for (port, device) in self.devices.iter_mut().enumerate() {
                device.collect(64, |data| errors += usize::from(check(port, data)));
            }
        }
        let meters = self.forwarder.meters();
        let came = meters.received.get() + meters.originated.get() + meters.fragments.get();
        let left = meters.transmitted.get() + meters.drops.total() + meters.held.get();
        assert_eq!(came, left + meters.fragmented.get());
        assert!(self.pool.ledger().balanced());
        errors
    }

    fn end(self) {
        let Scene { memory, w, pool, forwarder, devices } = self;
        drop((forwarder, devices));
        assert!(pool.ledger().all_freed());
        drop((pool, w, memory));
    }
}

/// Routes of both families: to hosts on both links, without a next hop of each kind, and to the router itself.
fn router() -> Router {
    let (mut control, mut reader) = fib(Fib::new(ENDS.to_vec()));
    let station = |port| FibEntry::station(port, HOST);
    let routes = [
        ("10.0.0.0/16", station(0)),
        ("10.1.0.0/16", station(1)),
        ("10.2.0.0/16", FibEntry::UNREACHABLE),
        ("10.3.0.0/16", FibEntry::PROHIBIT),
        ("10.0.255.254/32", FibEntry::LOCAL),
        ("10.1.255.254/32", FibEntry::LOCAL),
        ("fd00::/16", station(0)),
        ("fd01::/16", station(1)),
        ("fd02::/16", FibEntry::UNREACHABLE),
        ("fd00::fe/128", FibEntry::LOCAL),
    ];
    let mut changes = Vec::new();
    for ((net, hop), id) in routes.into_iter().zip(0..) {
        changes.extend([Change::Hop(HopId(id), hop), Change::Route(net.parse().unwrap(), HopId(id))]);
    }
    let addresses = [["10.0.255.254/16", "fd00::fe/16"], ["10.1.255.254/16", "fe80::1/64"]];
    let addresses = addresses.map(|nets| nets.map(|net| net.parse().unwrap()));
    for (port, nets) in (0..).zip(addresses) {
        changes.push(Change::Addresses(port, nets.into()));
    }
    changes.push(Change::OwnAddresses(addresses.concat().into()));
    control.apply(changes);
    assert!(reader.refresh());
    Router::new(reader).with_icmp_limit(IcmpLimit::in_all(1_000_000, 1_000_000))
}

/// Asserts that a router may send this frame by this port, and that a frame from the router's addresses is the
/// router's own. Returns true if it is an error of the router.
fn check(port: usize, frame: &[u8]) -> bool {
    let (link, packet) = Ethernet::parse(frame).unwrap();
    assert_eq!(link.src, ENDS[port].mac);
    let (own, says, length) = match link.ethertype() {
        ethernet::IPV4 => {
            let (header, payload) = Ipv4::parse(packet).unwrap();
            assert!(header.ttl() > 0);
            let own = [[10, 0, 255, 254], [10, 1, 255, 254]].contains(&header.src().octets());
            let icmp = Icmp::read(payload).filter(|_| own && header.protocol() == icmp::PROTOCOL);
            let is =
                |icmp: &Icmp| Message::ALL.iter().any(|says| says.v4() == Some((icmp.kind(), icmp.code())));
            (own, icmp.is_some_and(|(icmp, _)| is(icmp)), header.total_length().into())
        }
        ethernet::IPV6 => {
            let header = Ipv6::parse(packet).unwrap();
            assert!(header.hop_limit() > 0);
            let own = ["fd00::fe", "fe80::1"].contains(&header.src().to_string().as_str());
            let icmp = Icmp::read(&packet[40..]).filter(|_| own && header.next_header() == icmp::PROTOCOL_V6);
            let is =
                |icmp: &Icmp| Message::ALL.iter().any(|says| says.v6() == Some((icmp.kind(), icmp.code())));
            (own, icmp.is_some_and(|(icmp, _)| is(icmp)), header.total_length())
        }
        other => panic!("a router sent {other:#06x}"),
    };
    assert_eq!(own, says);
    assert!(length <= usize::from(ENDS[port].mtu));
    says
}

/// Corrects the MAC address and the IPv4 header checksum, without which a frame would not be examined.
fn mend(port: usize, frame: &mut [u8]) {
    if let Some(to) = frame.get_mut(..6) {
        to.copy_from_slice(&ENDS[port].mac.bytes());
    }
    if let Some(packet) =
        frame.get_mut(14..).filter(|packet| packet.first().is_some_and(|first| first >> 4 == 4))
    {
        Ipv4::seal(packet);
    }
}

/// Makes a frame a packet from a host on the link of `port` to one of the router's networks, or an address near
/// them. The other bytes stay the same.
fn make_packet(port: usize, v6: bool, frame: &mut [u8]) {
    let length = frame.len().saturating_sub(14) as u16;
    let Some(packet) = frame.get_mut(12..).filter(|packet| packet.len() >= 2 + 40) else { return };
    let (ethertype, packet) = packet.split_at_mut(2);
    if v6 {
        ethertype.copy_from_slice(&ethernet::IPV6.to_be_bytes());
        packet[0] = 0x60 | packet[0] & 0xf;
        packet[4..6].copy_from_slice(&(length - 40).to_be_bytes());
        packet[8..10].copy_from_slice(&[0xfd, port as u8]);
        (packet[24], packet[25]) = (0xfd, packet[25] % 4);
    } else {
        ethertype.copy_from_slice(&ethernet::IPV4.to_be_bytes());
        packet[0] = 0x45 + packet[0] % 6;
        packet[2..4].copy_from_slice(&length.to_be_bytes());
        // One in four is a later fragment, about which no error is sent.
        if !packet[7].is_multiple_of(4) {
            (packet[6], packet[7]) = (packet[6] & 0xe0, 0);
        }
        packet[12..14].copy_from_slice(&[10, port as u8]);
        (packet[16], packet[17]) = (10, packet[17] % 5);
    }
}

/// Runs a sequence. Returns the number of errors that left.
pub fn said(bytes: &[u8]) -> usize {
    let mut scene = Scene::new(bytes.first().is_some_and(|first| first & 4 != 0));
    let (mut rest, mut errors) = (bytes, 0);
    for _ in 0..FRAMES_MAX {
        let [how, length, more @ ..] = rest else { break };
        let n = (usize::from(*length) * 8).min(more.len());
        let (frame, after) = more.split_at(n);
        let (port, mut frame) = (usize::from(how & 1), frame.to_vec());
        if how & 8 != 0 {
            make_packet(port, how & 16 != 0, &mut frame);
        }
        if how & 2 != 0 {
            mend(port, &mut frame);
        }
        errors += scene.pass(port, &frame);
        rest = after;
    }
    scene.end();
    errors
}

/// Runs a sequence.
pub fn run(bytes: &[u8]) {
    said(bytes);
}
