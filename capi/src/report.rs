//! COLD: where reports go, a line at a time: to a function of the program ([`set`]), or to descriptor 2.
//!
//! A report takes no lock, because a lock that is held at a fork(2) stays locked in the child. A report does not wait.
//! Each kind of report has a [`Limit`]. A report that is beyond the limit, or that descriptor 2 cannot take at once, is
//! left out, and the next one of its kind says how many were.

use crate::errno::ENFILE;
use crate::failure::Failure;
use crate::process::{self, Uncancelled};
use crate::stderr::{self, WHOLE};
use crate::thread;
use std::cell::Cell;
use std::ffi::{c_char, c_void};
use std::fmt::{self, Write};
use std::sync::OnceLock;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize};

/// Number of reports of one kind that are made at once.
const BURST: u64 = 16;
/// Nanoseconds until one more is made. Also in text.
const EVERY: u64 = 1_000_000_000;

/// A function of the program that is passed each line.
pub type Function = extern "C" fn(*const c_char, *mut c_void);

/// A function and its argument.
struct Receiver {
    function: Function,
    argument: AtomicPtr<c_void>,
}

/// All pairs that were set. None is removed: another thread may be about to call it.
static RECEIVERS: [OnceLock<Receiver>; 64] = [const { OnceLock::new() }; 64];
/// The number of the receiver in use. 0: descriptor 2.
static IN_USE: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// Whether the thread is in the program's function.
    static WITHIN: Cell<bool> = const { Cell::new(false) };
}

/// The numbers of threads that are in the program's function. 0: a free place. A signal handler may read them; a variable of
/// the thread could take memory at its first use. A thread beyond these is not found, and has no text.
static THREADS_WITHIN: [AtomicUsize; 64] = [const { AtomicUsize::new(0) }; 64];

/// Whether the calling thread is in the program's function.
pub fn is_within() -> bool {
    let here = thread::here();
    THREADS_WITHIN.iter().any(|at| at.load(Relaxed) == here)
}

/// Passes reports to a function from now on, or to descriptor 2 if there is none.
///
/// # Errors
/// The table of functions is full.
pub fn set(function: Option<Function>, argument: *mut c_void) -> Result<(), Failure> {
    let Some(function) = function else {
        IN_USE.store(0, Relaxed);
        return Ok(());
    };
    let is_same =
        |one: &Receiver| one.function as usize == function as usize && one.argument.load(Relaxed) == argument;
    let made = || Receiver { function, argument: AtomicPtr::new(argument) };
    let place = RECEIVERS.iter().position(|at| is_same(at.get_or_init(made)));
    let place = place.ok_or_else(|| {
        let text = "64 pairs of a function and an argument were set already: set one of them";
        Failure::new(ENFILE, text)
    })?;
    // Release: pairs with the Acquire in `receiver`.
    IN_USE.store(place + 1, Release);
    Ok(())
}

fn receiver() -> Option<&'static Receiver> {
    // Acquire: pairs with the Release in `set`. The receiver of this number is there.
    let place = IN_USE.load(Acquire).checked_sub(1)?;
    RECEIVERS.get(place)?.get()
}

/// The limit of one kind of report.
pub struct Limit {
    /// When the whole burst is available again, in nanoseconds.
    whole_at: AtomicU64,
    /// Reports that were left out since the last one.
    left_out: AtomicU64,
}

impl Limit {
    /// Makes a limit that nothing has used.
    pub const fn new() -> Limit {
        Limit { whole_at: AtomicU64::new(0), left_out: AtomicU64::new(0) }
    }

    /// Uses one report of the burst. Returns whether it is the last one, or None if there is none.
    fn take(&self, now: u64) -> Option<bool> {
        let end = now + BURST * EVERY;
        let next = |whole_at: u64| Some(whole_at.max(now) + EVERY).filter(|&next| next <= end);
        let taken = self.whole_at.fetch_update(Relaxed, Relaxed, next);
        taken.ok().map(|before| before.max(now) + 2 * EVERY > end)
    }
}

/// The origin of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A call that may run code of the program.
    Call,
    /// A call that a signal handler or a child made.
    Handler,
}

