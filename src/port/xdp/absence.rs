//! An interface that is removed while the port is open, and a later interface of the same name. COLD.
//!
//! ```text
//!   here ── the socket lost its interface ──►  leaving   received packets are still taken, nothing is sent
//!     ▲                                           │
//!     │                                           ▼
//!   found  ◄── an interface of that name, up ──  gone    socket and program are released, frames are freed
//!   bound, the FILL ring is being filled, nothing is redirected yet
//! ```
//! There is one step for each look at the interface, which is made every so many poll rounds and before each sleep.
//! Frames that were posted for transmission and will not be sent come back by
//! [`Complete::complete`](crate::port::Complete::complete), as sent frames do.
//!
//! Only removal is an absence. An interface that is set down keeps its sockets, with all frames in their rings, and
//! resumes with them when it is up again.

use super::XdpPort;
use super::bind::{Former, Means};
use super::close::{Released, free_all};
use super::error::{Attempt, XdpError};
use crate::pool::Batch;
use crate::port::ENTER;
use crate::sync::Worker;
use crate::sys::xdp::Socket;
use std::iter::from_fn;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// The time from a look for the interface to the next one.
const PAUSE: Duration = Duration::from_millis(50);
/// The maximum of that time, if an interface exists and its queue is refused: the kernel pins the whole region before
/// it refuses.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// The state of the port's interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Presence {
    /// It is there, or the port is down for good.
    Here,
    /// It is gone, and received packets still wait.
    Leaving,
    /// It is gone.
    Gone(Absence),
    /// It is there again.
    Found,
}

/// The state of the search for an interface that is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Absence {
    /// The time of the next look.
    until: Instant,
    /// The time since the last look.
    pause: Duration,
    /// An interface of that name exists, but has fewer receive queues.
    lacks_queue: bool,
}

impl XdpPort {
    /// Handles the loss: the socket has lost its interface.
    #[cold]
    pub(super) fn lose(&mut self) {
        if self.presence == Presence::Here && self.queues.is_some() {
            self.presence = Presence::Leaving;
            // Nothing is sent any more.
            self.link_down = true;
            self.down = Some(format!("interface {} is gone", self.netdev.name()));
        }
    }

    /// Makes one step from the loss to the return of the interface.
    #[cold]
    pub(super) fn step(&mut self) {
        match self.presence {
            Presence::Here => {}
            Presence::Leaving => self.leave(),
            Presence::Gone(absence) => {
                let now = Instant::now();
                // Frames posted for transmission are given back first: the next socket gives another meaning to their
                // chunks.
                if now >= absence.until && self.sent.count() == 0 {
                    self.find(now, absence.pause);
                }
            }
            Presence::Found => self.come_back(),
        }
    }

    fn leave(&mut self) {
        if let Some(binding) = &self.binding {
            binding.attachment.lose();
        }
        let released = self.queues.take().map(|queues| self.release(queues, Duration::ZERO));
        let absence = Absence { until: Instant::now(), pause: PAUSE, lacks_queue: false };
        self.presence = Presence::Gone(absence);
        if let Some(Released { mut filled, unsent, .. }) = released {
            self.counters.tx_lost.add(unsent);
            // Last: to free a frame may run the caller's code, which may panic.
            free_all(from_fn(|| filled.claim_any()));
        }
    }

    /// Returns whether the interface has come back without the queue: no packet is lost by it.
    pub(super) fn lacks_queue(&self) -> bool {
        matches!(self.presence, Presence::Gone(Absence { lacks_queue: true, .. }))
    }

    /// Binds to the interface that now has the name, if it exists and is up.
    fn find(&mut self, now: Instant, pause: Duration) {
        match self.bind_again() {
            Ok(()) => self.presence = Presence::Found,
            Err(XdpError::NotPermitted { .. }) if self.is_granted => {
                let name = self.netdev.name();
                let ended = format!(
                    "interface {name} is gone, and the grant with it: ask for another, and open the port again"
                );
                (self.presence, self.down) = (Presence::Here, Some(ended));
            }
            Err(error) => {
                let name = self.netdev.name();
                let pause = pause_after(&error, pause);
                let lacks_queue = matches!(error, XdpError::NoSuchQueue { .. }) && self.nothing_comes_by();
                self.down = Some(match error {
                    XdpError::UnknownInterface { .. } => format!("interface {name} is gone"),
                    XdpError::InterfaceDown { .. } => format!("interface {name} is down"),
                    other => other.to_string(),
                });
                self.presence = Presence::Gone(Absence { until: now + pause, pause, lacks_queue });
            }
        }
    }

