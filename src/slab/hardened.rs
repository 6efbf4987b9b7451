//! Objects of a cache whose memory is hardened: a secret word behind each object, and zeros while the object is free.
//!
//! ```text
//!   ◄──────────────── stride ────────────────►
//!  ┌──────────────────────┬────────┬──────────┐
//!  │ object               │ canary │ … link 8 │ next object …
//!  └──────────────────────┴────────┴──────────┘
//! ```
//! - **canary**: 8 bytes from the first byte behind the object on, for any size. While the object is out, they hold a
//!   number that follows from the object's address by a key of the cache (`page::Random`). While the object is free,
//!   they hold its complement. So a write behind the end is found when the object is freed, and a second free finds the
//!   object free. One canary tells nothing of another.
//! - **zeros**: a freed object is cleared, after its value's Drop. If a byte is not 0 when the object is given out
//!   next, the byte was written in between. An object of a [`ConstructedCache`](super::ConstructedCache) keeps its
//!   value and is not checked.
//! - **link**: the freelist word lies behind both, so that an object that goes out shows none of it.
//!
//! The words are not atomics: only code that has the claim on an object, or takes or puts it, accesses them. If two
//! threads free an object at the same time, both may find it out.
//!
//! The code is unsafe because it reads and writes free objects and the bytes behind them. The layout of their slab
//! makes these pointers valid.

use super::debug::{Damage, Layout, Locator, Misuse, Site};
use crate::page::{Hardening, OnMisuse, Random};
use crate::sync::shim::{Mutex, lock};
use std::ptr::NonNull;

/// Bytes of a canary.
const CANARY: usize = 8;
/// Maximum number of overwritten bytes that a report shows.
const SHOWN: usize = 32;
/// Maximum number of misuses that are kept for [`HardenedObjects::found`].
const FOUND_MAX: usize = 64;

/// The hardening of the objects of one cache.
#[derive(Debug)]
pub(super) struct HardenedObjects {
    name: String,
    size: usize,
    layout: Layout,
    /// The source of canaries. None if there are no canaries.
    canaries: Option<Random>,
    clears: bool,
    on_misuse: OnMisuse,
    found: Mutex<Vec<Misuse>>,
}

/// Whether an object is with a holder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Free,
    Out,
}

impl HardenedObjects {
    /// Makes the hardening, or returns None if there is nothing to do. If free objects keep their contents
    /// (`constructed`), they are not cleared.
    pub(super) fn new(
        name: &str,
        (chosen, random): (Hardening, Option<&Random>),
        (size, align): (usize, usize),
        constructed: bool,
    ) -> Option<HardenedObjects> {
        let size = size.max(1);
        let canaries = random.filter(|_| chosen.canary).map(Random::derive);
        let beside = if canaries.is_some() { CANARY } else { 0 };
        chosen.checks_objects().then(|| HardenedObjects {
            name: name.into(),
            size,
            layout: Layout::with_room(size, align, beside),
            canaries,
            clears: chosen.clear && !constructed,
            on_misuse: chosen.on_misuse,
            found: Mutex::new(Vec::new()),
        })
    }

    /// The layout of objects and of their freelist words. A slab of them may end with a guard page, which this does not
    /// include.
    pub(super) fn layout(&self) -> Layout {
        self.layout
    }

    /// # Safety
    /// As [`Checker::init`](super::check::Checker::init).
    pub(super) unsafe fn init(&self, object: NonNull<u8>) {
        // SAFETY: the caller's promise.
        unsafe { self.bury(object) }
    }

    /// Damage ends the process, or is kept for [`HardenedObjects::found`] and repaired.
    ///
    /// # Safety
    /// As [`Checker::on_alloc`](super::check::Checker::on_alloc).
    pub(super) unsafe fn on_alloc(&self, object: NonNull<u8>, site: Site) {
        // SAFETY: the caller's promise.
        unsafe {
            let behind = self.damage_behind(object, State::Free);
            if let Some(damage) = behind.or_else(|| self.written_after_free(object)) {
                self.keep(self.misuse(object, damage, site));
                self.clear(object);
            }
            self.set(object, State::Out);
        }
    }

    /// # Errors
    /// The first misuse, if the memory's hardening reports. Otherwise the process has ended.
    ///
    /// # Safety
    /// As [`Checker::check_free`](super::check::Checker::check_free); with canaries pointers are checked.
    pub(super) unsafe fn check_free(
        &self,
        locator: &Locator<'_>,
        objects: &[NonNull<u8>],
        site: Site,
    ) -> Result<(), Misuse> {
        for (place, &object) in objects.iter().enumerate() {
            // SAFETY: the caller's promise.
            let Err(mut damage) = (unsafe { self.take_back(locator, object) }) else { continue };
            let twice = objects[..place].iter().position(|&before| before == object);
            if let (Some(before), Damage::DoubleFree) = (twice, &damage) {
                damage = Damage::TwiceInBulk { places: [before, place] };
            }
            let misuse = self.misuse(object, damage, site);
            if self.on_misuse == OnMisuse::Abort {
                misuse.abort();
            }
            // SAFETY: these were found to be objects that are out, and are out again.
            objects[..place].iter().for_each(|&object| unsafe { self.set(object, State::Out) });
            return Err(misuse);
        }
        // SAFETY: the claims on them have ended.
        objects.iter().for_each(|&object| unsafe { self.clear(object) });
        Ok(())
    }

