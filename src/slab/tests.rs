//! The slab stage against a model, and what happens at its edges.
#![allow(unsafe_code)]
#![cfg(not(loom))]

mod aba;
mod callers;
mod counts;
mod demand;
mod edges;
mod model;
mod tuning;

use super::{Cache, CacheConfig, Layer, WordForm};
use crate::page::{Memory, MemoryConfig};
use crate::sys::region::BackingPreference;

/// An object of 256 bytes.
type Big = [u64; 32];

/// All layers with all forms of the word.
const KINDS: [(Layer, WordForm); 10] = [
    (Layer::Sheaf, WordForm::Packed),
    (Layer::Sheaf, WordForm::Wide),
    (Layer::Sheaf, WordForm::Lock),
    (Layer::Sheaf, WordForm::LockInterrupts),
    (Layer::Sheaf, WordForm::LockInterruptsCold),
    (Layer::CpuSlab, WordForm::Packed),
    (Layer::CpuSlab, WordForm::Wide),
    (Layer::CpuSlab, WordForm::Lock),
    (Layer::CpuSlab, WordForm::LockInterrupts),
    (Layer::CpuSlab, WordForm::LockInterruptsCold),
];

/// A memory of 512 pages.
fn memory(workers: usize) -> Memory {
    let config = MemoryConfig {
        bytes: 2 << 20,
        workers,
        backing: BackingPreference::Small,
        ..MemoryConfig::default()
    };
    Memory::new(&config).unwrap()
}

/// A configuration that is never merged.
fn config(layer: Layer, word: WordForm) -> CacheConfig {
    CacheConfig { layer, word, merge: false, min_partial: Some(2), ..CacheConfig::default() }
}

fn cache<T: Send>(memory: &Memory) -> Cache<T> {
    Cache::new(memory, &config(Layer::Sheaf, WordForm::Packed)).unwrap()
}
