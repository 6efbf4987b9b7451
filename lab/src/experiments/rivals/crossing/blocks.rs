//! Objects of 256 bytes and pages: allocated on one core and freed on another, in bursts. Compared with the blocks
//! of general allocators, all through the same ring.

use netmem::limits::PAGE_SIZE;
use netmem::page::{Memory, Page};
use netmem::ring::{Receiver, Sender, ring};
use netmem::slab::{Cache, Object};
use netmem::sync::Worker;

use super::{Crossing, SLOTS, measure};
use crate::bench::{Bench, SetUpError};
use crate::experiments::pages::write_line;
use crate::experiments::rivals::sides::{Side, pass};
use crate::experiments::rivals::{Scene, label};
use crate::experiments::slab_bulk::{BYTES, sheaf};
use crate::experiments::slab_objects::{Block, alloc_bulk, check_pages, end};
use crate::rivals::dpdk::{BURST, Passed};
use crate::rivals::{self, Receiving, Rival, Sending};

/// Measures objects, and pages, written or not.
pub(super) fn groups(scene: &Scene<'_>, bench: &mut Bench<'_>, peer_core: usize) -> Result<(), SetUpError> {
    objects::<8, 24>(scene, bench, peer_core, true)?;
    objects::<0, 32>(scene, bench, peer_core, false)?;
    for touch in [true, false] {
        pages(scene, bench, peer_core, touch)?;
    }
    bench.note(
        "objects and pages across cores: all pass netmem's ring in bursts of 32. The 32 calls of a general \
         allocator are one loop in C on each side. Each pair's sending thread is the same in all rounds of a set-up, \
         as netmem's worker is",
    );
    Ok(())
}

fn objects<const WRITTEN: usize, const REST: usize>(
    scene: &Scene<'_>,
    bench: &mut Bench<'_>,
    peer_core: usize,
    touch: bool,
) -> Result<(), SetUpError> {
    let cache = Cache::new(scene.memory, &sheaf()).map_err(SetUpError::at("cache"))?;
    let end_of = || {
        let worker = scene.memory.worker().map_err(SetUpError::at("worker"))?;
        Ok::<_, SetUpError>(Objects::<WRITTEN, REST> {
            cache: cache.clone(),
            worker,
            hand: Vec::with_capacity(BURST),
        })
    };
    let crossings = crossings([end_of()?, end_of()?], BYTES, touch);
    let named = |variant: &str| label(variant, "object", BURST, "cross", BYTES, touch);
    let what = format!("objects across{}", if touch { ", written" } else { "" });
    measure(scene, bench, peer_core, crossings, (&what, &named));
    let missing = end(cache);
    bench.check(
        &format!("netmem, {what}: every object back"),
        missing == 0,
        format!("{missing} still out or at fault when the cache ended"),
    );
    Ok(())
}

fn pages(scene: &Scene<'_>, bench: &mut Bench<'_>, peer_core: usize, touch: bool) -> Result<(), SetUpError> {
    let end_of = || {
        let worker = scene.memory.worker().map_err(SetUpError::at("worker"))?;
        let hand = [const { None }; BURST];
        Ok::<_, SetUpError>(Pages { memory: scene.memory, worker, hand, touch })
    };
    let crossings = crossings([end_of()?, end_of()?], PAGE_SIZE, touch);
    let named = |variant: &str| label(variant, "page", BURST, "cross", PAGE_SIZE, touch);
    let what = format!("pages across{}", if touch { ", written" } else { "" });
    measure(scene, bench, peer_core, crossings, (&what, &named));
    check_pages(bench, scene.memory);
    Ok(())
}

/// Returns netmem's two ends, and those of every general allocator with blocks of `bytes`.
fn crossings<'a, B: Blocks + 'a>([here, there]: [B; 2], bytes: usize, touch: bool) -> Vec<Crossing<'a>> {
    let (to_taking, from_giving) = ring(SLOTS as u32);
    let ours =
        Crossing::new("netmem", Give { of: here, ring: to_taking }, Take { of: there, ring: from_giving });
    let of_rival = |rival: &Rival| {
        let (gives, takes) = rival.ring(SLOTS, bytes, touch);
        Crossing::new(rival.name, gives, takes)
    };
    std::iter::once(ours).chain(rivals::all().iter().map(of_rival)).collect()
}

/// Allocates, sends, receives and frees blocks of one kind in bursts.
trait Blocks: Send {
    type Item: Send;
    /// Allocates a burst, numbered from `next` on. Returns the number of blocks.
    fn fill(&mut self, next: u64) -> usize;
    /// Sends the `made` blocks of the burst.
    fn send(&mut self, ring: &mut Sender<Self::Item>, made: usize) -> usize;
    /// Receives at most a burst.
    fn receive(&mut self, ring: &mut Receiver<Self::Item>) -> usize;
    /// Frees the received blocks, which should be numbered from `next` on. Returns how many were not.
    fn free(&mut self, next: u64) -> u64;
}

struct Give<B: Blocks> {
    of: B,
    ring: Sender<B::Item>,
}

impl<B: Blocks> Side for Give<B> {
    #[inline(never)]
    fn pass(&mut self, next: u64) -> Passed {
        let Self { of, ring } = self;
        pass(next, |next| {
            if ring.room(BURST) < BURST {
                return Passed::default();
            }
            let made = of.fill(next);
            Passed { items: of.send(ring, made) as u64, wrong: (BURST - made) as u64 }
        })
    }
}

struct Take<B: Blocks> {
    of: B,
    ring: Receiver<B::Item>,
}

