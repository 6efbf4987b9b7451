//! HOT: allocates and frees blocks of pages.

use super::burst::words;
use super::transfer::pass_on;
use super::types::{netmem_page, netmem_worker};
use super::worker::out;
use crate::errno::ENOMEM;
use crate::failure::{Failure, first_of, short};
use crate::misuse::{Kind, PAGE, refused};
use crate::objects::{self, Claim, What};
use crate::sites::{self, Site};
use crate::table::{End, HOLDER, Tag};
use crate::workers::{Inside, State, go_in};
use netmem::limits::ORDER_MAX;
use netmem::page::Page;
use std::ffi::{c_char, c_int, c_void};
use std::iter;
use std::mem::ManuallyDrop;
use std::num::NonZeroU32;
use std::ptr;

/// Blocks that are allocated or freed in one step.
const RUN: usize = 64;

/// Allocates up to `n` blocks of 2^`order` pages of 4096 bytes, `order` 0 to 10, and writes their handles to
/// `pages`. The blocks are not cleared.
/// Returns the number allocated, or -EINVAL if `order` is more than 10. The number is less than `n` only if the
/// memory has no more.
///
/// # Safety
/// See the module.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_page_alloc_at(
    worker: netmem_worker,
    order: u32,
    pages: *mut netmem_page,
    n: u32,
    site: *const c_char,
) -> c_int {
    const CALL: &str = "netmem_page_alloc";
    // SAFETY: the promise of C.
    let (site, pages) = unsafe { (Site::new(site), words(pages, n)) };
    let Some(mut inside) = go_in(worker.word) else { return out(worker, CALL, site) };
    let pages = match pages {
        Ok(pages) => pages,
        Err(errno) => return errno,
    };
    if order > u32::from(ORDER_MAX) {
        return bad_order(order);
    }
    let order = order as u8;
    let mut got = 0;
    for places in pages.chunks_mut(RUN) {
        let came = alloc(&mut inside, order, places);
        got += came;
        if came < places.len() {
            break;
        }
    }
    if got < pages.len() {
        short(ENOMEM, format_args!("netmem_page_alloc: the memory has no more blocks of this order"));
    }
    inside.held += got as u64;
    if sites::is_on() {
        sites::note_given(pages[..got].iter().map(|page| page.word), inside.memory_word, site);
    }
    got as c_int
}

#[cold]
#[inline(never)]
fn bad_order(order: u32) -> c_int {
    Failure::invalid(format!("netmem_page_alloc: order {order}: give 0 to {ORDER_MAX}")).record()
}

/// Allocates at most [`RUN`] blocks. Returns the number allocated.
#[inline(always)]
fn alloc(inside: &mut Inside, order: u8, places: &mut [netmem_page]) -> usize {
    let State { memory, worker, tag, uses, memory_word, .. } = &mut **inside;
    if !uses.reserve(places.len()) {
        return 0;
    }
    let mut came = [const { None }; RUN];
    if let (0, [_, _, ..]) = (order, &*places) {
        memory.alloc_bulk(worker, &mut came[..places.len()]);
    } else {
        came.iter_mut().zip(&*places).for_each(|(to, _)| *to = memory.alloc(worker, order));
    }
    let mut got = 0;
    for (page, place) in came.into_iter().flatten().zip(places) {
        let claim = Claim { at: page.into_raw().get().into(), of: *memory_word, head: 0 };
        place.word = uses.give(tag, What::Page, claim).unwrap_or(0);
        got += 1;
    }
    got
}

/// Frees `n` blocks of pages, of any orders. Frees each block whose handle is valid, even if other handles in
/// the array are not.
/// Returns 0, or the negative errno of the first invalid handle.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_page_free_at(
    worker: netmem_worker,
    pages: *const netmem_page,
    n: u32,
    site: *const c_char,
) -> c_int {
    const CALL: &str = "netmem_page_free";
    // SAFETY: the promise of C; they are only read.
    let (site, pages) = unsafe { (Site::new(site), words(pages.cast_mut(), n)) };
    let Some(mut inside) = go_in(worker.word) else { return out(worker, CALL, site) };
    let pages = match pages {
        Ok(pages) => pages,
        Err(errno) => return errno,
    };
    let State { memory, worker, tag, uses, held, .. } = &mut *inside;
    let mut first = 0;
    for run in pages.chunks(RUN) {
        let (mut freed, mut n) = ([const { None }; RUN], 0);
        for &netmem_page { word } in run {
            let Some(claim) = uses.take(tag, What::Page, word, End::Freed) else {
                let kind = Kind::of(objects::why(What::Page, word), true);
                first = first_of(first, || refused(kind, CALL, PAGE, word, site));
                continue;
            };
            if sites::is_on() {
                sites::note_ended(iter::once(word), site);
            }
            freed[n] = page(claim);
            n += 1;
        }
        *held -= n as u64;
        match &mut freed[..n] {
            [one] => one.take().into_iter().for_each(|page| memory.free(worker, page)),
            many => memory.free_bulk(worker, many),
        }
    }
    first
}

