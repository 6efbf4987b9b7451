use netmem::{Forwarder, Worker};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Counts its worker as retired when it is dropped, even by a panic.
struct Retires<'a>(&'a AtomicUsize);

impl Drop for Retires<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Release); // pairs with the heir's load
    }
}

/// Forwards as worker `me` of `workers` until `stop` is set, and drains. Worker 0 is the heir.
pub fn forward(
    forwarder: &mut Forwarder,
    w: &mut Worker,
    (me, workers): (usize, usize),
    stop: &AtomicBool,
    retired: &AtomicUsize,
) {
    let retires = (me > 0).then(|| Retires(retired)); // first: the heir also waits for a worker that panics
    forwarder.run(w, stop);
    if retires.is_some() {
        drain(forwarder, w);
        forwarder.retire(w, 0);
        return;
    }
    while retired.load(Ordering::Acquire) < workers - 1 {
        forwarder.poll(w);
        thread::yield_now();
    }
    drain(forwarder, w); // with a time limit of its own: the inboxes that it took over may have frames
}

/// Drains for a second at most: packets may come without end.
fn drain(forwarder: &mut Forwarder, w: &mut Worker) {
    let until = Instant::now() + Duration::from_secs(1);
    forwarder.drain(w, 100, |_| Instant::now() > until);
}
