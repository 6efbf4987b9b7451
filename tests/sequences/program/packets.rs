//! Packets: heads on frames, on shared ones, on pieces and on memory of others.

use super::Op;
use super::frames::Frames;
use super::ground::Ground;
use super::objects::settings;
use super::shares::Shares;
use super::value::{Register, Value};
use super::view::View;
use netmem::packet::{
    CopyBreak, External, HeadCache, HeadCacheConfig, HeadCacheMode, InFlightHeads, Packet, Packets,
    ReadyPackets, ReadyStack, Reset,
};
use netmem::pool::Batch;
use netmem::ring::{Receiver, Sender, ring};
use netmem::slab::{CacheConfig, SizeClasses};
use std::mem::take;

const HELD: usize = 40;

/// A packet, and its bytes by write.
pub struct Known {
    packet: Packet,
    views: Vec<View>,
}

impl Known {
    #[track_caller]
    fn look(&self) {
        let len: usize = self.views.iter().map(|view| view.len()).sum();
        assert_eq!(self.packet.len(), len);
        let mut bytes = Vec::with_capacity(len);
        self.packet.segments().for_each(|segment| bytes.extend_from_slice(segment));
        let mut rest = &bytes[..];
        for view in &self.views {
            let (here, behind) = rest.split_at(view.len());
            view.look(here);
            rest = behind;
        }
        assert!(rest.is_empty());
    }

    /// Splits off the views of the bytes after the first `n`.
    fn split_views(&mut self, mut n: usize) -> Vec<View> {
        let mut behind = Vec::new();
        for view in &mut self.views {
            let here = n.min(view.len());
            behind.push(view.split_off(here));
            n -= here;
        }
        self.views.retain(|view| view.len() > 0);
        behind.retain(|view| view.len() > 0);
        behind
    }

    /// Writes the bytes that may be written: no other holder may read them.
    fn write(&mut self) {
        let Some(data) = self.packet.data_mut() else { return };
        let (view, n) = (View::write(data), data.len());
        let behind = self.split_views(n);
        self.views = [vec![view], behind].concat();
    }
}

/// Memory of others, with a value that goes when it is given back.
struct Owner {
    bytes: Vec<u8>,
    _value: Value,
}

impl AsRef<[u8]> for Owner {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

pub struct AllPackets {
    held: Vec<Known>,
    ring: (Sender<Packet>, Receiver<Packet>),
    /// The packets in the ring.
    inside: Vec<Vec<View>>,
    stack: ReadyStack,
    pairs: ReadyPackets,
    copy_break: CopyBreak,
    heads: [HeadCache; 2],
}

fn heads(ground: &Ground, memory: usize, choice: u8) -> HeadCache {
    let mode = [HeadCacheMode::TwoSided, HeadCacheMode::FlushOnly, HeadCacheMode::Bulk, HeadCacheMode::Each]
        [usize::from(choice >> 4 & 3)];
    let cache = CacheConfig { debug: Default::default(), ..settings(choice & 0x17) };
    let config = HeadCacheConfig { cache, mode, size: 8, refill: 4, free: 4, defer_max: 8 };
    HeadCache::with(&ground.memories[memory], &config).unwrap()
}

impl AllPackets {
    pub fn new(ground: &Ground, frames: &Frames, config: [u8; 2]) -> AllPackets {
        let heads = [0, 1].map(|i: usize| heads(ground, i, config[i]));
        let sizes = SizeClasses::new(&ground.memories[0], &CacheConfig::default()).unwrap();
        let reset = if config[0] & 1 == 0 { Reset::AtPut } else { Reset::AtGet };
        AllPackets {
            held: Vec::new(),
            ring: ring(4),
            inside: Vec::new(),
            stack: ReadyStack::new(&frames.pools[1], &heads[0], 4, reset),
            pairs: ReadyPackets::new(&frames.pools[0], &heads[0], 4),
            copy_break: CopyBreak::new(&sizes),
            heads,
        }
    }

