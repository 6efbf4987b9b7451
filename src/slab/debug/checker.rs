//! The checks of an object when it is given out and when it is freed.

use super::layout::{Layout, Plan};
use super::locate::Locator;
use super::mark::{Mark, State};
use super::misuse::{Damage, Misuse, Report};
use super::slot::Slot;
use super::track::{Site, Track};
use super::{DebugOptions, OnMisuse};
use crate::sync::shim::{Mutex, lock};
use std::ptr::NonNull;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::fence;

/// The fill bytes of a free object, of a fresh object, and of the red zones in both states. They are the values of the
/// kernel (`include/linux/poison.h`), so that readers recognise them.
const POISON_FREE: u8 = 0x6b;
const POISON_INUSE: u8 = 0x5a;
const RED_INACTIVE: u8 = 0xbb;
const RED_ACTIVE: u8 = 0xcc;

/// Maximum number of misuses that are kept for [`Checker::found`].
const FOUND_MAX: usize = 64;

/// The debug of one cache.
#[derive(Debug)]
pub(in crate::slab) struct Checker {
    name: String,
    options: DebugOptions,
    plan: Plan,
    found: Mutex<Vec<Misuse>>,
}

impl Checker {
    /// Makes a checker, or returns None if nothing is chosen. If free objects keep their contents (`constructed`),
    /// poison is left out.
    pub(in crate::slab) fn new(
        name: &str,
        options: DebugOptions,
        size: usize,
        align: usize,
        constructed: bool,
    ) -> Option<Checker> {
        let poison = options.poison && !constructed;
        let plan = Plan::new(&options, size, align);
        let checker = || Checker {
            name: name.into(),
            options: DebugOptions { poison, ..options },
            plan,
            found: Mutex::new(Vec::new()),
        };
        options.any().then(checker)
    }

    /// The chosen options.
    pub(in crate::slab) fn options(&self) -> DebugOptions {
        self.options
    }

    /// The layout of objects and of their freelist words. A slab of them may end with a guard page, which this does not
    /// include.
    pub(in crate::slab) fn layout(&self) -> Layout {
        self.plan.layout
    }

    /// Prepares an object of a new slab, before it is on any list.
    ///
    /// # Safety
    /// `object` belongs to a slab with the layout of [`Checker::layout`], and to the caller alone.
    pub(in crate::slab) unsafe fn init(&self, object: NonNull<u8>) {
        // SAFETY: the caller's promise.
        let slot = unsafe { Slot::at(object, &self.plan) };
        slot.forget();
        self.clean(&slot);
        slot.mark().store(Mark::new(object, State::Free).0, Relaxed);
    }

    /// Handles an object that is given out to a holder. It looks for writes to the object while it was free, and fills
    /// it as fresh. Damage ends the process, or is kept for [`Checker::found`] and repaired.
    ///
    /// # Safety
    /// `object` belongs to the cache, was prepared by [`Checker::init`], and was just taken off a list.
    pub(in crate::slab) unsafe fn on_alloc(&self, object: NonNull<u8>, site: Site) {
        // SAFETY: the caller's promise.
        let slot = unsafe { Slot::at(object, &self.plan) };
        let now = Track::here(site);
        let mark = Mark(slot.mark().load(Relaxed));
        let damage = match mark.state(object) {
            Some(State::Free) => self.damage_of(&slot, State::Free),
            _ => Some(Damage::Mark),
        };
        if let Some(damage) = damage {
            let freed = slot.freed();
            self.keep(self.report(&slot, damage, Some(now), freed));
        }
        self.set(&slot, State::Moving);
        // Release: pairs with the fence in `check`, which then sees that the mark moved.
        fence(Release);
        if self.options.poison {
            slot.fill(self.plan.object(), POISON_INUSE);
        }
        self.fill_red_zones(&slot, RED_ACTIVE);
        slot.note_alloc(now);
        self.set(&slot, State::Out);
    }

