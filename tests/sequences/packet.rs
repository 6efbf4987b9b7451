//! Packets against a model: their bytes are a `Vec`, and the data in their head is a pair.
//!
//! Four bytes are an operation: its kind, its packet, and two numbers. After each operation the packets that it used
//! are compared byte by byte. Every 32 operations and at the end, all packets, the ledgers and the counters are
//! compared.

#![allow(clippy::unwrap_used, missing_docs)]

use netmem::packet::{
    CopyBreak, CopyError, External, HeadCache, HeadCacheConfig, HeadCacheMode, InFlightHeads, Packet,
    Packets, ReadyPackets, ReadyStack, Reset, SplitError,
};
use netmem::page::{BackingPreference, Memory, MemoryConfig};
use netmem::pool::{Batch, Fragments, Pool, PoolConfig};
use netmem::slab::{CacheConfig, Layer, SizeClasses};
use netmem::sync::Worker;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Packets held at most.
const HELD: usize = 40;
const FRAMES: usize = 96;

/// A packet and its model.
struct Known {
    packet: Packet,
    bytes: Vec<u8>,
    rx_queue: Option<u16>,
    flow_hash: u32,
}

struct Scene {
    held: Vec<Known>,
    workers: Vec<Worker>,
    /// Of workers 0 and 1.
    pools: [Pool; 2],
    heads: HeadCache,
    pairs: ReadyPackets,
    stack: ReadyStack,
    pieces: Fragments,
    copy_break: CopyBreak,
    sizes: SizeClasses,
    /// External memories made, and given back.
    lent: usize,
    back: Arc<AtomicUsize>,
    /// The next byte to write somewhere.
    stamp: u8,
    memory: Memory,
}

/// One operation.
#[derive(Clone, Copy)]
struct Op {
    what: u8,
    pick: u8,
    a: u8,
    b: u8,
}

impl Op {
    /// A number of up to a little more than a frame has.
    fn long(self) -> usize {
        (usize::from(self.a) << 3 | usize::from(self.b & 7)) * 9 / 8
    }

    fn short(self) -> usize {
        usize::from(self.a)
    }

    fn worker(self) -> usize {
        usize::from(self.b & 1)
    }
}

/// Runs a sequence. The first byte chooses how heads are kept ready, the size of frames, and the size of the memory.
pub fn run(bytes: &[u8]) {
    let (&mode, bytes) = bytes.split_first().unwrap_or((&0, &[]));
    let mut scene = Scene::new(mode);
    for (i, op) in bytes.chunks_exact(4).enumerate() {
        let op = Op { what: op[0], pick: op[1], a: op[2], b: op[3] };
        scene.step(op);
        if i % 32 == 31 {
            scene.check();
        }
    }
    scene.end();
}

impl Scene {
    fn new(mode: u8) -> Scene {
        let backing = BackingPreference::Small;
        // Most of an input's time goes into making its memory.
        let bytes = if mode & 64 == 0 { 3 << 19 } else { 4 << 20 };
        let config = MemoryConfig { bytes, workers: 2, backing, ..MemoryConfig::default() };
        let memory = Memory::new(&config).unwrap();
        let mut workers = vec![memory.worker().unwrap(), memory.worker().unwrap()];
        let pools = [0, 1].map(|i| {
            let usual = PoolConfig::of_frames(if mode & 32 == 0 { 2048 } else { 4096 });
            let config = PoolConfig { frames: FRAMES, cache: 16, refill: 8, ..usual };
            Pool::new(&memory, &mut workers[i], &config).unwrap()
        });
        let heads = HeadCache::with(&memory, &heads(mode)).unwrap();
        let sizes = SizeClasses::new(&memory, &CacheConfig::default()).unwrap();
        Scene {
            held: Vec::new(),
            pairs: ReadyPackets::new(&pools[0], &heads, 8),
            stack: ReadyStack::new(
                &pools[1],
                &heads,
                8,
                if mode & 16 == 0 { Reset::AtPut } else { Reset::AtGet },
            ),
            pieces: Fragments::new(&pools[0]),
            copy_break: CopyBreak::new(&sizes),
            sizes,
            lent: 0,
            back: Arc::default(),
            stamp: 0,
            workers,
            pools,
            heads,
            memory,
        }
    }

    /// Returns `n` new bytes.
    fn stamps(&mut self, n: usize) -> Vec<u8> {
        (0..n)
            .map(|_| {
                self.stamp = self.stamp.wrapping_mul(5).wrapping_add(37);
                self.stamp
            })
            .collect()
    }

