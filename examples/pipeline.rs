//! A pipeline of two workers over a port inside the process: the first receives and hands over, the second reads.
//! Frames for which the second has no room wait with the first, so every frame arrives: `pipeline [FRAMES]`, by default
//! 3,000,000.

use netmem::page::{Memory, MemoryConfig};
use netmem::pool::{Batch, Pool, PoolConfig};
use netmem::port::mem::{MemConfig, MemDevice, MemPort};
use netmem::port::{Fill, Rx};
use netmem::steer::{Inbox, Mesh, MeshConfig, Outbox, Source};
use netmem::sync::Worker;
use std::error::Error;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

fn main() {
    let frames = std::env::args().nth(1).map_or(Ok(3_000_000), |text| text.parse());
    let Ok(frames) = frames else {
        eprintln!("usage: pipeline [FRAMES]");
        std::process::exit(2);
    };
    match run(frames) {
        Ok(Passed { handed_over, in_order, dropped }) => {
            println!("{handed_over} of {frames} handed over, {in_order} came in order, {dropped} dropped");
            std::process::exit(i32::from((handed_over, in_order) != (frames, frames)));
        }
        Err(error) => {
            eprintln!("pipeline: {error}");
            std::process::exit(2);
        }
    }
}

/// The counts of the frames.
#[derive(Debug, PartialEq, Eq)]
pub struct Passed {
    /// Frames that the first worker's outbox took.
    pub handed_over: u64,
    /// Frames that came to the second worker, each with the number after that of the one before it.
    pub in_order: u64,
    /// Frames that were dropped between the two.
    pub dropped: u64,
}

/// Sends that many frames through, with the default settings everywhere.
pub fn run(frames: u64) -> Result<Passed, Box<dyn Error>> {
    run_with(frames, read)
}

/// As [`run`], with another second worker.
pub fn run_with(frames: u64, read: fn(Worker, Inbox, &AtomicBool) -> u64) -> Result<Passed, Box<dyn Error>> {
    let memory = Memory::new(&MemoryConfig { workers: 2, ..MemoryConfig::default() })?;
    let (mut first, second) = (memory.worker()?, memory.worker()?);
    let pool = Pool::new(&memory, &mut first, &PoolConfig::default())?;
    let (mut port, mut network) = MemPort::pair("0", &MemConfig::default())?;
    let (mesh, mut ends) = Mesh::new(&MeshConfig::default())?;
    let (_, inbox) = ends.pop().ok_or("no second worker")?;
    let (mut outbox, _) = ends.pop().ok_or("no first worker")?;
    let all_sent = AtomicBool::new(false);
    let (handed_over, in_order) = thread::scope(|scope| {
        let reader = scope.spawn(|| read(second, inbox, &all_sent));
        let (mut received, mut sent, mut handed_over) = (Batch::new(), 0, 0);
        while handed_over < frames {
            deliver(&mut network, &mut sent, frames);
            let taken = hand_over(&mut first, &pool, &mut port, &mut outbox, &mut received);
            if taken == 0 && !outbox.has_reader(1) {
                break; // it panicked: the join below says so
            }
            handed_over += taken;
        }
        all_sent.store(true, Ordering::Release);
        (handed_over, reader.join().unwrap_or(0))
    });
    Ok(Passed { handed_over, in_order, dropped: mesh.stats()[1].drops.total() })
}

/// The network sends a burst of numbered frames, while there are any left.
fn deliver(network: &mut MemDevice, sent: &mut u64, frames: u64) {
    let burst = (frames - *sent).min(32) as usize;
    network.deliver(burst, |room| {
        room[..60].fill(0);
        room[..8].copy_from_slice(&sent.to_be_bytes());
        *sent += 1;
        60
    });
}

/// A round of the first worker. Returns how many frames it handed over.
fn hand_over(
    w: &mut Worker,
    pool: &Pool,
    port: &mut MemPort,
    outbox: &mut Outbox,
    received: &mut Batch,
) -> u64 {
    port.refill(w, pool);
    port.rx(w, received); // behind frames that stayed in the round before, as far as there is room
    let taken = outbox.hand_off(w, 1, Source::default(), received);
    outbox.flush(w);
    if taken == 0 {
        thread::yield_now();
    }
    taken as u64
}

/// The second worker. Returns how many frames came in order, until all were sent and nothing waits.
fn read(mut w: Worker, mut inbox: Inbox, all_sent: &AtomicBool) -> u64 {
    let (mut frames, mut expected) = (Batch::new(), 0_u64);
    loop {
        let is_last = all_sent.load(Ordering::Acquire);
        while inbox.take(&mut w, &mut frames).is_some() {
            for frame in frames.iter() {
                expected += u64::from(frame.data()[..8] == expected.to_be_bytes());
            }
            frames.free(&mut w); // freed to the first worker's pool
        }
        if is_last {
            return expected;
        }
        thread::yield_now();
    }
}