    /// Handles pointers that are freed. Checks all of them; then marks all free and poisons them, or changes nothing.
    ///
    /// # Errors
    /// The first misuse, if the cache reports. Otherwise the process has ended.
    ///
    /// # Safety
    /// Without [`DebugOptions::sanity`] every pointer is an object of the cache. The claims on the objects end with
    /// this call, unless it fails.
    pub(in crate::slab) unsafe fn check_free(
        &self,
        locator: &Locator<'_>,
        objects: &[NonNull<u8>],
        site: Site,
    ) -> Result<(), Misuse> {
        let now = Track::here(site);
        for (place, &object) in objects.iter().enumerate() {
            // SAFETY: the caller's promise, or `locate` in there.
            let Err(mut misuse) = (unsafe { self.take_back(locator, object, now) }) else { continue };
            let twice = objects[..place].iter().position(|&before| before == object);
            if let (Some(before), Damage::DoubleFree) = (twice, misuse.damage()) {
                // SAFETY: it was found to be an object when it came the first time.
                let slot = unsafe { Slot::at(object, &self.plan) };
                misuse = self.report(&slot, Damage::TwiceInBulk { places: [before, place] }, Some(now), None);
            }
            for &object in &objects[..place] {
                // SAFETY: these were taken back above, and no other thread moves an object that is `Moving`.
                self.set(&unsafe { Slot::at(object, &self.plan) }, State::Out);
            }
            match self.options.on_misuse {
                OnMisuse::Abort => misuse.abort(),
                OnMisuse::Report => return Err(misuse),
            }
        }
        for &object in objects {
            // SAFETY: taken back above.
            self.bury(&unsafe { Slot::at(object, &self.plan) }, now);
        }
        Ok(())
    }

    /// Checks one pointer and marks its object as moving. A damaged object stays out.
    ///
    /// # Safety
    /// As [`Checker::check_free`].
    unsafe fn take_back(&self, locator: &Locator<'_>, object: NonNull<u8>, now: Track) -> Result<(), Misuse> {
        if self.options.sanity
            && let Err(damage) = locator.locate(object)
        {
            return Err(self.stray(object, damage, now));
        }
        // SAFETY: found just now, or promised.
        let slot = unsafe { Slot::at(object, &self.plan) };
        if !self.leave(&slot, State::Out) && self.options.sanity {
            let state = Mark(slot.mark().load(Acquire)).state(object);
            let damage = if state.is_some() { Damage::DoubleFree } else { Damage::Mark };
            return Err(self.report(&slot, damage, Some(now), slot.freed()));
        }
        match self.damage_of(&slot, State::Out) {
            None => Ok(()),
            Some(damage) => {
                self.set(&slot, State::Out);
                Err(self.report(&slot, damage, Some(now), None))
            }
        }
    }

    /// Handles the free of an object that is out according to its type. It never refuses the object. Damage ends the
    /// process, or is kept for [`Checker::found`] and repaired.
    ///
    /// # Safety
    /// `object` belongs to the cache and is out, and its claim ends with this call.
    pub(in crate::slab) unsafe fn on_free(&self, object: NonNull<u8>, site: Site) {
        // SAFETY: the caller's promise.
        let slot = unsafe { Slot::at(object, &self.plan) };
        let now = Track::here(site);
        let damage = if self.leave(&slot, State::Out) {
            self.damage_of(&slot, State::Out)
        } else {
            Some(Damage::Mark)
        };
        if let Some(damage) = damage {
            self.keep(self.report(&slot, damage, Some(now), None));
        }
        self.bury(&slot, now);
    }

    /// Checks an object in any state, and changes nothing. It skips an object that another thread moves at the same
    /// time.
    ///
    /// # Errors
    /// The damage that was found, also if the cache aborts: the caller may have more to report before it does.
    ///
    /// # Safety
    /// `object` belongs to the cache, was prepared by [`Checker::init`], and its slab is not given back during this
    /// call.
    pub(in crate::slab) unsafe fn check(&self, object: NonNull<u8>) -> Result<(), Misuse> {
        // SAFETY: the caller's promise.
        let slot = unsafe { Slot::at(object, &self.plan) };
        // Acquire: pairs with the Release of the thread that set the mark, so that the zones are as the mark says.
        let mark = Mark(slot.mark().load(Acquire));
        let (damage, freed) = match mark.state(object) {
            Some(State::Moving) => return Ok(()),
            Some(State::Out) => (self.damage_of(&slot, State::Out), None),
            Some(State::Free) => (self.damage_of(&slot, State::Free), slot.freed()),
            None => (Some(Damage::Mark), None),
        };
        // Acquire: pairs with the fences behind "moving": a thread that saw a byte of the mover's sees its mark.
        fence(Acquire);
        match damage {
            Some(damage) if slot.mark().load(Relaxed) == mark.0 => {
                Err(self.report(&slot, damage, None, freed))
            }
            _ => Ok(()),
        }
    }

