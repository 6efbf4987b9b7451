//! HOT: allocates and frees objects of caches and size classes.

use super::burst::words;
use super::known::look_up;
use super::transfer::pass_on;
use super::types::{netmem_cache, netmem_object, netmem_sizes, netmem_worker};
use super::worker::out;
use crate::errno::ENOMEM;
use crate::failure::{Failure, first_of, short};
use crate::misuse::{Kind, OBJECT, refused};
use crate::objects::{self, Claim, Uses, What};
use crate::opened::Known;
use crate::registry::{CACHES, Source};
use crate::sites::{self, Site};
use crate::table::{End, HOLDER, Tag};
use crate::workers::{Inside, State, go_in};
use netmem::Worker;
use netmem::slab::{RawCache, SizeClasses};
use std::ffi::{c_char, c_int, c_void};
use std::ptr::{self, NonNull};

/// Objects that are allocated or freed in one step.
const RUN: usize = 64;

/// Allocates up to `n` objects from a cache and writes their handles to `objects`. The objects are not
/// cleared.
/// Returns the number allocated. It is less than `n` only if the memory has no more.
///
/// # Safety
/// See the module.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_object_alloc_at(
    worker: netmem_worker,
    cache: netmem_cache,
    objects: *mut netmem_object,
    n: u32,
    site: *const c_char,
) -> c_int {
    const CALL: &str = "netmem_object_alloc";
    // SAFETY: the promise of C; a netmem_object is one word.
    let (site, objects) = unsafe { (Site::new(site), words(objects.cast::<u64>(), n)) };
    let Some(mut inside) = go_in(worker.word) else { return out(worker, CALL, site) };
    let State { caches, worker, tag, uses, held, memory_word, .. } = &mut *inside;
    let (source, objects) = match (look_up(&CACHES, caches, *memory_word, (cache.word, CALL, site)), objects)
    {
        (Ok(Source::Cache(source, _)), Ok(objects)) => (source, objects),
        (Ok(Source::Sizes(_)), _) => return refused(Kind::Closed, CALL, "cache", cache.word, site),
        (Err(errno), _) | (_, Err(errno)) => return errno,
    };
    let mut got = 0;
    for places in objects.chunks_mut(RUN) {
        let came = alloc((source, cache.word), worker, tag, uses, places);
        got += came;
        if came < places.len() {
            break;
        }
    }
    if got < objects.len() {
        short(ENOMEM, format_args!("netmem_object_alloc: the memory has no more"));
    }
    *held += got as u64;
    sites::note_all_given(&objects[..got], cache.word, site);
    got as c_int
}

/// Allocates at most [`RUN`] objects. Returns the number allocated.
#[inline(always)]
fn alloc(
    (cache, of): (&RawCache, u64),
    worker: &mut Worker,
    tag: &mut Tag,
    uses: &mut Uses,
    places: &mut [u64],
) -> usize {
    if !uses.reserve(places.len()) {
        return 0;
    }
    let claim = |at: NonNull<u8>| Claim { at: at.as_ptr().expose_provenance() as u64, of, head: 0 };
    let mut came = [None; RUN];
    let came = &mut came[..places.len()];
    if let [_, _, ..] = places
        && cache.alloc_bulk(worker, came)
    {
        // All have come.
        let of_object = |_, at: &Option<NonNull<u8>>| claim(at.unwrap_or(SizeClasses::ZERO));
        return uses.give_all(tag, What::Object, (came, of_object), places);
    }
    // A single object, or objects that the bulk call did not give.
    let mut got = 0;
    for place in places {
        let Some(at) = cache.alloc(worker) else { break };
        *place = uses.give(tag, What::Object, claim(at)).unwrap_or(0);
        got += 1;
    }
    got
}

