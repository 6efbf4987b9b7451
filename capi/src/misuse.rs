//! What becomes of a word that is refused: it is counted, reported, or the end of the process.

use crate::code::Code;
use crate::errno::{EBADF, EBUSY, ECHILD, EPERM, ESTALE, EXDEV};
use crate::failure::{CHILD, Failure};
use crate::sites::{self, Site};
use crate::table::{Bad, End};
use crate::workers::Out;
use std::io::Write;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, AtomicU64};

/// Misuse is counted, and the call says so.
pub const COUNT: u32 = 0;
/// And there is a line on standard error.
pub const REPORT: u32 = 1;
/// And the process ends after it.
pub const ABORT: u32 = 2;

static POLICY: AtomicU32 = AtomicU32::new(REPORT);
static COUNTS: [AtomicU64; KINDS.len()] = [const { AtomicU64::new(0) }; KINDS.len()];

/// What a caller did that must not be.
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

/// What is said of what is another worker's and is passed on by these two calls.
macro_rules! passed_on {
    ($calls:literal) => {
        concat!(
            "it is another worker's, who has to pass it on first: ",
            $calls,
            "detach there, ",
            $calls,
            "attach here"
        )
    };
}

/// Each kind's name in the counters, the errno it is answered by, and what is said of it.
const KINDS: [(&str, i32, &str); 15] = [
    ("made_up", EBADF, "no such thing was ever given out"),
    ("freed_twice", ESTALE, "it was freed already"),
    ("used_after_free", ESTALE, "it was freed"),
    ("used_after_tx", ESTALE, "it was given to a port"),
    ("used_after_move", ESTALE, "it was made a part of something else, or was sent by a lane"),
    ("stale", ESTALE, "this use of it is over, and it has been given out again"),
    ("wrong_pool", EXDEV, "it is another pool's"),
    ("wrong_cache", EXDEV, "it is another cache's"),
    ("wrong_memory", EXDEV, "it is of another memory than the worker"),
    ("wrong_worker", EPERM, passed_on!("netmem_")),
    ("detached", EPERM, "it was detached: netmem_attach it with the word that netmem_detach gave"),
    (
        "wrong_thread",
        EPERM,
        "the worker is another thread's: netmem_worker_leave there, netmem_worker_enter here",
    ),
    ("closed", ESTALE, "it was closed, or never opened"),
    ("child", ECHILD, CHILD),
    ("reentered", EBUSY, "a call with this worker is under way: none may be made out of a signal handler"),
];

/// An object that a stock did not take back.
#[derive(Clone, Copy, Debug)]
pub struct Refused {
    pub kind: Kind,
    pub address: usize,
    /// Where it was given back before.
    pub before: Code,
}

impl Kind {
    /// What was done with a word that the table refuses, by a call that frees or another one.
    pub fn of(bad: Bad, frees: bool) -> Kind {
        match bad {
            Bad::MadeUp => Kind::MadeUp,
            Bad::Over(Some(End::Sent | End::Filled)) => Kind::UsedAfterTx,
            Bad::Over(Some(End::Moved)) => Kind::UsedAfterMove,
            Bad::Over(Some(End::Freed)) if frees => Kind::FreedTwice,
            Bad::Over(_) => Kind::UsedAfterFree,
            Bad::Again => Kind::Stale,
            Bad::Loose => Kind::Detached,
            Bad::OtherWorkers => Kind::WrongWorker,
        }
    }
}

impl From<Out> for Kind {
    fn from(out: Out) -> Kind {
        match out {
            Out::Closed => Kind::Closed,
            Out::OtherThread => Kind::WrongThread,
            Out::Busy => Kind::Reentered,
            Out::Child => Kind::Child,
        }
    }
}

/// What is done about misuse from now on; false where there is no such policy.
pub fn set_policy(policy: u32) -> bool {
    let known = [COUNT, REPORT, ABORT].contains(&policy);
    if known {
        POLICY.store(policy, Relaxed);
    }
    known
}

/// What is done about misuse.
pub fn policy() -> u32 {
    POLICY.load(Relaxed)
}

/// Each kind's name and how often it was seen.
pub fn counts() -> impl Iterator<Item = (&'static str, u64)> {
    KINDS.iter().zip(&COUNTS).map(|((name, ..), count)| (*name, count.load(Relaxed)))
}

/// Counts it, says it as far as the policy wants, and gives the number that the call returns. `what` is what was given: a frame, a
/// worker.
#[cold]
#[inline(never)]
pub fn refused(kind: Kind, call: &str, what: &str, word: u64, site: Site) -> i32 {
    let at = site.text().map_or(String::new(), |site| format!(" at {site}"));
    counted(
        (kind, why(kind, what)),
        &format!("{call}{at}"),
        &format!("{what} {word:#018x}"),
        &history(what, word),
    )
}

/// As [`refused`], of an object that is the program's own, and of which its stock knows where it was given back before.
#[cold]
#[inline(never)]
pub fn refused_object(object: &Refused, call: &str, stock: &str, from: Code) -> i32 {
    let at = from.text().map_or(String::new(), |from| format!(" at {from}"));
    let before = object.before.text().map_or(String::new(), |from| format!("; last given back at {from}"));
    let what = format!("object {:#x} of {stock}", object.address);
    counted((object.kind, why(object.kind, OBJECT)), &format!("{call}{at}"), &what, &before)
}

/// What is said of a kind. What is another worker's is passed on by calls of its own, or not at all.
fn why(kind: Kind, what: &str) -> &'static str {
    match (kind, what) {
        (Kind::WrongWorker, LANE) => {
            "this end of it is not this worker's: who opened it is its sender, and netmem_lane_join makes a worker its receiver, if it has none yet"
        }
        (Kind::WrongWorker, PORT) => {
            "it is another worker's: a port stays with the worker that opened it, whose thread makes all calls with it"
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
        _ => KINDS[kind as usize].2,
    }
}

#[cold]
fn counted((kind, why): (Kind, &str), call: &str, what: &str, history: &str) -> i32 {
    COUNTS[kind as usize].fetch_add(1, Relaxed);
    let (name, errno, _) = KINDS[kind as usize];
    let text = format!("{call}: {name}: {what}: {why}{history}");
    let policy = policy();
    if policy != COUNT {
        // Standard error may be closed; the count stands.
        let _ = writeln!(std::io::stderr(), "netmem: {text}");
    }
    if policy == ABORT {
        std::process::abort();
    }
    Failure::new(errno, text).keep()
}

/// Where the last use began and ended, as far as that was traced.
fn history(what: &str, word: u64) -> String {
    if ![FRAME, OBJECT, PAGE, PACKET, SHARED].contains(&what) {
        return String::new();
    }
    let Some(sites) = sites::of(word as u32) else { return String::new() };
    let said =
        |what: &str, site: Site| site.text().map_or(String::new(), |site| format!("; {what} at {site}"));
    said("last given out", sites.given()) + &said("last given back", sites.ended())
}

/// A word of a frame.
pub const FRAME: &str = "frame";
/// A word of a raw frame.
pub const RAW: &str = "raw frame";
/// A word of an object.
pub const OBJECT: &str = "object";
/// A word of a page.
pub const PAGE: &str = "page";
/// A word of a packet.
pub const PACKET: &str = "packet";
/// A word of a port.
pub const PORT: &str = "port";
/// A word of a lane.
pub const LANE: &str = "lane";
/// A word of a shared frame.
pub const SHARED: &str = "shared frame";
