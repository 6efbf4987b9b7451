//! Blocks of pages for sizes that no class holds, and the kind of a pointer that is not an object of a class.

use super::{SizeClasses, class};
use crate::limits::{CHUNK_SIZE, PAGE_SIZE};
use crate::page::{Desc, Memory, Page};
use crate::slab::registry::cache_name;
use crate::sync::Worker;
use crate::sys::region;
use std::num::NonZeroU32;
use std::ptr::NonNull;
use std::sync::atomic::Ordering::Relaxed;

/// Chunks in a page.
const CHUNKS: u32 = (PAGE_SIZE / CHUNK_SIZE) as u32;

/// In a descriptor's `owner`: the first page of a block that a `SizeClasses` gave out. No cache has this number.
const LARGE: u16 = 0x4b4d;
/// The same, in a memory with guard pages: the last page is not part of the allocation, and is inaccessible unless the
/// system refused.
const GUARDED: u16 = 0x4b4e;

/// The kind of a pointer in a memory.
pub(super) enum Found {
    /// [`SizeClasses::ZERO`].
    Zero,
    /// The begin of a large block, whose first page has this number.
    Block(NonZeroU32),
    /// The pointer lies in a page of a cache.
    Object,
    /// None of these: it belongs to another memory, or is not an allocation at all.
    Nothing,
}

/// The number of the page that holds `at`. None if no region lies there.
#[inline(always)]
fn page_at(at: NonNull<u8>) -> Option<NonZeroU32> {
    NonZeroU32::new(region::chunk_at(at.as_ptr())? / CHUNKS)
}

/// The owner of the page that holds `at`. None outside of the memory.
#[inline(always)]
pub(super) fn owner(memory: &Memory, at: NonNull<u8>) -> Option<u16> {
    Some(memory.desc(page_at(at)?)?.owner.load(Relaxed))
}

/// Allocates a block of pages.
#[cold]
pub(super) fn alloc(memory: &Memory, w: &mut Worker, bytes: usize) -> Option<NonNull<u8>> {
    if bytes == 0 {
        return Some(SizeClasses::ZERO);
    }
    let guard = if memory.hardening().guard { PAGE_SIZE } else { 0 };
    let page = memory.alloc(w, class::order(bytes.checked_add(guard)?)?)?;
    if guard > 0 {
        page.guard_last(true);
    }
    page.set_owner(if guard > 0 { GUARDED } else { LARGE });
    let at = NonNull::new(page.address());
    page.into_number();
    at
}

/// The kind of a pointer in this memory. Only its page's descriptor is read.
pub(super) fn find(memory: &Memory, at: NonNull<u8>) -> Found {
    if at == SizeClasses::ZERO {
        return Found::Zero;
    }
    let Some(owner) = owner(memory, at) else { return Found::Nothing };
    match owner {
        LARGE | GUARDED => block(at).map_or(Found::Nothing, Found::Block),
        _ if cache_name(owner).is_some() => Found::Object,
        _ => Found::Nothing,
    }
}

/// The block that begins at `at`, in any memory.
///
/// # Safety
/// `at` is an allocation that is out.
pub(super) unsafe fn block_of(at: NonNull<u8>) -> Option<NonZeroU32> {
    // SAFETY: the caller's promise: an allocation that is out keeps its memory.
    let owner = page_at(at).map(|number| unsafe { Page::owner_of(number) });
    block(at).filter(|_| matches!(owner, Some(LARGE | GUARDED)))
}

/// The page that begins at `at`.
fn block(at: NonNull<u8>) -> Option<NonZeroU32> {
    page_at(at).filter(|number| region::address(number.get() * CHUNKS) == at.as_ptr())
}

/// Takes a block back from its holder, who may have left padding of values in it: its bytes are values again. Returns
/// None, and the block is never used again, if the system does not make its last page accessible.
///
/// # Safety
/// `number` is that of a [`Found::Block`] that is out; its claim moves into the page.
pub(super) unsafe fn claim(number: NonZeroU32) -> Option<Page> {
    // SAFETY: the caller's promise.
    let (mut page, owner) = unsafe { (Page::claim_block(number), Page::owner_of(number)) };
    page.set_owner(0);
    if owner == GUARDED && !page.guard_last(false) {
        page.into_number();
        return None;
    }
    page.initialise();
    Some(page)
}

/// The bytes of an allocation that is not an object of a class.
pub(super) fn size(memory: &Memory, at: NonNull<u8>) -> usize {
    let desc = page_at(at).and_then(|number| memory.desc(number));
    let bytes = |desc: &Desc| match desc.owner.load(Relaxed) {
        LARGE => PAGE_SIZE << desc.order(),
        GUARDED => (PAGE_SIZE << desc.order()) - PAGE_SIZE,
        _ => 0,
    };
    desc.map_or(0, bytes)
}
