//! The checks on a slab laid out by hand: every misuse is detected, and correct use gives no report.
#![allow(unsafe_code)]

mod caches;

use super::*;
use crate::limits::PAGE_SIZE;
use crate::page::{Memory, MemoryConfig, Page};
use crate::sys::region::BackingPreference;
use proptest::prelude::*;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::ptr::NonNull;
use std::sync::atomic::Ordering::Relaxed;

/// Bytes of an object; an odd number, so that its red zone begins in the middle of a word.
const SIZE: usize = 45;
/// A cache number that no cache of these tests has.
const NUMBER: u16 = 4000;

/// What the checks leave in free objects, fresh ones, and red zones.
const POISON_FREE: u8 = 0x6b;
const POISON_INUSE: u8 = 0x5a;
const RED_ACTIVE: u8 = 0xcc;

/// A slab without a cache, for its checks alone.
struct Slab {
    checker: Checker,
    objects: Vec<NonNull<u8>>,
    page: Page,
    memory: Memory,
}

fn report() -> DebugOptions {
    DebugOptions { on_misuse: OnMisuse::Report, ..DebugOptions::ALL }
}

impl Slab {
    fn new(options: DebugOptions) -> Slab {
        let config = MemoryConfig {
            bytes: 2 << 20,
            workers: 1,
            backing: BackingPreference::Small,
            ..Default::default()
        };
        let memory = Memory::new(&config).unwrap();
        let mut page = memory.alloc(&mut memory.worker().unwrap(), 0).unwrap();
        let checker = Checker::new("toys", options, SIZE, 16, false).unwrap();
        let Layout { stride, offset, .. } = checker.layout();
        let begin = NonNull::from(page.bytes_mut()).cast::<u8>();
        // SAFETY: as many as fit into the page.
        let object = |place: usize| unsafe { begin.byte_add(offset + place * stride) };
        let objects: Vec<_> = (0..checker.layout().objects(PAGE_SIZE)).map(object).collect();
        // SAFETY: laid out as the checker says, in a page that is this slab's alone.
        objects.iter().for_each(|&object| unsafe { checker.init(object) });
        memory.desc(page.number()).unwrap().owner.store(NUMBER, Relaxed);
        Slab { checker, objects, page, memory }
    }

    fn locator(&self) -> Locator<'_> {
        let name_of = crate::slab::registry::cache_name;
        Locator { memory: &self.memory, number: NUMBER, name_of, layout: self.checker.layout() }
    }

    #[track_caller]
    fn alloc(&self, place: usize) -> NonNull<u8> {
        // SAFETY: one of the slab's objects, and free: the tests know.
        unsafe { self.checker.on_alloc(self.objects[place], Site::caller()) };
        self.objects[place]
    }

    #[track_caller]
    fn free(&self, objects: &[NonNull<u8>]) -> Result<(), Misuse> {
        // SAFETY: anything may be given if `sanity` is on; otherwise the tests give objects.
        unsafe { self.checker.check_free(&self.locator(), objects, Site::caller()) }
    }

    #[track_caller]
    fn give(&self, object: NonNull<u8>) {
        // SAFETY: the tests give objects that are out.
        unsafe { self.checker.on_free(object, Site::caller()) }
    }

    fn write(&self, object: NonNull<u8>, at: isize, byte: u8) {
        // SAFETY: inside the slab's page.
        unsafe { object.byte_offset(at).write(byte) }
    }

    fn read(&self, object: NonNull<u8>, at: isize) -> u8 {
        // SAFETY: as in `write`.
        unsafe { object.byte_offset(at).read() }
    }

    /// Whether every object of the slab is intact.
    fn whole(&self) -> bool {
        // SAFETY: the slab's objects.
        self.objects.iter().all(|&object| unsafe { self.checker.check(object) }.is_ok())
    }
}

// SAFETY: what two threads do at once to an object is up to the checks, which touch it by atomics.
unsafe impl Sync for Slab {}

