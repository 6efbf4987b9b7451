//! HOT: stocks of objects that lie in memory of the program. Each object is free or out.
//!
//! A stock serves programs that have objects already and need a list of the free ones, such as a DPDK mempool. Any
//! thread takes objects and gives them back, by address. A stock records for each object whether it is out, and the
//! call site of its last use. So a call that gives an object back twice, or one that is not of the stock, is refused at
//! once, even if two threads do so at the same time: each call locks the stock. A signal handler that interrupted such a
//! call is refused, and may only ask how many objects are free. Queries are in `census.rs`.

use crate::code::Code;
use crate::errno::{ENFILE, ENOBUFS, ENOMEM};
use crate::failure::{Barred, Failure};
use crate::lock::{Held, Lock};
use crate::misuse::{Kind, Refused};
use crate::word;
use std::cell::Cell;
use std::collections::TryReserveError;
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU64, AtomicUsize};

/// Maximum number of stocks.
const STOCKS: usize = 4096;
/// Maximum number of objects of a stock. Their numbers, and the indices of a table twice as large, fit into
/// 32 bits.
pub const OBJECTS_MAX: usize = 1 << 30;

/// The place of a stock. It has its own cache lines, because each call changes it.
#[repr(align(128))]
struct Place {
    kept: Lock<Option<Kept>>,
    /// The handle of the stock, 0 if there is none, and the number of its free objects: a signal handler reads them while the
    /// interrupted call holds the lock. They change only under the lock.
    word: AtomicU64,
    free: AtomicUsize,
}

/// A cell, because it has no invalid values: with one of those for None, the table would not be all zeros and would
/// take its megabyte in the file of the library.
type Kept = Cell<Stock>;

static PLACES: [Place; STOCKS] =
    [const { Place { kept: Lock::new(None), word: AtomicU64::new(0), free: AtomicUsize::new(0) } }; STOCKS];

/// The objects, and which of them are free.
#[derive(Debug)]
pub struct Stock {
    pub name: String,
    room: usize,
    /// By number.
    objects: Vec<Object>,
    /// A hash table with open addressing: the number of the object at an address, plus one; 0 in a free place.
    /// The size is a power of two, at least twice the maximum number of objects.
    numbers: Vec<u32>,
    /// The numbers of the free objects. The object given back last is taken first.
    free: Vec<u32>,
    pub counts: Counts,
}

/// An object, and its last use.
#[derive(Clone, Copy, Debug)]
pub struct Object {
    pub address: usize,
    /// The code address at which the object was taken if it is out, or given back if it is free. 0 if that is
    /// not known. The upper bit says that the object is out.
    last: usize,
}

/// The upper bit of [`Object::last`]. No program has code at such an address.
const OUT: usize = 1 << (usize::BITS - 1);

impl Object {
    /// Whether the object is out.
    pub fn is_out(self) -> bool {
        self.last & OUT != 0
    }

    /// Returns the code address of its last use.
    pub fn at(self) -> Code {
        Code(self.last & !OUT)
    }
}

/// The counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub taken: u64,
    pub given: u64,
    /// Calls that asked for more objects than were free.
    pub short: u64,
    pub freed_twice: u64,
    /// Addresses that are not objects of the stock.
    pub made_up: u64,
    /// Calls that made the stock forget its objects.
    pub cleared: u64,
}

/// The sizes and the counters of a stock at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// Number of objects.
    pub total: usize,
    /// Number of free objects.
    pub free: usize,
    pub counts: Counts,
}

/// Locks and returns the stock of this handle.
#[inline]
fn find(word: u64) -> Result<(&'static Place, Held<'static, Option<Kept>>), Barred> {
    let place = PLACES.get(word::place(word)).ok_or(Barred::Closed)?;
    let kept = place.kept.lock().ok_or(Barred::Busy)?;
    if place.word.load(Relaxed) == word { Ok((place, kept)) } else { Err(Barred::Closed) }
}

/// Calls `with` with the stock of this handle, which is locked during the call.
#[inline]
pub fn with<R>(word: u64, with: impl FnOnce(&mut Stock) -> R) -> Result<R, Barred> {
    let (place, mut kept) = find(word)?;
    let stock = kept.as_mut().map(Cell::get_mut).ok_or(Barred::Closed)?;
    let result = with(stock);
    place.free.store(stock.free.len(), Relaxed);
    Ok(result)
}

/// Returns the number of free objects, without the lock. Returns None if the stock was closed or never opened.
#[inline]
pub fn free(word: u64) -> Option<usize> {
    let place = PLACES.get(word::place(word)).filter(|_| word != 0)?;
    let free = place.free.load(Relaxed);
    (place.word.load(Relaxed) == word).then_some(free)
}

/// Opens a stock for at most `room` objects. Returns its handle.
///
/// # Errors
/// There are too many stocks, or there is no memory for its tables.
#[cold]
pub fn open(name: &str, room: usize) -> Result<u64, Failure> {
    let none = |_| Failure::new(ENOMEM, format!("there is no memory for the tables of {room} objects"));
    let (objects, free) = (tried(room).map_err(none)?, tried(room).map_err(none)?);
    let places = (2 * room).next_power_of_two();
    // There is that much memory. Zeros come from the kernel, which allocates a page when it is used.
    drop(tried::<u32>(places).map_err(none)?);
    let numbers = vec![0; places];
    for (at, place) in PLACES.iter().enumerate() {
        // One that an interrupted call has is not free.
        if let Some(mut kept) = place.kept.lock().filter(|kept| kept.is_none()) {
            let (word, name, counts) = (word::new(at), name.to_owned(), Counts::default());
            *kept = Some(Cell::new(Stock { name, room, objects, numbers, free, counts }));
            place.free.store(0, Relaxed);
            place.word.store(word, Relaxed);
            return Ok(word);
        }
    }
    Err(Failure::new(ENFILE, format!("the process has {STOCKS} stocks already: close one")))
}

