//! Counts and reports refused handles, and aborts the process if the policy says so.

use crate::code::Code;
use crate::errno::{EBADF, EBUSY, ECHILD, EPERM, ESTALE, EXDEV};
use crate::failure::{self, Barred, CHILD, Failure};
use crate::report::{self, Limit, Origin};
use crate::sites::{self, Recorded, Site};
use crate::stderr::WHOLE;
use crate::table::{Bad, End};
use crate::workers::Out;
use std::fmt;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, AtomicU64};

/// Count misuse. The call returns an error.
pub const COUNT: u32 = 0;
/// Also report it in a line.
pub const REPORT: u32 = 1;
/// Also abort the process after the line.
pub const ABORT: u32 = 2;

static POLICY: AtomicU32 = AtomicU32::new(REPORT);
static COUNTS: [AtomicU64; KINDS.len()] = [const { AtomicU64::new(0) }; KINDS.len()];
static LIMITS: [Limit; KINDS.len()] = [const { Limit::new() }; KINDS.len()];
/// Bytes of a line of [`refused_simply`]: the stack of a signal handler may be small.
const SHORT: usize = 256;

/// The kinds of misuse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Kind {
    MadeUp,
    FreedTwice,
    UsedAfterFree,
    UsedAfterTx,
    UsedAfterMove,
    Stale,
    WrongPool,
    WrongCache,
    WrongMemory,
    WrongWorker,
    Detached,
    WrongThread,
    Closed,
    Child,
    Reentered,
}

/// The message for a thing of another worker that these two calls pass on.
macro_rules! passed_on {
    ($calls:literal) => {
        concat!(
            "it belongs to another worker, which must pass it on first: ",
            $calls,
            "detach there, ",
            $calls,
            "attach here"
        )
    };
}

/// For each kind: its name in the counters, its errno, and the message.
const KINDS: [(&str, i32, &str); 15] = [
    ("made_up", EBADF, "netmem never gave out this word"),
    ("freed_twice", ESTALE, "it was freed already"),
    ("used_after_free", ESTALE, "it was freed"),
    ("used_after_tx", ESTALE, "it was given to a port"),
    ("used_after_move", ESTALE, "it became something else, or was sent through a lane"),
    ("stale", ESTALE, "its use has ended, and it has had other uses since"),
    ("wrong_pool", EXDEV, "it belongs to another pool"),
    ("wrong_cache", EXDEV, "it belongs to another cache"),
    ("wrong_memory", EXDEV, "it belongs to another memory than the worker's"),
    ("wrong_worker", EPERM, passed_on!("netmem_")),
    ("detached", EPERM, "it was detached: netmem_attach it with the word that netmem_detach gave"),
    (
        "wrong_thread",
        EPERM,
        "the worker belongs to another thread: call netmem_worker_leave there, then netmem_worker_enter here",
    ),
    ("closed", ESTALE, "it was closed, or never opened"),
    ("child", ECHILD, CHILD),
    (
        "reentered",
        EBUSY,
        "a call with this worker or stock is in progress, or a jump left one: make no calls from a report function or a signal handler",
    ),
];

/// An object that a stock refused to take back.
#[derive(Clone, Copy, Debug)]
pub struct Refused {
    pub kind: Kind,
    pub address: usize,
    /// Where it was given back before.
    pub before: Code,
}

impl Kind {
    /// The kind of misuse for a handle that the table refused. `frees` says whether the call frees.
    pub fn of(bad: Bad, frees: bool) -> Kind {
        match bad {
            Bad::MadeUp => Kind::MadeUp,
            Bad::Over(Some(End::Sent | End::Filled)) => Kind::UsedAfterTx,
            Bad::Over(Some(End::Moved)) => Kind::UsedAfterMove,
            Bad::Over(Some(End::Freed)) if frees => Kind::FreedTwice,
            Bad::Over(Some(_)) => Kind::UsedAfterFree,
            // What is known of the end is that of a later use.
            Bad::Over(None) | Bad::Again => Kind::Stale,
            Bad::Loose => Kind::Detached,
            Bad::OtherWorkers => Kind::WrongWorker,
        }
    }
}

impl From<Barred> for Kind {
    fn from(barred: Barred) -> Kind {
        match barred {
            Barred::Closed => Kind::Closed,
            Barred::Busy => Kind::Reentered,
        }
    }
}

impl From<Out> for Kind {
    fn from(out: Out) -> Kind {
        match out {
            Out::Closed => Kind::Closed,
            Out::OtherThread | Out::NoThread => Kind::WrongThread,
            Out::Busy => Kind::Reentered,
            Out::Child => Kind::Child,
        }
    }
}

/// Sets the policy. Returns false if there is no such policy.
pub fn set_policy(policy: u32) -> bool {
    let known = [COUNT, REPORT, ABORT].contains(&policy);
    if known {
        POLICY.store(policy, Relaxed);
    }
    known
}

/// Returns the policy.
pub fn policy() -> u32 {
    POLICY.load(Relaxed)
}

/// Returns the name of each kind, and how often it was seen.
pub fn counts() -> impl Iterator<Item = (&'static str, u64)> {
    KINDS.iter().zip(&COUNTS).map(|((name, ..), count)| (*name, count.load(Relaxed)))
}

/// Counts and reports a refused handle, as the policy says. Returns the errno for the call. `what` is the
/// kind of thing, such as a frame or a worker.
#[cold]
#[inline(never)]
pub fn refused(kind: Kind, call: &str, what: &str, word: u64, site: Site) -> i32 {
    if matches!(kind, Kind::Reentered | Kind::Child) {
        return refused_simply(kind, call);
    }
    let at = site.text().map_or(String::new(), |site| format!(" at {site}"));
    counted(
        (kind, why(kind, what)),
        &format!("{call}{at}"),
        &format!("{what} {word:#018x}"),
        &format!("{}{}", history(what, word), cut(word)),
    )
}