impl Drop for Slab {
    fn drop(&mut self) {
        self.memory.desc(self.page.number()).unwrap().owner.store(0, Relaxed);
    }
}

/// The error of a free, as data and as text.
#[track_caller]
fn refused(freed: Result<(), Misuse>) -> (Damage, String) {
    let misuse = freed.unwrap_err();
    assert_eq!(misuse.cache(), "toys");
    (misuse.damage().clone(), misuse.to_string())
}

#[test]
fn a_second_free_is_found_with_all_three_call_sites_also_after_others() {
    let slab = Slab::new(report());
    let (a, b) = (slab.alloc(0), slab.alloc(1));
    let allocated = line!() - 1;
    slab.free(&[a]).unwrap();
    slab.free(&[b]).unwrap();
    slab.alloc(1);
    let (damage, text) = refused(slab.free(&[a]));
    let again = line!() - 1;
    assert_eq!(damage, Damage::DoubleFree);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], format!("netmem: cache toys: object {a:?} (45 bytes): freed twice"));
    let (freed, thread) = (allocated + 2, std::thread::current().name().unwrap().to_owned());
    for (line, (what, at)) in
        lines[1..].iter().zip([("allocated", allocated), ("freed", freed), ("freed again", again)])
    {
        assert!(line.starts_with(&format!("  {what} at ")), "{text}");
        assert!(line.contains(&format!("tests.rs:{at}:")), "{what} at {at}: {text}");
        assert!(line.ends_with(&format!(" by thread {thread}")), "{text}");
    }
    assert_eq!(lines.len(), 4);
}

#[test]
fn an_object_twice_in_one_bulk_is_found_and_no_object_of_the_bulk_is_freed() {
    let slab = Slab::new(report());
    let [a, b, c] = [slab.alloc(0), slab.alloc(1), slab.alloc(2)];
    let misuse = slab.free(&[a, b, c, b]).unwrap_err();
    assert_eq!(misuse.damage(), &Damage::TwiceInBulk { places: [1, 3] });
    assert_eq!(misuse.object(), b.addr().get());
    assert!(misuse.to_string().contains("freed twice in one bulk, at 1 and 3"), "{misuse}");
    assert!(slab.whole());
    slab.free(&[a, b, c]).unwrap();
    assert!(slab.whole());
}

#[test]
fn of_two_threads_that_free_the_same_object_one_fails() {
    let slab = Slab::new(report());
    for _ in 0..crate::rounds::rounds(200) {
        slab.alloc(0);
        let freed = std::thread::scope(|scope| {
            let both = [(); 2].map(|()| scope.spawn(|| slab.free(&slab.objects[..1])));
            both.map(|thread| thread.join().unwrap())
        });
        assert_eq!(freed.iter().flatten().count(), 1, "{freed:?}");
        let error = freed.into_iter().find_map(Result::err).unwrap();
        assert_eq!(error.damage(), &Damage::DoubleFree);
    }
}

#[test]
fn writes_past_either_end_are_found_with_offset_and_bytes_when_the_object_comes_back() {
    let slab = Slab::new(report());
    let object = slab.alloc(3);
    (0..SIZE as isize).for_each(|at| slab.write(object, at, 0xff));
    for (at, damage) in [
        (-1, Damage::LeftRedZone { offset: -1, bytes: vec![7] }),
        (-16, Damage::LeftRedZone { offset: -16, bytes: vec![7] }),
        (45, Damage::RightRedZone { offset: 45, bytes: vec![7] }),
        (52, Damage::RightRedZone { offset: 52, bytes: vec![7] }),
    ] {
        slab.write(object, at, 7);
        assert_eq!(refused(slab.free(&[object])).0, damage);
        assert!(!slab.whole(), "a look at all objects finds it too");
        slab.write(object, at, RED_ACTIVE);
    }
    [(46, 1), (48, 2)].into_iter().for_each(|(at, byte)| slab.write(object, at, byte));
    let (damage, text) = refused(slab.free(&[object]));
    assert_eq!(damage, Damage::RightRedZone { offset: 46, bytes: vec![1, RED_ACTIVE, 2] });
    assert!(text.contains("written to behind its end, at offset 46: 01 cc 02\n  allocated at "), "{text}");
    [46, 48].into_iter().for_each(|at| slab.write(object, at, RED_ACTIVE));
    slab.free(&[object]).unwrap();
    assert!(slab.whole());
}

