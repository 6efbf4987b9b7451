//! What a program has lost.

use super::types::netmem_worker;
use super::worker::cold;
use super::{object, packet, page, shared};
use crate::workers::State;
use netmem::Batch;
use std::ffi::c_int;

/// Ends every use that the worker has not given back, and sends the frames, objects, pages and packets home: for what a program has lost. Returns how many.
/// Raw frames are not among them.
#[unsafe(no_mangle)]
pub extern "C" fn netmem_worker_reclaim(worker: netmem_worker) -> c_int {
    cold(worker, "netmem_worker_reclaim", |mut inside| {
        let State { worker, tag, held, .. } = &mut *inside;
        let mut batch = Batch::new();
        let frames = tag.reclaim(|frame| {
            if let Err(frame) = batch.push(frame) {
                batch.free(worker);
                drop(batch.push(frame));
            }
        });
        batch.free(worker);
        *held = held.saturating_sub(frames as u64);
        let others = object::reclaim(&mut inside)
            + page::reclaim(&mut inside)
            + packet::reclaim(&mut inside)
            + shared::reclaim(&mut inside);
        Ok(i32::try_from(frames + others).unwrap_or(i32::MAX))
    })
}