/// Reports misuse of a kind in a line of at most `N` bytes, as far as the limit of the kind allows, or in any case if the
/// process is about to end.
pub fn misuse<const N: usize>(limit: &Limit, kind: &str, text: fmt::Arguments, is_last: bool, from: Origin) {
    let turn = limit.take(process::monotonic_ns());
    let left_out = limit.left_out.swap(0, Relaxed);
    let is_passed = (turn.is_some() || is_last) && {
        let mut line = Line::<N>::new();
        line.put(format_args!("netmem: {text}"));
        match (left_out, turn) {
            (0, Some(true)) => line.put(format_args!("; further reports of {kind}: one each second")),
            (0, _) => {}
            (1, _) => line.put(format_args!("; one report of {kind} before it was left out")),
            (n, _) => line.put(format_args!("; {n} reports of {kind} before it were left out")),
        }
        line.pass(from)
    };
    if !is_passed {
        limit.left_out.fetch_add(left_out + 1, Relaxed);
    }
}

/// Reports a line of the program. Returns whether it was passed on.
pub fn line(text: fmt::Arguments) -> bool {
    let mut line = Line::<WHOLE>::new();
    line.put(text);
    line.pass(Origin::Call)
}

/// A line in memory of the stack. What has no room is cut off.
struct Line<const N: usize> {
    bytes: [u8; N],
    len: usize,
}

impl<const N: usize> Line<N> {
    fn new() -> Line<N> {
        Line { bytes: [0; N], len: 0 }
    }

    fn put(&mut self, text: fmt::Arguments) {
        // `write_str` never fails.
        let _ = self.write_fmt(text);
    }

    /// Passes the line on. Returns whether anything took it.
    fn pass(mut self, from: Origin) -> bool {
        let _uncancelled = Uncancelled::begin();
        let Some(receiver) = receiver() else {
            self.bytes[self.len] = b'\n';
            return stderr::offer(&self.bytes[..=self.len]);
        };
        // Code of the program may take locks that the interrupted code, or another thread of the parent, holds.
        if from == Origin::Handler || process::is_child() {
            return false;
        }
        // A thread that is ending has no such variable. The function may misuse a handle itself.
        if WITHIN.try_with(|within| within.replace(true)) != Ok(false) {
            return false;
        }
        let here = thread::here();
        let place = THREADS_WITHIN.iter().find(|at| at.compare_exchange(0, here, Relaxed, Relaxed).is_ok());
        (receiver.function)(self.bytes.as_ptr().cast(), receiver.argument.load(Relaxed));
        place.inspect(|at| at.store(0, Relaxed));
        let _ = WITHIN.try_with(|within| within.set(false));
        true
    }
}

impl<const N: usize> Write for Line<N> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        // One byte is left, for the end.
        let n = text.len().min(N - 1 - self.len);
        let to = &mut self.bytes[self.len..self.len + n];
        to.copy_from_slice(&text.as_bytes()[..n]);
        to.iter_mut().filter(|byte| matches!(byte, 0 | b'\n')).for_each(|byte| *byte = b' ');
        self.len += n;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seen: each of any number of misuses wrote a line.
    #[test]
    fn of_one_kind_a_burst_is_reported_and_then_one_report_each_second() {
        let (limit, begun) = (Limit::new(), 5 * EVERY + 7);
        let takes = |now| (0..100).map_while(|_| limit.take(now)).collect::<Vec<bool>>();
        let first = takes(begun);
        assert_eq!((first.len() as u64, first.iter().position(|last| *last)), (BURST, Some(15)));
        assert_eq!(takes(begun + EVERY - 1), []);
        assert_eq!(takes(begun + EVERY), [true]);
        assert_eq!(takes(begun + 3 * EVERY), [false, true]);
        assert_eq!(takes(begun + 1000 * EVERY).len() as u64, BURST);
    }

    #[test]
    fn what_has_no_room_in_a_line_is_cut_off_and_the_line_stays_one() {
        let mut line = Line::<16>::new();
        line.put(format_args!("one\ntwo {}", 1));
        assert_eq!(&line.bytes[..line.len], b"one two 1");
        line.put(format_args!("{:>20}", "x"));
        assert_eq!((line.len, line.bytes[15]), (15, 0));
    }
}
