//! The result of a call: a number, or a negative errno with a line of text that the thread keeps.

use crate::errno::{ECHILD, EFAULT, EINVAL, ESTALE};
use crate::process;
use std::borrow::Cow;
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char};

/// Why a call failed.
#[derive(Debug)]
pub struct Failure {
    /// The errno, positive.
    pub errno: i32,
    /// One line of text.
    pub text: String,
    /// What is closed, and its handle, if that is the reason. The call counts and reports it as misuse.
    pub closed: Option<(&'static str, u64)>,
}

impl Failure {
    /// Makes a failure with this text.
    #[cold]
    pub fn new(errno: i32, text: impl ToString) -> Failure {
        Failure { errno, text: text.to_string(), closed: None }
    }

    /// Makes the failure for a handle of something that was closed, or never opened.
    #[cold]
    pub fn closed(what: &'static str, word: u64) -> Failure {
        let text = format!("the {what} was closed, or never opened");
        Failure { closed: Some((what, word)), ..Failure::new(ESTALE, text) }
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

    /// Stores the text for this thread. Returns the negative errno for the call.
    #[cold]
    pub fn record(self) -> i32 {
        let text: Vec<u8> = self.text.into_bytes().into_iter().filter(|&byte| byte != 0).collect();
        let text = CString::new(text).unwrap_or_default().into();
        // A thread that is ending stores no text.
        let _ = LAST.try_with(|last| last.replace(Last { errno: self.errno, text }));
        -self.errno
    }
}

/// Stores why a call allocated less than it was asked for, which is not a failure. It takes no memory.
#[cold]
#[inline(never)]
pub fn short(errno: i32, text: &'static CStr) {
    // As in `Failure::record`.
    let _ = LAST.try_with(|last| last.replace(Last { errno, text: text.into() }));
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
    let kept = LAST.try_with(|last| last.replace(Last::NONE));
    next();
    // As in `Failure::record`.
    let _ = kept.and_then(|kept| LAST.try_with(|last| last.replace(kept)));
    first
}

/// The last failure of a thread.
struct Last {
    /// The errno, positive; 0 if no call has failed.
    errno: i32,
    text: Cow<'static, CStr>,
}

impl Last {
    const NONE: Last = Last { errno: 0, text: Cow::Borrowed(c"") };
}

thread_local! {
    static LAST: RefCell<Last> = const { RefCell::new(Last::NONE) };
}

/// Returns the text of the last failure of this thread, or that about the child in a child. It is valid until the next
/// failure.
pub fn last() -> *const c_char {
    if process::is_child() {
        return CHILD_TEXT.as_ptr();
    }
    LAST.try_with(|last| last.borrow().text.as_ptr()).unwrap_or(c"".as_ptr())
}

/// Returns the errno of the last failure of this thread, positive; 0 if no call has failed. In a child, that of its
/// refusals.
pub fn last_errno() -> i32 {
    if process::is_child() {
        return ECHILD;
    }
    LAST.try_with(|last| last.borrow().errno).unwrap_or(0)
}

/// The message for a child of fork(2).
pub const CHILD: &str = match CHILD_TEXT.to_str() {
    Ok(text) => text,
    Err(_) => "",
};
const CHILD_TEXT: &CStr = c"this process is a child of the one that opened netmem: a child has none of its parent's handles (fork(2))";

/// Returns the text of a C string that is UTF-8.
pub fn text<'a>(what: &str, text: &'a CStr) -> Result<&'a str, Failure> {
    text.to_str().map_err(|_| Failure::invalid(format!("{what} is not UTF-8")))
}