#[test]
fn a_write_after_free_is_found_by_a_look_and_when_the_object_goes_out_next_and_is_mended() {
    let slab = Slab::new(report());
    let object = slab.alloc(2);
    slab.free(&[object]).unwrap();
    [(40, 9), (44, 8)].into_iter().for_each(|(at, byte)| slab.write(object, at, byte));
    assert!(!slab.whole());
    assert_eq!(slab.checker.found(), []);
    slab.alloc(2);
    let found = slab.checker.found();
    let expected = Damage::WrittenAfterFree { offset: 40, bytes: vec![9, 0x6b, 0x6b, 0x6b, 8] };
    assert_eq!(found.iter().map(Misuse::damage).collect::<Vec<_>>(), [&expected]);
    let text = found[0].to_string();
    assert!(text.contains("written to after it was freed, at offset 40: 09 6b 6b 6b 08\n"), "{text}");
    assert!(text.contains("  freed at ") && found[0].freed().is_some(), "{text}");
    assert!(slab.whole());
    slab.free(&[object]).unwrap();
}

#[test]
fn a_fresh_object_is_full_of_its_poison_each_time() {
    let slab = Slab::new(report());
    for _ in 0..2 {
        let object = slab.alloc(0);
        (0..SIZE as isize).for_each(|at| assert_eq!(slab.read(object, at), POISON_INUSE));
        slab.write(object, 3, 1);
        slab.free(&[object]).unwrap();
        (0..SIZE as isize).for_each(|at| assert_eq!(slab.read(object, at), POISON_FREE));
    }
}

#[test]
fn pointers_that_are_no_object_of_the_cache_are_found_without_touching_what_they_point_to() {
    let slab = Slab::new(report());
    let object = slab.alloc(1);
    let at = object.addr().get();
    let inside = |by: isize| NonNull::new(object.as_ptr().wrapping_offset(by)).unwrap();
    for (by, begin) in [(1, at), (8, at), (44, at), (60, at), (-1, at)] {
        let (damage, text) = refused(slab.free(&[inside(by)]));
        assert_eq!(damage, Damage::NotAtBegin { object: begin, offset: by });
        let side = if by < 0 { "before" } else { "behind" };
        assert!(
            text.contains(&format!("{} bytes {side} the begin of object {begin:#x}", by.abs())),
            "{text}"
        );
    }
    let last = slab.objects.last().unwrap().addr().get();
    let end = inside((last - at) as isize + 2 * slab.checker.layout().stride as isize);
    if end.addr().get() - slab.page.bytes().as_ptr().addr() < PAGE_SIZE {
        assert!(matches!(refused(slab.free(&[end])).0, Damage::NotAtBegin { object, .. } if object == last));
    }
    let stack = NonNull::from(&mut 5u64).cast();
    assert_eq!(refused(slab.free(&[stack])).0, Damage::OutsideSlabs);
    assert_eq!(refused(slab.free(&[NonNull::dangling()])).0, Damage::OutsideSlabs);
    let mut page = slab.memory.alloc(&mut slab.memory.worker().unwrap(), 0).unwrap();
    let pages = NonNull::from(page.bytes_mut()).cast();
    assert_eq!(refused(slab.free(&[pages])).0, Damage::OutsideSlabs);
    slab.memory.desc(page.number()).unwrap().owner.store(NUMBER + 1, Relaxed);
    assert_eq!(refused(slab.free(&[pages])).0, Damage::WrongCache { of: "number 4001".into() });
    slab.memory.desc(page.number()).unwrap().owner.store(0, Relaxed);
    assert!(slab.whole());
    slab.free(&[object]).unwrap();
}

