//! A model of a device's mappings: each takes the core a fixed time, and so does each line that is synchronized if
//! the device does not see the caches.

use std::io;
use std::ptr::NonNull;
use std::sync::Arc;

use netmem::limits::CACHE_LINE;
use netmem::pool::{DmaMap, DmaMapper};

use crate::method::clock::{Clock, Tsc};

/// An IOMMU whose device uses the process's addresses.
#[derive(Debug)]
pub(super) struct Iommu {
    clock: Tsc,
    map_ticks: u64,
    line_ticks: u64,
}

impl Iommu {
    /// Returns an IOMMU that takes `map_ns` for each map and unmap, and `line_ns` for each line that is synchronized,
    /// in either direction.
    pub(super) fn map(clock: Tsc, map_ns: u32, line_ns: u32) -> DmaMap {
        let [map_ticks, line_ticks] =
            [map_ns, line_ns].map(|ns| (f64::from(ns) * clock.ticks_per_ns()) as u64);
        DmaMap::Mapper(Arc::new(Iommu { clock, map_ticks, line_ticks }))
    }

    fn spend(&self, ticks: u64) {
        if ticks > 0 {
            self.clock.wait(ticks);
        }
    }
}

impl DmaMapper for Iommu {
    fn map(&self, first: NonNull<u8>, _: usize) -> io::Result<u64> {
        self.spend(self.map_ticks);
        Ok(first.as_ptr().addr() as u64)
    }

    fn unmap(&self, _: u64, _: usize) {
        self.spend(self.map_ticks);
    }

    fn sync_for_device(&self, _: u64, bytes: usize) {
        self.spend(self.line_ticks * bytes.div_ceil(CACHE_LINE) as u64);
    }

    fn sync_for_cpu(&self, at: u64, bytes: usize) {
        self.sync_for_device(at, bytes);
    }
}
