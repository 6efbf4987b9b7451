//! Every interleaving of threads that share a slab, under loom: a table of two descriptors, and two slabs of two
//! objects. Their words are changed by one compare-and-swap, or by the double-word one, which loom sees as an exchange
//! under the descriptor's lock bit.
//!
//! Each object has a cell that the holder of the object writes. So loom sees a free without a release, and an object
//! with two holders at once.

use super::*;
use crate::limits::PAGE_SIZE;
use crate::page::DescriptorSize;
use crate::ring::tests::{model, thread};
use crate::slab::cpu_slab::CpuSlab;
use crate::slab::stats::SlabLane;
use crate::slab::word::Word;
use crate::sync::shim::UnsafeCell;
use std::sync::Arc;

/// Objects of a slab.
const OBJECTS: u16 = 2;

#[repr(C, align(4096))]
struct Bytes(UnsafeBytes);
type UnsafeBytes = std::cell::UnsafeCell<[u8; PAGE_SIZE]>;

/// Two slabs. The first one is made, and all its objects are out.
struct Site {
    slabs: Slabs,
    table: Table,
    bytes: Box<[Bytes]>,
    held: Vec<UnsafeCell<()>>,
}

// SAFETY: the bytes are accessed through the slabs' links, by the rules that are tested here; the cells are loom's.
unsafe impl Sync for Site {}
// SAFETY: as above.
unsafe impl Send for Site {}

impl Site {
    /// Makes a site. The slab is frozen or not; `min_partial` empty partial slabs are kept.
    fn new(form: WordForm, frozen: bool, min_partial: u32) -> Arc<Site> {
        let layout = Layout::plain(PAGE_SIZE / usize::from(OBJECTS), 8, false);
        let slabs = Slabs::new("modelled", layout, form, 0, min_partial, 0x5eed);
        let table = Table::new(2, DescriptorSize::Compact);
        slabs.form.store(&table, 0, Word::all_out(OBJECTS, frozen));
        let bytes = (0..2).map(|_| Bytes(UnsafeBytes::new([0; PAGE_SIZE]))).collect();
        let held = (0..2 * OBJECTS).map(|_| UnsafeCell::new(())).collect();
        Arc::new(Site { slabs, table, bytes, held })
    }

    fn ground(&self) -> Ground<'_> {
        let base = NonNull::from(&*self.bytes).cast();
        Ground { table: &self.table, base }
    }

    /// The object at a place of the first slab.
    fn object(&self, place: u16) -> Ref {
        self.slabs.at(self.ground(), 0, place, 0)
    }

    /// Writes to an object as its holder.
    fn hold(&self, object: Ref) {
        let place = (object as usize - self.bytes.as_ptr().addr()) / (PAGE_SIZE / usize::from(OBJECTS));
        self.held[place].with_mut(|_| ());
    }

    /// Frees objects of the first slab that are the caller's.
    fn free(&self, places: &[u16], freeze: bool) -> Pushed {
        let mut objects: Vec<Ref> = places.iter().map(|&place| self.object(place)).collect();
        objects.iter().for_each(|&object| self.hold(object));
        // SAFETY: each test gives every object back once.
        unsafe {
            let (chain, left) = self.slabs.chain(self.ground(), &mut objects).expect("objects");
            assert_eq!(left, 0);
            self.slabs.push(self.ground(), &chain, freeze)
        }
    }

    /// Takes what the node's list offers, as a sheaf is refilled.
    fn refill(&self) -> Vec<Ref> {
        let mut got = Vec::new();
        if let Some(slab) = self.slabs.take_partial(self.ground()) {
            self.slabs.detach_each(self.ground(), slab, 0, |object| got.push(object));
        }
        got.iter().for_each(|&object| self.hold(object));
        got
    }

    /// Checks at the end that the slab is on the list exactly if it has free objects and no owner. Takes them.
    fn rest(&self) -> Vec<Ref> {
        let word = self.slabs.form.load(&self.table, 0);
        let listed = lock(&self.slabs.node).partial.len();
        assert_eq!(self.table.desc(0).is_listed(), listed == 1);
        assert!(!word.frozen && listed == usize::from(word.head != 0), "{word:?}, on the list: {listed}");
        let rest = self.refill();
        assert_eq!(rest.len(), usize::from(OBJECTS - word.inuse), "{word:?}");
        rest
    }

    /// All objects, each once.
    fn assert_all(&self, parts: [&[Ref]; 3]) {
        let mut all = parts.concat();
        all.sort_unstable();
        let whole: Vec<Ref> = (1..=OBJECTS).map(|place| self.object(place)).collect();
        assert_eq!(all, whole);
    }
}