    /// Handles the free of an object that is out according to its type. Damage ends the process, or is kept for
    /// [`HardenedObjects::found`] and repaired.
    ///
    /// # Safety
    /// As [`Checker::on_free`](super::check::Checker::on_free).
    pub(super) unsafe fn on_free(&self, object: NonNull<u8>, site: Site) {
        // SAFETY: the caller's promise.
        unsafe {
            if let Some(damage) = self.damage_behind(object, State::Out) {
                self.keep(self.misuse(object, damage, site));
            }
            self.bury(object);
        }
    }

    /// The misuses that were found and repaired since the cache was made: the last 64, oldest first.
    pub(super) fn found(&self) -> Vec<Misuse> {
        lock(&self.found).clone()
    }

    /// Checks one pointer and marks its object as free. A damaged object is unchanged.
    ///
    /// # Safety
    /// As [`HardenedObjects::check_free`].
    unsafe fn take_back(&self, locator: &Locator<'_>, object: NonNull<u8>) -> Result<(), Damage> {
        if self.canaries.is_none() {
            return Ok(());
        }
        locator.locate(object)?;
        // SAFETY: found just now.
        unsafe {
            match self.damage_behind(object, State::Out) {
                None => {
                    self.set(object, State::Free);
                    Ok(())
                }
                Some(damage) => Err(damage),
            }
        }
    }

    /// # Safety
    /// `object` belongs to the cache, and to the caller alone.
    unsafe fn bury(&self, object: NonNull<u8>) {
        // SAFETY: the caller's promise.
        unsafe {
            self.set(object, State::Free);
            self.clear(object);
        }
    }

    /// # Safety
    /// As [`HardenedObjects::bury`].
    unsafe fn clear(&self, object: NonNull<u8>) {
        if self.clears {
            // SAFETY: the caller's promise: these bytes belong to the object.
            unsafe { object.write_bytes(0, self.size) }
        }
    }

    /// The canary of an object in a state. None if there are no canaries.
    fn canary(&self, object: NonNull<u8>, state: State) -> Option<u64> {
        let canary = self.canaries.as_ref()?.of(object.addr().get() as u64);
        Some(if state == State::Out { canary } else { !canary })
    }

    /// # Safety
    /// As [`HardenedObjects::bury`].
    unsafe fn set(&self, object: NonNull<u8>, state: State) {
        if let Some(canary) = self.canary(object, state) {
            // SAFETY: the layout keeps 8 bytes for it behind the object; they need not be aligned.
            unsafe { object.byte_add(self.size).cast::<u64>().write_unaligned(canary) }
        }
    }

    /// The damage that the canary of an object shows, if the object should be in this state.
    ///
    /// # Safety
    /// `object` belongs to the cache and was prepared by [`HardenedObjects::init`].
    unsafe fn damage_behind(&self, object: NonNull<u8>, state: State) -> Option<Damage> {
        let canary = self.canary(object, state)?;
        // SAFETY: as in `set`, which wrote them.
        let found = unsafe { object.byte_add(self.size).cast::<u64>().read_unaligned() };
        if found == canary {
            return None;
        }
        if state == State::Out && found == !canary {
            return Some(Damage::DoubleFree);
        }
        let (found, canary) = (found.to_ne_bytes(), canary.to_ne_bytes());
        let differs = |at: &usize| found[*at] != canary[*at];
        let (first, last) = ((0..CANARY).find(differs)?, (0..CANARY).rfind(differs)?);
        Some(Damage::RightRedZone {
            offset: (self.size + first) as isize,
            bytes: found[first..=last].to_vec(),
        })
    }

    /// The damage from a write to an object since it was cleared.
    ///
    /// # Safety
    /// `object` belongs to the cache, and is free.
    unsafe fn written_after_free(&self, object: NonNull<u8>) -> Option<Damage> {
        if !self.clears {
            return None;
        }
        // SAFETY: the caller's promise: these bytes belong to the object, were written when it was cleared, and no
        // holder has them.
        let bytes = unsafe { std::slice::from_raw_parts(object.as_ptr(), self.size) };
        // There is no branch for each byte, so that the compiler checks many at once.
        if bytes.iter().fold(0, |all, &byte| all | byte) == 0 {
            return None;
        }
        let first = bytes.iter().position(|&byte| byte != 0)?;
        let shown = &bytes[first..bytes.len().min(first + SHOWN)];
        let last = shown.iter().rposition(|&byte| byte != 0)?;
        Some(Damage::WrittenAfterFree { offset: first as isize, bytes: shown[..=last].to_vec() })
    }

    #[cold]
    fn misuse(&self, object: NonNull<u8>, damage: Damage, site: Site) -> Misuse {
        let size = match damage {
            Damage::OutsideSlabs | Damage::WrongCache { .. } | Damage::NotAtBegin { .. } => 0,
            _ => self.size,
        };
        Misuse::hardened(&self.name, (object, size), damage, site)
    }

    /// Keeps damage that no call can return as an error.
    #[cold]
    fn keep(&self, misuse: Misuse) {
        if self.on_misuse == OnMisuse::Abort {
            misuse.abort();
        }
        let mut found = lock(&self.found);
        if found.len() == FOUND_MAX {
            found.remove(0);
        }
        found.push(misuse);
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