/// Allocates `bytes` bytes from size classes and writes the handle to `object`. The bytes are not cleared.
/// 0 bytes give an object with an address of its own, as malloc may do, of at least 1 byte (netmem_object_size).
/// Returns 0, or -ENOMEM if there is no memory or `bytes` is more than 4 MiB.
///
/// # Safety
/// See the module.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_sizes_alloc_at(
    worker: netmem_worker,
    sizes: netmem_sizes,
    bytes: usize,
    object: *mut netmem_object,
    site: *const c_char,
) -> c_int {
    const CALL: &str = "netmem_sizes_alloc";
    // SAFETY: the promise of C.
    let (site, object) = unsafe { (Site::new(site), words(object, 1)) };
    let Some(mut inside) = go_in(worker.word) else { return out(worker, CALL, site) };
    let State { caches, worker, tag, uses, held, memory_word, .. } = &mut *inside;
    let (source, object) = match (look_up(&CACHES, caches, *memory_word, (sizes.word, CALL, site)), object) {
        (Ok(Source::Sizes(source)), Ok(object)) => (source, object),
        (Ok(Source::Cache(..)), _) => return refused(Kind::Closed, CALL, "cache", sizes.word, site),
        (Err(errno), _) | (_, Err(errno)) => return errno,
    };
    // 0 bytes would have no memory, and all objects of 0 bytes one address.
    let at = if uses.reserve(1) { source.alloc(worker, bytes.max(1)) } else { None };
    let claim = at.map(|at| Claim { at: at.as_ptr().expose_provenance() as u64, of: sizes.word, head: 0 });
    let Some(word) = claim.and_then(|claim| uses.give(tag, What::Object, claim)) else {
        let text = format!("{CALL}: there is no memory for {bytes} bytes, or they are more than 4 MiB");
        return Failure::new(ENOMEM, text).record();
    };
    object[0].word = word;
    *held += 1;
    sites::note_all_given(&[object[0].word], sizes.word, site);
    0
}

/// Frees `n` objects, of any caches and size classes. Frees each object whose handle is valid, even if other
/// handles in the array are not.
/// Returns 0, or the negative errno of the first invalid handle.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_object_free_at(
    worker: netmem_worker,
    objects: *const netmem_object,
    n: u32,
    site: *const c_char,
) -> c_int {
    // SAFETY: the promise of C; they are only read, and the word is all that an object is.
    let (site, objects) = unsafe { (Site::new(site), words(objects.cast_mut().cast(), n)) };
    match objects {
        Ok([one]) if !sites::is_on() => free_one(worker, *one, site),
        objects => free((worker, OBJECT_FREE, site), objects, None),
    }
}

const OBJECT_FREE: &str = "netmem_object_free";

/// As [`free`], of one.
#[inline(always)]
fn free_one(worker: netmem_worker, word: u64, site: Site) -> c_int {
    let Some(mut inside) = go_in(worker.word) else { return out(worker, OBJECT_FREE, site) };
    let State { caches, worker, tag, uses, held, memory_word, .. } = &mut *inside;
    match uses.take(tag, What::Object, word, End::Freed) {
        Some(claim) => {
            *held -= 1;
            send(claim.of, &mut [address(claim)], (caches, *memory_word), worker);
            0
        }
        None => refused(why(word), OBJECT_FREE, OBJECT, word, site),
    }
}

/// Frees `n` objects, all of which must belong to `cache`. Works as netmem_object_free, but refuses an object
/// of another cache with -EXDEV; that object stays with the caller.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_cache_free_at(
    worker: netmem_worker,
    cache: netmem_cache,
    objects: *const netmem_object,
    n: u32,
    site: *const c_char,
) -> c_int {
    // SAFETY: the promise of C; they are only read, and the word is all that an object is.
    let (site, objects) = unsafe { (Site::new(site), words(objects.cast_mut().cast(), n)) };
    free((worker, "netmem_cache_free", site), objects, Some(cache.word))
}