    /// The misuses that were found and repaired since the cache was made: the last 64, oldest first.
    pub(in crate::slab) fn found(&self) -> Vec<Misuse> {
        lock(&self.found).clone()
    }

    /// The allocation site of an object that is out.
    ///
    /// # Safety
    /// As [`Checker::check`].
    pub(in crate::slab) unsafe fn allocated(&self, object: NonNull<u8>) -> Option<Track> {
        // SAFETY: the caller's promise.
        unsafe { Slot::at(object, &self.plan) }.allocated()
    }

    /// Changes the mark from a state to "moving". Returns false if the mark says something else. Of two threads one
    /// succeeds.
    fn leave(&self, slot: &Slot<'_>, from: State) -> bool {
        let change = |mark| {
            let mark = Mark(mark);
            (mark.state(slot.object()) == Some(from)).then(|| mark.then(slot.object(), State::Moving).0)
        };
        // AcqRel: the thread that changed the mark last had finished with the object; `check` reads with Acquire.
        let left = slot.mark().fetch_update(AcqRel, Acquire, change).is_ok();
        // Release: pairs with the fence in `check`, which then sees that the mark moved.
        fence(Release);
        left
    }

    /// Sets the mark of an object that belongs to the caller.
    fn set(&self, slot: &Slot<'_>, state: State) {
        let mark = Mark(slot.mark().load(Relaxed));
        // Release: pairs with the Acquire in `leave` and `check`.
        slot.mark().store(mark.then(slot.object(), state).0, Release);
    }

    /// Makes a freed object a free one.
    fn bury(&self, slot: &Slot<'_>, now: Track) {
        slot.note_free(now);
        self.clean(slot);
        self.set(slot, State::Free);
    }

    /// Fills object and red zones as those of a free object.
    fn clean(&self, slot: &Slot<'_>) {
        if self.options.poison {
            slot.fill(self.plan.object(), POISON_FREE);
        }
        self.fill_red_zones(slot, RED_INACTIVE);
    }

    fn fill_red_zones(&self, slot: &Slot<'_>, byte: u8) {
        for zone in self.plan.red_zones().into_iter().flatten() {
            slot.fill(zone, byte);
        }
    }

    /// The damage of an object that is free, or out.
    fn damage_of(&self, slot: &Slot<'_>, state: State) -> Option<Damage> {
        let zone = if state == State::Free { RED_INACTIVE } else { RED_ACTIVE };
        let mut zones = self.plan.red_zones().into_iter().flatten();
        if let Some(difference) = zones.find_map(|range| slot.difference(range, zone)) {
            return Some(Damage::in_red_zone(difference));
        }
        let poisoned = self.options.poison && state == State::Free;
        let object = poisoned.then(|| slot.difference(self.plan.object(), POISON_FREE));
        object.flatten().map(Damage::after_free)
    }

    /// Keeps damage that no call can return as an error.
    #[cold]
    fn keep(&self, misuse: Misuse) {
        if self.options.on_misuse == OnMisuse::Abort {
            misuse.abort();
        }
        let mut found = lock(&self.found);
        if found.len() == FOUND_MAX {
            found.remove(0);
        }
        found.push(misuse);
    }

    #[cold]
    fn report(&self, slot: &Slot<'_>, damage: Damage, now: Option<Track>, freed: Option<Track>) -> Misuse {
        Misuse::from(Report {
            cache: self.name.clone(),
            object: slot.object().addr().get(),
            size: self.plan.size,
            damage,
            now,
            allocated: slot.allocated(),
            freed,
        })
    }

    /// The report on a pointer that is not an object of the cache.
    #[cold]
    fn stray(&self, pointer: NonNull<u8>, damage: Damage, now: Track) -> Misuse {
        let cache = self.name.clone();
        let object = pointer.addr().get();
        Misuse::from(Report { cache, object, size: 0, damage, now: Some(now), allocated: None, freed: None })
    }
}
