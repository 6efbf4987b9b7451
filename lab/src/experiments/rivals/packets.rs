//! Packets: a head and a frame allocated, a line written, and both freed, on one core, compared with mbufs.

use std::cell::Cell;
use std::hint::black_box;

use netmem::limits::BATCH_MAX;
use netmem::packet::{HeadCache, Packet, Packets, ReadyPackets};
use netmem::pool::{Batch, Pool};
use netmem::sync::Worker;

use super::target::Target;
use super::{CACHE, FRAME, FRAMES, LINE, STAMP, Scene, check_dpdk, check_netmem, label, over_first, rows};
use crate::bench::{Bench, Comparison, Cores, SetUpError};
use crate::method::round::Series;
use crate::metric::Metric;
use crate::rivals::dpdk;

/// The variants of netmem, by their index: a ready pool, and a head that is attached to a frame at each use.
const READY: usize = 0;
const ATTACH: usize = 1;
const OURS: usize = 2;

/// The source of packets.
pub(super) trait Way {
    fn get(&self, w: &mut Worker) -> Option<Packet>;
    fn get_burst(&self, w: &mut Worker, packets: &mut Packets, n: usize) -> usize;
    fn free(&self, w: &mut Worker, packet: Packet);
    fn free_bulk(&self, w: &mut Worker, packets: &mut Packets);
}

/// Head and frame stay together while they are free.
impl Way for ReadyPackets {
    #[inline(always)]
    fn get(&self, w: &mut Worker) -> Option<Packet> {
        ReadyPackets::get(self, w)
    }

    #[inline(always)]
    fn get_burst(&self, w: &mut Worker, packets: &mut Packets, n: usize) -> usize {
        ReadyPackets::get_burst(self, w, packets, n)
    }

    #[inline(always)]
    fn free(&self, w: &mut Worker, packet: Packet) {
        ReadyPackets::free(self, w, packet);
    }

    #[inline(always)]
    fn free_bulk(&self, w: &mut Worker, packets: &mut Packets) {
        ReadyPackets::free_bulk(self, w, packets);
    }
}

/// Each frame gets a head when it is allocated.
impl Way for (Pool, HeadCache) {
    #[inline(always)]
    fn get(&self, w: &mut Worker) -> Option<Packet> {
        let frame = self.0.alloc(w)?;
        self.1.attach(w, frame).map_err(drop).ok()
    }

    #[inline(always)]
    fn get_burst(&self, w: &mut Worker, packets: &mut Packets, n: usize) -> usize {
        let mut frames = Batch::new();
        self.0.alloc_burst(w, &mut frames, n);
        self.1.attach_burst(w, &mut frames, packets)
    }

    #[inline(always)]
    fn free(&self, w: &mut Worker, packet: Packet) {
        self.1.free(w, packet);
    }

    #[inline(always)]
    fn free_bulk(&self, w: &mut Worker, packets: &mut Packets) {
        self.1.free_bulk(w, packets);
    }
}

/// Bursts. A whole burst is allocated and written before its first packet is freed.
pub(super) struct Trip<W> {
    pub(super) way: W,
    burst: usize,
    /// Room for a burst.
    hands: Vec<Packets>,
    pub(super) refused: u64,
}

impl<W: Way> Trip<W> {
    pub(super) fn new(way: W, burst: usize) -> Self {
        let hands = (0..burst.div_ceil(BATCH_MAX)).map(|_| Packets::new()).collect();
        Self { way, burst, hands, refused: 0 }
    }

    pub(super) fn run(&mut self, w: &mut Worker, ops: u32) {
        self.refused += match self.burst {
            1 => one(&self.way, w, ops),
            burst @ 2..=BATCH_MAX => hands(&self.way, w, burst, ops),
            _ => self.bursts(w, ops),
        };
    }

    /// For a burst that is larger than one `Packets`.
    #[inline(never)]
    fn bursts(&mut self, w: &mut Worker, ops: u32) -> u64 {
        let mut refused = 0;
        for _ in 0..ops as usize / self.burst {
            let mut left = self.burst;
            for hand in &mut self.hands {
                let wanted = left.min(BATCH_MAX);
                left -= wanted;
                refused += wanted - self.way.get_burst(w, hand, wanted);
                write_lines(hand);
            }
            for hand in black_box(&mut self.hands) {
                self.way.free_bulk(w, hand);
            }
        }
        refused as u64
    }

    /// Runs one more burst, and writes a number of its own into each packet. Returns how many packets do not hold
    /// theirs when all are written.
    pub(super) fn corrupted(&mut self, w: &mut Worker) -> u64 {
        let mut packets: Vec<Packet> = (0..self.burst).map_while(|_| self.way.get(w)).collect();
        for (packet, number) in packets.iter_mut().zip(0_u64..) {
            write_line(packet);
            if let Some(data) = packet.data_mut() {
                data[..8].copy_from_slice(&number.to_le_bytes());
            }
        }
        let mut whole = 0;
        for (packet, number) in packets.into_iter().zip(0_u64..) {
            whole += u64::from(packet.len() == LINE && packet.data()[..8] == number.to_le_bytes());
            self.way.free(w, packet);
        }
        self.burst as u64 - whole
    }
}

/// Allocates and frees one packet at a time. Returns how many allocations failed.
#[inline(never)]
fn one(way: &impl Way, w: &mut Worker, ops: u32) -> u64 {
    let mut refused = 0;
    for _ in 0..ops {
        match way.get(w) {
            Some(mut packet) => {
                write_line(&mut packet);
                black_box(());
                way.free(w, packet);
            }
            None => refused += 1,
        }
    }
    refused
}