/// The hint for a handle whose upper half is missing, as from a language that passes integers as `int` by default.
fn cut(word: u64) -> &'static str {
    let is_cut = word != 0 && (word >> 32 == 0 || word == word as i32 as u64);
    if is_cut { "; its upper 32 bits are missing: pass handles as 64 bits" } else { "" }
}

/// Counts and reports a call from a signal handler or a child, as the policy says. The call that a handler interrupted, and
/// the thread that was lost in a child, may be in the middle of the allocator or of a report. So this takes no memory and no
/// lock, and the thread's last message stays: the handler may have interrupted the program before it read the message. Within
/// the program's report function no other message waits to be read, so there it tells why.
#[cold]
fn refused_simply(kind: Kind, call: &str) -> i32 {
    COUNTS[kind as usize].fetch_add(1, Relaxed);
    let (name, errno, why) = KINDS[kind as usize];
    said::<SHORT>(kind, format_args!("{call}: {name}: {why}"), Origin::Handler);
    if kind == Kind::Reentered && report::is_within() {
        failure::store(errno, format_args!("{call}: {name}: {why}"));
    }
    -errno
}

/// As [`refused`], for a call in a child of the process, whatever it is given.
#[cold]
pub fn refused_in_child(call: &str) -> i32 {
    refused_simply(Kind::Child, call)
}

/// As [`refused`], for a call that cannot enter its worker.
#[cold]
pub fn refused_worker(out: Out, call: &str, word: u64, site: Site) -> i32 {
    let what = if matches!(out, Out::NoThread) { LEFT } else { "worker" };
    refused(Kind::from(out), call, what, word, site)
}

/// As [`refused`], for an object of a stock. The stock knows where the object was given back before.
#[cold]
#[inline(never)]
pub fn refused_object(object: &Refused, call: &str, stock: &str, from: Code) -> i32 {
    let at = from.text().map_or(String::new(), |from| format!(" at {from}"));
    let before = object.before.text().map_or(String::new(), |from| format!("; last given back at {from}"));
    let what = format!("object {:#x} of {stock}", object.address);
    counted((object.kind, why(object.kind, OBJECT)), &format!("{call}{at}"), &what, &before)
}

/// Returns the message of a kind. The message for another worker's thing names the calls that pass such a
/// thing on, if there are any.
fn why(kind: Kind, what: &str) -> &'static str {
    match (kind, what) {
        (Kind::WrongWorker, LANE) => {
            "this end of the lane belongs to another worker: the worker that opened the lane is its sender, and netmem_lane_join makes a worker its receiver if it has none yet"
        }
        (Kind::WrongWorker, PORT) => {
            "it belongs to another worker: a port stays with the worker that opened it, and only that worker's thread can use the port"
        }
        (Kind::WrongWorker, OBJECT) => {
            passed_on!("netmem_object_")
        }
        (Kind::WrongWorker, PAGE) => {
            passed_on!("netmem_page_")
        }
        (Kind::WrongWorker, PACKET) => {
            passed_on!("netmem_packet_")
        }
        (Kind::WrongWorker, SHARED) => {
            passed_on!("netmem_shared_")
        }
        (Kind::WrongThread, LEFT) => {
            "no thread has it: call netmem_worker_enter on the thread that is to use it"
        }
        _ => KINDS[kind as usize].2,
    }
}

#[cold]
fn counted((kind, why): (Kind, &str), call: &str, what: &str, history: &str) -> i32 {
    COUNTS[kind as usize].fetch_add(1, Relaxed);
    let (name, errno, _) = KINDS[kind as usize];
    let text = format!("{call}: {name}: {what}: {why}{history}");
    said::<WHOLE>(kind, format_args!("{text}"), Origin::Call);
    Failure::new(errno, text).record()
}

/// Reports misuse, and aborts the process, as the policy says.
fn said<const N: usize>(kind: Kind, text: fmt::Arguments, from: Origin) {
    let (policy, (name, ..)) = (policy(), KINDS[kind as usize]);
    if policy != COUNT {
        report::misuse::<N>(&LIMITS[kind as usize], name, text, policy == ABORT, from);
    }
    if policy == ABORT {
        std::process::abort();
    }
}

/// The text about where the last use began and ended, as far as tracing recorded it.
fn history(what: &str, word: u64) -> String {
    if ![FRAME, OBJECT, PAGE, PACKET, SHARED].contains(&what) {
        return String::new();
    }
    let Some(sites) = sites::of(word as u32) else { return String::new() };
    let said =
        |what: &str, site: Recorded| site.text().map_or(String::new(), |site| format!("; {what} at {site}"));
    said("last given out", sites.given()) + &said("last given back", sites.ended())
}

/// A worker that its thread has left, in reports.
const LEFT: &str = "left worker";
/// The kind of a frame's handle, in reports.
pub const FRAME: &str = "frame";
/// The kind of a raw frame's word, in reports.
pub const RAW: &str = "raw frame";
/// The kind of an object's handle, in reports.
pub const OBJECT: &str = "object";
/// The kind of a page's handle, in reports.
pub const PAGE: &str = "page";
/// The kind of a packet's handle, in reports.
pub const PACKET: &str = "packet";
/// The kind of a port's handle, in reports.
pub const PORT: &str = "port";
/// The kind of a lane's handle, in reports.
pub const LANE: &str = "lane";
/// The kind of a shared frame's handle, in reports.
pub const SHARED: &str = "shared frame";
