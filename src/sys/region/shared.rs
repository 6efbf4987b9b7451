//! Regions that a peer can map: memory in a file of its own.

use super::place::{Placed, place};
use super::populate::populate;
use super::{Advice, Backing, BackingPreference, Mapped, PageKind, Region, RegionError, madvise};
use crate::sys::memfd::sealed_file;
use rustix::fs::MemfdFlags;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

impl Region {
    /// Makes a region as [`Region::new`] does, of memory that a peer can map with its file ([`Region::file`]). The
    /// length of the file is sealed.
    ///
    /// The pages are 4 KiB, and the kernel may join them unless `preference` is [`BackingPreference::Small`]. A peer that
    /// trusts no other process does not map huge pages (`sys::memfd`).
    ///
    /// # Errors
    /// [`RegionError`]; nothing stays mapped then.
    #[cold]
    pub fn shared(bytes: usize, preference: BackingPreference) -> Result<Arc<Region>, RegionError> {
        Region::shared_guarded(bytes, preference, false)
    }

    /// Does the same as [`Region::shared`]; with `guarded`, between two pages that are inaccessible in this process.
    /// The peer has no such pages.
    pub(crate) fn shared_guarded(
        bytes: usize,
        preference: BackingPreference,
        guarded: bool,
    ) -> Result<Arc<Region>, RegionError> {
        Region::of(bytes, preference, |len| {
            let (Placed { base, fences }, file) = map(len, preference, guarded)?;
            let refused = match preference {
                BackingPreference::Small => Vec::new(),
                _ => vec!["no huge pages: a peer maps it too".into()],
            };
            let backing = Backing { kind: PageKind::Small, refused };
            Ok(Mapped { base, backing, file: Some(file), fences })
        })
    }

    /// The file that a peer can map. The region's first byte is the file's first byte. None for private memory.
    pub fn file(&self) -> Option<BorrowedFd<'_>> {
        self.file.as_ref().map(AsFd::as_fd)
    }
}

fn map(len: usize, preference: BackingPreference, guarded: bool) -> Result<(Placed, OwnedFd), RegionError> {
    let refused = |errno| RegionError::Map { bytes: len, errno };
    let file = sealed_file("netmem-frames", len, MemfdFlags::empty()).map_err(refused)?;
    let placed = place(len, super::MapFlags::empty(), Some(&file), guarded)?;
    if preference != BackingPreference::Small {
        // SAFETY: the range was mapped just now and is ours alone; the advice changes no byte. A refusal is no loss.
        let _ = unsafe { madvise(placed.base.cast(), len, Advice::LinuxHugepage) };
    }
    populate(placed.base, len, Some(&file)).map_err(refused)?;
    Ok((placed, file))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::memfd::{Sealing, SharedMemory};
    use crate::sys::region::{self, populate};
    use rustix::fs::fstat;

    /// Found in a review: its file was sparse, and a frame for which the machine had no page ended the process.
    #[test]
    fn memory_for_a_peer_has_all_its_pages_on_kernels_that_fault_none_in() {
        populate::BEFORE_5_14.set(true);
        let region = Region::shared(5 << 20, BackingPreference::Small).unwrap();
        populate::BEFORE_5_14.set(false);
        let blocks = fstat(region.file().unwrap()).unwrap().st_blocks;
        assert_eq!(blocks * 512, region.len() as i64);
    }

    #[test]
    fn a_peer_finds_a_chunk_at_its_offset_in_the_file_and_cannot_shrink_it() {
        let region = Region::shared(4 << 20, BackingPreference::Small).unwrap();
        let file = region.file().unwrap().try_clone_to_owned().unwrap();
        let peer = SharedMemory::map(file, region.len() as u64, Sealing::Required).unwrap();
        assert!(peer.write(5 * 2048, b"packet"));
        let chunk = region::address(region.first_chunk() + 5);
        // SAFETY: mapped while the region lives, and written before.
        assert_eq!(unsafe { std::slice::from_raw_parts(chunk, 6) }, b"packet");
        assert_eq!(region::chunk_at(chunk), Some(region.first_chunk() + 5));
        assert!(Region::new(2 << 20, BackingPreference::Small).unwrap().file().is_none());
    }
}