    pub fn step(&mut self, ground: &mut Ground, frames: &mut Frames, shares: &mut Shares, op: Op) {
        match op.act {
            0..5 if self.held.len() < HELD => self.make(ground, frames, shares, op),
            0..8 => self.free(ground, op),
            8 => self.edit(ground, frames, op),
            9 | 10 => self.share(ground, op),
            11 => self.join(op),
            12 => self.through(ground, frames, op),
            13 => self.write_all(ground, op),
            14 => self.gather(ground, frames, op),
            _ => self.by_ring(op),
        }
    }

    fn make(&mut self, ground: &mut Ground, frames: &mut Frames, shares: &mut Shares, op: Op) {
        let heads = &self.heads[usize::from(op.a >> 7)];
        let (w, register) = ground.both(op);
        let (packet, view) = match (op.act, op.a & 3) {
            (0, _) => (self.pairs.get(w), None),
            (1, _) => (self.stack.get(w), None),
            (2, 0 | 1) => {
                let Some((shared, view)) = shares.take_shared(op.n()) else { return };
                (heads.attach_shared(w, shared).ok(), Some(view))
            }
            (2, _) => {
                let Some((piece, view)) = shares.take_piece(op.n()) else { return };
                (heads.attach_fragment(w, piece).ok(), Some(view))
            }
            (3, _) => {
                let (external, view) = lend(register, op);
                (heads.attach_external(w, external).ok(), Some(view))
            }
            _ => {
                let Some((frame, view)) = frames.take(op.n()) else { return };
                (heads.attach(w, frame).ok(), Some(view))
            }
        };
        let Some(mut packet) = packet else { return };
        let view = view.unwrap_or_else(|| {
            assert!(packet.is_empty());
            View::write(packet.put(op.n()).unwrap())
        });
        self.held.push(Known { packet, views: vec![view] });
    }

    fn one(&mut self, op: Op) -> Option<Known> {
        let at = op.pick(self.held.len());
        let known = (at < self.held.len()).then(|| self.held.swap_remove(at))?;
        known.look();
        Some(known)
    }

    /// Frees it through heads, pairs and stacks to which it may not belong, alone and in bulk. If its memory was lent,
    /// the owner may panic.
    fn free(&mut self, ground: &mut Ground, op: Op) {
        let n = if op.act > 5 { 1 + op.n() / 16 } else { 1 };
        let known: Vec<Known> = (0..n).map_while(|_| self.one(op)).collect();
        if op.c == 7 {
            return known.into_iter().for_each(|known| ground.forget(known.packet));
        }
        let mut packets = Packets::new();
        known.into_iter().for_each(|known| packets.push(known.packet).unwrap());
        let heads = &self.heads[usize::from(op.b & 1)];
        let (w, register) = ground.both(op);
        let (pairs, stack) = (&self.pairs, &mut self.stack);
        register.firing(usize::from(op.b) / 64, || match op.c % 8 {
            0 => packets.drain().for_each(|packet| pairs.free(w, packet)),
            1 => packets.drain().for_each(|packet| stack.free(w, packet)),
            2 => packets.drain().for_each(|packet| heads.free(w, packet)),
            3 => drop(packets),
            4 => pairs.free_bulk(w, &mut packets),
            _ => heads.free_bulk(w, &mut packets),
        });
    }