/// Returns an empty list with room for that many.
fn tried<T>(room: usize) -> Result<Vec<T>, TryReserveError> {
    let mut list = Vec::new();
    list.try_reserve_exact(room)?;
    Ok(list)
}

/// Closes a stock. Returns the number of its objects that are out.
#[cold]
pub fn close(word: u64) -> Result<usize, Barred> {
    let (place, mut kept) = find(word)?;
    place.word.store(0, Relaxed);
    let gone = kept.take().ok_or(Barred::Closed)?;
    Ok(gone.into_inner().out())
}

impl Stock {
    /// Returns the index at which the search for an address begins.
    #[inline(always)]
    fn begin(&self, address: usize) -> usize {
        let mixed = (address as u64 >> 3).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> 32) as usize & (self.numbers.len() - 1)
    }

    /// Returns the number of the object at this address.
    #[inline(always)]
    fn number(&self, address: usize) -> Option<u32> {
        let mut at = self.begin(address);
        loop {
            // There is always a free place, because at least half of all places are free.
            let number = self.numbers.get(at)?.checked_sub(1)?;
            if self.objects.get(number as usize)?.address == address {
                return Some(number);
            }
            at = (at + 1) & (self.numbers.len() - 1);
        }
    }

    /// Adds an object. It is out until it is given back.
    ///
    /// # Errors
    /// The stock is full, or has the object already, or the address is 0.
    #[cold]
    pub fn add(&mut self, address: usize) -> Result<(), Failure> {
        if self.objects.len() == self.room {
            let text = format!("{}: there is room for only {} objects", self.name, self.room);
            return Err(Failure::new(ENOBUFS, text));
        }
        if address == 0 || self.number(address).is_some() {
            return Err(Failure::invalid(format!(
                "{}: object {address:#x} is 0, or was added already",
                self.name
            )));
        }
        let mut at = self.begin(address);
        while self.numbers[at] != 0 {
            at = (at + 1) & (self.numbers.len() - 1);
        }
        self.objects.push(Object { address, last: OUT });
        self.numbers[at] = self.objects.len() as u32;
        Ok(())
    }

    /// Takes as many objects as `to` has places. Returns false and takes none if fewer are free.
    #[inline]
    pub fn take(&mut self, to: &mut [usize], from: Code) -> bool {
        let Some(rest) = self.free.len().checked_sub(to.len()) else {
            self.counts.short += 1;
            return false;
        };
        for (to, &number) in to.iter_mut().zip(self.free[rest..].iter().rev()) {
            let object = &mut self.objects[number as usize];
            object.last = from.0 | OUT;
            *to = object.address;
        }
        self.free.truncate(rest);
        self.counts.taken += to.len() as u64;
        true
    }

    /// Gives objects back. Returns those that are refused; an empty list allocates no memory.
    #[inline]
    pub fn give(&mut self, objects: &[usize], from: Code) -> Vec<Refused> {
        let mut refused = Vec::new();
        for &address in objects {
            match self.number(address) {
                Some(number) if self.objects[number as usize].is_out() => {
                    self.objects[number as usize].last = from.0 & !OUT;
                    self.free.push(number);
                }
                other => self.refuse(address, other, &mut refused),
            }
        }
        self.counts.given += (objects.len() - refused.len()) as u64;
        refused
    }

    #[cold]
    #[inline(never)]
    fn refuse(&mut self, address: usize, number: Option<u32>, refused: &mut Vec<Refused>) {
        let (kind, before) = match number {
            Some(number) => (Kind::FreedTwice, self.objects[number as usize].at()),
            None => (Kind::MadeUp, Code::UNKNOWN),
        };
        let counts = &mut self.counts;
        *if kind == Kind::FreedTwice { &mut counts.freed_twice } else { &mut counts.made_up } += 1;
        refused.push(Refused { kind, address, before });
    }

    fn out(&self) -> usize {
        self.objects.len() - self.free.len()
    }

    /// Forgets all objects. Returns the number of those that were out.
    #[cold]
    pub fn clear(&mut self) -> usize {
        let out = self.out();
        if !self.objects.is_empty() {
            self.numbers.fill(0);
            self.objects.clear();
            self.free.clear();
            self.counts.cleared += 1;
        }
        out
    }

    /// Returns the sizes and the counters.
    #[cold]
    pub fn moment(&self) -> Moment {
        Moment { total: self.objects.len(), free: self.free.len(), counts: self.counts }
    }

    /// Returns whether this is the address of an object that is out.
    #[cold]
    pub fn is_out(&self, address: usize) -> bool {
        self.number(address).is_some_and(|number| self.objects[number as usize].is_out())
    }

    /// Returns whether this is the address of an object of the stock.
    #[cold]
    pub fn has(&self, address: usize) -> bool {
        self.number(address).is_some()
    }

    /// Returns the objects with these numbers, as far as the stock has them.
    #[cold]
    pub fn numbered(&self, numbers: Range<usize>) -> &[Object] {
        let end = numbers.end.min(self.objects.len());
        self.objects.get(numbers.start..end).unwrap_or_default()
    }
}
