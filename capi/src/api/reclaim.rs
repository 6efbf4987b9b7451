//! Frees what a program has lost.

use super::types::netmem_worker;
use super::worker::cold;
use super::{object, packet, page, shared};
use crate::workers::State;
use netmem::Batch;
use std::ffi::c_int;

/// Frees all frames, objects, pages, packets and shared frames that the worker holds, for a program that has
/// lost their handles. The handles become invalid. Raw frames are not included.
/// Returns the number freed.
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
