//! HOT: stocks of objects that belong to the program.

use super::burst::words;
use super::types::{given, list, place, string, unreserved};
use crate::answer::answer;
use crate::census::{self, Census};
use crate::code::Code;
use crate::errno::ENOBUFS;
use crate::failure::{Barred, Failure, first_of, short};
use crate::misuse::{self, Kind, refused_object};
use crate::process;
use crate::sites::Site;
use crate::stock::{self, Counts, OBJECTS_MAX};
use crate::workers;
use std::ffi::{c_char, c_int, c_void};
use std::slice;

/// Handle of a stock. A stock records which objects of the program are free and which are out (taken). The
/// objects lie in memory of the program. Any thread may use a stock. A signal handler may call
/// netmem_stock_count with an open stock. Its other calls with a stock fail with -EBUSY and change nothing if it
/// interrupted a call with the same stock. If not, they may wait for another thread's call.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct netmem_stock {
    pub word: u64,
}

/// Options of netmem_stock_open.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct netmem_stock_config {
    /// Name in reports. NULL: "stock".
    pub name: *const c_char,
    /// Maximum number of objects, 1 to 2^30.
    pub objects: u32,
    /// Must be 0.
    pub reserved: [u32; 7],
}

/// Number of objects of a stock in each state. free + cached + out equals total, and duplicated is 0, if the
/// state of all objects is consistent.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct netmem_stock_counts {
    /// Objects that were added.
    pub total: u64,
    /// Free.
    pub free: u64,
    /// Out, and in one of the caches that the call named.
    pub cached: u64,
    /// Out, and in none of these caches: in use by the program, or lost.
    pub out: u64,
    /// In one of these caches although free, or in the caches twice. The program gave such an object back
    /// twice, and the stock has not seen the second time yet.
    pub duplicated: u64,
    /// Objects taken since the stock was opened.
    pub taken: u64,
    /// Objects given back since the stock was opened.
    pub returned: u64,
    /// Calls that asked for more objects than were free.
    pub failed: u64,
    /// Refused: objects that were given back twice.
    pub freed_twice: u64,
    /// Addresses that are not objects of the stock: refused, or in one of these caches.
    pub made_up: u64,
    /// 0 in this version.
    pub reserved: [u64; 6],
}

/// Objects that one call site took and that are still out.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct netmem_stock_holder {
    /// The call site as "program+0x1234 (function+0x56)", a string that ends with a 0 byte. Empty if it is
    /// not known.
    pub site: [c_char; 120],
    /// Number of objects.
    pub objects: u64,
    /// 0 in this version.
    pub reserved: [u64; 2],
}

/// Opens an empty stock and writes its handle to `stock`.
/// Returns 0, -EFAULT if `config` is NULL, -EINVAL if `objects` is out of range, -ENOMEM if there is no
/// memory for its tables, or -ENFILE if the process has 4096 stocks.
///
/// # Safety
/// See the module.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_stock_open(
    config: *const netmem_stock_config,
    stock: *mut netmem_stock,
) -> c_int {
    answer("netmem_stock_open", || {
        // SAFETY: the promise of C.
        let (config, stock) = unsafe { (given("config", config)?, place("stock", stock)?) };
        unreserved("netmem_stock_config", &config.reserved)?;
        let objects = config.objects as usize;
        if !(1..=OBJECTS_MAX).contains(&objects) {
            return Err(Failure::invalid(format!("objects: {objects}: give 1 to {OBJECTS_MAX}")));
        }
        // SAFETY: the promise of C.
        let name = unsafe { string("name", config.name) }?.unwrap_or("stock");
        stock.word = stock::open(name, objects)?;
        // Last, as for a memory: a call that fails leaves the process as it was.
        workers::begin()?;
        Ok(0)
    })
}

/// Closes a stock.
/// Returns the number of its objects that were out.
#[unsafe(no_mangle)]
pub extern "C" fn netmem_stock_close(stock: netmem_stock) -> c_int {
    answer("netmem_stock_close", || {
        let out = stock::close(stock.word);
        let out = out.map_err(|barred| Failure::barred(barred, stock.word))?;
        Ok(i32::try_from(out).unwrap_or(i32::MAX))
    })
}

/// Adds `n` objects by address. An object is out until it is given back for the first time. The library never
/// reads or writes the memory of an object.
/// Returns 0, -ENOBUFS if the stock has its maximum number of objects, or -EINVAL if an address is NULL or
/// was added before. On failure the objects before the failing one stay added.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_stock_add(stock: netmem_stock, objects: *const *mut c_void, n: u32) -> c_int {
    answer("netmem_stock_add", || {
        // SAFETY: the promise of C.
        let objects = unsafe { addresses(objects, n as usize) }?;
        let added = stock::with(stock.word, |stock| objects.iter().try_for_each(|&one| stock.add(one)));
        added.map_err(|barred| Failure::barred(barred, stock.word))??;
        Ok(0)
    })
}

/// Forgets all objects of a stock, free or out, such as objects whose memory the program frees. The stock has
/// room for its maximum number again, and refuses the objects that it forgot. The counters go on.
/// Returns the number of objects that were out.
#[unsafe(no_mangle)]
pub extern "C" fn netmem_stock_clear(stock: netmem_stock) -> c_int {
    answer("netmem_stock_clear", || {
        let out = stock::with(stock.word, |stock| stock.clear());
        let out = out.map_err(|barred| Failure::barred(barred, stock.word))?;
        Ok(i32::try_from(out).unwrap_or(i32::MAX))
    })
}

