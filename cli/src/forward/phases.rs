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
    start: (Mutex<Start>, Condvar),
    stop_sending: AtomicBool,
    sending_over: AtomicBool,
    stop_forwarding: AtomicBool,
    drained: AtomicBool,
    /// Nothing in this process takes the transmitted packets, or not any more.
    alone: AtomicBool,
    /// Workers that will never hand a packet to another again.
    retired: AtomicUsize,
    /// One for each worker.
    workers: Arc<[WorkerStatus]>,
    /// The thread that waits for the end.
    watcher: Thread,
}

/// How far the start of a run is.
#[derive(Debug)]
struct Start {
    /// Whether all threads of the run exist, or None until that is known.
    begun: Option<bool>,
    /// Workers that have not polled yet.
    unpolled: usize,
}

/// Requests the status of all workers. Usable from any thread and for as long as it is kept.
#[derive(Debug, Clone)]
pub struct StatusRequest(Arc<[WorkerStatus]>);

impl StatusRequest {
    /// Makes the request.
    pub fn ask(&self) {
        // Release: pairs with the AcqRel of `Phases::report_status`.
        self.0.iter().for_each(|worker| worker.requested.store(true, Release));
    }
}

/// The workers' latest status, for threads that read it before and during the run.
#[derive(Debug, Clone, Default)]
pub struct LatestStatus(Arc<OnceLock<StatusRequest>>);

impl LatestStatus {
    /// Records that the run begins. `request` reaches the workers' status.
    pub fn begin(&self, request: StatusRequest) {
        // The run begins only once.
        let _ = self.0.set(request);
    }

    /// Returns the latest reported state of each worker's ports, with the frames that each port had posted for reception.
    /// Empty before the first report.
    pub fn ports(&self) -> Vec<Vec<(PortState, usize)>> {
        let seen = |worker: &WorkerStatus| {
            let seen = worker.latest.lock().unwrap_or_else(PoisonError::into_inner);
            seen.states.iter().cloned().zip(seen.rx_posted.iter().copied()).collect()
        };
        self.0.get().map_or_else(Vec::new, |request| request.0.iter().map(seen).collect())
    }
}

/// A worker's status, and the request for a new one.
#[derive(Debug, Default)]
struct WorkerStatus {
    requested: AtomicBool,
    /// The latest report.
    latest: Mutex<Status>,
}

/// The status that a worker reports between two poll rounds.
#[derive(Debug, Default)]
pub struct Status {
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
            start: (Mutex::new(Start { begun: None, unpolled: workers }), Condvar::new()),
            stop_sending: AtomicBool::new(false),
            sending_over: AtomicBool::new(false),
            stop_forwarding: AtomicBool::new(false),
            drained: AtomicBool::new(false),
            alone: AtomicBool::new(alone),
            retired: AtomicUsize::new(0),
            workers: (0..workers).map(|_| WorkerStatus::default()).collect(),
            watcher: thread::current(),
        }
    }

    /// Lets the threads of the run begin, or end at once if not `all` of them could be started.
    pub fn begin(&self, all: bool) {
        self.change_start(|start| start.begun = Some(all));
    }

    /// Waits until all threads of the run exist. Returns false if they do not, and the calling thread is to end.
    pub fn has_begun(&self) -> bool {
        self.await_start(|start| start.begun.is_some()).begun.unwrap_or(false)
    }

    /// Records that a worker has polled its ports once. Rings that were empty are filled then.
    pub fn polled(&self) {
        self.change_start(|start| start.unpolled -= 1);
        self.watcher.unpark();
    }

    /// Returns true if each worker has polled its ports.
    pub fn is_receiving(&self) -> bool {
        self.lock_start().unpolled == 0
    }

    /// Waits until each worker has polled its ports, so that the first packet finds a frame. Does not wait any longer
    /// if the generator is to stop.
    pub fn await_receiving(&self) {
        drop(self.await_start(|start| start.unpolled == 0 || self.is_sending_to_stop()));
    }

    fn change_start(&self, change: impl FnOnce(&mut Start)) {
        change(&mut self.lock_start());
        self.start.1.notify_all();
    }

    fn await_start(&self, is_so: impl Fn(&Start) -> bool) -> MutexGuard<'_, Start> {
        let waited = self.start.1.wait_while(self.lock_start(), |start| !is_so(start));
        waited.unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_start(&self) -> MutexGuard<'_, Start> {
        self.start.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells the generator to stop.
    pub fn stop_sending(&self) {
        // Under the lock, so that a generator which begins to wait does not miss it.
        self.change_start(|_| self.stop_sending.store(true, Relaxed));
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
        self.request_status();
    }

    /// Returns a guard of the thread that ends the run. When it is dropped, also by a panic, all other threads of the run
    /// end.
    pub fn end_on_drop(&self) -> Ending<'_> {
        Ending(self)
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
        self.retired.load(Acquire) + 1 >= self.workers.len()
    }

    /// Requests a status report of all workers.
    pub fn request_status(&self) {
        self.status_request().ask();
    }

    /// Returns the handle that makes such requests.
    pub fn status_request(&self) -> StatusRequest {
        StatusRequest(Arc::clone(&self.workers))
    }

    /// Returns the flag that ends a worker's poll loop for a report.
    pub fn status_request_flag(&self, worker: usize) -> &AtomicBool {
        &self.workers[worker].requested
    }

    /// Returns true if the status of a worker was requested and is not reported yet.
    pub fn is_status_requested(&self, worker: usize) -> bool {
        self.workers[worker].requested.load(Relaxed)
    }

    /// Records the status of a worker. Returns true if the worker is to stop.
    pub fn report_status(&self, worker: usize, new: Status) -> bool {
        let status = &self.workers[worker];
        // AcqRel: the thread that raised the flag last raised `stop_forwarding` before, and it is read below.
        status.requested.swap(false, AcqRel);
        *status.latest.lock().unwrap_or_else(PoisonError::into_inner) = new;
        self.stop_forwarding.load(Acquire)
    }

    /// Returns the latest reported states of each worker's ports. Empty before the first report.
    pub fn states(&self) -> Vec<Vec<PortState>> {
        let states = |seen: MutexGuard<'_, Status>| seen.states.clone();
        self.latest().map(states).collect()
    }

    /// Returns the latest reported problems of each worker's ports. Empty before the first report.
    pub fn complaints(&self) -> Vec<Vec<Option<String>>> {
        self.latest().map(|seen| seen.complaints.clone()).collect()
    }

    /// Returns true if by their latest reports no worker has anything left to do.
    pub fn is_over(&self) -> bool {
        self.latest().all(|seen| seen.is_over)
    }

    fn latest(&self) -> impl Iterator<Item = MutexGuard<'_, Status>> {
        self.workers.iter().map(|worker| worker.latest.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Tells all threads of a run to end when it is dropped. See [`Phases::end_on_drop`].
pub struct Ending<'a>(&'a Phases);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.stop_sending();
        self.0.stop_forwarding();
        self.0.drained();
    }
}
