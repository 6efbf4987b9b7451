//! The `trace` port wraps another port, and records its traffic.
//!
//! The JSON format has one object on each line: each frame received or transmitted with its first bytes, each burst
//! filled or completed, and each change of the port's state. `ns` is the time since the trace began.
//! ```text
//!   {"ns":1200,"port":"mem:0","call":"fill","frames":64}
//!   {"ns":1830,"port":"mem:0","call":"rx","len":60,"bytes":"020000000001…"}
//!   {"ns":9000,"port":"mem:0","state":"interface eth0 is down"}
//! ```
//! The pcap format is a pcap file with nanoseconds of the whole frames received and transmitted.
//!
//! # What it costs, and what is bounded
//! A call only formats into a buffer of 256 KiB. [`Wake::kick`](super::Wake::kick), at the end of a round, writes the buffer out with one
//! write, which takes as long as the file system takes. If a round has more records than fit, or the trace has reached
//! its limit of frames ([`Port::notice`] says so), the missing frames are counted ([`TraceCounters::lost`]), and traffic goes on. Traffic also
//! goes on if nobody reads standard error: the records that a full pipe or a stopped terminal does not take stay in the
//! buffer. If writing fails, the file ends with the last complete record, nothing more is recorded, and
//! [`Port::complaint`] returns the reason.

mod log;
#[cfg(test)]
mod tests;

pub use log::{TraceConfig, TraceError, TraceFormat};

use super::wrap::WrapPort;
use super::{Port, PortState, WrapCounters};
use crate::pool::{Batch, Pool};
use crate::stats::Count;
use crate::sync::Worker;
use log::Log;
use std::sync::Arc;

/// The counters of a trace, readable from any thread.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct TraceCounters {
    /// Frames, bursts and changes of state in the file.
    pub written: Count,
    /// Frames, bursts and changes of state that are not in the file: there was no room, or writing failed. Behind the
    /// trace's last frame, further frames are counted here, but no bursts; changes of state are still recorded.
    pub lost: Count,
    /// 1 if writing has failed: nothing more is recorded.
    pub failed: Count,
}

impl WrapCounters for TraceCounters {
    fn counts(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("trace_written", self.written.get()),
            ("trace_lost", self.lost.get()),
            ("trace_failed", self.failed.get()),
        ]
    }
}

/// A port around another port, whose traffic is written to a capture. See [the module](self).
pub struct TracePort {
    name: String,
    within: Box<dyn Port>,
    log: Log,
    /// The state that was recorded last.
    state: PortState,
}

impl TracePort {
    /// Wraps `within`.
    ///
    /// # Errors
    /// Returns [`TraceError`] if the file cannot be made.
    #[cold]
    pub fn new(within: Box<dyn Port>, config: &TraceConfig) -> Result<TracePort, TraceError> {
        let log = Log::open(within.name(), config)?;
        Ok(TracePort { name: format!("trace/{}", within.name()), within, log, state: PortState::Up })
    }

    /// The counters of the records so far.
    pub fn written(&self) -> Arc<TraceCounters> {
        self.log.counters()
    }
}

impl WrapPort for TracePort {
    fn within(&self) -> &dyn Port {
        &*self.within
    }

    fn within_mut(&mut self) -> &mut dyn Port {
        &mut *self.within
    }

    fn fill(&mut self, w: &mut Worker, frames: &mut Batch) -> usize {
        let n = self.within.fill(w, frames);
        self.log.burst("fill", n);
        n
    }

    fn refill_to(&mut self, w: &mut Worker, pool: &Pool, most: usize) -> usize {
        let n = self.within.refill_to(w, pool, most);
        if n > 0 {
            self.log.burst("fill", n);
        }
        n
    }

    fn rx(&mut self, w: &mut Worker, frames: &mut Batch) -> usize {
        let before = frames.len();
        let n = self.within.rx(w, frames);
        self.log.frames("rx", &frames[before..]);
        self.log.cross_out(&[]);
        n
    }

    /// Frames are recorded before transmission, since afterwards they belong to the device. The records of frames that
    /// were not taken are removed.
    fn tx(&mut self, w: &mut Worker, frames: &mut Batch) -> usize {
        self.log.frames("tx", frames);
        let n = self.within.tx(w, frames);
        self.log.cross_out(frames);
        n
    }

    fn complete(&mut self, w: &mut Worker, frames: &mut Batch) -> usize {
        let n = self.within.complete(w, frames);
        self.log.burst("complete", n);
        n
    }

    fn kick(&mut self) {
        self.within.kick();
        let state = self.within.state();
        if state != self.state {
            self.log.state(&state);
            self.state = state;
        }
        self.log.write();
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn kind(&self) -> &'static str {
        "trace"
    }

    fn complaint(&self) -> Option<String> {
        self.log.complaint().or_else(|| self.within.complaint())
    }

    fn notice(&self) -> Option<String> {
        self.log.notice().or_else(|| self.within.notice())
    }

    fn wrap_counters(&self) -> Vec<Arc<dyn WrapCounters>> {
        let own: Arc<dyn WrapCounters> = self.written();
        [vec![own], self.within.wrap_counters()].concat()
    }
}

impl std::fmt::Debug for TracePort {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TracePort").field("name", &self.name).finish_non_exhaustive()
    }
}
