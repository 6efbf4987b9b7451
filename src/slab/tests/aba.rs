//! The purpose of the tag: a pop that compares the head alone mistakes a head that was away for the old one.

use crate::page::DescriptorSize;
use crate::page::Table;
use crate::slab::word::{Word, WordForm};
use crate::stats::Count;
use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicU16, Ordering::Relaxed};

/// The links of a slab's free objects, by place.
type Links = [Cell<u16>; 4];

/// A freelist 1 → 2 → 3.
fn links() -> Links {
    [0, 2, 3, 0].map(Cell::new)
}

/// Pops by a CAS of the head alone; `meanwhile` is what another thread does between the reading and the CAS.
fn pop_by_head(head: &AtomicU16, links: &Links, meanwhile: impl FnOnce()) -> u16 {
    let mut meanwhile = Some(meanwhile);
    loop {
        let first = head.load(Relaxed);
        let next = links[usize::from(first)].get();
        if let Some(meanwhile) = meanwhile.take() {
            meanwhile();
        }
        if head.compare_exchange(first, next, Relaxed, Relaxed).is_ok() {
            return first;
        }
    }
}

#[test]
fn a_pop_that_compares_the_head_alone_gives_an_object_out_twice() {
    let (head, links, out) = (AtomicU16::new(1), links(), RefCell::new(Vec::new()));
    let first = pop_by_head(&head, &links, || {
        let (a, b) = (pop_by_head(&head, &links, || ()), pop_by_head(&head, &links, || ()));
        // The first one comes back, the second stays out.
        links[usize::from(a)].set(head.swap(a, Relaxed));
        out.borrow_mut().push(b);
    });
    out.borrow_mut().push(first);
    out.borrow_mut().push(pop_by_head(&head, &links, || ()));
    assert_eq!(*out.borrow(), [2, 1, 2], "the fault: 2 is out twice");
}

/// The same pop on the tagged word, whose count of changes the CAS compares too.
fn pop_by_word(slab: &Slab, meanwhile: impl FnOnce()) -> u16 {
    let mut meanwhile = Some(meanwhile);
    let changed = slab.update(|word| {
        let next = slab.links[usize::from(word.head)].get();
        if let Some(meanwhile) = meanwhile.take() {
            meanwhile();
        }
        word.pushed(next, 0)
    });
    changed.head
}

struct Slab {
    form: WordForm,
    table: Table,
    links: Links,
    failed: Count,
}

impl Slab {
    fn new(form: WordForm) -> Slab {
        let table = Table::new(1, DescriptorSize::Compact);
        form.store(&table, 0, Word::all_out(3, false).pushed(1, 3));
        Slab { form, table, links: links(), failed: Count::default() }
    }

    /// Changes the word. Returns the word before.
    fn update(&self, mut change: impl FnMut(Word) -> Word) -> Word {
        let changed = self.form.update(&self.table, 0, &self.failed, |word| Some(change(word)));
        changed.expect("always changed").0
    }
}

#[test]
fn the_same_pop_on_the_tagged_word_sees_that_the_head_was_away() {
    for form in [WordForm::Packed, WordForm::Wide] {
        let (slab, out) = (Slab::new(form), RefCell::new(Vec::new()));
        let first = pop_by_word(&slab, || {
            let (a, b) = (pop_by_word(&slab, || ()), pop_by_word(&slab, || ()));
            slab.update(|word| {
                slab.links[usize::from(a)].set(word.head);
                word.pushed(a, 0)
            });
            out.borrow_mut().push(b);
        });
        out.borrow_mut().push(first);
        out.borrow_mut().push(pop_by_word(&slab, || ()));
        assert_eq!(*out.borrow(), [2, 1, 3], "{form:?}: each is out once");
        assert_eq!(slab.failed.get(), 1, "{form:?}: the first CAS failed, though the head was the same");
    }
}
