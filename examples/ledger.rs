//! The ledger: the states of a pool's frames while a program allocates, posts, hands over, shares and frees them:
//! `ledger`. Each line shows the pool's counts at that moment. The program ends with 1 if a line does not add up.

use netmem::port::mem::{MemConfig, MemPort};
use netmem::steer::{MeshConfig, Source};
use netmem::{Batch, Complete, Fill, Memory, MemoryConfig, Mesh, Pool, PoolConfig, SharedFrame, Tx};
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let memory = Memory::new(&MemoryConfig { bytes: 8 << 20, workers: 2, ..Default::default() })?;
    let (mut w, mut other) = (memory.worker()?, memory.worker()?);
    let pool = Pool::new(&memory, &mut w, &PoolConfig { frames: 256, ..Default::default() })?;
    show(&pool, "a new pool")?;

    let mut batch = Batch::new();
    pool.alloc_burst(&mut w, &mut batch, 32);
    show(&pool, "32 allocated")?;

    let (mut port, mut device) = MemPort::pair("0", &MemConfig { ring: 64, coalesce: 1 })?;
    port.refill(&mut w, &pool);
    show(&pool, "a port filled")?;
    port.tx(&mut w, &mut batch);
    show(&pool, "32 posted to be sent")?;
    device.collect(32, |_sent| ());
    port.complete(&mut w, &mut batch);
    show(&pool, "completed: ours again")?;

    let (_mesh, mut ends) = Mesh::new(&MeshConfig::default())?;
    let (_, mut inbox) = ends.pop().ok_or("no second worker")?;
    let (mut outbox, _) = ends.pop().ok_or("no first worker")?;
    let _fits = outbox.hand_off(&mut w, 1, Source::default(), &mut batch); // frames that do not fit stay in the batch
    outbox.flush(&mut w);
    show(&pool, "handed over, not taken")?;
    inbox.take(&mut other, &mut batch);
    show(&pool, "taken by the other worker")?;
    let kept: Vec<SharedFrame> = batch.drain().take(4).map(|frame| frame.share()).collect();
    let copies = kept.clone();
    batch.free(&mut other);
    show(&pool, "28 freed there, 4 shared")?;
    drop((kept, copies));
    show(&pool, "the last claims dropped")?;

    // A closed port gives its frames back when both of its ends are gone.
    drop(port);
    show(&pool, "the port dropped")?;
    drop((device, inbox, outbox));
    show(&pool, "its device dropped too")?;
    if pool.ledger().all_freed() { Ok(()) } else { Err("not every frame is freed".into()) }
}

/// Prints the states of the frames.
fn show(pool: &Pool, when: &str) -> Result<(), String> {
    let now = pool.ledger();
    println!(
        "{when:<26} free {:3}  cached {:3}  owned {:2}  posted {:2}  queued {:2}  returning {:2}  = {}",
        now.free, now.cached, now.owned, now.posted, now.queued, now.returning, now.total
    );
    if now.balanced() { Ok(()) } else { Err(format!("{when}: {now:?}")) }
}