#[test]
fn writes_far_over_the_end_are_told_from_double_frees() {
    let options = DebugOptions { red_zone: false, ..report() };
    let slab = Slab::new(options);
    let object = slab.alloc(0);
    let link = slab.checker.layout().link as isize;
    (SIZE as isize..link + 32).for_each(|at| slab.write(object, at, 0x11));
    let misuse = slab.free(&[object]).unwrap_err();
    assert_eq!((misuse.damage(), misuse.allocated()), (&Damage::Mark, None), "{misuse}");
    assert!(!slab.whole());
}

#[test]
fn without_sanity_the_other_options_still_find_theirs() {
    let options = DebugOptions { sanity: false, store_user: false, ..report() };
    let slab = Slab::new(options);
    let object = slab.alloc(0);
    slab.write(object, SIZE as isize, 0);
    let (damage, text) = refused(slab.free(&[object]));
    assert_eq!(damage, Damage::RightRedZone { offset: 45, bytes: vec![0] });
    assert_eq!(text.lines().count(), 2, "no call site is kept but the one that found it: {text}");
}

#[test]
fn an_object_that_its_type_gives_back_is_never_refused_but_its_damage_is_kept() {
    let slab = Slab::new(report());
    let object = slab.alloc(0);
    slab.write(object, -2, 0);
    slab.give(object);
    let found = slab.checker.found();
    assert_eq!(found[0].damage(), &Damage::LeftRedZone { offset: -2, bytes: vec![0] });
    assert!(slab.whole());
    for _ in 0..100 {
        let object = slab.alloc(0);
        slab.write(object, -2, 0);
        slab.give(object);
    }
    assert_eq!(slab.checker.found().len(), 64, "the last ones are kept");
}

#[test]
fn a_cache_without_options_has_no_checks_and_one_with_a_constructor_no_poison() {
    assert!(Checker::new("none", DebugOptions::default(), 8, 8, false).is_none());
    let checker = Checker::new("kept", DebugOptions { poison: true, ..report() }, 64, 64, true).unwrap();
    assert!(format!("{checker:?}").contains("poison: false"));
}

/// The operations of a holder: allocate, free some, or write to held objects.
#[derive(Debug, Clone)]
enum Op {
    Alloc(usize),
    Free(usize),
    FreeMany(usize),
    Fill(usize, u8),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => any::<usize>().prop_map(Op::Alloc),
        2 => any::<usize>().prop_map(Op::Free),
        1 => (0..9usize).prop_map(Op::FreeMany),
        2 => (any::<usize>(), any::<u8>()).prop_map(|(pick, byte)| Op::Fill(pick, byte)),
    ]
}

