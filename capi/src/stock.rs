//! HOT: stocks: objects that lie in the program's own memory, each free or out.
//!
//! For who has objects already and a list of the free ones, as a mempool of DPDK does: any thread takes and gives back, by address.
//! Each object says whether it is out, and where in the program that began; so what is given back twice, or never was of the stock, is
//! found in the same call, also when two threads do it at once: a call has the stock to itself.

use crate::code::Code;
use crate::errno::{ENFILE, ENOBUFS, ENOMEM};
use crate::failure::Failure;
use crate::misuse::{Kind, Refused};
use crate::word;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Stocks at most.
const STOCKS: usize = 256;
/// Objects of a stock at most: their numbers, and the places of a table twice as large, fit 32 bits.
pub const OBJECTS_MAX: usize = 1 << 30;

/// A stock's place; on lines of its own, since each call changes it.
#[repr(align(128))]
struct Place(Mutex<Option<Stock>>);

static PLACES: [Place; STOCKS] = [const { Place(Mutex::new(None)) }; STOCKS];

/// The objects, and which of them are free.
#[derive(Debug)]
pub struct Stock {
    word: u64,
    pub name: String,
    room: usize,
    /// By number.
    objects: Vec<Object>,
    /// The number of the object at an address, by open addressing; [`NOBODY`] in a free place. A power of two, at least twice the room.
    numbers: Vec<u32>,
    /// The numbers of those that are free; the one given back last is taken first.
    free: Vec<u32>,
    pub counts: Counts,
}

/// No number of an object.
const NOBODY: u32 = u32::MAX;

/// An object, and its last use.
#[derive(Clone, Copy, Debug)]
struct Object {
    address: usize,
    /// Where it was taken, if it is out, and else where it was given back; 0 where that is not known. The upper bit says that it is out.
    last: usize,
}

/// In [`Object::last`]. No program has code at such an address.
const OUT: usize = 1 << (usize::BITS - 1);

impl Object {
    fn is_out(self) -> bool {
        self.last & OUT != 0
    }

    fn at(self) -> Code {
        Code(self.last & !OUT)
    }
}

/// What happened so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    pub taken: u64,
    pub given: u64,
    /// Calls that wanted more than were free.
    pub short: u64,
    pub freed_twice: u64,
    /// Addresses that are no object's.
    pub strangers: u64,
}

/// Where the objects are.
#[derive(Clone, Copy, Debug, Default)]
pub struct Census {
    pub total: usize,
    pub free: usize,
    /// Out, and in the caches that the caller named.
    pub cached: usize,
    /// Out, and in none.
    pub out: usize,
    /// In such a cache, and free all the same, or in it twice.
    pub doubled: usize,
}

/// The stock of this word, alone; None where it was closed, or never opened.
#[inline]
fn find(word: u64) -> Option<Found> {
    let place = PLACES.get(word::place(word))?;
    let stock = place.0.lock().unwrap_or_else(PoisonError::into_inner);
    stock.as_ref().is_some_and(|stock| stock.word == word).then_some(stock)
}

type Found = MutexGuard<'static, Option<Stock>>;

/// Calls `with` with the stock of this word, which nobody else has meanwhile.
#[inline]
pub fn with<R>(word: u64, with: impl FnOnce(&mut Stock) -> R) -> Option<R> {
    find(word)?.as_mut().map(with)
}

/// Opens a stock for so many objects; its word.
///
/// # Errors
/// There are too many stocks, or there is no memory for its tables.
#[cold]
pub fn open(name: &str, room: usize) -> Result<u64, Failure> {
    let none = |_| Failure::new(ENOMEM, format!("there is no memory for the tables of {room} objects"));
    let (mut objects, mut numbers, mut free) = (Vec::new(), Vec::new(), Vec::new());
    objects.try_reserve_exact(room).map_err(none)?;
    free.try_reserve_exact(room).map_err(none)?;
    let places = (2 * room).next_power_of_two();
    numbers.try_reserve_exact(places).map_err(none)?;
    numbers.resize(places, NOBODY);
    for (at, place) in PLACES.iter().enumerate() {
        let mut stock = place.0.lock().unwrap_or_else(PoisonError::into_inner);
        if stock.is_none() {
            let (word, name, counts) = (word::new(at), name.to_owned(), Counts::default());
            *stock = Some(Stock { word, name, room, objects, numbers, free, counts });
            return Ok(word);
        }
    }
    Err(Failure::new(ENFILE, format!("the process has {STOCKS} stocks already: close one")))
}

