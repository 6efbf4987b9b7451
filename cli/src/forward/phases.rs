//! How the threads of a run hear of its end.

use netmem::port::PortState;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, Thread};

/// The flags of a run's end, in the order in which they are raised, and what the workers saw of their ports.
///
/// Each Release here pairs with the Acquire of the same flag: whoever sees it raised sees what was done
/// before.
#[derive(Debug)]
pub struct Phases {
    /// Whether all threads of the run are there; None until that is known.
    begun: (Mutex<Option<bool>>, Condvar),
    stop_sending: AtomicBool,
    sending_over: AtomicBool,
    stop_forwarding: AtomicBool,
    drained: AtomicBool,
    /// No network inside this process takes what is transmitted, or it does not any more.
    alone: AtomicBool,
    /// Workers that will never hand a packet to another again.
    retired: AtomicUsize,
    /// One for each worker.
    lookouts: Arc<[Lookout]>,
    /// The thread that waits for the end.
    watcher: Thread,
}

/// What has all workers look up from their packets, from any thread and for as long as it is kept.
#[derive(Debug, Clone)]
pub struct LookUp(Arc<[Lookout]>);

impl LookUp {
    /// Has them look up.
    pub fn ask(&self) {
        // Release: pairs with the AcqRel of `Phases::looked_up`.
        self.0.iter().for_each(|worker| worker.look_up.store(true, Release));
    }
}

/// How ports were when their workers last looked up, for who asks before the run begins and while it lasts.
#[derive(Debug, Clone, Default)]
pub struct Outlook(Arc<OnceLock<LookUp>>);

impl Outlook {
    /// The run begins: workers will look up as they are asked by that.
    pub fn begin(&self, look_up: LookUp) {
        // It begins once.
        let _ = self.0.set(look_up);
    }

    /// Each worker's ports as it saw them when it last looked up; none before that.
    pub fn states(&self) -> Vec<Vec<PortState>> {
        let seen =
            |worker: &Lookout| worker.seen.lock().unwrap_or_else(PoisonError::into_inner).states.clone();
        self.0.get().map_or_else(Vec::new, |look_up| look_up.0.iter().map(seen).collect())
    }
}

/// A worker's looking up from its packets.
#[derive(Debug, Default)]
struct Lookout {
    look_up: AtomicBool,
    /// What it saw when it last did.
    seen: Mutex<Seen>,
}

/// What a worker sees when it looks up.
#[derive(Debug, Default)]
pub struct Seen {
    /// How its ports are.
    pub states: Vec<PortState>,
    /// What is wrong with each beside that.
    pub complaints: Vec<Option<String>>,
    /// Nothing will ever be received by them any more, and all that was has left.
    pub is_over: bool,
}

impl Phases {
    /// A run of so many workers that has not ended, watched by the calling thread; `alone` if there is no built-in
    /// network.
    pub fn new(workers: usize, alone: bool) -> Phases {
        Phases {
            begun: Default::default(),
            stop_sending: AtomicBool::new(false),
            sending_over: AtomicBool::new(false),
            stop_forwarding: AtomicBool::new(false),
            drained: AtomicBool::new(false),
            alone: AtomicBool::new(alone),
            retired: AtomicUsize::new(0),
            lookouts: (0..workers).map(|_| Lookout::default()).collect(),
            watcher: thread::current(),
        }
    }

    /// Has the threads of the run begin, or end at once where `all` of them could not be had.
    pub fn begin(&self, all: bool) {
        *self.begun.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(all);
        self.begun.1.notify_all();
    }

    /// Waits until all threads of the run are there; false if they are not, and this one is to end.
    pub fn has_begun(&self) -> bool {
        let begun = self.begun.0.lock().unwrap_or_else(PoisonError::into_inner);
        let begun = self.begun.1.wait_while(begun, |begun| begun.is_none());
        begun.unwrap_or_else(PoisonError::into_inner).unwrap_or(false)
    }

    /// The generator is to stop.
    pub fn stop_sending(&self) {
        self.stop_sending.store(true, Relaxed);
    }

    /// Whether it is to.
    #[inline]
    pub fn is_sending_to_stop(&self) -> bool {
        self.stop_sending.load(Relaxed)
    }

    /// The generator has stopped: all it sent is in the ports' rings.
    pub fn sending_over(&self) {
        self.sending_over.store(true, Release);
        self.watcher.unpark();
    }

    /// Whether it has.
    pub fn is_sending_over(&self) -> bool {
        self.sending_over.load(Acquire)
    }

    /// The forwarders are to stop and drain.
    pub fn stop_forwarding(&self) {
        self.stop_forwarding.store(true, Release);
        self.ask_to_look_up();
    }

    /// The forwarders have stopped: all they will transmit is in the ports' rings.
    pub fn drained(&self) {
        self.drained.store(true, Release);
    }

    /// Whether they have.
    pub fn is_drained(&self) -> bool {
        self.drained.load(Acquire)
    }

    /// Whether nobody in this process takes what is transmitted.
    pub fn is_alone(&self) -> bool {
        self.alone.load(Acquire)
    }

    /// The network has ended, one way or another.
    pub fn network_ended(&self) {
        self.sending_over();
        self.alone.store(true, Release);
    }

    /// A worker will hand nothing over any more, and others have its inbox.
    pub fn retired(&self) {
        // Release: pairs with the Acquire below; what it handed over comes before.
        self.retired.fetch_add(1, Release);
    }

    /// Whether all workers but one have.
    pub fn is_last(&self) -> bool {
        // Acquire: see `retired`.
        self.retired.load(Acquire) + 1 >= self.lookouts.len()
    }

    /// The workers are to look up from their packets.
    pub fn ask_to_look_up(&self) {
        self.look_up().ask();
    }

    /// What asks them to.
    pub fn look_up(&self) -> LookUp {
        LookUp(Arc::clone(&self.lookouts))
    }

    /// The flag that says so to a worker, for its poll loop.
    pub fn look_up_flag(&self, worker: usize) -> &AtomicBool {
        &self.lookouts[worker].look_up
    }

    /// Whether a worker is to look up and has not yet.
    pub fn is_asked(&self, worker: usize) -> bool {
        self.lookouts[worker].look_up.load(Relaxed)
    }

    /// A worker has looked up and seen this; true if it is to stop.
    pub fn looked_up(&self, worker: usize, seen: Seen) -> bool {
        let lookout = &self.lookouts[worker];
        // AcqRel: whoever raised the flag last raised `stop_forwarding` before, and it is read below.
        lookout.look_up.swap(false, AcqRel);
        *lookout.seen.lock().unwrap_or_else(PoisonError::into_inner) = seen;
        self.stop_forwarding.load(Acquire)
    }

    /// The states of each worker's ports as it saw them when it last looked up; none before that.
    pub fn states(&self) -> Vec<Vec<PortState>> {
        let states = |seen: MutexGuard<'_, Seen>| seen.states.clone();
        self.seen().map(states).collect()
    }

    /// What each worker saw to be wrong with its ports when it last looked up; none before that.
    pub fn complaints(&self) -> Vec<Vec<Option<String>>> {
        self.seen().map(|seen| seen.complaints.clone()).collect()
    }

    /// Whether every worker saw, when it last looked up, that there is nothing left to do.
    pub fn is_over(&self) -> bool {
        self.seen().all(|seen| seen.is_over)
    }

    fn seen(&self) -> impl Iterator<Item = MutexGuard<'_, Seen>> {
        self.lookouts.iter().map(|worker| worker.seen.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
