//! Another thread frees what this thread allocated, with its own worker, while this thread continues.

use super::value::Value;
use super::{Op, World};
use netmem::packet::{HeadCache, Packet, ReadyPackets};
use netmem::pool::{Frame, Pool, SharedFrame};
use netmem::slab::{Cache, Constructed, ConstructedCache, Object};
use netmem::sync::Worker;
use std::thread;

/// Threads that one program starts at most.
const THREADS: u64 = 3;
/// Things of each kind that the other thread gets.
const EACH: usize = 12;
/// The work of this thread meanwhile.
const ROUNDS: usize = 30;

/// The items for the other thread.
struct Load {
    objects: (Vec<Object<Value>>, Vec<Cache<Value>>),
    made: (Vec<Constructed<Value>>, Vec<ConstructedCache<Value>>),
    packets: (Vec<Packet>, HeadCache, ReadyPackets),
    frames: Vec<Frame>,
    shared: Vec<SharedFrame>,
    pools: Vec<Pool>,
}

/// Starts a thread, if the program has not started too many, and waits for it.
pub fn run(world: &mut World, op: Op) {
    if world.ground.threads == THREADS || world.ground.workers.len() < 2 {
        return;
    }
    world.ground.threads += 1;
    let n = op.n() % EACH;
    let shares = &mut world.shares;
    let load = Load {
        objects: world.objects.some(n),
        made: world.made.some(n),
        packets: world.packets.some(n),
        frames: (0..n).filter_map(|i| world.frames.take(i)).map(|(frame, _)| frame).collect(),
        shared: (0..n).filter_map(|i| shares.take_shared(i)).map(|(shared, _)| shared).collect(),
        pools: world.frames.pools.clone(),
    };
    let mut theirs = world.ground.workers.swap_remove(op.pick(world.ground.workers.len()));
    thread::scope(|scope| {
        let other = scope.spawn(move || {
            load.end(&mut theirs, op);
            theirs
        });
        for i in 0..ROUNDS {
            world.meanwhile(i, op);
        }
        world.ground.workers.push(other.join().unwrap());
    });
}

impl Load {
    fn end(self, w: &mut Worker, op: Op) {
        let Load { objects, made, packets, frames, shared, pools } = self;
        let (objects, caches) = objects;
        for (i, object) in objects.into_iter().enumerate() {
            object.look();
            match (i + op.n()) % 3 {
                0 => drop(object),
                _ => caches[i % caches.len()].free(w, object),
            }
        }
        for (i, object) in made.0.into_iter().enumerate() {
            object.look();
            made.1[i % 2].free(w, object);
        }
        for (i, packet) in packets.0.into_iter().enumerate() {
            match i % 3 {
                0 => drop(packet),
                1 => packets.1.free(w, packet),
                _ => packets.2.free(w, packet),
            }
        }
        for (i, frame) in frames.into_iter().enumerate() {
            match i % 3 {
                0 => drop(frame),
                _ => pools[i % pools.len()].free(w, frame),
            }
        }
        shared.into_iter().for_each(|shared| shared.free(w));
    }
}

impl World {
    /// Allocates and frees with the handles that the other thread frees with.
    fn meanwhile(&mut self, i: usize, op: Op) {
        let op = Op { act: 0, a: i as u8, c: op.c.wrapping_add(i as u8 * 7), ..op };
        let World { ground, frames, shares, packets, objects, made, .. } = self;
        match i % 10 {
            0 | 5 => objects.step(ground, op),
            1 => objects.step(ground, Op { act: 5, ..op }),
            2 | 6 => frames.step(ground, op),
            3 => frames.step(ground, Op { act: 13, ..op }),
            4 => made.step(ground, op),
            7 => packets.step(ground, frames, shares, op),
            8 => packets.step(ground, frames, shares, Op { act: 6, ..op }),
            _ => shares.step(ground, frames, Op { act: 6, ..op }),
        }
    }
}
