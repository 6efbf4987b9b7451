//! Two mappings of one file, as two processes have them.

use super::*;

fn peer_of(memory: &SharedMemory) -> Arc<SharedMemory> {
    let file = memory.as_fd().try_clone_to_owned().unwrap();
    SharedMemory::map(file, memory.len() as u64, Sealing::Required).unwrap()
}

#[test]
fn what_one_side_writes_the_other_reads() {
    let ours = SharedMemory::new("test", 4096).unwrap();
    let theirs = peer_of(&ours);
    assert!(ours.write(100, b"hello"));
    let mut read = [0; 7];
    assert!(theirs.read(99, &mut read));
    assert_eq!(&read, b"\0hello\0");
    ours.word(6).unwrap().store_release(0xabcd);
    assert_eq!(theirs.word(6).unwrap().load_acquire(), 0xabcd);
    ours.slots(128, 4).unwrap().write(5, [1, 2]);
    assert_eq!(theirs.slots(128, 4).unwrap().read(1), [1, 2], "positions wrap");
    drop(ours);
    assert_eq!(theirs.slots(128, 4).unwrap().read(9), [1, 2]);
}

#[test]
fn every_page_of_new_memory_is_there_before_it_is_used() {
    for len in [1, 4096, 1 << 20, (5 << 19) + 1] {
        let memory = SharedMemory::new("test", len).unwrap();
        let allocated = fstat(memory.as_fd()).unwrap().st_blocks * 512;
        assert_eq!(allocated as usize, len.next_multiple_of(4096));
    }
}

#[test]
fn nothing_outside_the_mapping_is_touched() {
    let memory = SharedMemory::new("test", 4096).unwrap();
    let mut bytes = [7; 16];
    for offset in [4081, 4096, 4097, u64::from(u32::MAX), u64::MAX] {
        assert!(!memory.read(offset, &mut bytes) && !memory.write(offset, &bytes), "{offset}");
        assert!(!memory.holds(offset, 16));
    }
    assert_eq!(bytes, [7; 16]);
    assert!(memory.read(4080, &mut bytes) && memory.read(4096, &mut []));
    assert_eq!(bytes, [0; 16]);
    for (offset, size) in [(4096, 1), (4088, 1), (128, 256), (8, 1 << 31), (u64::MAX, 1), (4, 1), (0, 3)] {
        assert!(memory.slots(offset, size).is_none(), "{offset} {size}");
    }
    for offset in [1, 4095, 4096, u64::MAX] {
        assert!(memory.word(offset).is_none(), "{offset}");
    }
}

#[test]
fn foreign_memory_that_can_shrink_is_mapped_only_if_its_owner_is_trusted() {
    let file = || memfd_create("test", MemfdFlags::ALLOW_SEALING).unwrap();
    let long = || {
        let file = file();
        ftruncate(&file, 8192).unwrap();
        file
    };
    let map = |file, len, sealing| SharedMemory::map(file, len, sealing).map(|memory| memory.len());
    assert_eq!(map(long(), 8192, Sealing::Required), Err(MapError::Unsealed));
    assert_eq!(map(long(), 8192, Sealing::Trusted), Ok(8192));
    let never = memfd_create("test", MemfdFlags::empty()).unwrap();
    assert_eq!(map(never, 1, Sealing::Required), Err(MapError::Unsealed), "a file that nobody can seal");
    let (pipe, _writer) = rustix::pipe::pipe().unwrap();
    assert_eq!(map(pipe, 1, Sealing::Required), Err(MapError::Unsealed), "no memory at all");
    let sealed = long();
    fcntl_add_seals(&sealed, SealFlags::SHRINK).unwrap();
    assert_eq!(map(sealed, 8192, Sealing::Required), Ok(8192));
}

#[test]
fn foreign_memory_that_is_shorter_than_announced_is_refused() {
    let map = |len| {
        let memory = SharedMemory::new("test", 4096).unwrap();
        let file = memory.as_fd().try_clone_to_owned().unwrap();
        SharedMemory::map(file, len, Sealing::Required).map(|memory| memory.len())
    };
    assert_eq!(map(4096), Ok(4096));
    for claimed in [0, 4097, 1 << 40, u64::MAX] {
        assert_eq!(map(claimed), Err(MapError::Short { file: 4096, claimed }));
    }
}

#[test]
fn memory_of_our_own_cannot_be_made_shorter_by_a_peer() {
    let memory = SharedMemory::new("test", 4096).unwrap();
    assert_eq!(ftruncate(memory.as_fd(), 0), Err(Errno::PERM));
}

/// Seen: pages of a client's own memory were only promised. Where the machine had none left, the first access ended the
/// process.
#[test]
fn the_system_backs_all_memory_of_our_own_from_the_beginning_and_a_page_that_is_gone_loses_it() {
    let memory = SharedMemory::new("test", 1 << 20).unwrap();
    assert_eq!(fstat(&*memory).unwrap().st_blocks * 512, 1 << 20);
    assert!(memory.write(0, b"mine") && !memory.is_lost());
    memory.lose();
    let mut read = [7; 4];
    assert!(memory.is_lost() && memory.read(0, &mut read));
    assert_eq!(read, [0; 4]);
}

/// Seen: memory whose announced length is not a multiple of its pages could not be unmapped, and a fault in it ended the
/// process.
#[test]
fn memory_is_mapped_and_replaced_by_whole_pages() {
    let memory = SharedMemory::new("test", 3 * PAGE).unwrap();
    let file = memory.as_fd().try_clone_to_owned().unwrap();
    let theirs = SharedMemory::map(file, 2 * PAGE as u64 + 1, Sealing::Required).unwrap();
    assert_eq!(theirs.held.as_ref().unwrap().0.len, 3 * PAGE);
    assert!(theirs.holds(2 * PAGE as u64, 1) && !theirs.holds(2 * PAGE as u64, 2));
    theirs.lose();
    assert!(theirs.is_lost() && !memory.is_lost());
}
