//! Packets with invalid offload requests. A sequence has up to eight packets. Each is a `virtio_net_hdr`, a byte
//! `how`, a byte of length, and eight times as many bytes of packet.
//!
//! The packets come in on a port with offloads. They are routed to a port that carries only complete packets, to
//! one with a small MTU, or to one with offloads. The bits of `how` have these meanings: the packet is made TCP or
//! UDP, IPv4 or IPv6, so that the header's checksum and segments may be valid for it; the port by which it leaves;
//! and whether it takes the full path. An invalid request is a counted drop. Nothing that leaves is longer than its
//! link's MTU, and every frame is accounted for.

#![allow(clippy::unwrap_used, missing_docs)]

use netmem::forward::filter::filter;
use netmem::forward::{Forwarder, PacketPath, Reason};
use netmem::packet::HeadCache;
use netmem::page::{BackingPreference, Memory, MemoryConfig};
use netmem::pool::{Batch, Pool, PoolConfig};
use netmem::port::Port;
use netmem::port::mem::{MemConfig, MemDevice, MemPort};
use netmem::port::wrap::WrapPort;
use netmem::sync::Worker;
use netmem::wire::offload::{Offload, VIRTIO_LEN};
use netmem::wire::{Ipv4, MacAddr};
use netmem_router::route::{Change, Fib, FibEntry, HopId, fib};
use netmem_router::{Interface, Router};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

const PACKETS_MAX: usize = 8;
const ROUTER: MacAddr = MacAddr::new([2, 0, 0, 0, 0, 0xfe]);
const HOST: MacAddr = MacAddr::new([2, 0, 0, 0, 1, 1]);
/// The MTU of each port's link.
const MTUS: [u16; 4] = [9000, 1500, 600, 9001];

/// The senders' headers of the packets that are on their way to a port, oldest first.
type Headers = Arc<Mutex<VecDeque<[u8; VIRTIO_LEN]>>>;

/// A port whose device gives an offload request for each frame.
struct Saying {
    within: MemPort,
    said: Headers,
    /// Number of frames whose request was invalid.
    refused: Arc<Mutex<u64>>,
}

impl WrapPort for Saying {
    fn within(&self) -> &dyn Port {
        &self.within
    }

    fn within_mut(&mut self) -> &mut dyn Port {
        &mut self.within
    }

    fn rx(&mut self, w: &mut Worker, frames: &mut Batch) -> usize {
        let mut come = Batch::new();
        self.within_mut().rx(w, &mut come);
        let mut n = 0;
        for mut frame in come.drain() {
            let header = self.said.lock().unwrap().pop_front().unwrap();
            match Offload::from_virtio(header) {
                Ok(offload) if frame.set_offload(offload).is_ok() => {
                    n += 1;
                    assert!(frames.push(frame).is_ok());
                }
                _ => {
                    *self.refused.lock().unwrap() += 1;
                    frame.free(w);
                }
            }
        }
        n
    }

    fn keep_offloads(&mut self, keep: bool) -> bool {
        keep
    }

    fn carries_offloads(&self) -> bool {
        true
    }

    fn name(&self) -> &str {
        "saying"
    }

    fn kind(&self) -> &'static str {
        "saying"
    }
}

/// The outcome of a sequence.
#[derive(Debug, Default, PartialEq, Eq, Clone, Copy)]
pub struct Outcome {
    /// Frames that left.
    pub left: usize,
    /// Packets whose header was not a valid request.
    pub refused: u64,
    /// Drops because the request could not be carried out on the packet.
    pub gso_seg: u64,
    /// Drops for all other reasons.
    pub dropped: u64,
}

struct Scene {
    memory: Memory,
    w: Worker,
    pool: Pool,
    forwarder: Forwarder,
    devices: Vec<MemDevice>,
    said: Headers,
    refused: Arc<Mutex<u64>>,
    left: usize,
}

impl Scene {
    fn new(full: bool) -> Scene {
        let config = MemoryConfig {
            bytes: 4 << 20,
            workers: 1,
            backing: BackingPreference::Small,
            ..MemoryConfig::default()
        };
        let memory = Memory::new(&config).unwrap();
        let mut w = memory.worker().unwrap();
        let config = PoolConfig { frames: 160, frame_size: 4096, ..PoolConfig::default() };
        let pool = Pool::new(&memory, &mut w, &config).unwrap();
        let (said, refused) = (Headers::default(), Arc::default());
        let (mut ports, mut devices): (Vec<Box<dyn Port>>, _) = (Vec::new(), Vec::new());
        for i in 0..MTUS.len() {
            let (within, device) =
                MemPort::pair(&i.to_string(), &MemConfig { ring: 16, coalesce: 1 }).unwrap();
            devices.push(device);
            ports.push(if i == 0 || i == 3 {
                Box::new(Saying { within, said: Arc::clone(&said), refused: Arc::clone(&refused) })
            } else {
                Box::new(within)
            });
        }
        let mut forwarder = Forwarder::new(ports, pool.clone(), Box::new(router())).unwrap();
        if full {
            let (filter, _) = filter(Vec::new()).unwrap();
            forwarder.set_packet_path(PacketPath::new(HeadCache::new(&memory).unwrap()).with_hooks(filter));
        }
        forwarder.poll(&mut w);
        Scene { memory, w, pool, forwarder, devices, said, refused, left: 0 }
    }

