//! Checks whether packets can still come: the program is on the interface, and the socket in the program's map. COLD.
//!
//! The check runs once a second, within the look at the interface that is made anyway. If another program has taken one
//! of them away, the port is down until it is put back. That is tried with the next look, so that the state is first
//! visible and reported. Whether the program is still attached is asked only if nothing was received since the last
//! look, because that call waits for the kernel's lock of all interfaces. At the same interval, the MAC address of the
//! interface is checked, if a program takes only frames for that address, its MTU, and its queues (`coverage.rs`).

use super::XdpPort;
use super::absence::Presence;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// The time between two checks.
const PAUSE: Duration = Duration::from_secs(1);

/// The result of the last check.
#[derive(Debug, Default)]
pub(super) struct Health {
    /// The time of the next check.
    until: Option<Instant>,
    /// Number of frames received by then.
    received: u64,
    lost: Option<Lost>,
}

/// The part that another program took away, and the reason why the port is down.
#[derive(Debug)]
struct Lost {
    what: What,
    reason: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Program,
    Socket,
}

impl Health {
    /// The reason why no packet can come in, if that is so.
    pub(super) fn lost(&self) -> Option<&str> {
        self.lost.as_ref().map(|lost| lost.reason.as_str())
    }
}

impl XdpPort {
    /// Checks whether something was taken away, if it is time to. Puts back what was missing at the last check.
    #[cold]
    pub(super) fn look_after_health(&mut self) {
        let now = Instant::now();
        if self.presence != Presence::Here || self.link_down || self.health.until.is_some_and(|at| now < at) {
            return;
        }
        self.health.until = Some(now + PAUSE);
        match self.health.lost.take() {
            Some(lost) => self.health.lost = self.put_back(&lost),
            None => self.health.lost = self.find_lost(),
        }
        let is_silent = self.health.received == self.counters.rx.get();
        self.health.received = self.counters.rx.get();
        if let Some(binding) = &self.binding {
            binding.attachment.follow_station(&self.netdev);
        }
        self.look_after_coverage(is_silent);
        self.follow_mtu();
    }

    fn find_lost(&self) -> Option<Lost> {
        let binding = self.binding.as_ref()?;
        let interface = self.netdev.name();
        if binding.attachment.lacks(self.queue, binding.socket.as_fd()) {
            let reason = format!(
                "another program has taken queue {} of {interface} out of the XDP program's map: it is being put back",
                self.queue
            );
            return Some(Lost { what: What::Socket, reason });
        }
        let silent = self.health.received == self.counters.rx.get();
        silent.then(|| self.find_program_lost()).flatten()
    }

    fn find_program_lost(&self) -> Option<Lost> {
        let attachment = &self.binding.as_ref()?.attachment;
        // If the interface is gone, the socket reports it soon.
        let is_lost = attachment.is_detached() && self.is_there();
        let interface = self.netdev.name();
        let reason = || {
            format!(
                "another program has detached the XDP program from {interface}: it is being attached again"
            )
        };
        is_lost.then(|| Lost { what: What::Program, reason: reason() })
    }

    /// Returns whether the interface lacks the program because another one detached it, which is put back by and by.
    #[cold]
    pub(super) fn lacks_program(&mut self) -> bool {
        if self.health.lost.is_none() {
            self.health.lost = self.find_program_lost();
        }
        matches!(self.health.lost, Some(Lost { what: What::Program, .. }))
    }

    /// Returns whether the interface on which the port was opened exists, whatever its name is now.
    #[cold]
    pub(super) fn is_there(&self) -> bool {
        self.netdev.current_name().is_ok()
    }

    /// Puts back what was taken away. Returns None, or the reason if that failed.
    fn put_back(&self, lost: &Lost) -> Option<Lost> {
        let binding = self.binding.as_ref()?;
        let done = match lost.what {
            What::Socket => binding.attachment.insert(self.queue, binding.socket.as_fd()),
            What::Program => {
                let attach = || binding.attachment.attach_again();
                // The program belongs to the namespace of the thread that attaches it.
                self.netdev.in_its_namespace(attach).unwrap_or(Ok(()))
            }
        };
        let error = done.err()?;
        let interface = self.netdev.name();
        let reason = match lost.what {
            What::Socket => {
                format!("queue {} of {interface} is in no XDP program's map: {error}", self.queue)
            }
            What::Program => {
                format!("{interface} has lost the XDP program, and it cannot be attached: {error}")
            }
        };
        Some(Lost { what: lost.what, reason })
    }
}
