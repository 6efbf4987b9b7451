//! Runs a call that is not made for each packet, and turns its result into a number.

use crate::errno::ENOTRECOVERABLE;
use crate::failure::Failure;
use crate::misuse::{self, Kind};
use crate::process::{self, Uncancelled};
use crate::sites::Site;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs a call. Stops panics, keeps pthread_cancel(3) from ending the thread within the call, and refuses the call in a child of the process.
#[cold]
pub fn answer(call: &str, work: impl FnOnce() -> Result<i32, Failure>) -> i32 {
    if process::is_child() { misuse::refused_in_child(call) } else { contained(call, work) }
}

/// As [`answer`], for calls that a child may make too.
#[cold]
pub fn contained(call: &str, work: impl FnOnce() -> Result<i32, Failure>) -> i32 {
    let _uncancelled = Uncancelled::begin();
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(number)) => number,
        Ok(Err(Failure { barred: Some((barred, what, word)), .. })) => {
            misuse::refused(Kind::from(barred), call, what, word, Site::UNKNOWN)
        }
        Ok(Err(failure)) => failure.record(),
        Err(panic) => Failure::new(ENOTRECOVERABLE, format!("a bug in netmem: {}", said(&*panic))).record(),
    }
}

fn said(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("a panic without text")
}
