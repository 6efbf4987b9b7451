//! Memory of peers with and without holes, and the budget for those that are filled.

use super::super::{MappedElsewhere, Sealing, file_of, make_hole, sealed_file};
use super::*;
use rustix::fs::{MemfdFlags, SealFlags, fstat};
use std::thread;
use std::time::{Duration, Instant};

fn sparse(pages: usize) -> OwnedFd {
    file_of("test", pages * PAGE, MemfdFlags::empty(), SealFlags::SHRINK).unwrap()
}

fn copy_of(file: &impl AsFd) -> OwnedFd {
    file.as_fd().try_clone_to_owned().unwrap()
}

fn allocated(file: &impl AsFd) -> u64 {
    fstat(file).unwrap().st_blocks as u64 * 512
}

fn result(mapping: &MappedElsewhere) -> Result<Vec<Arc<SharedMemory>>, (usize, MapError)> {
    loop {
        if let Some(mapped) = mapping.result() {
            return mapped;
        }
        thread::yield_now();
    }
}

/// Maps the first `len` bytes of each file.
fn map_all(
    files: &[(&dyn AsFd, usize)],
    budget: &HoleBudget,
) -> Result<Vec<Arc<SharedMemory>>, (usize, MapError)> {
    let files = files.iter().map(|(file, len)| (copy_of(file).into(), *len as u64)).collect();
    result(&SharedMemory::map_whole(files, budget))
}

fn map(file: &impl AsFd, pages: usize, budget: &HoleBudget) -> Result<Arc<SharedMemory>, MapError> {
    map_all(&[(file, pages * PAGE)], budget).map(|mut regions| regions.remove(0)).map_err(|(_, error)| error)
}

fn pages(number: u64) -> HoleBudget {
    HoleBudget::new(number * PAGE as u64)
}

/// Found: each page of a client's memory that was read without having been there was allocated at the reader's cost, and
/// an access waited for as long as the client made holes.
#[test]
fn memory_with_a_hole_or_in_which_its_owner_can_make_one_is_refused_and_none_can_be_made_afterwards() {
    let none = HoleBudget::new(0);
    let lacks = |bytes: usize| Some(MapError::Holes { bytes: bytes as u64, left: 0 });
    assert_eq!(map(&sparse(5), 5, &none).err(), lacks(5 * PAGE));
    let half = sparse(5);
    let owner = SharedMemory::map(copy_of(&half), 5 * PAGE as u64, Sealing::Required).unwrap();
    owner.write(PAGE as u64, &[1; 2 * PAGE]);
    assert_eq!(map(&half, 5, &none).err(), lacks(PAGE));
    // Allocated, and never written.
    let unwritten = sparse(1);
    allocate(&unwritten, 0..PAGE).unwrap();
    assert_eq!(map(&unwritten, 1, &none).err(), lacks(PAGE));
    let closed = sealed_file("test", PAGE, MemfdFlags::empty()).unwrap();
    assert_eq!(map(&closed, 1, &none).err(), Some(MapError::CanHaveHoles));

    let ours = SharedMemory::new("test", 5 * PAGE).unwrap();
    let theirs = map(&ours, 5, &none).unwrap();
    assert_eq!(make_hole(&*ours, 0), Err(Errno::PERM));
    assert!(ours.write(100, b"hello") && theirs.write(4 * PAGE as u64, b"you"));
    let mut read = [0; 5];
    assert!(theirs.read(100, &mut read));
    assert_eq!(&read, b"hello");
}

#[test]
fn regions_arrive_in_order_or_the_number_of_the_one_that_does_not() {
    let none = HoleBudget::new(0);
    let [a, b] = [1, 2].map(|byte| {
        let memory = SharedMemory::new("test", PAGE).unwrap();
        memory.write(0, &[byte]);
        memory
    });
    let regions = map_all(&[(&*a, PAGE), (&*b, PAGE), (&*a, PAGE)], &none).unwrap();
    let first_bytes = regions.iter().map(|region| {
        let mut byte = [0];
        region.read(0, &mut byte);
        byte[0]
    });
    assert_eq!(first_bytes.collect::<Vec<_>>(), [1, 2, 1]);
    let long = SharedMemory::new("test", PAGE).unwrap();
    let short = MapError::Short { file: PAGE as u64, claimed: PAGE as u64 + 1 };
    assert_eq!(map_all(&[(&*long, PAGE), (&*long, PAGE + 1)], &none).err(), Some((1, short)));
    assert!(map_all(&[], &none).unwrap().is_empty());
}

#[test]
fn holes_within_the_budget_are_filled_and_what_was_written_stays() {
    let budget = pages(4);
    let file = file_of("test", 7 * PAGE - 100, MemfdFlags::empty(), SealFlags::SHRINK).unwrap();
    let owner = SharedMemory::map(copy_of(&file), 7 * PAGE as u64 - 100, Sealing::Required).unwrap();
    for page in [1, 3, 4] {
        owner.write(page * PAGE as u64, b"packet");
    }
    let memory = map_all(&[(&file, 7 * PAGE - 100)], &budget).unwrap().remove(0);
    assert_eq!(allocated(&file), 7 * PAGE as u64);
    assert_eq!(fstat(&file).unwrap().st_size, 7 * PAGE as i64 - 100);
    for page in [1, 3, 4] {
        let mut read = [0; 6];
        memory.read(page * PAGE as u64, &mut read);
        assert_eq!(&read, b"packet");
    }
    // All of the budget is spent, and this file has no more holes.
    assert!(map(&sparse(1), 1, &budget).is_err());
    drop(memory);
}

/// The next client of a port is accepted once no process has the memory of the last one. A client that keeps it, open or
/// mapped, does not have another one filled.
#[test]
fn what_is_filled_counts_until_no_process_has_the_memory_any_more() {
    let budget = pages(8);
    let full = MapError::Holes { bytes: 2 * PAGE as u64, left: 0 };
    let file = sparse(8);
    drop(map(&file, 8, &budget).unwrap());
    // Its owner keeps a descriptor.
    for _ in 0..3 {
        assert_eq!(map(&sparse(2), 2, &budget).err(), Some(full));
        thread::yield_now();
    }
    drop(file);
    wait_for(&budget, 8);
    // The next owner keeps a mapping.
    let mapped = SharedMemory::sparse("owner", PAGE);
    drop(map(&mapped.as_fd(), 1, &budget).unwrap());
    drop(map(&sparse(7), 7, &budget).unwrap());
    wait_for(&budget, 7);
    drop(mapped);
    wait_for(&budget, 8);
}

/// Waits until `number` pages are left. Threads that close what was mapped may be late.
fn wait_for(budget: &HoleBudget, number: u64) {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        let mut spent = budget.spent.lock().unwrap();
        spent.forget_freed();
        let left = budget.most - spent.files.values().sum::<u64>();
        if left == number * PAGE as u64 {
            return;
        }
        assert!(Instant::now() < end, "{left} bytes are left");
        drop(spent);
        thread::yield_now();
    }
}

/// Each file whose end is awaited makes two events, for which the kernel's queue must have room.
#[test]
fn no_more_files_are_watched_than_the_queue_has_room_for() {
    let budget = HoleBudget::new(u64::MAX);
    let files: Vec<_> = (0..FILES_MAX).map(|_| sparse(1)).collect();
    for file in &files {
        budget.spend(file, 1).unwrap();
    }
    assert_eq!(budget.spend(&sparse(1), 1), Err(MapError::Holes { bytes: 1, left: 0 }));
    drop(files);
    budget.spend(&sparse(1), 1).unwrap();
}
