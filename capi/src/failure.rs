//! The result of a call: a number, or a negative errno with a line of text that the thread keeps.

use crate::errno::{EBUSY, ECHILD, EFAULT, EINVAL, ENOBUFS, ESTALE};
use crate::process;
use netmem::pool::NoRoom;
use std::cell::Cell;
use std::ffi::{CStr, c_char};
use std::fmt::{self, Write};

/// Why a call cannot use a thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Barred {
    /// It was closed or never opened.
    Closed,
    /// A signal handler made the call, and it had interrupted a call with this stock.
    Busy,
}

/// Why a call failed.
#[derive(Debug)]
pub struct Failure {
    /// The errno, positive.
    pub errno: i32,
    /// One line of text.
    pub text: String,
    /// The kind of thing, and its handle, if that is the reason. The call counts and reports it as misuse.
    pub barred: Option<(Barred, &'static str, u64)>,
}

impl Failure {
    /// Makes a failure with this text.
    #[cold]
    pub fn new(errno: i32, text: impl ToString) -> Failure {
        Failure { errno, text: text.to_string(), barred: None }
    }

    /// Makes the failure for a handle of something that was closed, or never opened.
    #[cold]
    pub fn closed(what: &'static str, word: u64) -> Failure {
        let text = format!("the {what} was closed, or never opened");
        Failure { barred: Some((Barred::Closed, what, word)), ..Failure::new(ESTALE, text) }
    }

    /// Makes the failure for a stock that a call cannot use. It takes no memory if a call was interrupted.
    #[cold]
    pub fn barred(barred: Barred, word: u64) -> Failure {
        match barred {
            Barred::Closed => Failure::closed("stock", word),
            Barred::Busy => {
                Failure { errno: EBUSY, text: String::new(), barred: Some((barred, "stock", word)) }
            }
        }
    }

    /// Makes the failure for an argument that is not valid.
    #[cold]
    pub fn invalid(text: impl ToString) -> Failure {
        Failure::new(EINVAL, text)
    }

    /// Makes the failure for a pointer that must not be null.
    #[cold]
    pub fn null(what: &str) -> Failure {
        Failure::new(EFAULT, format!("{what} is NULL"))
    }

    /// Makes the failure of a call for which a frame or packet has less room or data than it needs.
    #[cold]
    pub fn no_room(call: &str, lack: NoRoom) -> Failure {
        Failure::new(ENOBUFS, Lack { call, lack })
    }

    /// Stores the text for this thread. Returns the negative errno for the call.
    #[cold]
    pub fn record(self) -> i32 {
        store(self.errno, format_args!("{}", self.text));
        -self.errno
    }
}

/// As [`Failure::no_room`], for a call that may be made for each packet: stores the text, and takes no memory. Returns the
/// negative errno.
#[cold]
#[inline(never)]
pub fn no_room(call: &str, lack: NoRoom) -> i32 {
    store(ENOBUFS, format_args!("{}", Lack { call, lack }));
    -ENOBUFS
}

/// The text about room or data that a call lacked.
struct Lack<'a> {
    call: &'a str,
    lack: NoRoom,
}

impl fmt::Display for Lack<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (call, NoRoom { wanted, room }) = (self.call, self.lack);
        let bytes = if wanted == 1 { "byte" } else { "bytes" };
        write!(f, "{call}: {wanted} {bytes} wanted where there are {room}")
    }
}

/// Stores why a call allocated less than it was asked for, which is not a failure. It takes no memory.
#[cold]
#[inline(never)]
pub fn short(errno: i32, text: fmt::Arguments) {
    store(errno, text);
}

/// A number of things: "1 worker", "2 workers".
pub fn several(n: usize, one: &str, more: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { more })
}

/// Runs one of several steps. `first` is the negative errno of the steps before, or 0. Returns `first` if it
/// is not 0, otherwise the result of the step. The stored text stays that of the first failure.
#[inline(always)]
pub fn first_of(first: i32, next: impl FnOnce() -> i32) -> i32 {
    if first == 0 { next() } else { after(first, next) }
}

#[cold]
#[inline(never)]
fn after(first: i32, next: impl FnOnce() -> i32) -> i32 {
    // A thread that is ending has its place too: nothing in it is dropped.
    let kept = LAST.with(|last| (last.errno.get(), last.text.each_ref().map(Cell::get)));
    next();
    LAST.with(|last| {
        last.errno.set(kept.0);
        last.text.iter().zip(kept.1).for_each(|(to, byte)| to.set(byte));
    });
    first
}

