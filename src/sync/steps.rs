//! Runs several steps to the end, even if some of them panic.
//!
//! Code of the caller runs inside of this crate's code: the Drop of a value, a constructor, a callback. If several
//! things are given back and one of them runs such code, a panic must not keep the others from being given back.

use std::any::Any;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::thread;

/// Runs steps one after the other. The first panic resumes when all steps are done ([`Steps::end`]).
///
/// Further panics end here; the panic hook has reported them. The first panic also ends here if the thread already
/// unwinds, because the process would abort otherwise.
#[derive(Default)]
pub(crate) struct Steps {
    panic: Option<Box<dyn Any + Send>>,
}

impl Steps {
    #[inline]
    pub(crate) const fn new() -> Steps {
        Steps { panic: None }
    }

    /// Runs a step. The data that it works on must stay valid if it panics.
    pub(crate) fn run(&mut self, step: impl FnOnce()) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(step)) {
            match self.panic {
                None => self.panic = Some(panic),
                Some(_) => discard(panic),
            }
        }
    }

    /// Whether a step has panicked.
    #[inline]
    pub(crate) fn have_panicked(&self) -> bool {
        self.panic.is_some()
    }

    /// Ends the steps: resumes the first panic, if there was one.
    #[inline]
    pub(crate) fn end(mut self) {
        if let Some(panic) = self.panic.take() {
            go_on(panic);
        }
    }
}

#[cold]
#[inline(never)]
fn go_on(panic: Box<dyn Any + Send>) {
    if !thread::panicking() {
        resume_unwind(panic);
    }
    discard(panic);
}

/// Drops the payload of a panic. Its Drop may panic again.
#[cold]
fn discard(panic: Box<dyn Any + Send>) {
    if let Err(another) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
        mem::forget(another);
    }
}

impl Drop for Steps {
    /// The thread unwinds from another panic.
    #[inline]
    fn drop(&mut self) {
        if let Some(panic) = self.panic.take() {
            discard(panic);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Panics when it is dropped.
    struct Bad;

    impl Drop for Bad {
        fn drop(&mut self) {
            panic!("dropped");
        }
    }

    fn all(done: &mut u32) {
        let mut steps = Steps::new();
        steps.run(|| *done += 1);
        steps.run(|| panic!("first"));
        steps.run(|| std::panic::panic_any(Bad));
        assert!(steps.have_panicked());
        steps.run(|| *done += 1);
        steps.end();
    }

    #[test]
    #[cfg_attr(miri, ignore = "what panics again when it is dropped is forgotten, which Miri calls a leak")]
    fn all_steps_are_done_and_the_first_panic_goes_on() {
        let mut done = 0;
        let panic = catch_unwind(AssertUnwindSafe(|| all(&mut done))).unwrap_err();
        assert_eq!((panic.downcast_ref(), done), (Some(&"first"), 2));
    }

    #[test]
    #[cfg_attr(miri, ignore = "what panics again when it is dropped is forgotten, which Miri calls a leak")]
    fn while_a_thread_unwinds_another_panic_ends_in_the_steps() {
        struct Ends<'a>(&'a mut u32);
        impl Drop for Ends<'_> {
            fn drop(&mut self) {
                all(self.0);
            }
        }
        let mut done = 0;
        let panic = catch_unwind(AssertUnwindSafe(|| {
            let _ends = Ends(&mut done);
            panic!("before");
        }));
        assert_eq!((panic.unwrap_err().downcast_ref(), done), (Some(&"before"), 2));
    }
}
