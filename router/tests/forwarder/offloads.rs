//! Frames with offload requests, between ports that support offloads and one that does not.

use super::*;
use netmem::forward::Steering;
use netmem::port::mem::MemPort;
use netmem::port::wrap::WrapPort;
use netmem::steer::{MeshConfig, RecordedQueue};
use netmem::wire::offload::{Gso, GsoKind, Offload};
use netmem::wire::{Ethernet, Ipv4, Udp};
use std::num::NonZeroU16;
use std::time::Duration;

/// Bytes of payload of a segment.
const SIZE: u16 = 400;
/// Bytes of UDP payload of a packet: three segments and 158 bytes.
const PAYLOAD: usize = 1358;

/// The time at which each packet was recorded.
const RECORDED: Duration = Duration::from_millis(1_700_000_000_123);

/// A port whose device reports for each frame when it was recorded and, if asked for, how it is to be segmented.
struct Telling {
    within: MemPort,
    kind: GsoKind,
    keeps: bool,
    hears: bool,
}

impl WrapPort for Telling {
    fn within(&self) -> &dyn Port {
        &self.within
    }

    fn within_mut(&mut self) -> &mut dyn Port {
        &mut self.within
    }

    fn rx(&mut self, w: &mut Worker, frames: &mut Batch) -> usize {
        let before = frames.len();
        let n = self.within_mut().rx(w, frames);
        let gso = Gso { kind: self.kind, size: NonZeroU16::new(SIZE).unwrap() };
        for frame in frames[before..].iter_mut() {
            frame.set_timestamp(Some(RECORDED)).unwrap();
            if self.keeps {
                frame.set_offload(Offload { checksum: None, gso: Some(gso) }).unwrap();
            }
        }
        n
    }

    fn keep_offloads(&mut self, keep: bool) -> bool {
        self.keeps = keep;
        keep
    }

    /// A segment also reports when its packet was recorded.
    fn tx(&mut self, w: &mut Worker, frames: &mut Batch) -> usize {
        assert!(frames.iter().all(|frame| frame.timestamp() == Some(RECORDED)));
        self.within_mut().tx(w, frames)
    }

    fn carries_offloads(&self) -> bool {
        self.hears
    }

    fn name(&self) -> &str {
        "telling"
    }

    fn kind(&self) -> &'static str {
        "telling"
    }
}

/// A run of ten packets through a router. The second port, by which they leave, supports offloads if `hears` is set.
struct Run {
    mtu: u16,
    hears: bool,
    kind: GsoKind,
    /// Frames of the pool that are in use elsewhere.
    taken: bool,
    heads: bool,
}

const PLAIN: Run = Run { mtu: 1500, hears: false, kind: GsoKind::Udp, taken: false, heads: false };

impl Run {
    fn left(&self) -> (Vec<Vec<u8>>, Arc<netmem::forward::Meters>) {
        let mut fib = traffic::router();
        fib.interfaces[1].mtu = self.mtu;
        fib.interfaces.push(fib.interfaces[1]);
        let mut rig = rig(1024, ip());
        let telling = |within, hears| Telling { within, kind: self.kind, keeps: false, hears };
        let [(a, first), (b, second), (c, third)] = ["0", "1", "2"].map(|name| {
            let config = MemConfig { ring: 128, ..MemConfig::default() };
            MemPort::pair(name, &config).unwrap()
        });
        let ports: Vec<Box<dyn Port>> =
            vec![Box::new(telling(a, true)), Box::new(telling(b, self.hears)), Box::new(telling(c, true))];
        rig.forwarder = Forwarder::new(ports, rig.pool.clone(), Box::new(Router::new(fib.into()))).unwrap();
        if self.heads {
            let heads = netmem::packet::HeadCache::new(&rig.memory).unwrap();
            rig.forwarder.set_packet_path(netmem::forward::PacketPath::new(heads));
        }
        rig.devices = [first, second];
        rig.forwarder.poll(&mut rig.w);
        let mut taken = Vec::new();
        while self.taken
            && let Some(frame) = rig.pool.alloc(&mut rig.w)
        {
            taken.push(frame);
        }
        let mut traffic = Traffic::new(1, 14 + 20 + 8 + PAYLOAD).unwrap();
        let sent = rig.devices[0].deliver(10, |room| {
            let len = traffic.write(room);
            // Routers may fragment it.
            room[20] &= !0x40;
            Ipv4::seal(&mut room[14..34]);
            len
        });
        assert_eq!(sent, 10);
        let mut left = Vec::new();
        rig.settle(|data| left.push(data.to_vec()));
        drop((taken, third));
        let meters = rig.forwarder.meters();
        rig.settle(|_| ());
        rig.end();
        (left, meters)
    }
}

/// Returns the UDP payload of a whole packet with valid checksums.
fn payload(frame: &[u8]) -> Vec<u8> {
    let (_, packet) = Ethernet::parse(frame).unwrap();
    let (ip, datagram) = Ipv4::parse(packet).unwrap();
    let (udp, data) = Udp::parse(datagram).unwrap();
    assert_eq!(usize::from(udp.length()), 8 + data.len());
    assert!(netmem::wire::udp::intact(ip.src(), ip.dst(), datagram));
    data.to_vec()
}

