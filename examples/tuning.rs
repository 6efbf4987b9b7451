//! Observing and tuning: a forwarder runs on its own thread. This thread reads its counters, asks for the holders of
//! frames, and resizes the pool while packets pass: `tuning`. It ends with 1 if the sums do not add up.

use netmem::forward::{CrossConnect, Idle};
use netmem::port::mem::{MemConfig, MemDevice, MemPort};
use netmem::{Forwarder, Memory, MemoryConfig, Pool, PoolConfig, Port};
use std::error::Error;
use std::process::exit;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

fn main() -> Result<(), Box<dyn Error>> {
    let memory = Memory::new(&MemoryConfig { bytes: 16 << 20, ..Default::default() })?;
    let mut w = memory.worker()?;
    // Room to grow: `capacity` is the maximum of `resize`.
    let config = PoolConfig { frames: 2048, capacity: 4096, ..PoolConfig::default() };
    let pool = Pool::new(&memory, &mut w, &config)?;
    let (left, mut sender) = MemPort::pair("left", &MemConfig::default())?;
    let (right, mut receiver) = MemPort::pair("right", &MemConfig::default())?;
    let counters = [left.counters(), right.counters()];
    let ports: Vec<Box<dyn Port>> = vec![Box::new(left), Box::new(right)];
    let mut forwarder = Forwarder::new(ports, pool.clone(), Box::new(CrossConnect))?;
    forwarder.measure_latency();
    pool.trace(true); // from now on each allocation records its call site, which costs a lock
    let (meters, idle) = (forwarder.meters(), forwarder.idle_control());
    let stop = &AtomicBool::new(false);

    let all = thread::scope(|scope| -> Result<u64, Box<dyn Error + Send + Sync>> {
        let thread = scope.spawn(move || forwarder.run(&mut w, stop));
        let mut pass = |frames| pass(&mut sender, &mut receiver, frames, || !thread.is_finished());
        let tuned = (|| {
            let mut all = pass(20_000);
            pool.set_cache(64, 32)?; // the owner's cache, smaller than at first
            all += pass(20_000);
            pool.resize(4096)?; // frames at most, while packets pass
            idle.set(Idle::Sleep); // sleep instead of polling again and again
            Ok(all + pass(20_000))
        })();
        pool.holders().iter().take(1).for_each(|holder| println!("most frames: {holder}"));
        stop.store(true, Relaxed); // also after an error; otherwise the scope would wait forever
        tuned
    });
    let all = all.map_err(|error| error.to_string())?;
    let latency = meters.latency.quantiles().ok_or("no packet was timed")?;
    println!("forwarded {} of {all}, dropped {}", meters.transmitted.get(), meters.drops.total());
    println!("latency: {:.0} ns median, {:.0} ns in one burst of a hundred", latency.p50, latency.p99);
    for (port, counters) in ["left", "right"].iter().zip(&counters) {
        let counts: Vec<_> = counters.iter().filter(|(_, count)| *count > 0).collect();
        println!("{port}: {counts:?}");
    }
    let (stats, (cache, _)) = (pool.stats(), pool.cache());
    println!(
        "pool: {} frames, cache of {cache}, {} refills, {} failed",
        pool.frames(),
        stats.alloc.refill,
        stats.failed
    );
    drop((sender, receiver));
    let is_even = meters.transmitted.get() == all && meters.drops.total() == 0 && pool.ledger().all_freed();
    println!("balanced, and all home: {is_even}");
    exit(i32::from(!is_even));
}

/// Sends that many frames and waits until all have come out at the other side, or the forwarder's thread has ended by a
/// panic.
fn pass(sender: &mut MemDevice, receiver: &mut MemDevice, frames: u64, runs: impl Fn() -> bool) -> u64 {
    let (mut sent, mut came) = (0, 0);
    while came < frames && runs() {
        // No more in flight than a ring has slots for.
        let burst = (frames - sent).min(256 - (sent - came)).min(32);
        sent += sender.deliver(burst as usize, |room| {
            room[..60].fill(1);
            60
        }) as u64;
        came += receiver.collect(64, |_| ()) as u64;
        thread::yield_now();
    }
    came
}
