//! A port whose behaviour a test scripts, and which counts what is done to it.

use netmem::port::{Complete, Fill, Port, PortCounters, PortState, Rx, Tx, Wake};
use netmem::{Batch, Frame, Memory, MemoryConfig, Pool, PoolConfig, Worker};
use netmem_tokio::{AsyncPort, Incoming};
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio::time::{sleep, timeout};

/// Only guards against hangs: the machine may be stopped for a while.
pub const PATIENCE: Duration = Duration::from_secs(60);
pub const RING: usize = 16;

/// What a port does, and what was done to it.
#[derive(Default)]
pub struct Script {
    /// It reports work when it is armed.
    pub is_ready: AtomicBool,
    /// It takes no frame.
    pub is_full: AtomicBool,
    /// Its descriptor names a file. epoll(7) refuses such descriptors.
    pub is_unwatchable: AtomicBool,
    /// It keeps the frames that it has sent.
    pub keeps_sent: AtomicBool,
    /// Copies that its peer has not read.
    pub unread: AtomicUsize,
    /// The thread that closed it.
    pub closed_by: Mutex<Option<ThreadId>>,
    pub is_down: AtomicBool,
    /// It is down for good, if it is down.
    pub is_failed: AtomicBool,
    /// It complains, and carries frames all the same.
    pub complains: AtomicBool,
    /// Packets that come before it fails, and after it was asked for packets for the last time.
    pub last: AtomicUsize,
    /// It is up and takes no frame, and will not either.
    pub refuses: AtomicBool,
    /// It receives nothing after the packets that wait.
    pub is_finished: AtomicBool,
    /// Packets that wait to be received. Each is filled with its number.
    pub waiting: AtomicUsize,
    pub armed: AtomicUsize,
    pub taken: AtomicUsize,
    pub claimed: AtomicUsize,
    /// How often its counters were read.
    pub counted: AtomicUsize,
    /// A reader that goes at the end of a round in which packets were received.
    pub reader: Mutex<Option<Incoming>>,
}

pub struct Scripted {
    script: Arc<Script>,
    posted: Vec<Frame>,
    sent: Vec<Frame>,
    /// Never readable.
    socket: UnixStream,
    file: File,
    received: usize,
    _other_end: UnixStream,
}

impl Drop for Scripted {
    fn drop(&mut self) {
        *self.script.closed_by.lock().unwrap() = Some(thread::current().id());
    }
}

impl Fill for Scripted {
    fn fill_room(&mut self) -> usize {
        RING - self.posted.len()
    }
    fn fill(&mut self, _w: &mut Worker, frames: &mut Batch) -> usize {
        let before = self.posted.len();
        while self.posted.len() < RING
            && let Some(frame) = frames.pop_front()
        {
            self.posted.push(frame);
        }
        self.posted.len() - before
    }
    fn rx_posted(&self) -> usize {
        self.posted.len()
    }
}

impl Rx for Scripted {
    fn rx(&mut self, _w: &mut Worker, frames: &mut Batch) -> usize {
        let n = self.script.waiting.load(SeqCst).min(self.posted.len()).min(frames.room());
        for (number, mut frame) in (self.received..).zip(self.posted.drain(..n)) {
            frame.put(60).unwrap().fill(number as u8);
            frames.push(frame).unwrap();
        }
        self.script.waiting.fetch_sub(n, SeqCst);
        self.received += n;
        n
    }
    fn rx_finished(&self) -> bool {
        self.script.is_finished.load(SeqCst) && self.script.waiting.load(SeqCst) == 0
    }
}

