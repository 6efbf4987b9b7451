//! What is open of one kind, by its words: caches, heads, ready pools, lanes.
//!
//! A worker keeps what it has looked up ([`Known`]): then a call compares two words, and takes no lock.

use crate::errno::{ENFILE, ESTALE};
use crate::failure::Failure;
use crate::word;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Of each kind at most.
const MOST: usize = 4096;

/// What a worker has looked up, by place.
pub type Known<T> = Vec<Option<(u64, T)>>;

/// Why a word names nothing that a worker may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unknown {
    /// It was closed, or never opened.
    Closed,
    /// It belongs to another memory than the worker's.
    OtherMemory,
}

/// All that is open of one kind.
pub struct Opened<T> {
    /// In reports: "heads".
    pub what: &'static str,
    /// What an error says of a word that names none: "the heads were closed, or never opened".
    gone: &'static str,
    /// The word at each place; 0 for none. Read by every call.
    words: [AtomicU64; MOST],
    list: Mutex<Vec<Option<One<T>>>>,
}

struct One<T> {
    word: u64,
    /// Of which memory.
    memory: u64,
    value: T,
}

impl<T: Clone> Opened<T> {
    /// Nothing yet.
    pub const fn new(what: &'static str, gone: &'static str) -> Opened<T> {
        Opened { what, gone, words: [const { AtomicU64::new(0) }; MOST], list: Mutex::new(Vec::new()) }
    }

    fn list(&self) -> MutexGuard<'_, Vec<Option<One<T>>>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether this is the word of one that is open.
    #[inline(always)]
    pub fn is_open(&self, word: u64) -> bool {
        word != 0 && self.words.get(word::place(word)).is_some_and(|at| at.load(Relaxed) == word)
    }

    /// Takes one in; its word.
    ///
    /// # Errors
    /// There are too many.
    pub fn add(&self, value: T, memory: u64) -> Result<u64, Failure> {
        let mut list = self.list();
        let place = list.iter().position(Option::is_none).unwrap_or(list.len());
        if place >= MOST {
            let text = format!("the process has {MOST} open already ({}): close some", self.what);
            return Err(Failure::new(ENFILE, text));
        }
        let word = word::new(place);
        let len = list.len().max(place + 1);
        list.resize_with(len, || None);
        list[place] = Some(One { word, memory, value });
        // Release: for a thread that hears of the word in another way than from this one; it looks it up under the lock.
        self.words[place].store(word, Release);
        Ok(word)
    }

    /// The one of this word, with its memory's.
    ///
    /// # Errors
    /// There is none.
    pub fn get(&self, word: u64) -> Result<(T, u64), Failure> {
        let list = self.list();
        let found = list.get(word::place(word)).and_then(Option::as_ref).filter(|one| one.word == word);
        let found = found.map(|one| (one.value.clone(), one.memory));
        found.ok_or_else(|| Failure::new(ESTALE, self.gone))
    }

    /// Forgets one, unless `is_used` says that it may not.
    ///
    /// # Errors
    /// There is none; or what `is_used` says.
    pub fn close(&self, word: u64, is_used: impl FnOnce(&T) -> Result<(), Failure>) -> Result<(), Failure> {
        let (value, _) = self.get(word)?;
        let at = &self.words[word::place(word)];
        // First: so that no call begins to use it while it is asked.
        at.store(0, Relaxed);
        if let Err(failure) = is_used(&value) {
            at.store(word, Relaxed);
            return Err(failure);
        }
        let taken = self.list().get_mut(word::place(word)).and_then(|at| at.take_if(|one| one.word == word));
        // Without the lock: it may be the last.
        drop((taken, value));
        Ok(())
    }

    /// How many of a memory are open.
    pub fn of_memory(&self, memory: u64) -> usize {
        self.list().iter().flatten().filter(|one| one.memory == memory).count()
    }

    /// How many are open of which `is_one` says so.
    pub fn count(&self, is_one: impl Fn(&T) -> bool) -> usize {
        self.list().iter().flatten().filter(|one| is_one(&one.value)).count()
    }

    /// The one of this word, as a worker of `memory` that knows it finds it; else it gets to know it.
    ///
    /// # Errors
    /// It was closed, or it belongs to another memory.
    #[inline(always)]
    pub fn find<'a>(&self, known: &'a mut Known<T>, memory: u64, word: u64) -> Result<&'a T, Unknown> {
        if !(self.is_open(word) && knows(known, word)) {
            self.get_to_know(known, memory, word)?;
        }
        let found = known.get(word::place(word)).and_then(Option::as_ref);
        found.map(|(_, value)| value).ok_or(Unknown::Closed)
    }

    #[cold]
    #[inline(never)]
    fn get_to_know(&self, known: &mut Known<T>, memory: u64, word: u64) -> Result<(), Unknown> {
        let (value, of) = self.get(word).ok().filter(|_| self.is_open(word)).ok_or(Unknown::Closed)?;
        if of != memory {
            return Err(Unknown::OtherMemory);
        }
        self.put(known, word, value);
        Ok(())
    }

    /// Where something came from, of whatever memory; None where that was closed, and the worker never knew it.
    #[inline(always)]
    pub fn of_part<'a>(&self, known: &'a mut Known<T>, word: u64) -> Option<&'a T> {
        if !knows(known, word) {
            let (value, _) = self.get(word).ok()?;
            self.put(known, word, value);
        }
        known.get(word::place(word)).and_then(Option::as_ref).map(|(_, value)| value)
    }

    /// Adds one, and lets go of those that were closed.
    #[cold]
    fn put(&self, known: &mut Known<T>, word: u64, value: T) {
        known.iter_mut().for_each(|known| drop(known.take_if(|(word, _)| !self.is_open(*word))));
        let place = word::place(word);
        known.resize_with(known.len().max(place + 1), || None);
        known[place] = Some((word, value));
    }
}

#[inline(always)]
fn knows<T>(known: &Known<T>, word: u64) -> bool {
    known.get(word::place(word)).and_then(Option::as_ref).is_some_and(|(known, _)| *known == word)
}