#[inline(never)]
fn free(
    (worker, call, site): (netmem_worker, &str, Site),
    words: Result<&mut [u64], c_int>,
    cache: Option<u64>,
) -> c_int {
    let Some(mut inside) = go_in(worker.word) else { return out(worker, call, site) };
    let State { caches, worker, tag, uses, held, memory_word, .. } = &mut *inside;
    let cache = cache
        .map(|cache| match look_up(&CACHES, caches, *memory_word, (cache, call, site))? {
            Source::Cache(..) => Ok(cache),
            Source::Sizes(_) => Err(refused(Kind::Closed, call, "cache", cache, site)),
        })
        .transpose();
    let (cache, mut left) = match (cache, words) {
        (Ok(cache), Ok(words)) => (cache, &*words),
        (Err(errno), _) | (_, Err(errno)) => return errno,
    };
    let (mut first, mut freed) = (0, [NonNull::dangling(); RUN]);
    while let [word, rest @ ..] = left {
        match take(tag, uses, left, cache, &mut freed) {
            Ok((n, of)) => {
                if sites::is_on() {
                    sites::note_ended(left[..n].iter().copied(), site);
                }
                *held -= n as u64;
                send(of, &mut freed[..n], (caches, *memory_word), worker);
                left = &left[n..];
            }
            Err(kind) => {
                first = first_of(first, || refused(kind, call, OBJECT, *word, site));
                left = rest;
            }
        }
    }
    first
}

/// Returns the address of an object.
#[inline(always)]
fn address(claim: Claim) -> NonNull<u8> {
    NonNull::new(ptr::with_exposed_provenance_mut(claim.at as usize)).unwrap_or(SizeClasses::ZERO)
}

/// Ends the uses of objects of one and the same cache, which is `cache` if that is named: from the first word on, up to one
/// that is not good or of another cache, and
/// [`RUN`] at most. Writes their addresses to `freed`; returns how many, at least one, and the word of their cache.
///
/// # Errors
/// What is wrong with the first word.
#[inline(always)]
fn take(
    tag: &mut Tag,
    uses: &mut Uses,
    words: &[u64],
    cache: Option<u64>,
    freed: &mut [NonNull<u8>; RUN],
) -> Result<(usize, u64), Kind> {
    let word = words.first().copied().unwrap_or(0);
    let claim = objects::look(tag, What::Object, word);
    let Claim { of, .. } = claim.ok_or_else(|| why(word))?;
    if cache.is_some_and(|cache| cache != of) {
        return Err(Kind::WrongCache);
    }
    let put = |place: &mut NonNull<u8>, claim| {
        *place = address(claim);
        true
    };
    Ok((uses.take_all(tag, What::Object, (words, End::Freed), of, (freed, put)), of))
}

/// Why an object cannot be freed by this word.
#[cold]
fn why(word: u64) -> Kind {
    Kind::of(objects::why(What::Object, word), true)
}

/// Frees objects to their cache. A cache without debug takes every object; the caches of this library have no
/// debug.
#[inline(always)]
fn send(
    of: u64,
    objects: &mut [NonNull<u8>],
    (caches, memory): (&mut Known<Source>, u64),
    worker: &mut Worker,
) {
    match (CACHES.of_part(caches, memory, of).as_deref(), objects) {
        // SAFETY: the entries had the claims on these objects of this cache, and no longer have them.
        (Some(Source::Cache(cache, _)), [one]) => drop(unsafe { cache.free(worker, *one) }),
        // SAFETY: as above, for each.
        (Some(Source::Cache(cache, _)), many) => drop(unsafe { cache.free_bulk(worker, many) }),
        (Some(Source::Sizes(sizes)), many) => many.iter().for_each(|at| {
            // SAFETY: as above.
            drop(unsafe { sizes.free(worker, *at) });
        }),
        // SAFETY: as above. The cache was closed, but its allocated objects are still valid.
        (None, many) => many.iter().for_each(|at| drop(unsafe { SizeClasses::release(*at) })),
    }
}

/// Frees an object without a worker. Its claim has left its entry.
#[cold]
pub fn release(claim: Claim) {
    // SAFETY: the claim was in an entry, which has lost it. An object has the memory that its cache was opened in.
    drop(unsafe { SizeClasses::release(address(claim)) });
}