    fn pass(&mut self, header: [u8; VIRTIO_LEN], frame: &[u8]) {
        self.said.lock().unwrap().push_back(header);
        let delivered = self.devices[0].deliver(1, |room| {
            let n = frame.len().min(room.len());
            room[..n].copy_from_slice(&frame[..n]);
            n
        });
        assert_eq!(delivered, 1);
        for _ in 0..16 {
            self.forwarder.poll(&mut self.w);
            for (device, mtu) in self.devices.iter_mut().zip(MTUS) {
                let mut longest = 0;
                self.left += device.collect(64, |data| longest = longest.max(data.len()));
                assert!(longest <= 14 + usize::from(mtu), "{longest} bytes by a link of {mtu}");
            }
        }
        let meters = self.forwarder.meters();
        let came = meters.received.get() + meters.originated.get() + meters.fragments.get();
        let left = meters.transmitted.get() + meters.drops.total() + meters.held.get();
        assert_eq!(came, left + meters.fragmented.get());
        assert!(self.pool.ledger().balanced());
        assert!(self.said.lock().unwrap().is_empty());
    }

    fn end(self) -> Outcome {
        let Scene { memory, w, pool, forwarder, devices, refused, left, .. } = self;
        let drops = &forwarder.meters();
        let gso_seg = drops.drops.get(Reason::GsoSeg);
        let dropped = drops.drops.total() - gso_seg;
        drop((forwarder, devices));
        assert!(pool.ledger().all_freed());
        drop((pool, w, memory));
        let refused = *refused.lock().unwrap();
        Outcome { left, refused, gso_seg, dropped }
    }
}

/// Routes of both families to a host on each link.
fn router() -> Router {
    let interfaces = MTUS.map(|mtu| Interface { mac: ROUTER, mtu }).to_vec();
    let (mut control, mut reader) = fib(Fib::new(interfaces));
    let mut changes = Vec::new();
    for port in 0..MTUS.len() as u8 {
        changes.push(Change::Hop(HopId(port.into()), FibEntry::station(port, HOST)));
        for net in [format!("10.{port}.0.0/16"), format!("fd0{port}::/16")] {
            changes.push(Change::Route(net.parse().unwrap(), HopId(port.into())));
        }
    }
    control.apply(changes);
    assert!(reader.refresh());
    Router::new(reader)
}

/// Makes a frame a TCP or UDP packet to a host by the port that `how` gives, or nearly one. The other bytes stay
/// the same.
fn make_packet(how: u8, frame: &mut [u8]) {
    let port = 1 + (how >> 4) % 3;
    let length = frame.len().saturating_sub(14) as u16;
    let Some(link) = frame.first_chunk_mut::<12>() else { return };
    link[..6].copy_from_slice(&ROUTER.bytes());
    let Some(packet) = frame.get_mut(12..).filter(|packet| packet.len() >= 2 + 60) else { return };
    let (ethertype, packet) = packet.split_at_mut(2);
    let protocol = if how & 4 == 0 { 6 } else { 17 };
    let upper = if how & 2 == 0 {
        ethertype.copy_from_slice(&[8, 0]);
        packet[0] = 0x45;
        packet[2..4].copy_from_slice(&length.to_be_bytes());
        (packet[6], packet[7]) = (packet[6] & 0x40, 0);
        (packet[8], packet[9]) = (64, protocol);
        packet[12..20].copy_from_slice(&[10, 0, 0, 1, 10, port, 0, 1]);
        Ipv4::seal(packet);
        20
    } else {
        ethertype.copy_from_slice(&[0x86, 0xdd]);
        packet[0] = 0x60;
        packet[4..6].copy_from_slice(&(length - 40).to_be_bytes());
        (packet[6], packet[7]) = (protocol, 64);
        packet[8..10].copy_from_slice(&[0xfd, 0]);
        packet[24..26].copy_from_slice(&[0xfd, port]);
        40
    };
    if protocol == 6 && packet.len() >= upper + 20 {
        // Some header lengths that TCP can have, and some that it cannot.
        packet[upper + 12] |= 0x40;
    }
}

/// Runs a sequence. Returns its outcome.
pub fn outcome(bytes: &[u8]) -> Outcome {
    let mut scene = Scene::new(bytes.get(VIRTIO_LEN).is_some_and(|how| how & 8 != 0));
    let mut rest = bytes;
    for _ in 0..PACKETS_MAX {
        let Some((header, [how, length, more @ ..])) = rest.split_first_chunk::<VIRTIO_LEN>() else { break };
        let (frame, after) = more.split_at((usize::from(*length) * 8).min(more.len()));
        let mut frame = frame.to_vec();
        if how & 1 != 0 {
            make_packet(*how, &mut frame);
        }
        scene.pass(*header, &frame);
        rest = after;
    }
    scene.end()
}

/// Runs a sequence.
pub fn run(bytes: &[u8]) {
    outcome(bytes);
}