/// Returns the page of a claim. The claim has just left its entry, or the caller does not drop the page.
#[inline(always)]
pub fn page(claim: Claim) -> Option<Page> {
    let raw = NonZeroU32::new(claim.at as u32)?;
    // SAFETY: the number came from an allocated page, and the caller has the only claim on it, as stated
    // above.
    Some(unsafe { Page::from_raw(raw) })
}

/// Reads one block.
#[inline(always)]
fn look<R>(
    (worker, at, call, site): (netmem_worker, netmem_page, &str, Site),
    look: impl FnOnce(&Page) -> R,
) -> Result<R, c_int> {
    let Some(inside) = go_in(worker.word) else { return Err(out(worker, call, site)) };
    match objects::look(&inside.tag, What::Page, at.word).and_then(page).map(ManuallyDrop::new) {
        Some(page) => Ok(look(&page)),
        None => Err(refused(Kind::of(objects::why(What::Page, at.word), false), call, PAGE, at.word, site)),
    }
}

/// Returns the address of the bytes of a block, or NULL if the handle is invalid.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_page_data_at(
    worker: netmem_worker,
    page: netmem_page,
    site: *const c_char,
) -> *mut c_void {
    // SAFETY: the promise of C.
    let site = unsafe { Site::new(site) };
    let data = look((worker, page, "netmem_page_data", site), |page| page.bytes().as_ptr());
    data.map_or(ptr::null_mut(), |data| data.cast_mut().cast())
}

/// Returns the number of bytes of a block: 4096 << order.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_page_size_at(
    worker: netmem_worker,
    page: netmem_page,
    site: *const c_char,
) -> c_int {
    // SAFETY: the promise of C.
    let site = unsafe { Site::new(site) };
    let size = look((worker, page, "netmem_page_size", site), |page| page.bytes().len() as c_int);
    size.unwrap_or_else(|errno| errno)
}

/// Detaches `n` blocks from the worker, so that another worker can attach them. Works as netmem_detach.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_page_detach_at(
    worker: netmem_worker,
    pages: *mut netmem_page,
    n: u32,
    site: *const c_char,
) -> c_int {
    // SAFETY: the promise of C; a netmem_page is one word.
    let (site, pages) = unsafe { (Site::new(site), words(pages.cast::<u64>(), n)) };
    let pass = |tag: &mut Tag, word| {
        objects::detach(tag, What::Page, word).ok_or_else(|| objects::why(What::Page, word))
    };
    pass_on((worker, "netmem_page_detach", PAGE, site), pages, pass, |inside, n| inside.held -= n)
}

/// Attaches `n` detached blocks to the worker. Works as netmem_attach.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_page_attach_at(
    worker: netmem_worker,
    pages: *mut netmem_page,
    n: u32,
    site: *const c_char,
) -> c_int {
    // SAFETY: the promise of C; a netmem_page is one word.
    let (site, pages) = unsafe { (Site::new(site), words(pages.cast::<u64>(), n)) };
    let pass = |tag: &mut Tag, word| {
        objects::attach(tag, What::Page, word).ok_or_else(|| objects::why(What::Page, word))
    };
    pass_on((worker, "netmem_page_attach", PAGE, site), pages, pass, |inside, n| inside.held += n)
}

/// Ends all uses of pages that the worker holds. Returns the number ended.
#[cold]
pub fn reclaim(inside: &mut Inside) -> usize {
    let State { memory, worker, tag, uses, held, .. } = &mut **inside;
    let (mut words, holder) = (Vec::new(), tag.holder());
    objects::each_held(|word, _| words.extend((word & HOLDER == holder).then_some(word)));
    let claims = words.into_iter().filter_map(|word| uses.take(tag, What::Page, word, End::Reclaimed));
    let mut reclaimed = 0;
    for page in claims.filter_map(page) {
        memory.free(worker, page);
        reclaimed += 1;
    }
    *held = held.saturating_sub(reclaimed as u64);
    reclaimed
}