/// Takes `n` objects and writes their addresses to `objects`. `from` is the code address that reports show as
/// the call site, such as `__builtin_return_address(0)`, or NULL.
/// Returns 0, or -ENOBUFS if fewer than `n` objects are free. After -ENOBUFS no object was taken.
///
/// # Safety
/// See the module.
#[must_use]
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
        return child(stock, CALL);
    }
    match stock::with(stock.word, |stock| stock.take(objects, Code(from.addr()))) {
        Ok(true) => 0,
        // A driver asks again and again: this takes no memory.
        Ok(false) => {
            short(ENOBUFS, format_args!("{CALL}: fewer than {n} objects are free"));
            -ENOBUFS
        }
        Err(barred) => unusable(barred, stock, CALL),
    }
}

/// Gives `n` objects back. Each object that is out becomes free, even if other addresses in the array are
/// refused. `from` is as in netmem_stock_take.
/// Returns 0, or the negative errno of the first refused address: -ESTALE if the object was given back
/// already, -EBADF if it is not an object of the stock.
///
/// # Safety
/// See the module.
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
        return child(stock, CALL);
    }
    let from = Code(from.addr());
    let refused = match stock::with(stock.word, |stock| stock.give(objects, from)) {
        Ok(refused) => refused,
        Err(barred) => return unusable(barred, stock, CALL),
    };
    if refused.is_empty() {
        return 0;
    }
    // Without the lock: other threads can use the stock while the lines are written.
    let name = stock::with(stock.word, |stock| stock.name.clone()).unwrap_or_default();
    let refuse = |object| refused_object(object, CALL, &name, from);
    refused.iter().fold(0, |first, object| first_of(first, || refuse(object)))
}

#[cold]
#[inline(never)]
fn unusable(barred: Barred, stock: netmem_stock, call: &str) -> c_int {
    misuse::refused(Kind::from(barred), call, "stock", stock.word, Site::UNKNOWN)
}

#[cold]
#[inline(never)]
fn child(stock: netmem_stock, call: &str) -> c_int {
    misuse::refused(Kind::Child, call, "stock", stock.word, Site::UNKNOWN)
}

/// Returns the number of free objects, or the negative errno. It takes no lock.
#[unsafe(no_mangle)]
pub extern "C" fn netmem_stock_count(stock: netmem_stock) -> c_int {
    if process::is_child() {
        return child(stock, "netmem_stock_count");
    }
    let closed = || unusable(Barred::Closed, stock, "netmem_stock_count");
    stock::free(stock.word).map_or_else(closed, |free| free as c_int)
}

/// Counts the objects of a stock by state into `ledger`. `cached` holds the addresses of the `n` objects that
/// lie in caches in front of the stock. The result is exact as long as no thread moves an object during the
/// count. An object that moves meanwhile may be counted in its old place, and also in `duplicated` if it left a
/// cache. Other threads can use the stock during the count: the call locks the stock for at most 512 objects
/// that it copies, or 64 of `cached` that it looks up, at a time. Either takes some microseconds.
/// Returns 1 if the states add up to the total, no object was given back twice, and all of `cached` are
/// objects of the stock, 0 otherwise.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_stock_ledger(
    stock: netmem_stock,
    cached: *const *mut c_void,
    n: usize,
    ledger: *mut netmem_stock_counts,
) -> c_int {
    answer("netmem_stock_ledger", || {
        // SAFETY: the promise of C.
        let (to, cached) = unsafe { (place("ledger", ledger)?, addresses(cached, n)?) };
        let found = census::census(stock.word, cached);
        let found = found.map_err(|barred| Failure::barred(barred, stock.word))?;
        let (Census { total, free, cached, out, duplicated, foreign }, counts) = found;
        let Counts { taken, given, short, freed_twice, made_up, .. } = counts;
        *to = netmem_stock_counts {
            total: total as u64,
            free: free as u64,
            cached: cached as u64,
            out: out as u64,
            duplicated: duplicated as u64,
            taken,
            returned: given,
            failed: short,
            freed_twice,
            made_up: made_up + foreign as u64,
            reserved: [0; 6],
        };
        Ok((free + cached + out == total && duplicated + foreign == 0).into())
    })
}

/// Lists the call sites that took objects that are out and not among the `n` addresses in `cached`, the site
/// with most objects first. Writes at most `room` entries to `holders`. Other threads can use the stock
/// meanwhile, as in netmem_stock_ledger. Each object is counted as it was at one moment of the call.
/// Returns the number of call sites, which may be larger than `room`.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_stock_holders(
    stock: netmem_stock,
    cached: *const *mut c_void,
    n: usize,
    holders: *mut netmem_stock_holder,
    room: usize,
) -> c_int {
    answer("netmem_stock_holders", || {
        // SAFETY: the promise of C.
        let cached = unsafe { addresses(cached, n) }?;
        let all = census::holders(stock.word, cached);
        let all = all.map_err(|barred| Failure::barred(barred, stock.word))?;
        // SAFETY: the promise of C.
        unsafe { list(holders, room, all.into_iter().map(|(at, n)| holder(at, n))) }
    })
}

fn holder(at: Code, objects: u64) -> netmem_stock_holder {
    let mut site = [0; 120];
    for (to, byte) in site.iter_mut().take(119).zip(at.text().unwrap_or_default().bytes()) {
        *to = c_char::from_ne_bytes([byte]);
    }
    netmem_stock_holder { site, objects, reserved: [0; 2] }
}

/// The `n` addresses at `objects`.
///
/// # Safety
/// Null, or `n` addresses that do not change during the call.
unsafe fn addresses<'a>(objects: *const *mut c_void, n: usize) -> Result<&'a [usize], Failure> {
    if objects.is_null() {
        return if n == 0 { Ok(&[]) } else { Err(Failure::null("the array")) };
    }
    // SAFETY: the caller's promise; an address as a number has the size of a pointer.
    Ok(unsafe { slice::from_raw_parts(objects.cast::<usize>(), n) })
}
