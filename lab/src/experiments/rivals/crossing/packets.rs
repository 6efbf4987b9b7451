//! Packets: allocated and written on one core, read and freed on another. Compared with mbufs through DPDK's ring
//! and libnetmem's packets through its lane.

use std::sync::Arc;

use netmem::packet::{HeadCache, HeadCacheConfig, Packets};
use netmem::pool::{Pool, PoolConfig};
use netmem::ring::ring;

use super::{Crossing, SLOTS, lines, measure};
use crate::bench::{Bench, SetUpError};
use crate::experiments::check_all_freed;
use crate::experiments::rivals::sides::{Giving, Taking};
use crate::experiments::rivals::target::Target;
use crate::experiments::rivals::{CACHE, FRAME, FRAMES, LINE, Scene, check_dpdk, label};
use crate::rivals::dpdk::{self, BURST, Dpdk};
use crate::rivals::libnetmem::crossing::{Lane, lane};

/// Measures packets in bursts.
pub(super) fn group(
    scene: &Scene<'_>,
    bench: &mut Bench<'_>,
    peer_core: usize,
) -> Result<Vec<Target>, SetUpError> {
    let (ours, pool) = our_packets(scene)?;
    let mut packets = vec![ours];
    let theirs = scene.dpdk.map(their_packets).transpose().map_err(SetUpError::at("mempool of mbufs"))?;
    let mempool = theirs.map(|(crossing, mempool)| {
        packets.push(crossing);
        mempool
    });
    let lane = match from_c() {
        Ok((crossing, lane)) => {
            packets.push(crossing);
            Some(lane)
        }
        Err(remedy) => {
            bench.note(format!("netmem/c, packets across: {remedy}"));
            None
        }
    };
    packets.push(lines::crossing());
    let named = |variant: &str| label(variant, "packet", BURST, "cross", LINE, true);
    let series = measure(scene, bench, peer_core, packets, ("packets", &named));
    check_all_freed(bench, "netmem, packets across", &pool);
    if let Some(mempool) = &mempool {
        check_dpdk(bench, "packets across", 0, mempool.out());
    }
    if let Some(lane) = &lane {
        let out = lane.out();
        bench.check(
            "netmem/c, packets across: every packet accounted for",
            out == 0,
            format!("{out} still out"),
        );
    }
    bench.note(
        "packets across cores: netmem's arrays of heads are as large as the rival's cache of packets. The first \
         core writes the 64 bytes of each packet, and the second reads the first 8. netmem/c uses libnetmem's calls \
         and its lane. Both its workers are entered and left once for 256 packets. limit is the line alone: written \
         on the first core and read on the second, with a number through the ring and nothing allocated",
    );
    let (Some(_), [ours, theirs, ..]) = (mempool, series.as_slice()) else { return Ok(Vec::new()) };
    let what = "packets across cores by 32";
    let over_median = Target::over_fastest(bench, what, 0.5, ours, &[theirs]);
    Ok(over_median.into_iter().chain(Target::over_p10(bench, what, 0.7, ours, theirs)).collect())
}

/// Returns packets by libnetmem's calls, and the lane through which they pass.
fn from_c() -> Result<(Crossing<'static>, Arc<Lane>), String> {
    let (sends, receives, lane) = lane(FRAMES as u32, FRAME as u32, CACHE as u32, SLOTS as u32)?;
    Ok((Crossing::new("netmem/c", sends, receives), lane))
}

/// Returns netmem's packets. The sending core owns their pool.
fn our_packets(scene: &Scene<'_>) -> Result<(Crossing<'static>, Pool), SetUpError> {
    let worker = || scene.memory.worker().map_err(SetUpError::at("worker"));
    let mut owner = worker()?;
    let config = PoolConfig {
        name: "crossing".to_owned(),
        frames: FRAMES,
        frame_size: FRAME,
        cache: CACHE,
        ..PoolConfig::default()
    };
    let pool = Pool::new(scene.memory, &mut owner, &config).map_err(SetUpError::at("pool"))?;
    // As many as the rival's cache of packets.
    let config = HeadCacheConfig {
        size: CACHE,
        refill: CACHE / 2,
        free: CACHE / 2,
        defer_max: CACHE,
        ..HeadCacheConfig::default()
    };
    let heads = HeadCache::with(scene.memory, &config).map_err(SetUpError::at("heads"))?;
    let (to_taking, from_giving) = ring(SLOTS as u32);
    let (here, there) = (heads.clone(), heads);
    let gives =
        Giving { worker: owner, pool: pool.clone(), heads: here, packets: Packets::new(), ring: to_taking };
    let takes = Taking { worker: worker()?, heads: there, packets: Packets::new(), ring: from_giving };
    Ok((Crossing::new("netmem", gives, takes), pool))
}

/// Returns DPDK's packets, and their pool.
fn their_packets(dpdk: Dpdk) -> Result<(Crossing<'static>, dpdk::Packets), String> {
    let packets = dpdk.packets(FRAMES, FRAME, CACHE)?;
    let (sends, receives) = packets.ring(SLOTS)?;
    Ok((Crossing::new("dpdk", sends, receives), packets))
}
