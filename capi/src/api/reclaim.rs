//! Frees what a program has lost.

use super::types::{netmem_memory, netmem_worker};
use super::worker::cold;
use super::{object, packet, page, shared};
use crate::answer::answer;
use crate::failure::{Failure, several};
use crate::objects::{self, Claim, What};
use crate::registry::{self, CACHES, HEADS};
use crate::slots::chunks_of;
use crate::table::{HOLDER, LOOSE};
use crate::workers::State;
use crate::{own, packets, table};
use netmem::Batch;
use std::ffi::c_int;
use std::ops::Range;
use std::slice;

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

/// Frees all detached frames, objects, pages, packets and shared frames of a memory, for a program that has lost the
/// handles that its detach calls gave. Those handles become invalid, also those that another thread is about to
/// attach. Works also after netmem_memory_close has returned -ETIMEDOUT. Raw frames are not included. An object belongs to
/// the memory of its cache. A packet belongs to the memory of its heads, even if its frames belong to another memory. The
/// call also frees frames of the memories that ports of its workers made for themselves (netmem_port_open).
/// Returns the number freed.
#[unsafe(no_mangle)]
pub extern "C" fn netmem_memory_reclaim_detached(memory: netmem_memory) -> c_int {
    answer("netmem_memory_reclaim_detached", || {
        let region = registry::with_memory(memory.word, |open| open.region.upgrade())?;
        let own = own::of_memory(memory.word).into_iter().map(|own| own.pool.memory().region().clone());
        // The last frames may free a memory. It stays until the end of the call.
        let regions: Vec<_> = region.into_iter().chain(own).collect();
        let chunks: Vec<_> = regions.iter().map(|region| chunks_of(region)).collect();
        let mut frames = 0;
        for chunks in &chunks {
            table::reclaim_loose(chunks.clone(), |frame| {
                drop(frame);
                frames += 1;
            });
        }
        let others = objects::reclaim_loose(|what, claim| is_of(memory.word, &chunks, what, claim), free);
        drop(regions);
        own::forget_freed();
        i32::try_from(frames + others).or(Ok::<i32, Failure>(i32::MAX))
    })
}

/// Whether a detached thing belongs to this memory, whose regions have these chunks. A cache and heads cannot be closed
/// while something of them is detached. A worker of another memory may have shared a frame, so its chunk decides.
fn is_of(memory: u64, chunks: &[Range<u32>], what: What, claim: Claim) -> bool {
    match what {
        What::Object => CACHES.get(claim.of).is_ok_and(|(_, of)| of == memory),
        What::Packet => HEADS.get(claim.of).is_ok_and(|(_, of)| of == memory),
        What::Page => claim.of == memory,
        What::Shared => {
            packets::shared_chunk(claim).is_some_and(|chunk| chunks.iter().any(|one| one.contains(&chunk)))
        }
    }
}

/// Frees a thing whose claim has left its entry, without a worker.
fn free(what: What, claim: Claim) {
    match what {
        What::Object => object::release(claim),
        What::Page => drop(page::page(claim)),
        // SAFETY: the claim has left its entry.
        What::Packet | What::Shared => unsafe { packets::free(what, claim) },
    }
}

/// The kinds of things that can be out of a memory: one, and several.
const KINDS: [(&str, &str); 5] = [
    ("frame", "frames"),
    ("shared frame", "shared frames"),
    ("packet", "packets"),
    ("object", "objects"),
    ("block of pages", "blocks of pages"),
];

/// Returns what is still out of a memory that the program wants to close, and what to do.
///
/// # Errors
/// Nothing open has this handle.
pub fn still_out(memory: u64) -> Result<String, Failure> {
    let (mut detached, mut elsewhere) = ([0; KINDS.len()], [0; KINDS.len()]);
    let mut count = |word, kind: usize| {
        let to = if word & HOLDER == LOOSE { &mut detached } else { &mut elsewhere };
        to[kind] += 1;
    };
    let region = registry::with_memory(memory, |open| open.region.upgrade())?;
    if let Some(region) = region {
        let chunks = chunks_of(&region);
        table::each_word(|word| {
            if chunks.contains(&(word as u32)) {
                count(word, 0);
            }
        });
        objects::each_held(|word, claim| match What::of(word) {
            Some(what) if is_of(memory, slice::from_ref(&chunks), what, claim) => count(word, kind(what)),
            _ => {}
        });
    }
    let list = |counts: [usize; KINDS.len()]| {
        let some = counts.into_iter().zip(KINDS).filter(|(n, _)| *n > 0);
        some.map(|(n, (one, more))| several(n, one, more)).collect::<Vec<_>>().join(", ")
    };
    let (detached, elsewhere) = (list(detached), list(elsewhere));
    let mut all = own::still_out(memory);
    if !elsewhere.is_empty() {
        all.insert(0, format!("{elsewhere} of workers of other memories: free them there"));
    }
    if !detached.is_empty() {
        all.insert(
            0,
            format!("{detached} detached: attach and free them, or call netmem_memory_reclaim_detached"),
        );
    }
    if all.is_empty() {
        all.push("raw frames, or frames that a device keeps".to_owned());
    }
    Ok(format!("still out: {}", all.join("; ")))
}

/// The place of a kind in [`KINDS`].
fn kind(what: What) -> usize {
    match what {
        What::Shared => 1,
        What::Packet => 2,
        What::Object => 3,
        What::Page => 4,
    }
}