fn play(options: DebugOptions, ops: &[Op]) {
    let slab = Slab::new(options);
    let mut free: Vec<usize> = (0..slab.objects.len()).collect();
    let mut held: Vec<(usize, u8)> = Vec::new();
    let poison = |known: u8| if options.poison { POISON_INUSE } else { known };
    for op in ops {
        match *op {
            Op::Alloc(pick) if !free.is_empty() => {
                let place = free.swap_remove(pick % free.len());
                let object = slab.alloc(place);
                held.push((place, poison(slab.read(object, 0))));
            }
            Op::Free(pick) if !held.is_empty() => {
                let (place, _) = held.swap_remove(pick % held.len());
                slab.free(&[slab.objects[place]]).unwrap();
                free.push(place);
            }
            Op::FreeMany(n) => {
                let rest = held.split_off(held.len() - n.min(held.len()));
                let objects: Vec<_> = rest.iter().map(|&(place, _)| slab.objects[place]).collect();
                slab.free(&objects).unwrap();
                free.extend(rest.iter().map(|&(place, _)| place));
            }
            Op::Fill(pick, byte) if !held.is_empty() => {
                let pick = pick % held.len();
                held[pick].1 = byte;
                (0..SIZE as isize).for_each(|at| slab.write(slab.objects[held[pick].0], at, byte));
            }
            Op::Alloc(_) | Op::Free(_) | Op::Fill(..) => {}
        }
        assert!(slab.whole() && slab.checker.found().is_empty(), "a false report after {op:?}");
        for &(place, byte) in &held {
            let object = slab.objects[place];
            assert!([0, 22, 44].into_iter().all(|at| slab.read(object, at) == byte), "contents intact");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 2 } else { 64 }, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn right_use_is_never_reported_whatever_is_chosen(bits in 1..16u32, ops in prop::collection::vec(op(), 1..120)) {
        let options = DebugOptions {
            sanity: bits & 1 != 0,
            red_zone: bits & 2 != 0,
            poison: bits & 4 != 0,
            store_user: bits & 8 != 0,
            on_misuse: OnMisuse::Report,
        };
        play(options, &ops);
    }
}

/// The variable that tells a re-run of a test which misuse to commit.
const CHILD: &str = "NETMEM_TEST_MISUSE";

/// Runs a test of the module at `path` again in its own process, which commits a misuse. Returns the output before
/// SIGABRT.
#[track_caller]
fn dies(path: &str, test: &str, misuse: &str) -> String {
    let test = format!("{}::{test}", path.split_once("::").unwrap().1);
    let child = Command::new(std::env::current_exe().unwrap())
        .args([test.as_str(), "--exact", "--nocapture"])
        .env(CHILD, misuse)
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&child.stderr).into_owned();
    assert_eq!(child.status.signal(), Some(6), "{stderr}");
    assert_eq!(stderr.matches("netmem: cache ").count(), 1, "one report: {stderr}");
    stderr
}

fn commit(misuse: &str) {
    let slab = Slab::new(DebugOptions::ALL);
    let (a, b) = (slab.alloc(0), slab.alloc(1));
    let freed = match misuse {
        "freed twice" => slab.free(&[a]).and_then(|()| slab.free(&[b])).and_then(|()| slab.free(&[a])),
        "in one bulk" => slab.free(&[a, b, a]),
        "behind its end" => {
            slab.write(a, SIZE as isize, 0);
            slab.free(&[a])
        }
        "before its begin" => {
            slab.write(a, -1, 0);
            slab.give(a);
            Ok(())
        }
        "after it was freed" => {
            let freed = slab.free(&[a]);
            slab.write(a, 5, 0);
            slab.alloc(0);
            freed
        }
        "behind the begin of object" => slab.free(&[NonNull::new(a.as_ptr().wrapping_add(4)).unwrap()]),
        _ => slab.free(&[NonNull::dangling()]),
    };
    panic!("the process goes on: {freed:?}");
}

#[test]
#[cfg_attr(miri, ignore = "Miri starts no other process")]
fn where_misuse_aborts_the_process_ends_with_one_report_on_stderr() {
    if let Ok(misuse) = std::env::var(CHILD) {
        return commit(&misuse);
    }
    for misuse in [
        "freed twice",
        "in one bulk",
        "behind its end",
        "before its begin",
        "after it was freed",
        "behind the begin of object",
        "it lies in no slab",
    ] {
        let test = "where_misuse_aborts_the_process_ends_with_one_report_on_stderr";
        let stderr = dies(module_path!(), test, misuse);
        assert!(stderr.contains("netmem: cache toys: object 0x"), "{stderr}");
        assert!(stderr.contains(misuse) && stderr.contains("tests.rs:"), "{misuse}: {stderr}");
    }
}