/// Allocates and frees one `Packets` at a time. Returns how many allocations failed.
#[inline(never)]
fn hands(way: &impl Way, w: &mut Worker, burst: usize, ops: u32) -> u64 {
    let (mut refused, mut hand) = (0, Packets::new());
    for _ in 0..ops as usize / burst {
        refused += burst - way.get_burst(w, &mut hand, burst);
        write_lines(&mut hand);
        way.free_bulk(w, black_box(&mut hand));
    }
    refused as u64
}

/// Makes the first line of each packet its data, and writes it.
#[inline(always)]
fn write_lines(hand: &mut Packets) {
    hand.put_each(LINE, |_, line| line.fill(STAMP));
}

/// Makes the first line the packet's data, and writes it.
#[inline(always)]
fn write_line(packet: &mut Packet) {
    // The compiler knows the length, whatever the packet is made of.
    if let Ok(Some(line)) = packet.put(LINE).map(<[u8]>::first_chunk_mut::<LINE>) {
        *line = [STAMP; LINE];
    }
}

/// Measures one burst.
pub(super) fn group(
    scene: &Scene<'_>,
    bench: &mut Bench<'_>,
    burst: usize,
) -> Result<Option<Target>, SetUpError> {
    let named = |variant| label(variant, "packet", burst, "same", LINE, true);
    let (pool, plain) = (scene.pool()?, scene.pool()?);
    let heads = || HeadCache::new(scene.memory).map_err(SetUpError::at("heads"));
    let mut pairs = Trip::new(ReadyPackets::new(&pool, &heads()?, CACHE), burst);
    let mut attach = Trip::new((plain.clone(), heads()?), burst);
    let mut theirs = rivals(scene, burst)?;
    let refused = Cell::new(0);
    let in_pairs = |ops| pairs.run(&mut scene.worker.borrow_mut(), ops);
    let attached = |ops| attach.run(&mut scene.worker.borrow_mut(), ops);
    let mut variants = vec![
        scene.op_loop(named("netmem"), burst, in_pairs),
        scene.op_loop(named("netmem/attach"), burst, attached),
    ];
    variants.extend(theirs.iter_mut().map(|(variant, packets)| {
        let run = |ops| refused.set(refused.get() + packets.run(burst, ops));
        scene.op_loop(named(variant), burst, run)
    }));
    let compared = comparisons(variants.len() - OURS);
    let series = bench.measure_with(&mut variants, &compared, Cores::Same, scene.effort);
    rows(bench, &series);
    drop(variants);
    let what = format!("packets by {burst}");
    let mut w = scene.worker.borrow_mut();
    let corrupted = [pairs.corrupted(&mut w), attach.corrupted(&mut w)];
    pairs.way.drain(&mut w);
    check_netmem(bench, &what, pairs.refused, corrupted[0], &pool);
    check_netmem(bench, &format!("attached {what}"), attach.refused, corrupted[1], &plain);
    for (variant, packets) in &mut theirs {
        packets.give_back();
        check_dpdk(bench, &format!("{what} ({variant})"), refused.get(), packets.out());
    }
    Ok(target(bench, &what, burst, &series))
}

/// Returns the comparisons: both variants of netmem, and each of them with each of so many of DPDK.
fn comparisons(theirs: usize) -> Vec<Comparison> {
    let attached = (OURS..OURS + theirs).map(|b| Comparison { a: ATTACH, b, metric: Metric::NsPerOp });
    over_first(OURS + theirs).into_iter().chain(attached).collect()
}

/// Notes how packets are made on one core.
pub(super) fn note(bench: &mut Bench<'_>) {
    bench.note(format!(
        "packets on one core: netmem takes them from a ready pool of at most {CACHE} pairs of head and frame, as many \
         as the rival's cache has mbufs (the library's default is {}); netmem/attach attaches a head to a frame at \
         each use, as a port without a ready pool does, with the library's default of heads",
        ReadyPackets::MAX
    ));
}

/// Returns a mempool of mbufs. For a burst of one also a second, in the slower of two modes.
///
/// The modes: a single packet leaves and enters the same slot of the cache's array again and again. If that slot lies a
/// multiple of 4 KiB from the cache's own counter, each load of the one seems to wait for the store to the other.
pub(super) fn rivals(
    scene: &Scene<'_>,
    burst: usize,
) -> Result<Vec<(&'static str, dpdk::Packets)>, SetUpError> {
    let Some(dpdk) = scene.dpdk else { return Ok(Vec::new()) };
    let mempool = || dpdk.packets(FRAMES, FRAME, CACHE).map_err(SetUpError::at("mempool of mbufs"));
    let mut rivals = vec![("dpdk", mempool()?)];
    if burst == 1 {
        let mut aliased = mempool()?;
        if aliased.alias() {
            rivals.push(("dpdk/aliased", aliased));
        }
    }
    Ok(rivals)
}

fn target(bench: &Bench<'_>, what: &str, burst: usize, series: &[Series]) -> Option<Target> {
    let ours = series.get(READY)?;
    let rivals: Vec<&Series> = series.iter().filter(|one| one.label.variant.starts_with("dpdk")).collect();
    [1, 32].contains(&burst).then(|| Target::over_fastest(bench, what, 0.5, ours, &rivals))?
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seen: a head that is attached at each use, the path of ports, was never compared with DPDK.
    #[test]
    fn each_variant_of_netmem_is_compared_with_each_of_dpdk() {
        let pairs = |theirs| comparisons(theirs).iter().map(|one| (one.a, one.b)).collect::<Vec<_>>();
        assert_eq!(pairs(0), [(READY, ATTACH)]);
        assert_eq!(pairs(2), [(READY, ATTACH), (READY, 2), (READY, 3), (ATTACH, 2), (ATTACH, 3)]);
    }
}
