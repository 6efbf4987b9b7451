//! Inaccessible pages: around a region, and inside of it if its holders request one.

use super::{BackingPreference, Region, RegionError, map, unmap};
use crate::limits::PAGE_SIZE;
use rustix::io::Errno;
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect};
use std::sync::Arc;

/// Two inaccessible pages, one before a mapping and one behind it. A drop unmaps them.
#[derive(Debug)]
pub(super) struct Fences([*mut u8; 2]);

impl Fences {
    /// Maps the two pages if nothing else is there. For [`place`](super::place), while it alone looks for a hole.
    pub(super) fn around(base: *mut u8, len: usize) -> Result<Fences, Errno> {
        let fence = |at: *mut u8| {
            if cfg!(miri) {
                return Ok(at);
            }
            let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED_NOREPLACE;
            // SAFETY: a fresh mapping that replaces nothing overlaps nothing of ours.
            let mapped =
                unsafe { mmap_anonymous(at.cast(), PAGE_SIZE, ProtFlags::empty(), flags) }?.cast::<u8>();
            if mapped == at {
                return Ok(at);
            }
            // A kernel before 4.17 takes the address as a hint.
            unmap(mapped, PAGE_SIZE);
            Err(Errno::EXIST)
        };
        let before = fence(base.wrapping_sub(PAGE_SIZE))?;
        match fence(base.wrapping_add(len)) {
            Ok(behind) => Ok(Fences([before, behind])),
            Err(errno) => {
                unfence(before);
                Err(errno)
            }
        }
    }
}

impl Drop for Fences {
    fn drop(&mut self) {
        self.0.into_iter().for_each(unfence);
    }
}

fn unfence(at: *mut u8) {
    if !cfg!(miri) {
        unmap(at, PAGE_SIZE);
    }
}

impl Region {
    /// Makes a region as [`Region::new`] does, between two inaccessible pages. Each of its pages can be made
    /// inaccessible ([`Region::guard`]).
    ///
    /// # Errors
    /// [`RegionError`]; nothing stays mapped then.
    #[cold]
    pub(crate) fn guarded(bytes: usize, preference: BackingPreference) -> Result<Arc<Region>, RegionError> {
        let (preference, refused) = match preference {
            BackingPreference::Huge => {
                (BackingPreference::Transparent, Some("no huge pages: a guard page has 4 KiB"))
            }
            smaller => (smaller, None),
        };
        Region::of(bytes, preference, |len| {
            let mut mapped = map(len, preference, true)?;
            mapped.backing.refused.splice(0..0, refused.map(String::from));
            Ok(mapped)
        })
    }

    /// Whether it lies between inaccessible pages, and may have some inside.
    pub(crate) fn is_guarded(&self) -> bool {
        self.fences.is_some()
    }

    /// Makes a page of the region inaccessible, or accessible again with its old contents. Returns false if the system
    /// refuses, and nothing has changed then. Never possible under Miri.
    ///
    /// # Safety
    /// The page lies in the region, and the caller alone uses it. While it is inaccessible, no code reads or writes it.
    #[cold]
    pub(crate) unsafe fn guard(&self, page: usize, on: bool) -> bool {
        if cfg!(miri) || page >= self.len / PAGE_SIZE || !self.is_guarded() {
            return false;
        }
        let access = if on { MprotectFlags::empty() } else { MprotectFlags::READ | MprotectFlags::WRITE };
        let at = self.base.wrapping_add(page * PAGE_SIZE);
        // SAFETY: a page of a mapping that lives as long as the region; the caller's promise for its bytes.
        unsafe { mprotect(at.cast(), PAGE_SIZE, access) }.is_ok()
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn a_guarded_region_lies_between_pages_without_access_and_says_why_it_has_no_huge_ones() {
        let region = Region::guarded(2 << 20, BackingPreference::Huge).unwrap();
        assert!(region.backing().to_string().contains("no huge pages: a guard page has 4 KiB"));
        let (begin, end) = (region.base().addr(), region.base().addr() + region.len());
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let fences = maps.lines().filter(|line| line.contains("---p"));
        let bounds = |line: &str| {
            let (from, to) = line.split_whitespace().next()?.split_once('-')?;
            Some((usize::from_str_radix(from, 16).ok()?, usize::from_str_radix(to, 16).ok()?))
        };
        let fences: Vec<_> = fences.filter_map(bounds).collect();
        assert!(fences.iter().any(|&(_, to)| to == begin), "before {begin:x}: {maps}");
        assert!(fences.iter().any(|&(from, _)| from == end), "behind {end:x}: {maps}");
        assert!(!Region::new(2 << 20, BackingPreference::Small).unwrap().is_guarded());
    }

    #[test]
    fn a_page_that_was_inaccessible_has_its_bytes_again() {
        let region = Region::guarded(2 << 20, BackingPreference::Small).unwrap();
        let at = region.base().wrapping_add(3 * PAGE_SIZE);
        // SAFETY: a page of the region, which is this test's alone.
        unsafe {
            at.write(7);
            assert!(region.guard(3, true) && region.guard(3, false));
            assert_eq!(at.read(), 7);
            assert!(!region.guard(512, true), "no page of the region");
        }
    }
}
