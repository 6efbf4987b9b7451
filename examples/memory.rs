//! Memory and workers: one region of pages, two workers with caches of their own, pages and objects that one worker
//! takes and the other gives back; then two nodes: `memory`. It ends with 1 if anything is missing afterwards.

use netmem::page::Page;
use netmem::slab::{Cache, CacheConfig, Object};
use netmem::{Memory, MemoryConfig, Worker};
use std::error::Error;
use std::{process::exit, thread};

/// The state that a dataplane may keep for a flow.
struct Flow {
    packets: u64,
}

fn main() -> Result<(), Box<dyn Error>> {
    let memory = Memory::new(&MemoryConfig { bytes: 16 << 20, workers: 2, ..Default::default() })?;
    println!("memory: {} bytes on {}", memory.bytes(), memory.region().backing());
    let (mut first, mut second) = (memory.worker()?, memory.worker()?);
    let refused = memory.worker().map_or_else(|error| error.to_string(), |third| third.slot().to_string());
    println!("workers: {} and {}; a third: {refused}", first.slot(), second.slot());

    let pages: Vec<Page> = (0..1000).map_while(|_| memory.alloc(&mut first, 0)).collect();
    let flows = Cache::new(&memory, &CacheConfig { name: "flows".into(), ..Default::default() })?;
    let objects = take_flows(&flows, &mut first, 500);
    let stats = memory.stats();
    println!(
        "out: {} pages, {} objects; {} pages free, {} in workers' lists",
        pages.len(),
        objects.len(),
        stats.free,
        stats.cached
    );

    let packets = give_back(&memory, &flows, &mut second, pages, objects);
    println!("given back by the other worker: {packets} packets were counted in the flows");
    drop((first, second)); // the lists of a worker end with it: all their pages and objects are freed
    flows.destroy().map_err(|_| "objects of the cache are still out")?;
    let stats = memory.stats();
    println!("at the end: {} of {} pages free", stats.free, stats.total);
    let nodes = nodes()?;
    println!("pages came from nodes {nodes:?}");
    exit(i32::from(packets != 500 || stats.free != stats.total || nodes != [0, 1, 0]));
}

/// The nodes of three pages that one worker takes: while its home is node 0, while it is node 1, and when node 1 has no
/// page left.
fn nodes() -> Result<[usize; 3], Box<dyn Error>> {
    let memory = Memory::new(&MemoryConfig { bytes: 8 << 20, workers: 1, nodes: 2, ..Default::default() })?;
    let mut w = memory.worker()?;
    let first = memory.alloc(&mut w, 0).ok_or("no page")?;
    memory.set_home_node(&mut w, 1);
    let mut all: Vec<Page> = std::iter::from_fn(|| memory.alloc(&mut w, 0)).collect();
    let nodes = [&first, &all[0], &all[all.len() - 1]].map(Page::node);
    all.push(first);
    all.into_iter().for_each(|page| memory.free(&mut w, page));
    Ok(nodes)
}

/// Makes that many objects, or as many as there is memory for.
fn take_flows(flows: &Cache<Flow>, w: &mut Worker, n: usize) -> Vec<Object<Flow>> {
    (0..n).map_while(|_| flows.alloc(w, Flow { packets: 1 }).ok()).collect()
}

/// Gives all of them back on another thread. Returns the number of packets that the flows had counted.
fn give_back(
    memory: &Memory,
    flows: &Cache<Flow>,
    w: &mut Worker,
    pages: Vec<Page>,
    objects: Vec<Object<Flow>>,
) -> u64 {
    let other = thread::scope(|scope| {
        let other = scope.spawn(|| {
            pages.into_iter().for_each(|page| memory.free(w, page));
            // `take` returns the value; `free` would drop it.
            objects.into_iter().map(|object| flows.take(w, object).packets).sum()
        });
        other.join()
    });
    other.unwrap_or(0)
}