    fn step(&mut self, op: Op) {
        if op.what % 32 < 6 && self.held.len() >= HELD {
            return self.remove(op, 1);
        }
        match op.what % 32 {
            0..6 => self.make(op),
            6..9 => self.remove(op, 1),
            9 => self.remove(op, usize::from(op.a % 64)),
            10 => self.tune(op),
            11 => self.workers_turn(op),
            _ if self.held.is_empty() => {}
            12..22 => self.edit(op),
            _ => self.combine(op),
        }
    }

    fn one(&self, op: Op) -> usize {
        usize::from(op.pick) % self.held.len()
    }

    /// A new packet of every kind.
    fn make(&mut self, op: Op) {
        let Scene { workers, heads, .. } = self;
        let w = &mut workers[op.worker()];
        let packet = match op.what % 32 {
            0 => self.pairs.get(w),
            1 => self.stack.get(w),
            2 => self.pieces.alloc(w, op.short() * 4).and_then(|piece| heads.attach_fragment(w, piece).ok()),
            3 => {
                let memory = self.stamps(op.short());
                return self.lend(op, memory);
            }
            4 => {
                self.pools[op.worker()].alloc(w).and_then(|frame| heads.attach_shared(w, frame.share()).ok())
            }
            _ => self.pools[usize::from(op.pick & 1)].alloc(w).and_then(|frame| heads.attach(w, frame).ok()),
        };
        let Some(mut packet) = packet else { return };
        assert!(packet.is_empty() && packet.is_linear());
        let bytes = self.stamps(op.long());
        let bytes = packet.put_slice(&bytes).map_or_else(|_| Vec::new(), |()| bytes);
        self.hold(packet, bytes);
    }

    fn hold(&mut self, packet: Packet, bytes: Vec<u8>) {
        let known = Known { packet, bytes, rx_queue: None, flow_hash: 0 };
        known.check();
        self.held.push(known);
    }

    fn lend(&mut self, op: Op, memory: Vec<u8>) {
        let (back, bytes) = (Arc::clone(&self.back), memory.clone());
        let external = External::new(memory, move |memory| {
            back.fetch_add(1, Relaxed);
            drop(memory);
        });
        self.lent += 1;
        if let Ok(packet) = self.heads.attach_external(&mut self.workers[op.worker()], external) {
            self.hold(packet, bytes);
        }
    }

    /// Up to `n` packets go, in one of all ways.
    fn remove(&mut self, op: Op, n: usize) {
        let Scene { workers, heads, held, .. } = self;
        let w = &mut workers[op.worker()];
        let n = n.min(held.len());
        let mut packets = Packets::new();
        for _ in 0..n {
            let known = held.swap_remove(usize::from(op.pick) % held.len());
            known.check();
            packets.push(known.packet).unwrap();
        }
        match op.b >> 1 & 7 {
            0 => drop(packets),
            1 => self.pairs.free_bulk(w, &mut packets),
            2 => packets.drain().for_each(|packet| self.pairs.free(w, packet)),
            3 => packets.drain().for_each(|packet| self.stack.free(w, packet)),
            4 => packets.drain().for_each(|packet| heads.free(w, packet)),
            5 => {
                let mut frames = Batch::new();
                heads.detach_burst(w, &mut packets, &mut frames);
                frames.free(w);
                heads.free_bulk(w, &mut packets);
            }
            _ => heads.free_bulk(w, &mut packets),
        }
    }

    /// Settings change while packets are held.
    fn tune(&mut self, op: Op) {
        match op.pick % 8 {
            0 => self.pairs.set_max(op.short() % 20),
            1 => self.stack.set_max(&mut self.workers[op.worker()], op.short() % 20),
            2 => self.copy_break.set_bound(op.short() % 40),
            3 => drop(self.heads.set("ready_size", op.short())),
            4 => drop(self.heads.set("ready_refill", op.short())),
            5 => drop(self.heads.set("ready_free", op.short())),
            _ => drop(self.heads.set("defer_max", op.short())),
        }
    }

    /// What concerns a worker and no packet.
    fn workers_turn(&mut self, op: Op) {
        let w = op.worker();
        match op.pick % 8 {
            0 | 4 => self.heads.end_round(&mut self.workers[w]),
            1 | 5 => drop(self.pairs.drain(&mut self.workers[w])),
            2 | 6 => self.pieces.flush(&mut self.workers[w]),
            7 => self.pairs_in_bulk(op),
            // The worker ends, and another one starts: it then owns the slot's pool.
            _ => {
                drop(self.workers.remove(w));
                self.workers.insert(w, self.memory.worker().unwrap());
            }
        }
    }

    /// Allocates several ready packets at once, or packets if there are too few pairs.
    fn pairs_in_bulk(&mut self, op: Op) {
        let mut packets = Packets::new();
        let most = op.short().min(HELD.saturating_sub(self.held.len()));
        let got = self.pairs.get_burst(&mut self.workers[op.worker()], &mut packets, most);
        assert!(got == packets.len() && got <= most);
        for mut packet in packets.drain() {
            let bytes = self.stamps(usize::from(op.b));
            packet.put_slice(&bytes).unwrap();
            self.hold(packet, bytes);
        }
    }

