//! The table of open things of one kind, by handle: caches, heads, ready pools or lanes.
//!
//! A worker keeps the things that it has looked up ([`Known`]). A call then compares two words and takes no lock.

use crate::errno::ENFILE;
use crate::failure::Failure;
use crate::word;
use std::borrow::Cow;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Maximum number of open things of each kind.
const MOST: usize = 4096;

/// The things that a worker has looked up, by place.
pub type Known<T> = Vec<Option<(u64, T)>>;

/// Why a handle names nothing that the worker may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unknown {
    /// The thing was closed, or never opened.
    Closed,
    /// The thing belongs to another memory than the worker.
    OtherMemory,
}

/// All open things of one kind.
pub struct Opened<T> {
    /// The kind in reports, such as "heads".
    pub what: &'static str,
    /// Several of the kind.
    several: &'static str,
    /// The handle at each place, 0 for none. Every call reads it.
    words: [AtomicU64; MOST],
    list: Mutex<Vec<Option<One<T>>>>,
    /// Held while a thing is being closed. Its handle is 0 then, and comes back if the thing turns out to be in use.
    closing: Mutex<()>,
}

struct One<T> {
    word: u64,
    /// The handle of its memory.
    memory: u64,
    value: T,
}

impl<T: Clone> Opened<T> {
    /// Makes an empty table.
    pub const fn new(what: &'static str, several: &'static str) -> Opened<T> {
        let words = [const { AtomicU64::new(0) }; MOST];
        Opened { what, several, words, list: Mutex::new(Vec::new()), closing: Mutex::new(()) }
    }

    fn closing(&self) -> MutexGuard<'_, ()> {
        self.closing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn list(&self) -> MutexGuard<'_, Vec<Option<One<T>>>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether this is the handle of an open thing.
    #[inline(always)]
    pub fn is_open(&self, word: u64) -> bool {
        word != 0 && self.words.get(word::place(word)).is_some_and(|at| at.load(Relaxed) == word)
    }

    /// Registers a thing. Returns its handle.
    ///
    /// # Errors
    /// The process has the maximum number already.
    pub fn add(&self, value: T, memory: u64) -> Result<u64, Failure> {
        let mut list = self.list();
        let place = list.iter().position(Option::is_none).unwrap_or(list.len());
        if place >= MOST {
            let text = format!("the process has {MOST} {} open already: close some", self.several);
            return Err(Failure::new(ENFILE, text));
        }
        let word = word::new(place);
        let len = list.len().max(place + 1);
        list.resize_with(len, || None);
        list[place] = Some(One { word, memory, value });
        // Release: for a thread that gets the handle in another way than from this thread. It looks the thing
        // up under the lock.
        self.words[place].store(word, Release);
        Ok(word)
    }

    /// Returns the thing of this handle, with the handle of its memory.
    ///
    /// # Errors
    /// Nothing open has this handle.
    pub fn get(&self, word: u64) -> Result<(T, u64), Failure> {
        let list = self.list();
        let found = list.get(word::place(word)).and_then(Option::as_ref).filter(|one| one.word == word);
        let found = found.map(|one| (one.value.clone(), one.memory));
        found.ok_or_else(|| Failure::closed(self.what, word))
    }

    /// Removes a thing, unless `is_used` returns an error. Returns the thing, for the caller to empty it: workers that
    /// have looked it up still have it.
    ///
    /// # Errors
    /// Nothing open has this handle, or the error of `is_used`.
    pub fn close(&self, word: u64, is_used: impl Fn(&T) -> Result<(), Failure>) -> Result<T, Failure> {
        let (value, _) = self.get(word)?;
        // A thing that is plainly in use is refused before the calls of other workers have to wait.
        is_used(&value)?;
        let closing = self.closing();
        self.get(word)?;
        let at = &self.words[word::place(word)];
        // Cleared first, so that no call begins to use the thing during the check.
        at.store(0, Relaxed);
        if let Err(failure) = is_used(&value) {
            at.store(word, Relaxed);
            return Err(failure);
        }
        let taken = self.list().get_mut(word::place(word)).and_then(|at| at.take_if(|one| one.word == word));
        drop(closing);
        // Without the locks, because this may be the last reference.
        drop(taken);
        Ok(value)
    }