impl<B: Blocks> Side for Take<B> {
    #[inline(never)]
    fn pass(&mut self, next: u64) -> Passed {
        let Self { of, ring } = self;
        pass(next, |next| {
            let items = of.receive(ring);
            let wrong = if items > 0 { of.free(next) } else { 0 };
            Passed { items: items as u64, wrong }
        })
    }
}

/// Objects of a cache, whose first words hold their number.
struct Objects<const WRITTEN: usize, const REST: usize> {
    cache: Cache<Block<WRITTEN, REST>>,
    worker: Worker,
    hand: Vec<Object<Block<WRITTEN, REST>>>,
}

impl<const WRITTEN: usize, const REST: usize> Blocks for Objects<WRITTEN, REST> {
    type Item = Object<Block<WRITTEN, REST>>;

    #[inline(always)]
    fn fill(&mut self, next: u64) -> usize {
        alloc_bulk(&self.cache, &mut self.worker, BURST, &mut self.hand, next);
        self.hand.len()
    }

    #[inline(always)]
    fn send(&mut self, ring: &mut Sender<Self::Item>, made: usize) -> usize {
        ring.send_burst(made, &mut self.hand.drain(..))
    }

    #[inline(always)]
    fn receive(&mut self, ring: &mut Receiver<Self::Item>) -> usize {
        ring.recv_burst(BURST, |object| self.hand.push(object))
    }

    #[inline(always)]
    fn free(&mut self, next: u64) -> u64 {
        let other = |(object, number): &(&Self::Item, u64)| !object.begins_with(*number);
        let wrong = self.hand.iter().zip(next..).filter(other).count() as u64;
        self.cache.free_bulk(&mut self.worker, &mut self.hand);
        wrong
    }
}

/// Pages, whose first line begins with their number if they are touched.
struct Pages<'a> {
    memory: &'a Memory,
    worker: Worker,
    hand: [Option<Page>; BURST],
    touch: bool,
}

impl Blocks for Pages<'_> {
    type Item = Page;

    #[inline(always)]
    fn fill(&mut self, next: u64) -> usize {
        let made = self.memory.alloc_bulk(&mut self.worker, &mut self.hand);
        if self.touch {
            for (page, number) in self.hand.iter_mut().flatten().zip(next..) {
                write_line(page);
                page.bytes_mut()[..8].copy_from_slice(&number.to_ne_bytes());
            }
        }
        made
    }

    #[inline(always)]
    fn send(&mut self, ring: &mut Sender<Page>, made: usize) -> usize {
        ring.send_burst(made, &mut self.hand.iter_mut().filter_map(Option::take))
    }

    #[inline(always)]
    fn receive(&mut self, ring: &mut Receiver<Page>) -> usize {
        let mut places = self.hand.iter_mut();
        ring.recv_burst(BURST, |page| {
            // There is a slot for each: no more were requested.
            if let Some(place) = places.next() {
                *place = Some(page);
            }
        })
    }

    #[inline(always)]
    fn free(&mut self, next: u64) -> u64 {
        let touch = self.touch;
        let other = |(page, number): &(&Page, u64)| {
            touch && page.bytes().first_chunk() != Some(&number.to_ne_bytes())
        };
        let wrong = self.hand.iter().flatten().zip(next..).filter(other).count() as u64;
        self.memory.free_bulk(&mut self.worker, &mut self.hand);
        wrong
    }
}

impl Side for Sending {
    fn pass(&mut self, next: u64) -> Passed {
        pass(next, |next| self.burst(next))
    }
}

impl Side for Receiving {
    fn pass(&mut self, next: u64) -> Passed {
        pass(next, |next| self.burst(next))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use netmem::page::MemoryConfig;

    /// Returns the counts of a side that sends blocks, of one that receives them in order, and of one that expects them
    /// with numbers that are too large by one.
    fn passed<B: Blocks>(here: B, there: B) -> [Passed; 3] {
        let (to_taking, from_giving) = ring(SLOTS as u32);
        let (mut gives, mut takes) =
            (Give { of: here, ring: to_taking }, Take { of: there, ring: from_giving });
        let sent = gives.pass(0);
        let taken = takes.pass(0);
        gives.pass(sent.items);
        [sent, taken, takes.pass(sent.items + 1)]
    }

    /// 256 blocks each, of which the last side finds `wrong` ones.
    fn expected(wrong: u64) -> [Passed; 3] {
        [0, 0, wrong].map(|wrong| Passed { items: 256, wrong })
    }

    #[test]
    fn objects_are_whole_when_they_arrive_and_one_out_of_its_place_is_seen() {
        let memory = Memory::new(&MemoryConfig::default()).unwrap();
        let cache = Cache::new(&memory, &sheaf()).unwrap();
        let objects = || {
            let (cache, worker) = (cache.clone(), memory.worker().unwrap());
            Objects::<8, 24> { cache, worker, hand: Vec::new() }
        };
        assert_eq!(passed(objects(), objects()), expected(256));
        assert_eq!(end(cache), 0);
    }

    #[test]
    fn pages_are_whole_when_they_arrive_and_one_out_of_its_place_is_seen_if_they_are_written() {
        let memory = Memory::new(&MemoryConfig::default()).unwrap();
        for (touch, wrong) in [(true, 256), (false, 0)] {
            let pages = || Pages {
                memory: &memory,
                worker: memory.worker().unwrap(),
                hand: [const { None }; BURST],
                touch,
            };
            assert_eq!(passed(pages(), pages()), expected(wrong));
            let stats = memory.stats();
            assert_eq!(stats.free + stats.cached, stats.total);
        }
    }
}