/// The places on the freelist, as `destroy` walks it.
fn walk(site: &Site) -> Vec<u16> {
    let word = site.slabs.snapshot(site.ground(), 0);
    let (mut walked, mut place) = (Vec::new(), word.head);
    for _ in word.inuse..OBJECTS {
        assert_ne!(place, 0, "{word:?} promises more than the list has");
        walked.push(place);
        let object = site.object(place);
        site.hold(object);
        // SAFETY: nothing is detached meanwhile.
        place = unsafe { site.slabs.peek_link(site.ground(), 0, object) }.expect("a link");
    }
    walked
}

#[test]
fn a_freelist_that_is_read_while_others_free_is_that_of_one_moment() {
    for form in [WordForm::Packed, WordForm::Wide, WordForm::Lock] {
        model(move || {
            let site = Site::new(form, false, 1);
            site.free(&[1], false);
            // As a free that neither makes the first free object nor the last one, so without the node's lock.
            let other = beside(&site, |site| {
                let object = site.object(2);
                site.hold(object);
                let pushed = site.slabs.update(site.ground(), 0, |word| {
                    // SAFETY: the object is this thread's.
                    unsafe { site.slabs.set_link(site.ground(), object, word.head) };
                    Some(word.pushed(2, 1))
                });
                assert!(pushed.is_some());
            });
            let walked = walk(&site);
            other.join().unwrap();
            assert!([vec![1], vec![2, 1]].contains(&walked), "{walked:?}");
        });
    }
}

/// Runs the model with each form of a slab's word.
fn with_each_form(body: impl Fn(WordForm) + Copy + Send + Sync + 'static) {
    for form in [WordForm::Packed, WordForm::Wide] {
        model(move || body(form));
    }
}

/// Runs `body` on a second thread.
fn beside<R: Send + 'static>(
    site: &Arc<Site>,
    body: impl FnOnce(&Site) -> R + Send + 'static,
) -> thread::JoinHandle<R> {
    let site = Arc::clone(site);
    thread::spawn(move || body(&site))
}

#[test]
fn of_two_threads_that_free_the_last_objects_one_finds_the_slab_empty() {
    with_each_form(|form| {
        let site = Site::new(form, false, 0);
        let other = beside(&site, |site| site.free(&[1], false));
        let both = [site.free(&[2], false), other.join().unwrap()];
        assert_eq!(both.iter().filter(|&pushed| *pushed == Pushed::Empty).count(), 1, "{both:?}");
        assert!(both.contains(&Pushed::Done) && !site.table.desc(0).is_listed());
    });
}

#[test]
fn a_slab_that_goes_from_full_to_empty_in_one_free_is_found_whole_or_not_at_all() {
    with_each_form(|form| {
        let site = Site::new(form, false, 1);
        let other = beside(&site, Site::refill);
        assert_eq!(site.free(&[1, 2], false), Pushed::Done);
        let got = other.join().unwrap();
        assert!(got.is_empty() || got.len() == 2, "{got:?}");
        site.assert_all([&got, &site.rest(), &[]]);
    });
}

#[test]
fn a_slab_that_is_freed_into_while_it_is_taken_off_the_list_is_not_lost() {
    for min_partial in [0, 1] {
        with_each_form(move |form| {
            let site = Site::new(form, false, min_partial);
            assert_eq!(site.free(&[1], false), Pushed::Done);
            let other = beside(&site, Site::refill);
            if site.free(&[2], false) == Pushed::Empty {
                assert_eq!((min_partial, other.join().unwrap().len()), (0, 0));
                assert!(!site.table.desc(0).is_listed());
                return;
            }
            let got = other.join().unwrap();
            site.assert_all([&got, &site.rest(), &[]]);
        });
    }
}

#[test]
fn two_that_refill_at_once_get_no_object_twice() {
    with_each_form(|form| {
        let site = Site::new(form, false, 1);
        site.free(&[1], false);
        let other = beside(&site, |site| {
            let mut got = site.refill();
            site.free(&[2], false);
            got.extend(site.refill());
            got
        });
        let got = site.refill();
        let theirs = other.join().unwrap();
        site.assert_all([&got, &theirs, &site.rest()]);
    });
}

#[test]
fn of_two_that_free_into_a_full_slab_one_freezes_it() {
    with_each_form(|form| {
        let site = Site::new(form, false, 0);
        let other = beside(&site, |site| site.free(&[1], true));
        let both = [site.free(&[2], true), other.join().unwrap()];
        assert!(both.contains(&Pushed::Frozen) && both.contains(&Pushed::IntoFrozen), "{both:?}");
        assert!(!site.table.desc(0).is_listed());
    });
}