    /// Returns the number of open things of a memory.
    pub fn of_memory(&self, memory: u64) -> usize {
        self.list().iter().flatten().filter(|one| one.memory == memory).count()
    }

    /// Returns the number of open things for which `is_one` returns true.
    pub fn count(&self, is_one: impl Fn(&T) -> bool) -> usize {
        self.list().iter().flatten().filter(|one| is_one(&one.value)).count()
    }

    /// Returns the thing of this handle, from the table of a worker of `memory`. If it is not in that table,
    /// looks it up and adds it.
    ///
    /// # Errors
    /// The thing was closed, or it belongs to another memory.
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
        // A close that is under way may yet find the thing in use.
        let closing = self.closing();
        let (value, of) = self.get(word).ok().filter(|_| self.is_open(word)).ok_or(Unknown::Closed)?;
        drop(closing);
        if of != memory {
            return Err(Unknown::OtherMemory);
        }
        self.put(known, word, value);
        Ok(())
    }

    /// Returns the source of something, for a worker of `memory`. Returns None if the source was closed and the worker
    /// never looked it up.
    #[inline(always)]
    pub fn of_part<'a>(&self, known: &'a mut Known<T>, memory: u64, word: u64) -> Option<Cow<'a, T>> {
        if !knows(known, word) {
            return self.get_source(known, memory, word);
        }
        known.get(word::place(word)).and_then(Option::as_ref).map(|(_, value)| Cow::Borrowed(value))
    }

    /// As [`Opened::of_part`], for a source that the worker does not know. A source of another memory stays unknown: in
    /// the worker's table it would keep that memory from being closed.
    #[cold]
    #[inline(never)]
    fn get_source<'a>(&self, known: &'a mut Known<T>, memory: u64, word: u64) -> Option<Cow<'a, T>> {
        let (value, of) = self.get(word).ok()?;
        if of != memory {
            return Some(Cow::Owned(value));
        }
        self.put(known, word, value);
        known.get(word::place(word)).and_then(Option::as_ref).map(|(_, value)| Cow::Borrowed(value))
    }

    /// Adds a thing to the worker's table, and drops those that were closed.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::errno::EBUSY;
    use crate::errno::ESTALE;
    use std::cell::Cell;
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    /// Seen: while a close that was to be refused looked for users, the calls of other workers found the thing closed.
    #[test]
    fn a_close_that_is_refused_disturbs_no_other_worker() {
        let (opened, rounds) = (Opened::<u8>::new("things", "closed"), Cell::new(0));
        let word = opened.add(7, 1).unwrap();
        let (found, answers) = mpsc::channel();
        thread::scope(|scope| {
            let refused = opened.close(word, |_| {
                rounds.set(rounds.get() + 1);
                if rounds.get() == 1 {
                    return Ok(());
                }
                let (found, opened) = (found.clone(), &opened);
                scope.spawn(move || found.send(opened.find(&mut Known::new(), 1, word).copied()));
                // An answer now would be wrong; a right one comes when the close has ended.
                assert_eq!(answers.recv_timeout(Duration::from_millis(200)).ok(), None);
                Err(Failure::new(EBUSY, "in use"))
            });
            assert_eq!(refused.unwrap_err().errno, EBUSY);
        });
        assert_eq!((rounds.get(), answers.recv(), opened.is_open(word)), (2, Ok(Ok(7)), true));
        opened.close(word, |_| Ok(())).unwrap();
        assert_eq!(opened.find(&mut Known::new(), 1, word).copied(), Err(Unknown::Closed));
        assert_eq!(opened.close(word, |_| Ok(())).unwrap_err().errno, ESTALE);
    }
}
