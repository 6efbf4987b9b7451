//! Programs of safe code: any public calls, in any order, with closures and values that panic, with values that are
//! forgotten, with workers of other memories, and with threads.
//!
//! Four bytes are an operation: its kind, and three numbers. After each program every value was dropped once, all held
//! contents are unchanged, and pages, objects and frames are where they were.

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, missing_docs)]

mod batches;
mod boxes;
mod frames;
mod ground;
mod hostile;
mod made;
mod objects;
mod packets;
mod pages;
mod ports;
mod rings;
mod shares;
mod steering;
mod threads;
mod value;
mod view;

use batches::Batches;
use boxes::Boxes;
use frames::Frames;
use ground::Ground;
use made::MadeObjects;
use objects::{Objects, Wide};
use packets::AllPackets;
use pages::Pages;
use ports::Ports;
use rings::Rings;
use shares::Shares;
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use steering::Steering;
use value::Value;

/// Operations between two looks at everything that is held.
const BETWEEN_LOOKS: usize = 32;

/// Operations of all programs that this process ran.
static OPERATIONS: AtomicU64 = AtomicU64::new(0);

/// One operation.
#[derive(Debug, Clone, Copy)]
pub struct Op {
    /// Which, of the sixteen of its stage.
    act: u8,
    a: u8,
    b: u8,
    c: u8,
}

impl Op {
    /// Returns a number below `n`, from the byte that chooses the item.
    fn pick(self, n: usize) -> usize {
        usize::from(self.a) % n.max(1)
    }

    /// A number of up to 255.
    fn n(self) -> usize {
        usize::from(self.c)
    }

    fn flag(self, bit: u8) -> bool {
        self.c >> bit & 1 == 1
    }
}

/// The counts of a program.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Done {
    pub operations: u64,
    /// Panics of its closures and values.
    pub panics: u64,
    /// Values that it made.
    pub values: u64,
    pub threads: u64,
    /// Frames that it lost for good.
    pub lost: u64,
}

/// Runs a program. The first two bytes choose the configuration.
pub fn run(bytes: &[u8]) {
    done_by(bytes);
}

/// Operations that were run in all. Fuzz targets do not ask.
#[allow(dead_code)]
pub fn operations() -> u64 {
    OPERATIONS.load(Relaxed)
}

/// Does the same as [`run`]. Returns the counts of the program.
pub fn done_by(bytes: &[u8]) -> Done {
    let (config, operations) = bytes.split_at(bytes.len().min(2));
    // If something is wrong nothing is dropped, because that might not end.
    let mut world = ManuallyDrop::new(World::new([0, 1].map(|i| config.get(i).copied().unwrap_or(0))));
    for (i, op) in operations.as_chunks::<4>().0.iter().enumerate() {
        world.step(*op);
        OPERATIONS.fetch_add(1, Relaxed);
        if i % BETWEEN_LOOKS == BETWEEN_LOOKS - 1 {
            world.look();
        }
    }
    let operations = operations.len() as u64 / 4;
    Done { operations, ..ManuallyDrop::into_inner(world).end() }
}

/// All stages, in the order in which they go.
struct World {
    steering: Steering,
    ports: Ports,
    packets: AllPackets,
    batches: Batches,
    shares: Shares,
    frames: Frames,
    rings: Rings,
    boxes: Boxes,
    made: MadeObjects,
    wide: Objects<Wide>,
    objects: Objects<Value>,
    pages: Pages,
    ground: Ground,
}

impl World {
    fn new(config: [u8; 2]) -> World {
        let mut ground = Ground::new(config);
        let frames = Frames::new(&mut ground, config);
        World {
            steering: Steering::new(config),
            ports: Ports::new(&ground),
            packets: AllPackets::new(&ground, &frames, config),
            batches: Batches::default(),
            shares: Shares::new(&frames),
            frames,
            rings: Rings::new(),
            boxes: Boxes::new(&ground),
            made: MadeObjects::new(&ground, config),
            wide: Objects::new(&ground, config),
            objects: Objects::new(&ground, config),
            pages: Pages::default(),
            ground,
        }
    }

    fn step(&mut self, [what, a, b, c]: [u8; 4]) {
        let op = Op { act: what >> 4, a, b, c };
        let World { ground, frames, .. } = self;
        match what & 15 {
            0 => self.others(op),
            1 => self.pages.step(ground, op),
            2 | 3 => self.objects.step(ground, op),
            4 => self.wide.step(ground, op),
            5 => self.made.step(ground, op),
            6 => self.boxes.step(ground, op),
            7 | 8 => frames.step(ground, op),
            9 => self.shares.step(ground, frames, op),
            10 => self.batches.step(ground, frames, op),
            11 | 12 => self.packets.step(ground, frames, &mut self.shares, op),
            13 => self.rings.step(ground, op),
            14 => self.steering.step(ground, frames, op),
            _ => self.ports.step(ground, frames, op),
        }
    }

    /// Operations of no stage, or of several.
    fn others(&mut self, op: Op) {
        match op.act {
            0..8 => self.ground.step(op),
            8..12 => self.frames.pools_step(&mut self.ground, op),
            12 => threads::run(self, op),
            13 => self.packets.ready_step(&mut self.ground, op),
            _ => self.batches.between(&mut self.ground, &mut self.frames, op),
        }
    }

    /// Whatever is held has kept its contents, and the sums are right.
    fn look(&mut self) {
        self.pages.look();
        self.objects.look();
        self.wide.look();
        self.made.look();
        self.boxes.look();
        self.shares.look();
        self.batches.look();
        self.packets.look();
        self.frames.look();
        self.ground.look();
    }

    /// Drops everything: first the held values, then the forgotten ones. Asserts that nothing is left.
    fn end(mut self) -> Done {
        self.look();
        let World { mut ground, mut frames, pages, objects, wide, made, boxes, rings, .. } = self;
        drop((self.steering, self.ports));
        self.packets.end(&mut ground);
        drop((self.batches, self.shares, rings));
        frames.drop_held();
        frames.look();
        ground.forget_no_more();
        frames.end(&mut ground);
        boxes.end(&mut ground);
        pages.end(&mut ground);
        made.end(&mut ground);
        wide.end(&mut ground);
        objects.end(&mut ground);
        ground.end()
    }
}