    /// Returns whether the interface that now has the name has no receive queue of this number. A queue that receives
    /// and does not send cannot be bound either, and its packets are lost to the port.
    fn nothing_comes_by(&self) -> bool {
        let queues = self.netdev.again().and_then(|netdev| netdev.queues());
        // If the driver does not report its queues, the kernel refused a number that neither kind of queue has.
        queues.is_ok_and(|queues| queues.is_none_or(|queues| queues.rx <= self.queue))
    }

    fn bind_again(&mut self) -> Result<(), XdpError> {
        let config = self.config.clone();
        let name = self.netdev.name().to_owned();
        let attempt = Attempt::new(&self.umem, &name, self.queue, &config);
        if self.is_granted {
            // Who has no privileges now need not wait for the interface.
            drop(Socket::new().map_err(|error| attempt.socket(error))?);
        }
        let netdev = self.netdev.again().map_err(|errno| attempt.netdev("find the interface", errno))?;
        let means = Means::Own(Former { taking: self.take_control(), mode: Some(self.mode) });
        // Socket and program belong to the namespace of the thread that makes them. That thread may poll in another
        // one.
        let bound = netdev.in_its_namespace(|| self.umem.bind(&netdev, &attempt, &config, (means, 0)));
        let elsewhere =
            |error| XdpError::Refused { interface: name.clone(), cause: format!("{ENTER}: {error}") };
        let (binding, rings) = bound.map_err(elsewhere)??;
        self.adopt(netdev, binding, rings);
        Ok(())
    }

    /// Lets packets in again: from now on they go into the frames that were posted since the interface was found.
    fn come_back(&mut self) {
        let Some(binding) = &self.binding else { return };
        self.skip_statistics();
        match binding.attachment.insert(self.queue, binding.socket.as_fd()) {
            Ok(()) => {
                self.presence = Presence::Here;
                (self.link_down, self.down) = (false, None);
            }
            Err(error) => {
                self.presence = Presence::Leaving;
                self.down = Some(error.to_string());
            }
        }
    }

    /// Appends frames that were posted for transmission before the interface was lost, while there is room.
    #[cold]
    pub(super) fn reclaim(&mut self, w: &Worker, frames: &mut Batch) -> usize {
        if !matches!(self.presence, Presence::Gone(_)) {
            return 0;
        }
        let (before, held) = (frames.len(), self.sent.count());
        while frames.room() > 0
            && let Some(frame) = self.sent.claim_any()
        {
            // There is room.
            let _ = frames.push(frame);
        }
        self.sent.taken_back(held, w, frames, before);
        let reclaimed = held - self.sent.count();
        self.counters.completed.add(reclaimed as u64);
        reclaimed
    }
}

/// Returns the time to the next look after one that ended in `error`. The last time was `pause`.
fn pause_after(error: &XdpError, pause: Duration) -> Duration {
    match error {
        XdpError::UnknownInterface { .. } | XdpError::InterfaceDown { .. } | XdpError::NoSuchQueue { .. } => {
            PAUSE
        }
        _ => (2 * pause).min(PAUSE_MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_that_is_refused_is_asked_for_ever_less_often_up_to_once_a_second_and_a_name_always() {
        let interface = || "eth0".to_owned();
        let (busy, gone) = (
            XdpError::QueueBound { interface: interface(), queue: 0 },
            XdpError::UnknownInterface { interface: interface() },
        );
        let pauses: Vec<_> = std::iter::successors(Some(PAUSE), |pause| Some(pause_after(&busy, *pause)))
            .map(|pause| pause.as_millis())
            .take(7)
            .collect();
        assert_eq!(pauses, [50, 100, 200, 400, 800, 1000, 1000]);
        assert_eq!(pause_after(&gone, PAUSE_MAX), PAUSE);
    }
}