#[test]
fn a_slab_given_up_by_its_worker_while_others_free_into_it_is_on_the_list_or_empty() {
    for min_partial in [0, 1] {
        with_each_form(move |form| {
            let site = Site::new(form, true, min_partial);
            let other = beside(&site, |site| site.free(&[1], false));
            let own = site.object(2);
            site.hold(own);
            let chain = Chain { slab: 0, head: 2, last: own, n: 1 };
            // SAFETY: the slab was made frozen, and the object is this thread's.
            let empty = unsafe { site.slabs.unfreeze(site.ground(), 0, Some(&chain)) };
            let pushed = other.join().unwrap();
            if min_partial == 0 {
                assert!(empty != (pushed == Pushed::Empty), "one of them gives it back: {empty}, {pushed:?}");
                assert!(!site.table.desc(0).is_listed());
            } else {
                assert!(!empty && pushed != Pushed::Empty);
                site.assert_all([&site.rest(), &[], &[]]);
            }
        });
    }
}

#[test]
fn a_worker_gets_what_others_free_into_its_active_slab_and_gives_the_rest_back() {
    with_each_form(|form| {
        let site = Site::new(form, true, 1);
        let other = beside(&site, |site| site.free(&[2], false));
        let (mut cpu, lane, mut empty) = (CpuSlab::default(), SlabLane::default(), Vec::new());
        let own = site.object(1);
        site.hold(own);
        // SAFETY: the object is this thread's.
        unsafe { site.slabs.set_link(site.ground(), own, 0) };
        let chain = Chain { slab: 0, head: 1, last: own, n: 1 };
        cpu.adopt(&site.slabs, site.ground(), &chain, &mut empty);
        let pop = |cpu: &mut CpuSlab, empty: &mut Vec<u32>| {
            let object = cpu.pop((&site.slabs, site.ground(), 0), &lane, 4, empty);
            object.into_iter().inspect(|&object| site.hold(object)).collect::<Vec<_>>()
        };
        let first = pop(&mut cpu, &mut empty);
        let second = pop(&mut cpu, &mut empty);
        cpu.flush(&site.slabs, site.ground(), &lane, &mut empty);
        let pushed = other.join().unwrap();
        assert!(empty.is_empty() && matches!(pushed, Pushed::IntoFrozen | Pushed::Done), "{pushed:?}");
        assert_eq!(first, [own]);
        site.assert_all([&first, &second, &site.rest()]);
    });
}

#[test]
fn a_slab_frozen_by_a_free_and_drained_again_meets_a_refill_and_another_free() {
    with_each_form(|form| {
        let site = Site::new(form, false, 1);
        let other = beside(&site, |site| {
            site.free(&[1], false);
            site.refill()
        });
        let (mut cpu, lane, mut empty) = (CpuSlab::default(), SlabLane::default(), Vec::new());
        let own = site.object(2);
        site.hold(own);
        let chain = Chain { slab: 0, head: 2, last: own, n: 1 };
        // SAFETY: the object is this thread's.
        unsafe { cpu.push((&site.slabs, site.ground()), &lane, 4, &chain, &mut empty) };
        cpu.flush(&site.slabs, site.ground(), &lane, &mut empty);
        let got = other.join().unwrap();
        assert!(empty.is_empty(), "one partial slab is kept");
        site.assert_all([&got, &site.rest(), &[]]);
    });
}

#[test]
fn a_slab_emptied_after_a_worker_took_it_off_the_list_is_the_workers() {
    with_each_form(|form| {
        let site = Site::new(form, false, 0);
        assert_eq!(site.free(&[1], false), Pushed::Done);
        // A second partial slab, so that an empty one is one too many.
        let mut neighbour = [site.slabs.at(site.ground(), 1, 1, 0)];
        site.slabs.form.store(&site.table, 1, Word::all_out(OBJECTS, false));
        // SAFETY: the second slab's objects are this test's.
        let (chain, _) = unsafe { site.slabs.chain(site.ground(), &mut neighbour) }.expect("an object");
        // SAFETY: as above.
        assert_eq!(unsafe { site.slabs.push(site.ground(), &chain, false) }, Pushed::Done);
        let other = beside(&site, Site::refill);
        let pushed = site.free(&[2], false);
        let got = other.join().unwrap();
        if pushed == Pushed::Empty {
            assert_eq!(got, neighbour, "the first one had gone, and is given back");
        } else {
            assert!(got.contains(&site.object(1)), "{got:?}");
        }
    });
}