impl Tx for Scripted {
    fn tx(&mut self, _w: &mut Worker, frames: &mut Batch) -> usize {
        let before = self.sent.len();
        if self.script.is_down.load(SeqCst) || self.script.refuses.load(SeqCst) {
            return 0;
        }
        let mut stay = self.take_unsendable(frames);
        while !self.script.is_full.load(SeqCst)
            && let Some(frame) = frames.pop_front()
        {
            self.sent.push(frame);
        }
        frames.append(&mut stay);
        self.script.taken.fetch_add(self.sent.len() - before, SeqCst);
        self.sent.len() - before
    }
    fn tx_posted(&self) -> usize {
        self.sent.len()
    }
    fn tx_unread(&mut self) -> usize {
        self.script.unread.load(SeqCst)
    }
    fn can_retry_tx(&self) -> bool {
        !self.script.is_down.load(SeqCst) && !self.script.refuses.load(SeqCst)
    }
    /// Carries frames of up to a hundred bytes.
    fn take_unsendable(&self, frames: &mut Batch) -> Batch {
        frames.extract(|frame| frame.len() > 100)
    }
}

impl Complete for Scripted {
    fn complete(&mut self, _w: &mut Worker, frames: &mut Batch) -> usize {
        let n = if self.script.keeps_sent.load(SeqCst) { 0 } else { self.sent.len().min(frames.room()) };
        self.sent.drain(..n).for_each(|frame| frames.push(frame).unwrap());
        self.script.claimed.fetch_add(n, SeqCst);
        n
    }
}

impl Wake for Scripted {
    fn kick(&mut self) {
        if self.received > 0 {
            drop(self.script.reader.lock().unwrap().take());
        }
    }
    fn arm(&mut self) -> bool {
        self.script.armed.fetch_add(1, SeqCst);
        self.script.is_ready.load(SeqCst)
    }
    fn wakeup_fd(&self) -> Option<BorrowedFd<'_>> {
        let is_unwatchable = self.script.is_unwatchable.load(SeqCst);
        Some(if is_unwatchable { self.file.as_fd() } else { self.socket.as_fd() })
    }
}

impl Port for Scripted {
    fn name(&self) -> &str {
        "scripted"
    }
    fn kind(&self) -> &'static str {
        "scripted"
    }
    fn state(&self) -> PortState {
        let is_down = self.script.is_down.load(SeqCst);
        if is_down { PortState::Down("by the script".into()) } else { PortState::Up }
    }
    fn is_failed(&self) -> bool {
        let is_failed = self.script.is_down.load(SeqCst) && self.script.is_failed.load(SeqCst);
        if is_failed {
            self.script.waiting.fetch_add(self.script.last.swap(0, SeqCst), SeqCst);
        }
        is_failed
    }
    fn complaint(&self) -> Option<String> {
        self.script.complains.load(SeqCst).then(|| "of the script".into())
    }
    fn counters(&self) -> Arc<PortCounters> {
        self.script.counted.fetch_add(1, SeqCst);
        Arc::new(PortCounters::default())
    }
}

pub fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

pub fn pool(frames: usize) -> (Worker, Pool) {
    let config = MemoryConfig { bytes: 4 << 20, workers: 1, ..MemoryConfig::default() };
    let memory = Memory::new(&config).unwrap();
    let mut w = memory.worker().unwrap();
    let pool = Pool::new(&memory, &mut w, &PoolConfig { frames, ..PoolConfig::default() }).unwrap();
    (w, pool)
}

/// Returns a port with a pool of that many frames.
pub fn scripted(frames: usize) -> (AsyncPort, Arc<Script>) {
    let (w, pool) = pool(frames);
    let (script, (socket, _other_end)) = (Arc::new(Script::default()), UnixStream::pair().unwrap());
    let (posted, sent) = (Vec::new(), Vec::new());
    let file = File::open("/proc/self/exe").unwrap();
    let port = Scripted { script: script.clone(), posted, sent, socket, file, received: 0, _other_end };
    (AsyncPort::new(Box::new(port), w, pool).unwrap(), script)
}

/// Returns `count` frames to send.
pub fn frames(port: &mut AsyncPort, count: usize) -> Batch {
    let mut frames = Batch::new();
    assert_eq!(port.alloc_burst(&mut frames, count), count);
    frames.iter_mut().for_each(|frame| frame.put(60).unwrap().fill(1));
    frames
}

pub async fn until(what: &str, is_so: impl Fn() -> bool) {
    let waits = async {
        while !is_so() {
            sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(PATIENCE, waits).await.unwrap_or_else(|_| panic!("{what}"));
}