/// Closes a stock; how many of its objects are out. None where there is none.
#[cold]
pub fn close(word: u64) -> Option<usize> {
    let gone = find(word)?.take();
    gone.map(|stock| stock.out())
}

impl Stock {
    /// Where the search for an address begins.
    #[inline(always)]
    fn begin(&self, address: usize) -> usize {
        let mixed = (address as u64 >> 3).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> 32) as usize & (self.numbers.len() - 1)
    }

    /// The number of the object at this address.
    #[inline(always)]
    fn number(&self, address: usize) -> Option<u32> {
        let mut at = self.begin(address);
        loop {
            // There is always a free place: half of them are.
            let number = *self.numbers.get(at)?;
            if self.objects.get(number as usize)?.address == address {
                return Some(number);
            }
            at = (at + 1) & (self.numbers.len() - 1);
        }
    }

    /// Takes an object in. It is out until it is given back.
    ///
    /// # Errors
    /// There is no room, or it is here already.
    #[cold]
    pub fn add(&mut self, address: usize) -> Result<(), Failure> {
        if self.objects.len() == self.room {
            let text = format!("{}: there is room for {} objects, and no more", self.name, self.room);
            return Err(Failure::new(ENOBUFS, text));
        }
        if address == 0 || self.number(address).is_some() {
            return Err(Failure::invalid(format!(
                "{}: object {address:#x} is 0, or was added already",
                self.name
            )));
        }
        let mut at = self.begin(address);
        while self.numbers[at] != NOBODY {
            at = (at + 1) & (self.numbers.len() - 1);
        }
        self.numbers[at] = self.objects.len() as u32;
        self.objects.push(Object { address, last: OUT });
        Ok(())
    }

    /// Takes as many objects as `to` has places, or none; false where fewer are free.
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

    /// Gives objects back; those that are refused. A list of none takes no memory.
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
        *if kind == Kind::FreedTwice { &mut counts.freed_twice } else { &mut counts.strangers } += 1;
        refused.push(Refused { kind, address, before });
    }

    /// Objects that are free.
    pub fn free(&self) -> usize {
        self.free.len()
    }

    fn out(&self) -> usize {
        self.objects.iter().filter(|object| object.is_out()).count()
    }

    /// Counts where the objects are; `cached` are the addresses that lie in caches of the program's.
    #[cold]
    pub fn census(&self, cached: &[usize]) -> Census {
        let seen: BTreeSet<usize> = cached.iter().copied().collect();
        let is_out = |&address: &usize| {
            self.number(address).is_some_and(|number| self.objects[number as usize].is_out())
        };
        let within = seen.iter().copied().filter(is_out).count();
        Census {
            total: self.objects.len(),
            free: self.free.len(),
            cached: within,
            out: self.out() - within,
            doubled: cached.len() - within,
        }
    }

    /// Where the objects were taken that are out and not among `cached`, the place with most first.
    #[cold]
    pub fn holders(&self, cached: &[usize]) -> Vec<(Code, u64)> {
        let cached: BTreeSet<usize> = cached.iter().copied().collect();
        let mut by_place = BTreeMap::new();
        let out = self.objects.iter().filter(|object| object.is_out() && !cached.contains(&object.address));
        out.for_each(|object| *by_place.entry(object.at().0).or_insert(0) += 1);
        let mut all: Vec<(Code, u64)> = by_place.into_iter().map(|(at, n)| (Code(at), n)).collect();
        all.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
        all
    }
}