    /// One packet changes.
    fn edit(&mut self, op: Op) {
        let (at, bytes) = (self.one(op), self.stamps(op.short()));
        let (w, pool) = (&mut self.workers[op.worker()], &self.pools[usize::from(op.b >> 1 & 1)]);
        let Known { packet, bytes: model, rx_queue, flow_hash } = &mut self.held[at];
        match op.what % 32 {
            12 => push(packet, model, &bytes),
            13 => assert_eq!(packet.pull(op.long()).is_ok(), drop_front(model, op.long())),
            14 => {
                let room = packet.tailroom();
                let put = packet.put_slice(&bytes);
                assert_eq!(put.is_ok(), bytes.len() <= room);
                model.extend_from_slice(if put.is_ok() { &bytes } else { &[] });
            }
            15 => {
                let cut = op.long() <= model.len();
                assert_eq!(packet.trim(op.long()).is_ok(), cut);
                model.truncate(if cut { op.long() } else { model.len() });
            }
            16 => write(packet, model, &bytes),
            17 => match packet.make_writable(w, pool) {
                Ok(()) => assert!(packet.reclaim() && packet.data_mut().is_some()),
                Err(CopyError::NoFrame | CopyError::TooLong { .. }) => {}
                Err(other) => panic!("{other}"),
            },
            18 if op.b & 1 > 0 => match self.heads.make_sendable(w, packet, pool) {
                Ok(_) => assert!(packet.is_linear() && packet.data_mut().is_some() && packet.data() == model),
                Err(CopyError::NoFrame | CopyError::TooLong { .. }) => {}
                Err(other) => panic!("{other}"),
            },
            18 => match self.heads.linearize(w, packet, pool) {
                Ok(()) => assert!(packet.is_linear() && packet.data() == model),
                Err(CopyError::NoFrame | CopyError::TooLong { .. }) => {}
                Err(other) => panic!("{other}"),
            },
            19 => {
                let before = packet.pinned();
                assert_eq!(self.copy_break.apply(w, packet), before - packet.pinned());
            }
            20 => {
                (*rx_queue, *flow_hash) = (Some(u16::from(op.a)), u32::from(op.b));
                packet.record_rx_queue(u16::from(op.a));
                packet.set_flow_hash(u32::from(op.b));
            }
            _ => drop(packet.reclaim()),
        }
        self.held[at].check();
    }

    /// Packets come out of packets, or together.
    fn combine(&mut self, op: Op) {
        let at = self.one(op);
        match op.what % 32 {
            22..25 => self.share(op, at),
            25..28 => self.split(op, at),
            28 => self.through_a_frame(op, at),
            31 => self.through_a_device(op),
            _ => {
                let mut known = self.held.swap_remove(at);
                if let Some(end) = self.held.pop() {
                    known.packet.append(end.packet);
                    known.bytes.extend(end.bytes);
                }
                known.check();
                self.held.push(known);
            }
        }
    }

    fn share(&mut self, op: Op, at: usize) {
        let known = &mut self.held[at];
        let second = self.heads.share(&mut self.workers[op.worker()], &mut known.packet);
        known.check();
        let Some(packet) = second else { return };
        let second = Known { packet, bytes: known.bytes.clone(), ..*known };
        second.check();
        self.held.push(second);
    }

    fn split(&mut self, op: Op, at: usize) {
        let known = &mut self.held[at];
        let (cut, w) = (op.long(), &mut self.workers[op.worker()]);
        match self.heads.split(w, &mut known.packet, cut) {
            Ok(packet) => {
                let rest = Known { packet, bytes: known.bytes.split_off(cut), ..*known };
                rest.check();
                self.held.push(rest);
            }
            Err(SplitError::TooShort(_)) => assert!(cut > known.bytes.len()),
            Err(SplitError::NoHead) => {}
            Err(other) => panic!("{other}"),
        }
        self.held[at].check();
    }

    /// Takes the head off, and attaches another one.
    fn through_a_frame(&mut self, op: Op, at: usize) {
        let known = self.held.swap_remove(at);
        let w = &mut self.workers[op.worker()];
        let bytes = known.bytes;
        match self.heads.detach(w, known.packet) {
            Ok(frame) => {
                assert_eq!(frame.data(), bytes);
                if let Ok(packet) = self.heads.attach(w, frame) {
                    self.hold(packet, bytes);
                }
            }
            Err(packet) => self.held.push(Known { packet, bytes, ..known }),
        }
    }

