//! The contents of the loop's frames: the packet of its flow in each, written before the measurement and checked at
//! the end.

use netmem::limits::BATCH_MAX;
use netmem::page::Memory;
use netmem::pool::{Batch, Pool, PoolConfig};
use netmem::sync::Worker;
use netmem_traffic::Traffic;

use super::core::flow_of;
use super::plan::Plan;
use super::turn::{FLOWS, PACKET};
use crate::bench::SetUpError;

/// Bytes of the MAC addresses, which forwarding swaps.
const ADDRESSES: usize = 12;

/// Returns the packet of each flow, from the first byte that forwarding does not change.
pub(super) fn packets() -> Result<Vec<[u8; PACKET]>, SetUpError> {
    let mut traffic = Traffic::new(FLOWS, PACKET).map_err(SetUpError::at("traffic"))?;
    let packet = |_| {
        let mut packet = [0; PACKET];
        traffic.write(&mut packet);
        packet
    };
    Ok((0..FLOWS).map(packet).collect())
}

/// Makes a pool and writes the packet of its flow into every frame.
pub(super) fn filled_pool(plan: &Plan, memory: &Memory, w: &mut Worker) -> Result<Pool, SetUpError> {
    let config = PoolConfig { name: plan.variant.clone(), frames: plan.frames(), ..PoolConfig::default() };
    let pool = Pool::new(memory, w, &config).map_err(SetUpError::at("pool"))?;
    let packets = packets()?;
    each_frame(&pool, w, |data| data.copy_from_slice(&packets[flow_of(data)]));
    Ok(pool)
}

/// Returns the number of frames whose packet has changed, except for the swapped bytes.
pub(super) fn changed_frames(pool: &Pool, w: &mut Worker) -> usize {
    let Ok(packets) = packets() else { return pool.frames() };
    let mut changed = 0;
    each_frame(pool, w, |data| {
        changed += usize::from(data[ADDRESSES..] != packets[flow_of(data)][ADDRESSES..]);
    });
    changed
}

/// Calls `f` with the data of every frame that is in the pool.
fn each_frame(pool: &Pool, w: &mut Worker, mut f: impl FnMut(&mut [u8])) {
    let mut all = Vec::new();
    loop {
        let mut frames = Batch::new();
        if pool.alloc_burst(w, &mut frames, BATCH_MAX) == 0 {
            break;
        }
        frames.put_each(PACKET, |_, data| f(data));
        all.push(frames);
    }
    all.iter_mut().for_each(|frames| frames.free(w));
}
