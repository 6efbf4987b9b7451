//! Files that are cut under their mappings. Tests that end a process, or affect all of it, run in a process of their
//! own.

use super::super::{Sealing, SharedMemory};
use super::*;
use crate::sys::fork::in_child;
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::mm::mmap;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;

const PAGE: usize = 4096;

fn file(pages: usize) -> OwnedFd {
    let file = memfd_create("cut", MemfdFlags::CLOEXEC).unwrap();
    ftruncate(&file, (pages * PAGE) as u64).unwrap();
    file
}

/// A file of `pages` pages, and a trusted mapping of it, as of a peer.
fn trusted(pages: usize) -> (OwnedFd, Arc<SharedMemory>) {
    let file = file(pages);
    let same = file.try_clone().unwrap();
    (file, SharedMemory::map(same, (pages * PAGE) as u64, Sealing::Trusted).unwrap())
}

/// A mapping of a file that has no pages any more.
fn nothing() -> NonNull<u8> {
    let file = file(1);
    // SAFETY: a new mapping, where the kernel finds room; it stays until the process ends.
    let base = unsafe { mmap(ptr::null_mut(), PAGE, ProtFlags::READ, MapFlags::SHARED, &file, 0) }.unwrap();
    ftruncate(&file, 0).unwrap();
    NonNull::new(base.cast()).unwrap()
}

/// Reads a byte that does not exist.
fn touch(base: NonNull<u8>) -> u8 {
    // SAFETY: the address is mapped, or the process ends, which is what is tested.
    unsafe { base.as_ptr().read_volatile() }
}

#[test]
fn a_mapping_whose_file_is_cut_is_zeros_of_our_own_and_lost_and_the_others_are_as_they_were() {
    for left in [0, 1, 2] {
        let ((_, healthy), (file, cut)) = (trusted(3), trusted(3));
        assert!(healthy.write(5000, b"healthy") && cut.write(5000, b"lost") && cut.write(0, b"lost"));
        ftruncate(&file, (left * PAGE) as u64).unwrap();
        assert!(!cut.is_lost(), "nobody has touched it");
        let mut read = [7; 4];
        assert!(cut.read(2 * PAGE as u64 + 9, &mut read));
        assert_eq!((read, cut.is_lost()), ([0; 4], true));
        assert!(cut.read(0, &mut read) && read == [0; 4], "all of it, though {left} pages are left");
        assert!(cut.write(5000, b"mine") && cut.read(5000, &mut read));
        assert_eq!(&read, b"mine");
        cut.word(2).unwrap().store_release(0xabcd);
        assert_eq!((cut.word(2).unwrap().load_acquire(), cut.slots(0, 4).unwrap().read(1)), (0xabcd, [0; 2]));
        let mut read = [0; 7];
        assert!(healthy.read(5000, &mut read) && !healthy.is_lost());
        assert_eq!(&read, b"healthy");
    }
}

#[test]
fn what_is_written_into_a_page_that_is_gone_is_lost_with_it() {
    let (file, cut) = trusted(2);
    ftruncate(&file, 0).unwrap();
    assert!(cut.write(PAGE as u64 - 2, b"abcd"), "over the border of two pages");
    assert!(cut.is_lost());
}

#[test]
fn mappings_come_and_go_and_are_cut_on_several_threads_at_once() {
    std::thread::scope(|scope| {
        for thread in 0..4_u8 {
            scope.spawn(move || {
                let (_, healthy) = trusted(1);
                assert!(healthy.write(0, &[thread; 64]));
                for round in 0..100 {
                    let (file, cut) = trusted(1 + round % 5);
                    assert!(cut.write(0, &[9; 64]));
                    ftruncate(&file, 0).unwrap();
                    let mut read = [7; 64];
                    assert!(cut.read(0, &mut read) && cut.is_lost() && read == [0; 64]);
                    assert!(healthy.read(0, &mut read) && !healthy.is_lost() && read == [thread; 64]);
                }
            });
        }
    });
}

/// The variable that tells a re-run of a test what to do.
const CHILD: &str = "NETMEM_TEST_SIGBUS";

/// Runs each of `acts` in a process of its own. Returns how each process ended.
fn alone(test: &str, acts: &[(&str, fn())]) -> Vec<ExitStatus> {
    if let Ok(act) = std::env::var(CHILD) {
        acts.iter().find(|(name, _)| *name == act).expect("one of those").1();
        std::process::exit(0);
    }
    let test = format!("{}::{test}", module_path!().split_once("::").unwrap().1);
    let run = |(act, _): &(&str, fn())| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args([&test, "--exact", "--test-threads=1"]).env(CHILD, act);
        command.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap()
    };
    acts.iter().map(run).collect()
}

/// Installs `handler`, as a program might before it uses this library.
fn handle(handler: usize, flags: c_int) {
    // SAFETY: a sigaction of our own with a handler that fits its flags.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        (action.sa_sigaction, action.sa_flags) = (handler, flags);
        assert_eq!(libc::sigaction(libc::SIGBUS, &raw const action, ptr::null_mut()), 0);
    }
}

fn send_sigbus() {
    // SAFETY: it does nothing but that.
    unsafe { libc::raise(libc::SIGBUS) };
}