    /// Gives the frames of up to four packets to a device. Some come back, and the device did not take the others. The
    /// data in the heads ends with that.
    fn through_a_device(&mut self, op: Op) {
        let (mut flight, mut frames, mut packets) = (InFlightHeads::new(4), Batch::new(), Packets::new());
        let mut bytes = Vec::new();
        for _ in 0..(op.short() % 4 + 1).min(self.held.len()) {
            let known = self.held.swap_remove(self.one(op));
            match flight.detach(known.packet, &mut frames) {
                Ok(()) => bytes.push(known.bytes),
                Err(packet) => self.held.push(Known { packet, ..known }),
            }
        }
        let mut back = Batch::new();
        frames.drain().move_to(&mut back, usize::from(op.b >> 1 & 3));
        flight.attach(&mut back, &mut packets);
        flight.attach_newest(&mut frames, &mut packets);
        assert_eq!((packets.len(), flight.len()), (bytes.len(), 0));
        packets.drain().zip(bytes).for_each(|(packet, bytes)| self.hold(packet, bytes));
    }

    fn check(&self) {
        self.held.iter().for_each(Known::check);
        for pool in &self.pools {
            let ledger = pool.ledger();
            assert!(ledger.balanced(), "{ledger:?}");
        }
        assert_eq!(self.pools[0].ledger().ready, self.pairs.now() as u64);
        assert_eq!(self.pools[1].ledger().ready, self.stack.now() as u64);
        let stats = self.heads.stats();
        let inside = (stats.refilled + stats.kept).wrapping_sub(stats.taken + stats.flushed);
        assert_eq!(stats.ready + stats.freed, inside, "{stats:?}");
    }

    /// Frees everything, and asserts that the memory is as at the start.
    fn end(mut self) {
        self.check();
        for (i, known) in std::mem::take(&mut self.held).into_iter().enumerate() {
            known.check();
            self.heads.free(&mut self.workers[i % 2], known.packet);
        }
        assert_eq!(self.back.load(Relaxed), self.lent, "external memory is given back");
        let Scene { memory, mut workers, pools, heads, pairs, stack, mut pieces, copy_break, sizes, .. } =
            self;
        pairs.drain(&mut workers[0]);
        pieces.flush(&mut workers[0]);
        drop((pieces, stack));
        pools.iter().for_each(|pool| assert!(pool.ledger().all_freed(), "{:?}", pool.ledger()));
        drop((pairs, heads, copy_break, sizes, pools, workers));
        assert_eq!(memory.stats().free, memory.stats().total, "every page is free");
    }
}

impl Known {
    #[track_caller]
    fn check(&self) {
        let packet = &self.packet;
        assert_eq!(
            (packet.len(), packet.rx_queue(), packet.flow_hash()),
            (self.bytes.len(), self.rx_queue, self.flow_hash)
        );
        let mut rest = &self.bytes[..];
        for bytes in packet.segments() {
            let (here, behind) = rest.split_at(bytes.len());
            assert!(bytes == here, "{bytes:?} where {here:?} should be");
            rest = behind;
        }
        assert!(rest.is_empty());
    }
}

fn push(packet: &mut Packet, model: &mut Vec<u8>, bytes: &[u8]) {
    let room = packet.headroom();
    let pushed = packet.push(bytes.len());
    assert_eq!(pushed.is_ok(), bytes.len() <= room);
    if pushed.is_ok() && !bytes.is_empty() {
        packet.data_mut().unwrap()[..bytes.len()].copy_from_slice(bytes);
        model.splice(..0, bytes.iter().copied());
    }
}

fn drop_front(model: &mut Vec<u8>, n: usize) -> bool {
    let enough = n <= model.len();
    model.drain(..if enough { n } else { 0 });
    enough
}

/// Writes into the first part, if no other packet may read it. No other packet changes.
fn write(packet: &mut Packet, model: &mut [u8], bytes: &[u8]) {
    let first = packet.data().len();
    if let Some(to) = packet.data_mut() {
        let n = bytes.len().min(first);
        to[..n].copy_from_slice(&bytes[..n]);
        model[..n].copy_from_slice(&bytes[..n]);
    }
}

fn heads(mode: u8) -> HeadCacheConfig {
    let form_of =
        [HeadCacheMode::TwoSided, HeadCacheMode::FlushOnly, HeadCacheMode::Bulk, HeadCacheMode::Each]
            [usize::from(mode & 3)];
    let layer = if mode & 4 == 0 { Layer::Sheaf } else { Layer::CpuSlab };
    let [size, refill, free] = if mode & 8 == 0 { [128, 32, 32] } else { [5, 3, 2] };
    let cache = CacheConfig { layer, ..HeadCacheConfig::default().cache };
    HeadCacheConfig { cache, mode: form_of, size, refill, free, defer_max: 48 }
}
