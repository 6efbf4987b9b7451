//! Values that record whether they were dropped, and panic on request.

use std::cell::OnceCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::thread;

/// Maximum number of values of one program. No more are made.
const VALUES_MAX: usize = 1 << 17;

const UNKNOWN: u8 = 0;
const ALIVE: u8 = 1;
const DROPPED: u8 = 2;

/// The faults that were seen on threads that run no programs.
static FAULTS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// All registers, so that none counts as leaked.
static ALL: Mutex<Vec<&'static Register>> = Mutex::new(Vec::new());

thread_local! {
    /// One for each thread that runs programs, for good: values hold references to it.
    static REGISTER: OnceCell<&'static Register> = const { OnceCell::new() };
}

/// The payload of all panics that programs cause.
struct Bomb;

/// What became of each value of a program, and whether panics are wanted.
pub struct Register {
    states: Box<[AtomicU8]>,
    made: AtomicU32,
    /// Whether values and closures that are to panic do so now.
    fires: AtomicBool,
    /// Number of calls of closures until one panics; 0 for none.
    fuse: AtomicU32,
    pub panics: AtomicU64,
    /// The faults that were seen where a panic is not allowed.
    faults: Mutex<Vec<String>>,
}

impl Register {
    /// This thread's, blank.
    pub fn fresh() -> &'static Register {
        let register = REGISTER.with(|cell| *cell.get_or_init(Register::new));
        let made = register.made.swap(0, Relaxed) as usize;
        register.states[..made.min(VALUES_MAX)].iter().for_each(|state| state.store(UNKNOWN, Relaxed));
        register.panics.store(0, Relaxed);
        register.faults.lock().unwrap().clear();
        register
    }

    /// This thread's, if it runs programs.
    pub fn here() -> Option<&'static Register> {
        REGISTER.with(|cell| cell.get().copied())
    }

    /// A number that no other thread's has.
    pub fn number(&'static self) -> u64 {
        std::ptr::from_ref(self).addr() as u64
    }

    fn new() -> &'static Register {
        let register: &'static Register = Box::leak(Box::new(Register {
            states: (0..VALUES_MAX).map(|_| AtomicU8::new(UNKNOWN)).collect(),
            made: AtomicU32::new(0),
            fires: AtomicBool::new(false),
            fuse: AtomicU32::new(0),
            panics: AtomicU64::new(0),
            faults: Mutex::default(),
        }));
        ALL.lock().unwrap().push(register);
        register
    }

    /// Runs `f`. Armed values panic when they are dropped, and so does the closure of the `fuse`th call. Returns None
    /// if something panicked.
    pub fn firing<R>(&self, fuse: usize, f: impl FnOnce() -> R) -> Option<R> {
        self.fuse.store(fuse as u32, Relaxed);
        self.fires.store(true, Relaxed);
        let done = catch_unwind(AssertUnwindSafe(f));
        self.fires.store(false, Relaxed);
        self.fuse.store(0, Relaxed);
        match done {
            Ok(done) => Some(done),
            Err(payload) if payload.is::<Bomb>() => None,
            Err(payload) => resume_unwind(payload),
        }
    }

    /// Called by closures: panics if it is this one's turn.
    pub fn tick(&self) {
        if self.fires.load(Relaxed) && self.fuse.load(Relaxed) > 0 && self.fuse.fetch_sub(1, Relaxed) == 1 {
            self.explode();
        }
    }

    /// Panics, unless this thread is already panicking, or is a thread without a program. The panic hook is not called.
    fn explode(&self) {
        if !thread::panicking() && Register::here().is_some_and(|here| std::ptr::eq(here, self)) {
            self.panics.fetch_add(1, Relaxed);
            resume_unwind(Box::new(Bomb));
        }
    }

    /// A value, if there were not too many.
    pub fn value(&'static self) -> Value {
        let id = self.made.fetch_add(1, Relaxed);
        let state = self.states.get(id as usize).expect("a program makes fewer values");
        state.store(ALIVE, Relaxed);
        Value { id, check: id ^ CHECK, armed: false, text: Some(Box::new(text(id))), register: self }
    }

    pub fn made(&self) -> u32 {
        self.made.load(Relaxed)
    }

    /// Every value was dropped.
    pub fn all_gone(&self) {
        no_faults();
        let made = self.made() as usize;
        let left: Vec<usize> = (0..made).filter(|&id| self.states[id].load(Relaxed) != DROPPED).collect();
        assert!(left.is_empty(), "{} of {made} values were never dropped: {left:?}", left.len());
    }
}

/// Records a fault where a panic is not allowed.
pub fn fault(what: String) {
    Register::here().map_or(&FAULTS, |register| &register.faults).lock().unwrap().push(what);
}

/// Nothing was found wrong so far.
pub fn no_faults() {
    let all = [Some(&FAULTS), Register::here().map(|register| &register.faults)];
    let faults: Vec<String> =
        all.into_iter().flatten().flat_map(|faults| faults.lock().unwrap().clone()).collect();
    assert!(faults.is_empty(), "{faults:#?}");
}

const CHECK: u32 = 0x5eed_c0de;

/// The memory that the value with this number owns.
fn text(id: u32) -> [u32; 6] {
    [id, !id, id ^ CHECK, id.rotate_left(7), 7, 9]
}

/// A value that is to be dropped once.
pub struct Value {
    id: u32,
    check: u32,
    /// Panics when it is dropped.
    pub armed: bool,
    text: Option<Box<[u32; 6]>>,
    register: &'static Register,
}

impl Value {
    pub fn id(&self) -> u32 {
        self.id
    }

    /// It is alive, and as it was made.
    #[track_caller]
    pub fn look(&self) {
        assert_eq!(self.check, self.id ^ CHECK, "a value was overwritten");
        assert_eq!(self.text.as_deref(), Some(&text(self.id)), "value {}", self.id);
        assert_eq!(self.register.states[self.id as usize].load(Relaxed), ALIVE, "value {} is gone", self.id);
    }
}

impl Drop for Value {
    fn drop(&mut self) {
        if self.check != self.id ^ CHECK {
            std::mem::forget(self.text.take());
            return fault(format!("what was dropped is no value: {:#x}, {:#x}", self.id, self.check));
        }
        match self.register.states.get(self.id as usize).map(|state| state.swap(DROPPED, Relaxed)) {
            Some(ALIVE) if self.text.as_deref() == Some(&text(self.id)) => {}
            Some(ALIVE) => fault(format!("value {} does not own what it did", self.id)),
            state => {
                // Of the two that own it one may free it.
                std::mem::forget(self.text.take());
                return fault(format!("value {} was dropped again: {state:?}", self.id));
            }
        }
        if self.armed && self.register.fires.load(Relaxed) {
            self.register.explode();
        }
    }
}
