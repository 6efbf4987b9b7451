//! Tests of frames in a memfd that another process uses. It finds them by their offsets, and the memory stays mapped
//! until the last frame is freed.

#![allow(clippy::unwrap_used)]

use netmem::page::{Lent, Memory, MemoryConfig};
use netmem::pool::{Batch, DmaMap, Frame, Pool, PoolConfig};
use netmem::sync::Worker;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::fs::read_to_string;
use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd};
use std::process::{Command, Output, Stdio};
use std::ptr;

const BYTES: usize = 1 << 20;
/// How the memory is called in /proc/self/maps.
const NAME: &str = "netmem-frames-of-two";

/// The mapping, undone at its end.
struct Mapping(*mut u8, usize);

// SAFETY: it only names the mapping.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this is the keeper of the lent memory, so nothing in the mapping is in use any more.
        unsafe { munmap(self.0.cast(), self.1) }.unwrap();
    }
}

fn is_mapped() -> bool {
    read_to_string("/proc/self/maps").unwrap().contains(NAME)
}

/// A memfd of a fixed size, and a memory in it.
fn shared() -> (OwnedFd, Memory) {
    let memfd = memfd_create(NAME, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
    ftruncate(&memfd, BYTES as u64).unwrap();
    fcntl_add_seals(&memfd, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL).unwrap();
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping, at an address that the kernel chooses.
    let base = unsafe { mmap(ptr::null_mut(), BYTES, access, MapFlags::SHARED, &memfd, 0) }.unwrap().cast();
    // SAFETY: it is mapped until the keeper is dropped. The peer uses frames only while they are given to it.
    let lent = unsafe { Lent::adopt(base, BYTES, Mapping(base, BYTES)) }.unwrap();
    (memfd, Memory::lent(lent, &MemoryConfig { workers: 1, ..MemoryConfig::default() }).unwrap())
}

/// The other process: opens the memory by its descriptor here, and does one thing.
struct Peer(String);

impl Peer {
    fn run(program: &str, args: &[String], input: &[u8]) -> Output {
        let [stdin, stdout, stderr] = [(); 3].map(|()| Stdio::piped());
        let mut child =
            Command::new(program).args(args).stdin(stdin).stdout(stdout).stderr(stderr).spawn().unwrap();
        child.stdin.take().unwrap().write_all(input).unwrap();
        child.wait_with_output().unwrap()
    }

    fn dd(args: &[String], input: &[u8]) -> Vec<u8> {
        let bytewise = ["bs=1".to_owned(), "status=none".to_owned()];
        let done = Peer::run("dd", &[&bytewise, args].concat(), input);
        assert!(done.status.success(), "{done:?}");
        done.stdout
    }

    fn writes(&self, offset: u64, bytes: &[u8]) {
        Peer::dd(&[format!("of={}", self.0), format!("seek={offset}"), "conv=notrunc".into()], bytes);
    }

    fn reads(&self, offset: u64, len: usize) -> Vec<u8> {
        Peer::dd(&[format!("if={}", self.0), format!("skip={offset}"), format!("count={len}")], b"")
    }

    fn shrinks(&self) -> bool {
        Peer::run("truncate", &["-s".into(), "0".into(), self.0.clone()], b"").status.success()
    }
}

fn take(pool: &Pool, w: &mut Worker, n: usize) -> Vec<Frame> {
    let mut batch = Batch::new();
    assert!(pool.alloc_bulk(w, &mut batch, n));
    batch.drain().collect()
}

#[test]
fn another_process_reads_and_writes_frames_at_their_offsets_in_a_memfd_it_cannot_shrink() {
    let (memfd, memory) = shared();
    let peer = Peer(format!("/proc/{}/fd/{}", std::process::id(), memfd.as_raw_fd()));
    let mut w = memory.worker().unwrap();
    let config = PoolConfig { frames: 512, dma: DmaMap::Memif, ..PoolConfig::default() };
    let pool = Pool::new(&memory, &mut w, &config).unwrap();
    let mut frames = take(&pool, &mut w, 64);
    let offsets: Vec<u64> = frames.iter().map(|frame| pool.device_address(frame).unwrap()).collect();
    for (frame, i) in frames.iter_mut().zip(0..) {
        frame.put(20).unwrap();
        frame.data_mut().fill(i);
    }
    assert!(!peer.shrinks(), "the memory is sealed");
    for i in [0, 31, 63] {
        assert_eq!(peer.reads(offsets[i], 20), [i as u8; 20], "sent: frame {i}");
        let received = format!("received in frame {i:2}");
        peer.writes(offsets[i], &received.as_bytes()[..20]);
        assert_eq!(frames[i].data(), &received.as_bytes()[..20], "received: frame {i}");
    }
    assert_eq!(frames[32].data(), [32; 20], "and nowhere else");
    let last = frames.pop().unwrap();
    frames.into_iter().for_each(|frame| frame.free(&mut w));
    drop((pool, w, memory, memfd));
    assert!(is_mapped(), "a frame is out");
    assert_eq!(&last.data()[..8], b"received");
    drop(last);
    assert!(!is_mapped());
}
