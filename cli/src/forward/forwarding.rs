//! The thread of a worker.

use super::cuts::Attendant;
use super::phases::{Phases, Status};
use super::report::state;
use netmem::forward::Forwarder;
use netmem::sync::Worker;
use std::thread;
use std::time::{Duration, Instant};

/// Number of rounds without any movement after which a forwarder counts as drained.
const QUIET_ROUNDS: u32 = 16;
/// The worker that takes over the inboxes of the others.
const HEIR: usize = 0;
/// The draining time of ports whose far side may send forever, or accepts nothing any more.
const DRAIN: Duration = Duration::from_millis(200);

/// Forwards as worker `number` until the run is to stop, then drains. It drains until nothing moves, or for a short
/// time if nothing in this process takes the transmitted packets.
///
/// Between two rounds `attendant` answers a requested cut. At the end it records the final counts.
///
/// Workers that share packets end one after the other. Each leaves its inbox to worker 0, which goes on until it is
/// the last. `retires` is the guard of [`retire_on_drop`], which is dropped at the end.
pub fn forward(
    forwarder: &mut Forwarder,
    w: &mut Worker,
    number: usize,
    (phases, mut attendant): (&Phases, Option<&mut Attendant>),
    retires: Option<Retires<'_>>,
) {
    loop {
        forwarder.run(w, phases.status_request_flag(number));
        let states = forwarder.ports().map(state).collect();
        let rx_posted = forwarder.ports().map(|port| port.rx_posted()).collect();
        let complaints = forwarder.ports().map(|port| port.complaint().or_else(|| port.notice())).collect();
        let status = Status { states, rx_posted, complaints, is_over: forwarder.is_over() };
        if phases.report_status(number, status) {
            break;
        }
        if let Some(attendant) = &mut attendant {
            attendant.come_round(forwarder);
            attendant.sample(forwarder);
        }
    }
    let begun = Instant::now();
    let mut is_over = |forwarder: &Forwarder, at_most: Duration| {
        attendant.iter_mut().for_each(|attendant| attendant.come_round(forwarder));
        phases.is_alone() && begun.elapsed() > at_most
    };
    forwarder.drain(w, QUIET_ROUNDS, |forwarder| is_over(forwarder, DRAIN));
    if retires.is_some() {
        forwarder.retire(w, HEIR);
    } else {
        while !phases.is_last() {
            forwarder.poll(w);
            is_over(forwarder, DRAIN);
            thread::yield_now();
        }
        forwarder.drain(w, QUIET_ROUNDS, |forwarder| is_over(forwarder, 2 * DRAIN));
    }
    attendant.into_iter().for_each(|attendant| attendant.end(forwarder));
}

/// Returns the guard of worker `number` for [`forward`], or None for worker 0. The worker makes it first: worker 0 waits
/// until all others have retired, also those that panicked before they forwarded.
pub fn retire_on_drop(number: usize, phases: &Phases) -> Option<Retires<'_>> {
    // Lazily: a guard made for worker 0 would count when it is dropped.
    (number != HEIR).then(|| Retires(phases))
}

/// Records that a worker has retired when it is dropped, even by a panic.
pub struct Retires<'a>(&'a Phases);

impl Drop for Retires<'_> {
    fn drop(&mut self) {
        self.0.retired();
    }
}
