//! The phases of a run's end, as its threads see them.

use netmem::port::PortState;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, Thread};

/// The flags of a run's end, in the order in which they are raised, and the state of the ports as the workers saw
/// it.
///
/// Each Release here pairs with the Acquire of the same flag: a thread that sees the flag raised sees everything
/// that was done before.
#[derive(Debug)]
pub struct Phases {
    /// Whether all threads of the run exist, or None until that is known.
    begun: (Mutex<Option<bool>>, Condvar),
    stop_sending: AtomicBool,
    sending_over: AtomicBool,
    stop_forwarding: AtomicBool,
    drained: AtomicBool,
    /// Nothing in this process takes the transmitted packets, or not any more.
    alone: AtomicBool,
    /// Workers that will never hand a packet to another again.
    retired: AtomicUsize,
    /// One for each worker.
    lookouts: Arc<[Lookout]>,
    /// The thread that waits for the end.
    watcher: Thread,
}

/// Asks all workers to look up from their packets. Usable from any thread and for as long as it is kept.
#[derive(Debug, Clone)]
pub struct LookUp(Arc<[Lookout]>);

impl LookUp {
    /// Asks them to look up.
    pub fn ask(&self) {
        // Release: pairs with the AcqRel of `Phases::looked_up`.
        self.0.iter().for_each(|worker| worker.look_up.store(true, Release));
    }
}

/// The states of ports when their workers last looked up, for threads that ask before and during the run.
#[derive(Debug, Clone, Default)]
pub struct Outlook(Arc<OnceLock<LookUp>>);

impl Outlook {
    /// Records that the run begins. Workers can be asked to look up by `look_up`.
    pub fn begin(&self, look_up: LookUp) {
        // The run begins only once.
        let _ = self.0.set(look_up);
    }

    /// Returns the state of each worker's ports, and the number of frames that each had posted for reception, when the
    /// worker last looked up. Empty before that.
    pub fn ports(&self) -> Vec<Vec<(PortState, usize)>> {
        let seen = |worker: &Lookout| {
            let seen = worker.seen.lock().unwrap_or_else(PoisonError::into_inner);
            seen.states.iter().cloned().zip(seen.rx_posted.iter().copied()).collect()
        };
        self.0.get().map_or_else(Vec::new, |look_up| look_up.0.iter().map(seen).collect())
    }
}

/// The state of one worker's looking up.
#[derive(Debug, Default)]
struct Lookout {
    look_up: AtomicBool,
    /// What the worker saw when it last looked up.
    seen: Mutex<Seen>,
}

/// The state that a worker sees when it looks up.
#[derive(Debug, Default)]
pub struct Seen {
    /// The states of its ports.
    pub states: Vec<PortState>,
    /// The frames that each has posted for reception.
    pub rx_posted: Vec<usize>,
    /// Problems of each port, other than its state.
    pub complaints: Vec<Option<String>>,
    /// Nothing will be received any more, and everything received has left.
    pub is_over: bool,
}

impl Phases {
    /// Makes the phases of a run of this many workers that has not ended, watched by the calling thread. `alone` is
    /// true if there is no built-in network.
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

    /// Lets the threads of the run begin, or end at once if not `all` of them could be started.
    pub fn begin(&self, all: bool) {
        *self.begun.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(all);
        self.begun.1.notify_all();
    }

    /// Waits until all threads of the run exist. Returns false if they do not, and the calling thread is to end.
    pub fn has_begun(&self) -> bool {
        let begun = self.begun.0.lock().unwrap_or_else(PoisonError::into_inner);
        let begun = self.begun.1.wait_while(begun, |begun| begun.is_none());
        begun.unwrap_or_else(PoisonError::into_inner).unwrap_or(false)
    }

    /// Tells the generator to stop.
    pub fn stop_sending(&self) {
        self.stop_sending.store(true, Relaxed);
    }

    /// Returns true if the generator is to stop.
    #[inline]
    pub fn is_sending_to_stop(&self) -> bool {
        self.stop_sending.load(Relaxed)
    }

    /// Records that the generator has stopped: all its packets are in the ports' rings.
    pub fn sending_over(&self) {
        self.sending_over.store(true, Release);
        self.watcher.unpark();
    }

    /// Returns true if the generator has stopped.
    pub fn is_sending_over(&self) -> bool {
        self.sending_over.load(Acquire)
    }

    /// Tells the forwarders to stop and drain.
    pub fn stop_forwarding(&self) {
        self.stop_forwarding.store(true, Release);
        self.ask_to_look_up();
    }

    /// Records that the forwarders have stopped: all packets that they will transmit are in the ports' rings.
    pub fn drained(&self) {
        self.drained.store(true, Release);
    }

    /// Returns true if the forwarders have stopped.
    pub fn is_drained(&self) -> bool {
        self.drained.load(Acquire)
    }

    /// Returns true if nothing in this process takes the transmitted packets.
    pub fn is_alone(&self) -> bool {
        self.alone.load(Acquire)
    }

    /// Records that the network has ended, normally or not.
    pub fn network_ended(&self) {
        self.sending_over();
        self.alone.store(true, Release);
    }

    /// Records that a worker will not hand over packets any more, and that others have its inbox.
    pub fn retired(&self) {
        // Release: pairs with the Acquire below; what it handed over comes before.
        self.retired.fetch_add(1, Release);
    }

    /// Returns true if all workers but one have retired.
    pub fn is_last(&self) -> bool {
        // Acquire: see `retired`.
        self.retired.load(Acquire) + 1 >= self.lookouts.len()
    }

    /// Asks the workers to look up from their packets.
    pub fn ask_to_look_up(&self) {
        self.look_up().ask();
    }

    /// Returns the handle that asks them to.
    pub fn look_up(&self) -> LookUp {
        LookUp(Arc::clone(&self.lookouts))
    }

    /// Returns the flag that asks a worker to look up, for its poll loop.
    pub fn look_up_flag(&self, worker: usize) -> &AtomicBool {
        &self.lookouts[worker].look_up
    }

    /// Returns true if a worker is asked to look up and has not done so yet.
    pub fn is_asked(&self, worker: usize) -> bool {
        self.lookouts[worker].look_up.load(Relaxed)
    }

    /// Records what a worker saw when it looked up. Returns true if it is to stop.
    pub fn looked_up(&self, worker: usize, seen: Seen) -> bool {
        let lookout = &self.lookouts[worker];
        // AcqRel: the thread that raised the flag last raised `stop_forwarding` before, and it is read below.
        lookout.look_up.swap(false, AcqRel);
        *lookout.seen.lock().unwrap_or_else(PoisonError::into_inner) = seen;
        self.stop_forwarding.load(Acquire)
    }

    /// Returns the states of each worker's ports when it last looked up. Empty before that.
    pub fn states(&self) -> Vec<Vec<PortState>> {
        let states = |seen: MutexGuard<'_, Seen>| seen.states.clone();
        self.seen().map(states).collect()
    }

    /// Returns the problems of each worker's ports when it last looked up. Empty before that.
    pub fn complaints(&self) -> Vec<Vec<Option<String>>> {
        self.seen().map(|seen| seen.complaints.clone()).collect()
    }

    /// Returns true if every worker saw, when it last looked up, that there is nothing left to do.
    pub fn is_over(&self) -> bool {
        self.seen().all(|seen| seen.is_over)
    }

    fn seen(&self) -> impl Iterator<Item = MutexGuard<'_, Seen>> {
        self.lookouts.iter().map(|worker| worker.seen.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