/// Bytes of the text that a thread keeps, with the 0 at its end.
const KEPT: usize = 512;

/// The last failure of a thread. It stays in one place as long as the thread lives, and the last byte of its text is
/// always 0: a program that reads an older text reads the newest one, and never beyond it.
struct Last {
    /// The errno, positive; 0 if no call has failed.
    errno: Cell<i32>,
    text: [Cell<u8>; KEPT],
}

thread_local! {
    static LAST: Last = const { Last { errno: Cell::new(0), text: [const { Cell::new(0) }; KEPT] } };
}

/// Writes text to the place of a thread, as much as there is room for, without a 0 within.
struct Place<'a> {
    to: &'a [Cell<u8>; KEPT],
    len: usize,
}

impl Write for Place<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for char in text.chars().filter(|&char| char != '\0') {
            // A character that does not fit is left out whole, and everything behind it.
            if self.len + char.len_utf8() >= KEPT {
                return Err(fmt::Error);
            }
            let mut bytes = [0; 4];
            for byte in char.encode_utf8(&mut bytes).bytes() {
                self.to[self.len].set(byte);
                self.len += 1;
            }
        }
        Ok(())
    }
}

/// Stores a text for this thread. It takes no memory if the thread has stored one before, or has run the program's report
/// function.
pub fn store(errno: i32, text: fmt::Arguments) {
    LAST.with(|last| {
        last.errno.set(errno);
        let mut place = Place { to: &last.text, len: 0 };
        // An error: the text is cut.
        let _ = place.write_fmt(text);
        last.text[place.len].set(0);
    });
}

/// Returns the text of the last failure of this thread, or that about the child in a child. The address is valid as long
/// as the thread lives.
pub fn last() -> *const c_char {
    if process::is_child() {
        return CHILD_TEXT.as_ptr();
    }
    LAST.with(|last| last.text.as_ptr().cast())
}

/// Returns the errno of the last failure of this thread, positive; 0 if no call has failed. In a child, that of its
/// refusals.
pub fn last_errno() -> i32 {
    if process::is_child() {
        return ECHILD;
    }
    LAST.with(|last| last.errno.get())
}

/// The message for a child of fork(2).
pub const CHILD: &str = match CHILD_TEXT.to_str() {
    Ok(text) => text,
    Err(_) => "",
};
const CHILD_TEXT: &CStr = c"this process is a child of the one that opened netmem: a child has none of its parent's handles (fork(2)): open the memory after the fork, or call execve(2)";

/// Returns the text of a C string that is UTF-8.
pub fn text<'a>(what: &str, text: &'a CStr) -> Result<&'a str, Failure> {
    text.to_str().map_err(|_| Failure::invalid(format!("{what} is not UTF-8")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept() -> String {
        // As C reads it.
        let bytes = LAST.with(|last| last.text.each_ref().map(Cell::get));
        CStr::from_bytes_until_nul(&bytes).unwrap().to_str().unwrap().to_owned()
    }

    /// Seen: `printf("%d %s", netmem_worker_open(...), netmem_last_error())` read freed memory.
    #[test]
    fn the_text_of_a_failure_stays_at_one_address() {
        let before = last();
        Failure::invalid("the first").record();
        assert_eq!((last(), kept().as_str()), (before, "the first"));
        short(ENOBUFS, format_args!("a {}", "second"));
        assert_eq!((last(), kept().as_str(), last_errno()), (before, "a second", ENOBUFS));
    }

    #[test]
    fn a_long_text_is_cut_between_two_characters_and_a_text_has_no_0_within() {
        Failure::invalid("\u{e9}".repeat(KEPT)).record();
        assert_eq!(kept(), "\u{e9}".repeat((KEPT - 1) / 2));
        Failure::invalid("one\0two").record();
        assert_eq!(kept(), "onetwo");
    }

    #[test]
    fn the_first_failure_of_several_steps_stays() {
        let first = Failure::invalid("the first").record();
        assert_eq!(first_of(first, || Failure::null("later").record()), -EINVAL);
        assert_eq!((kept().as_str(), last_errno()), ("the first", EINVAL));
    }
}