#[test]
fn an_access_that_is_nobodys_ends_the_process_as_it_always_did() {
    let ended = alone(
        "an_access_that_is_nobodys_ends_the_process_as_it_always_did",
        &[
            ("as rust has it", || {
                let _guarded = trusted(1);
                touch(nothing());
            }),
            ("by default", || {
                handle(libc::SIG_DFL, 0);
                let _guarded = trusted(1);
                touch(nothing());
            }),
            ("sent, by default", || {
                handle(libc::SIG_DFL, 0);
                let _guarded = trusted(1);
                send_sigbus();
            }),
            ("not to be ignored", || {
                handle(libc::SIG_IGN, 0);
                let _guarded = trusted(1);
                touch(nothing());
            }),
            ("guarded no more", || {
                let base = nothing();
                // SAFETY: no other code uses the mapping.
                let guard = unsafe { Guard::new(base, PAGE, PAGE) }.unwrap();
                drop(guard);
                touch(base);
            }),
        ],
    );
    assert!(ended.iter().all(|status| status.signal() == Some(libc::SIGBUS)), "{ended:?}");
}

#[test]
fn whoever_handled_the_signal_before_hears_of_the_rest() {
    extern "C" fn plain(signal: c_int) {
        std::process::exit(if signal == libc::SIGBUS { 61 } else { 1 });
    }
    extern "C" fn informed(_: c_int, info: *mut libc::siginfo_t, _: *mut c_void) {
        // SAFETY: the kernel's, passed on.
        let code = unsafe { (*info).si_code };
        std::process::exit(if code == libc::BUS_ADRERR { 62 } else { 1 });
    }
    let ended = alone(
        "whoever_handled_the_signal_before_hears_of_the_rest",
        &[
            ("plain", || {
                handle(plain as extern "C" fn(c_int) as usize, 0);
                let (file, cut) = trusted(1);
                ftruncate(&file, 0).unwrap();
                let mut read = [7; 8];
                assert!(cut.read(0, &mut read) && read == [0; 8] && cut.is_lost());
                touch(nothing());
            }),
            ("informed", || {
                let informed: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) = informed;
                handle(informed as usize, libc::SA_SIGINFO);
                let _guarded = trusted(1);
                touch(nothing());
            }),
            ("sent, and ignored", || {
                handle(libc::SIG_IGN, 0);
                let _guarded = trusted(1);
                send_sigbus();
                std::process::exit(63);
            }),
        ],
    );
    let codes: Vec<_> = ended.iter().map(ExitStatus::code).collect();
    assert_eq!(codes, [Some(61), Some(62), Some(63)]);
}

/// Found in a review: the handler that Rust installs made the signal end the process from then on, guards or not.
#[test]
fn a_signal_that_was_only_sent_takes_no_guard_away() {
    let ended = alone(
        "a_signal_that_was_only_sent_takes_no_guard_away",
        &[("as rust has it", || {
            let (file, cut) = trusted(1);
            send_sigbus();
            ftruncate(&file, 0).unwrap();
            let mut read = [7; 8];
            assert!(cut.read(0, &mut read) && read == [0; 8] && cut.is_lost());
        })],
    );
    assert!(ended[0].success(), "{ended:?}");
}

/// Found in a review: the entry of the parent was found first, and all that the child had there became zeros.
#[test]
fn a_page_that_is_lost_in_a_child_is_not_taken_for_its_parents() {
    let ended = alone(
        "a_page_that_is_lost_in_a_child_is_not_taken_for_its_parents",
        &[("a child", || {
            let (_file, parents) = trusted(64);
            let base = parents.base.as_ptr();
            assert!(in_child(|| {
                let access = ProtFlags::READ | ProtFlags::WRITE;
                let flags = MapFlags::PRIVATE | MapFlags::FIXED_NOREPLACE;
                // SAFETY: it replaces nothing: a child does not have its parent's mapping.
                unsafe { mmap_anonymous(base.cast(), 64 * PAGE, access, flags) }.unwrap();
                // SAFETY: mapped just now, and ours alone.
                unsafe { base.write_bytes(7, 64 * PAGE) };
                let (cut, inside) = (file(1), base.wrapping_add(32 * PAGE));
                let flags = MapFlags::SHARED | MapFlags::FIXED;
                // SAFETY: it replaces one page of that mapping, to which there is no reference.
                unsafe { mmap(inside.cast(), PAGE, access, flags, &cut, 0) }.unwrap();
                let inside = NonNull::new(inside).unwrap();
                // SAFETY: no other code uses the page.
                let guard = unsafe { Guard::new(inside, PAGE, PAGE) }.unwrap();
                ftruncate(&cut, 0).unwrap();
                assert_eq!((touch(inside), guard.is_lost()), (0, true));
                for page in (0..64).filter(|page| *page != 32) {
                    assert_eq!(touch(NonNull::new(base.wrapping_add(page * PAGE)).unwrap()), 7);
                }
            }));
        })],
    );
    assert!(ended[0].success(), "{ended:?}");
}

#[test]
fn more_mappings_than_can_be_guarded_are_refused() {
    let ended = alone(
        "more_mappings_than_can_be_guarded_are_refused",
        &[("many", || {
            let base = nothing();
            // SAFETY: no other code uses the mapping.
            let guard = || unsafe { Guard::new(base, PAGE, PAGE) };
            let mut guards: Vec<_> = (0..PLACES_MAX).map(|_| guard().unwrap()).collect();
            assert_eq!(guard().unwrap_err(), Errno::NOBUFS);
            guards.pop();
            guards.push(guard().unwrap());
            assert_eq!(touch(base), 0);
        })],
    );
    assert!(ended[0].success(), "{ended:?}");
}
