//! HOT: stocks of objects that are the program's own.

use super::burst::words;
use super::types::{given, list, place, string};
use crate::code::Code;
use crate::errno::{ECHILD, ENOBUFS, ESTALE};
use crate::failure::{CHILD, Failure, answer, first_of};
use crate::misuse::{self, Kind, refused_object};
use crate::process;
use crate::sites::Site;
use crate::stock::{self, Census, Counts, OBJECTS_MAX};
use crate::workers;
use std::ffi::{c_char, c_int, c_void};
use std::slice;

/// A stock: objects of the program's own, each free or out. Any thread may take and give back.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct netmem_stock {
    pub word: u64,
}

/// How a stock is made.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct netmem_stock_config {
    /// What it is called in reports; NULL: "stock".
    pub name: *const c_char,
    /// Objects at most.
    pub objects: u32,
    /// 0.
    pub reserved: [u32; 7],
}

/// Where a stock's objects are: free + cached + out is total, and doubled is 0.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct netmem_census {
    pub total: u64,
    pub free: u64,
    /// Out, and in the caches that the call named.
    pub cached: u64,
    /// Out, and in none: with the program, or lost by it.
    pub out: u64,
    /// In those caches, but free, or twice: given back twice, and not yet come by here.
    pub doubled: u64,
    /// Objects that were taken, and given back, since it was opened.
    pub taken: u64,
    pub given: u64,
    /// Calls that wanted more than were free.
    pub short_of: u64,
    /// Refused: given back twice, and never of this stock.
    pub freed_twice: u64,
    pub made_up: u64,
}

/// Objects that were taken at one place of the program and are out.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct netmem_stock_holder {
    /// As "program+0x1234 (function+0x56)", ended by 0; empty where it is not known.
    pub place: [c_char; 120],
    /// How many.
    pub objects: u64,
}

/// Opens a stock, without an object yet.
///
/// # Safety
/// As of the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_stock_open(
    config: *const netmem_stock_config,
    stock: *mut netmem_stock,
) -> c_int {
    answer(|| {
        workers::begin()?;
        // SAFETY: the promise of C.
        let (config, stock) = unsafe { (given("config", config)?, place("stock", stock)?) };
        let objects = config.objects as usize;
        if !(1..=OBJECTS_MAX).contains(&objects) {
            return Err(Failure::invalid(format!("objects: {objects}: give 1 to {OBJECTS_MAX}")));
        }
        // SAFETY: the promise of C.
        let name = unsafe { string("name", config.name) }?.unwrap_or("stock");
        stock.word = stock::open(name, objects)?;
        Ok(0)
    })
}

/// Closes a stock; returns how many of its objects were out.
#[unsafe(no_mangle)]
pub extern "C" fn netmem_stock_close(stock: netmem_stock) -> c_int {
    answer(|| {
        let out = stock::close(stock.word);
        let out = out.ok_or_else(|| Failure::new(ESTALE, "the stock was closed, or never opened"))?;
        Ok(i32::try_from(out).unwrap_or(i32::MAX))
    })
}

/// Adds objects by their addresses. They are out until they are given back the first time. Nothing is ever read or written there.
///
/// # Safety
/// As of the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_stock_add(stock: netmem_stock, objects: *const *mut c_void, n: u32) -> c_int {
    answer(|| {
        // SAFETY: the promise of C.
        let objects = unsafe { addresses(objects, n as usize) }?;
        let added = stock::with(stock.word, |stock| objects.iter().try_for_each(|&one| stock.add(one)));
        added.ok_or_else(|| Failure::new(ESTALE, "the stock was closed, or never opened"))??;
        Ok(0)
    })
}

/// Takes `n` objects: 0, or -ENOBUFS and none where fewer are free. `from` is the place in the program's code that reports are to name, as
/// `__builtin_return_address(0)`, or NULL.
///
/// # Safety
/// As of the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_stock_take(
    stock: netmem_stock,
    objects: *mut *mut c_void,
    n: u32,
    from: *const c_void,
) -> c_int {
    const CALL: &str = "netmem_stock_take";
    // SAFETY: the promise of C. A pointer is written as the number that its address is.
    let objects = match unsafe { words(objects.cast::<usize>(), n) } {
        Ok(objects) => objects,
        Err(errno) => return errno,
    };
    if process::is_child() {
        return Failure::new(ECHILD, CHILD).keep();
    }
    match stock::with(stock.word, |stock| stock.take(objects, Code(from.addr()))) {
        Some(true) => 0,
        Some(false) => -ENOBUFS,
        None => closed(stock, CALL),
    }
}

