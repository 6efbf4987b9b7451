//! Checks whether a freed pointer is an object of the cache at all.

use super::Damage;
use super::layout::Layout;
use crate::limits::{CHUNK_SIZE, ORDER_MAX, PAGE_SIZE};
use crate::page::Memory;
use crate::sys::region;
use std::num::NonZeroU32;
use std::ptr::NonNull;
use std::sync::atomic::Ordering::Relaxed;

/// The facts of a cache that are needed to check a pointer.
#[derive(Debug)]
pub(in crate::slab) struct Locator<'a> {
    pub(in crate::slab) memory: &'a Memory,
    /// The cache's number. It is in the descriptors of all its slabs' pages.
    pub(in crate::slab) number: u16,
    /// Returns the name of the cache with a number, if there is one.
    pub(in crate::slab) name_of: fn(u16) -> Option<String>,
    /// The layout of objects in its slabs, and the bytes at a slab's end that have none.
    pub(in crate::slab) layout: Layout,
}

impl Locator<'_> {
    /// Finds the pointer among the cache's objects. It reads descriptors only, and nothing at the pointer.
    pub(in crate::slab) fn locate(&self, pointer: NonNull<u8>) -> Result<(), Damage> {
        let layout = &self.layout;
        let page = self.page(pointer).ok_or(Damage::OutsideSlabs)?;
        // Relaxed: for an object that is out, the number was written before the object went out; otherwise any answer
        // will do.
        match self.memory.table().desc(page).owner.load(Relaxed) {
            0 => return Err(Damage::OutsideSlabs),
            owner if owner != self.number => {
                return Err(Damage::WrongCache {
                    of: (self.name_of)(owner).unwrap_or_else(|| format!("number {owner}")),
                });
            }
            _ => {}
        }
        let (first, bytes) = self.slab(page).ok_or(Damage::OutsideSlabs)?;
        let begin = self.memory.region().base().addr() + first as usize * PAGE_SIZE;
        let distance = pointer.addr().get() - begin;
        let place = (distance / layout.stride).min(layout.objects(bytes).saturating_sub(1));
        let object = begin + place * layout.stride + layout.offset;
        match pointer.addr().get() {
            at if at == object => Ok(()),
            at => Err(Damage::NotAtBegin { object, offset: at as isize - object as isize }),
        }
    }

    /// The index of the page that contains the pointer. None outside of the memory.
    fn page(&self, pointer: NonNull<u8>) -> Option<u32> {
        let chunk = region::chunk_at(pointer.as_ptr())?;
        self.memory.index(NonZeroU32::new(chunk / (PAGE_SIZE / CHUNK_SIZE) as u32)?)
    }

    /// The first page of the slab that contains a page, and the slab's bytes. Only a block's first page is "out".
    fn slab(&self, page: u32) -> Option<(u32, usize)> {
        (0..=ORDER_MAX).find_map(|order| {
            let first = page & !((1 << order) - 1);
            let desc = self.memory.table().desc(first);
            (desc.is_out() && desc.order() >= order).then(|| (first, PAGE_SIZE << desc.order()))
        })
    }
}