    fn edit(&mut self, ground: &mut Ground, frames: &Frames, op: Op) {
        let (at, pool, n) = (op.pick(self.held.len()), frames.pool(op), op.n());
        let Some(known) = self.held.get_mut(at) else { return };
        let (w, Known { packet, views }) = (ground.worker(op), &mut *known);
        match op.b / 16 {
            0 | 1 => {
                let len = packet.len();
                assert_eq!(packet.pull(n).is_ok(), n <= len);
                if n <= len {
                    known.views = known.split_views(n);
                }
            }
            2 | 3 => {
                let len = packet.len();
                assert_eq!(packet.trim(n).is_ok(), n <= len);
                known.split_views(n.min(len));
            }
            4 => {
                let room = packet.headroom();
                assert_eq!(packet.push(n).is_ok(), n <= room);
                if n <= room && n > 0 {
                    let front = &mut packet.data_mut().unwrap()[..n];
                    views.insert(0, View::write(front));
                }
            }
            5 | 6 => {
                let room = packet.tailroom();
                let end = packet.put(n).map(View::write);
                assert_eq!(end.is_ok(), n <= room);
                views.extend(end);
            }
            7 => _ = packet.make_writable(w, &pool).map(|()| assert!(packet.reclaim())),
            8 if op.c & 2 > 0 => _ = self.heads[usize::from(op.c & 1)].make_sendable(w, packet, &pool),
            8 => drop(self.heads[usize::from(op.c & 1)].linearize(w, packet, &pool)),
            9 => _ = self.copy_break.apply(w, packet),
            10 => _ = packet.reclaim(),
            _ => known.write(),
        }
        self.held[at].look();
    }

    /// Two packets over the same bytes, or the two parts of one.
    fn share(&mut self, ground: &mut Ground, op: Op) {
        let at = op.pick(self.held.len());
        if self.held.len() >= HELD || at >= self.held.len() {
            return;
        }
        let (heads, known) = (&self.heads[usize::from(op.b & 1)], &mut self.held[at]);
        let w = ground.worker(op);
        let second = if op.act == 9 {
            heads.share(w, &mut known.packet).map(|packet| Known { packet, views: known.views.clone() })
        } else {
            let cut = op.n().min(known.packet.len());
            heads
                .split(w, &mut known.packet, cut)
                .ok()
                .map(|packet| Known { packet, views: known.split_views(cut) })
        };
        self.held[at].look();
        self.held.extend(second);
        if let Some(last) = self.held.last_mut() {
            last.look();
            if op.flag(0) {
                last.write();
            }
        }
    }

    fn join(&mut self, op: Op) {
        let Some(end) = self.one(op) else { return };
        match self.held.last_mut() {
            Some(known) => {
                known.packet.append(end.packet);
                known.views.extend(end.views);
                known.look();
            }
            None => self.held.push(end),
        }
    }

    /// Takes the head off. The frame gets another head, or goes through a device.
    fn through(&mut self, ground: &mut Ground, frames: &mut Frames, op: Op) {
        let Some(Known { packet, views }) = self.one(op) else { return };
        let heads = &self.heads[usize::from(op.c & 1)];
        let w = ground.worker(op);
        if op.flag(1) {
            return match heads.detach(w, packet) {
                Ok(mut frame) => {
                    let view = View::write(frame.data_mut());
                    frames.held.push((frame, view));
                }
                Err(packet) => self.held.push(Known { packet, views }),
            };
        }
        let (mut flight, mut batch, mut packets) = (InFlightHeads::new(2), Batch::new(), Packets::new());
        if let Err(packet) = flight.detach(packet, &mut batch) {
            return self.held.push(Known { packet, views });
        }
        match op.n() >> 2 & 7 {
            0 => drop(flight),
            1 => flight.free_newest(1, heads, w),
            2 => drop(batch),
            _ => _ = flight.attach(&mut batch, &mut packets),
        }
        self.held.extend(packets.drain().map(|packet| Known { packet, views: views.clone() }));
    }

    /// Packets are written together, by a closure that may panic.
    fn write_all(&mut self, ground: &Ground, op: Op) {
        let (n, mut packets, register) = (op.n() / 4, Packets::new(), ground.register);
        let known: Vec<Known> = (0..usize::from(op.b) / 12).map_while(|_| self.one(op)).collect();
        known.into_iter().for_each(|known| packets.push(known.packet).unwrap());
        register.firing(usize::from(op.a), || {
            packets.put_each(n, |_, bytes| {
                View::write(bytes);
                register.tick();
            })
        });
        // If the contents cannot be written, the current ones are recorded.
        for packet in packets.drain().filter(|packet| packet.is_linear()) {
            let mut known = Known { views: Vec::new(), packet };
            if known.packet.reclaim() {
                known.write();
                self.held.push(known);
            }
        }
    }