/// Reads one object.
#[inline(always)]
fn look(inside: &Inside, object: netmem_object, (call, site): (&str, Site)) -> Result<Claim, c_int> {
    let claim = objects::look(&inside.tag, What::Object, object.word);
    claim.ok_or_else(|| {
        let kind = Kind::of(objects::why(What::Object, object.word), false);
        refused(kind, call, OBJECT, object.word, site)
    })
}

/// Returns the address of the bytes of an object, or NULL if the handle is invalid.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_object_data_at(
    worker: netmem_worker,
    object: netmem_object,
    site: *const c_char,
) -> *mut c_void {
    const CALL: &str = "netmem_object_data";
    // SAFETY: the promise of C.
    let site = unsafe { Site::new(site) };
    let Some(inside) = go_in(worker.word) else {
        out(worker, CALL, site);
        return ptr::null_mut();
    };
    look(&inside, object, (CALL, site)).map_or(ptr::null_mut(), |claim| address(claim).as_ptr().cast())
}

/// Returns the number of usable bytes of an object. For size classes, that is the requested number rounded up
/// to the size class.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_object_size_at(
    worker: netmem_worker,
    object: netmem_object,
    site: *const c_char,
) -> c_int {
    const CALL: &str = "netmem_object_size";
    // SAFETY: the promise of C.
    let site = unsafe { Site::new(site) };
    let Some(mut inside) = go_in(worker.word) else { return out(worker, CALL, site) };
    let claim = match look(&inside, object, (CALL, site)) {
        Ok(claim) => claim,
        Err(errno) => return errno,
    };
    let State { caches, memory_word, .. } = &mut *inside;
    match CACHES.of_part(caches, *memory_word, claim.of).as_deref() {
        Some(Source::Cache(_, size)) => *size as c_int,
        // SAFETY: the entry has the claim on bytes that these size classes gave out. They are not freed
        // during the call.
        Some(Source::Sizes(sizes)) => unsafe { sizes.size_of(address(claim)) as c_int },
        None => refused(Kind::Closed, CALL, "cache", claim.of, site),
    }
}

/// Detaches `n` objects from the worker, so that another worker can attach them. Works as netmem_detach.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_object_detach_at(
    worker: netmem_worker,
    objects: *mut netmem_object,
    n: u32,
    site: *const c_char,
) -> c_int {
    // SAFETY: the promise of C; a netmem_object is one word.
    let (site, objects) = unsafe { (Site::new(site), words(objects.cast::<u64>(), n)) };
    let pass = |tag: &mut Tag, word| {
        objects::detach(tag, What::Object, word).ok_or_else(|| objects::why(What::Object, word))
    };
    pass_on((worker, "netmem_object_detach", OBJECT, site), objects, pass, |inside, n| inside.held -= n)
}

/// Attaches `n` detached objects to the worker. Works as netmem_attach.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_object_attach_at(
    worker: netmem_worker,
    objects: *mut netmem_object,
    n: u32,
    site: *const c_char,
) -> c_int {
    // SAFETY: the promise of C; a netmem_object is one word.
    let (site, objects) = unsafe { (Site::new(site), words(objects.cast::<u64>(), n)) };
    let pass = |tag: &mut Tag, word| {
        objects::attach(tag, What::Object, word).ok_or_else(|| objects::why(What::Object, word))
    };
    pass_on((worker, "netmem_object_attach", OBJECT, site), objects, pass, |inside, n| inside.held += n)
}

/// Ends all uses of objects that the worker holds. Returns the number ended.
#[cold]
pub fn reclaim(inside: &mut Inside) -> usize {
    let State { caches, worker, tag, uses, held, memory_word, .. } = &mut **inside;
    let (mut held_words, holder) = (Vec::new(), tag.holder());
    objects::each_held(|word, _| held_words.extend((word & HOLDER == holder).then_some(word)));
    let mut reclaimed = 0;
    for word in held_words {
        let Some(claim) = uses.take(tag, What::Object, word, End::Reclaimed) else { continue };
        send(claim.of, &mut [address(claim)], (caches, *memory_word), worker);
        reclaimed += 1;
    }
    *held = held.saturating_sub(reclaimed as u64);
    reclaimed
}