#[test]
fn packets_of_many_segments_leave_whole_by_a_port_with_segmentation_offload() {
    for heads in [false, true] {
        let (left, meters) = Run { hears: true, heads, ..PLAIN }.left();
        assert_eq!((left.len(), meters.fragmented.get()), (10, 0));
        assert!(left.iter().all(|frame| frame.len() == 42 + PAYLOAD));
    }
}

#[test]
fn packets_of_many_segments_are_segmented_with_checksums_for_a_port_without_offload() {
    for heads in [false, true] {
        let (left, meters) = Run { heads, ..PLAIN }.left();
        assert_eq!((left.len(), meters.fragmented.get(), meters.fragments.get()), (40, 10, 40));
        for packet in left.chunks(4) {
            let payload: Vec<Vec<u8>> = packet.iter().map(|frame| payload(frame)).collect();
            let lengths: Vec<usize> = payload.iter().map(Vec::len).collect();
            assert_eq!(lengths, [400, 400, 400, 158]);
        }
    }
}

/// 428 bytes of IP are too long for 300, and may be fragmented: each of the first three segments becomes two
/// fragments, and the last fits.
#[test]
fn segments_that_are_too_long_themselves_leave_in_fragments() {
    for hears in [false, true] {
        let (left, meters) = Run { mtu: 300, hears, ..PLAIN }.left();
        let lengths: Vec<usize> = left[..7].iter().map(Vec::len).collect();
        assert_eq!((left.len(), lengths), (70, vec![314, 162, 314, 162, 314, 162, 200]));
        assert_eq!(meters.drops.total(), 0);
    }
}

#[test]
fn segments_without_frames_are_counted_drops() {
    let (left, meters) = Run { taken: true, ..PLAIN }.left();
    let dropped = meters.drops.iter().find(|(reason, _)| *reason == Reason::GsoSeg).map(|(_, n)| n).unwrap();
    assert!(dropped > 0);
    assert_eq!((left.len() as u64 + dropped, meters.drops.total()), (40, dropped));
}

#[test]
fn packets_with_an_invalid_offload_request_are_dropped_whole() {
    let (left, meters) = Run { kind: GsoKind::TcpV4, ..PLAIN }.left();
    assert_eq!((left.len(), meters.drops.total()), (0, 10));
    assert!(meters.drops.iter().any(|(reason, n)| (reason, n) == (Reason::GsoSeg, 10)));
}

/// Seen: of the segments that one burst was cut into, the first 64 left by the queue of the worker that had decided, and
/// only the others by that of the worker that had received them.
#[test]
fn segments_leave_in_order_by_the_queue_that_their_packets_would() {
    const PACKETS: usize = 20;
    for heads in [false, true] {
        let backing = BackingPreference::Small;
        let config = MemoryConfig { bytes: 16 << 20, workers: 2, backing, ..MemoryConfig::default() };
        let memory = Memory::new(&config).unwrap();
        let policy = "hash=1".parse().unwrap();
        let mesh = MeshConfig {
            workers: 2,
            policy,
            recorded_queue: RecordedQueue::Received,
            ..MeshConfig::default()
        };
        let mut workers = Steering::between(&mesh).unwrap().1.into_iter().map(|end| {
            let mut w = memory.worker().unwrap();
            let frames = PoolConfig { frames: 1024, ..PoolConfig::default() };
            let pool = Pool::new(&memory, &mut w, &frames).unwrap();
            let (ports, devices): (Vec<Box<dyn Port>>, Vec<_>) = [true, false, true]
                .map(|hears| {
                    let (within, device) = MemPort::pair("0", &MemConfig { ring: 256, coalesce: 1 }).unwrap();
                    let port = Telling { within, kind: GsoKind::Udp, keeps: false, hears };
                    (Box::new(port) as Box<dyn Port>, device)
                })
                .into_iter()
                .unzip();
            let mut fib = traffic::router();
            fib.interfaces.push(fib.interfaces[1]);
            let mut forwarder = Forwarder::new(ports, pool, Box::new(Router::new(fib.into()))).unwrap();
            if heads {
                let heads = netmem::packet::HeadCache::new(&memory).unwrap();
                forwarder.set_packet_path(netmem::forward::PacketPath::new(heads));
            }
            forwarder.set_steering(end);
            forwarder.poll(&mut w);
            (forwarder, devices, w)
        });
        let (mut first, mut second) = (workers.next().unwrap(), workers.next().unwrap());
        let (mut traffic, mut number) = (Traffic::new(1, 14 + 20 + 8 + PAYLOAD).unwrap(), 0_u16);
        let sent = first.1[0].deliver(PACKETS, |room| {
            let len = traffic.write(room);
            room[18..20].copy_from_slice(&number.to_be_bytes());
            Ipv4::seal(&mut room[14..34]);
            number += 10;
            len
        });
        assert_eq!(sent, PACKETS);
        let mut left = Vec::new();
        for _ in 0..16 {
            for (forwarder, _, w) in [&mut first, &mut second] {
                forwarder.poll(w);
            }
            first.1[1].collect(256, |data| left.push(Ipv4::parse(&data[14..]).unwrap().0.id()));
        }
        let wanted = (0..PACKETS as u16).flat_map(|packet| (0..4).map(move |segment| 10 * packet + segment));
        assert_eq!(left, wanted.collect::<Vec<_>>());
        assert_eq!(second.1[1].collect(256, |_| ()), 0, "nothing left by another queue");
    }
}