    /// Frames get heads in bulk, and lose them.
    fn gather(&mut self, ground: &mut Ground, frames: &mut Frames, op: Op) {
        let heads = self.heads[usize::from(op.c & 1)].clone();
        let (mut batch, mut packets) = (Batch::new(), Packets::new());
        let w = ground.worker(op);
        if op.flag(1) {
            frames.pool(op).alloc_burst(w, &mut batch, op.n() / 8);
            let n = batch.len();
            assert_eq!(heads.attach_burst(w, &mut batch, &mut packets) + batch.len(), n);
            let room = HELD.saturating_sub(self.held.len());
            self.held.extend(packets.drain().take(room).map(|packet| Known { packet, views: Vec::new() }));
            return batch.free(w);
        }
        let known: Vec<Known> = (0..op.n() / 16).map_while(|_| self.one(op)).collect();
        known.into_iter().for_each(|known| packets.push(known.packet).unwrap());
        heads.detach_burst(w, &mut packets, &mut batch);
        batch.free(w);
        heads.end_round(w);
    }

    /// Packets go by a ring.
    fn by_ring(&mut self, op: Op) {
        let (sender, receiver) = &mut self.ring;
        let mut packets = Packets::new();
        if op.flag(0) {
            let n = packets.receive(receiver, op.n() / 32);
            let views = self.inside.drain(..n);
            self.held.extend(packets.drain().zip(views).map(|(packet, views)| Known { packet, views }));
            return self.look();
        }
        let mut views = Vec::new();
        while let Some(known) = self.held.pop().filter(|_| packets.room() > 60) {
            packets.push(known.packet).unwrap();
            views.push(known.views);
        }
        let sent = packets.send(sender);
        self.inside.extend(views.drain(..sent));
        self.held.extend(packets.drain().zip(views).map(|(packet, views)| Known { packet, views }));
    }

    /// The items that are kept ready for packets.
    pub fn ready_step(&mut self, ground: &mut Ground, op: Op) {
        let (w, n) = (ground.worker(op), op.n() / 16);
        match op.a & 7 {
            0 => self.pairs.set_max(n),
            1 => self.stack.set_max(w, n),
            2 => _ = self.pairs.drain(w),
            3 => _ = self.stack.drain(w),
            4 => drop(self.heads[0].set("ready_size", n)),
            5 => drop(self.heads[1].set("defer_max", n)),
            6 => self.heads[usize::from(op.c & 1)].end_round(w),
            _ => self.copy_break.set_bound(n),
        }
    }

    /// Packets to be freed elsewhere, and what to free them by.
    pub fn some(&mut self, n: usize) -> (Vec<Packet>, HeadCache, ReadyPackets) {
        let n = self.held.len().min(n);
        let packets = self.held.split_off(self.held.len() - n).into_iter();
        (packets.map(|known| known.packet).collect(), self.heads[0].clone(), self.pairs.clone())
    }

    pub fn look(&self) {
        self.held.iter().for_each(Known::look);
    }

    pub fn end(mut self, ground: &mut Ground) {
        for (i, known) in take(&mut self.held).into_iter().enumerate() {
            known.look();
            let n = ground.workers.len();
            self.heads[i % 2].free(&mut ground.workers[i % n], known.packet);
        }
    }
}

fn lend(register: &'static Register, op: Op) -> (External, View) {
    let mut bytes = vec![0; op.n()];
    let view = View::write(&mut bytes);
    let owner = Owner { bytes, _value: register.value() };
    let external = External::new(owner, move |owner| {
        register.tick();
        drop(owner);
    });
    (external, view)
}