/// Gives objects back. Those that are out are free from then on, also when another is refused: then the result is the negative errno of the first
/// that is (-ESTALE: given back twice; -EBADF: not of this stock), and 0 else. `from` is as of netmem_stock_take.
///
/// # Safety
/// As of the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_stock_give(
    stock: netmem_stock,
    objects: *const *mut c_void,
    n: u32,
    from: *const c_void,
) -> c_int {
    const CALL: &str = "netmem_stock_give";
    // SAFETY: the promise of C; they are only read.
    let objects = match unsafe { words(objects.cast::<usize>().cast_mut(), n) } {
        Ok(objects) => objects,
        Err(errno) => return errno,
    };
    if process::is_child() {
        return Failure::new(ECHILD, CHILD).keep();
    }
    let from = Code(from.addr());
    let Some(refused) = stock::with(stock.word, |stock| stock.give(objects, from)) else {
        return closed(stock, CALL);
    };
    if refused.is_empty() {
        return 0;
    }
    // Without the lock: others go on while lines are written.
    let name = stock::with(stock.word, |stock| stock.name.clone()).unwrap_or_default();
    let refuse = |object| refused_object(object, CALL, &name, from);
    refused.iter().fold(0, |first, object| first_of(first, || refuse(object)))
}

#[cold]
#[inline(never)]
fn closed(stock: netmem_stock, call: &str) -> c_int {
    misuse::refused(Kind::Closed, call, "stock", stock.word, Site::UNKNOWN)
}

/// Objects that are free.
#[unsafe(no_mangle)]
pub extern "C" fn netmem_stock_count(stock: netmem_stock) -> c_int {
    let free = stock::with(stock.word, |stock| stock.free());
    free.map_or_else(|| closed(stock, "netmem_stock_count"), |free| free as c_int)
}

/// Counts where a stock's objects are, of which those at the `n` addresses at `cached` lie in caches in front of it. Returns 1 where they add up,
/// and 0 where not; exact while nobody moves one.
///
/// # Safety
/// As of the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_stock_ledger(
    stock: netmem_stock,
    cached: *const *mut c_void,
    n: usize,
    ledger: *mut netmem_census,
) -> c_int {
    answer(|| {
        // SAFETY: the promise of C.
        let (to, cached) = unsafe { (place("ledger", ledger)?, addresses(cached, n)?) };
        let found = stock::with(stock.word, |stock| (stock.census(cached), stock.counts));
        let found = found.ok_or_else(|| Failure::new(ESTALE, "the stock was closed, or never opened"))?;
        let (Census { total, free, cached, out, doubled }, counts) = found;
        let Counts { taken, given, short, freed_twice, strangers } = counts;
        *to = netmem_census {
            total: total as u64,
            free: free as u64,
            cached: cached as u64,
            out: out as u64,
            doubled: doubled as u64,
            taken,
            given,
            short_of: short,
            freed_twice,
            made_up: strangers,
        };
        Ok((free + cached + out == total && doubled == 0).into())
    })
}

/// Where the objects were taken that are out and not `cached`, the place with most first: writes at most `room` and returns how many
/// there are.
///
/// # Safety
/// As of the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_stock_holders(
    stock: netmem_stock,
    cached: *const *mut c_void,
    n: usize,
    holders: *mut netmem_stock_holder,
    room: usize,
) -> c_int {
    answer(|| {
        // SAFETY: the promise of C.
        let cached = unsafe { addresses(cached, n) }?;
        let all = stock::with(stock.word, |stock| stock.holders(cached));
        let all = all.ok_or_else(|| Failure::new(ESTALE, "the stock was closed, or never opened"))?;
        // SAFETY: the promise of C.
        Ok(unsafe { list(holders, room, all.into_iter().map(|(at, n)| holder(at, n))) })
    })
}

fn holder(at: Code, objects: u64) -> netmem_stock_holder {
    let mut place = [0; 120];
    for (to, byte) in place.iter_mut().take(119).zip(at.text().unwrap_or_default().bytes()) {
        *to = c_char::from_ne_bytes([byte]);
    }
    netmem_stock_holder { place, objects }
}

/// The `n` addresses at `objects`.
///
/// # Safety
/// Null, or `n` of them that nobody changes meanwhile.
unsafe fn addresses<'a>(objects: *const *mut c_void, n: usize) -> Result<&'a [usize], Failure> {
    if objects.is_null() {
        return if n == 0 { Ok(&[]) } else { Err(Failure::null("the array")) };
    }
    // SAFETY: the caller's promise; the number that an address is has a pointer's size.
    Ok(unsafe { slice::from_raw_parts(objects.cast::<usize>(), n) })
}
