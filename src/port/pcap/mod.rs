//! The `pcap` port: what a file holds is received, what is transmitted is written to another.
//!
//! Classic pcap files of Ethernet frames, of either byte order, with micro- or nanoseconds; written in this machine's
//! order with nanoseconds. Every length goes through as it is: a runt, an empty frame, a frame of an unknown type. What is
//! longer than the frames posted is dropped and counted (`rx_too_long`); what was cut when it was recorded is received
//! as it was cut, and counted (`rx_snapped`).
//!
//! # What blocks
//! [`Port::rx`](super::Port::rx) and [`Port::tx`](super::Port::tx) move bytes between frames and two buffers of 512 KiB and
//! never touch a file. [`Port::kick`](super::Port::kick), at the end of a round, fills the one by at most one read and
//! empties the other by one write, which take as long as the file system takes. So a file is complete up to the last
//! round; what is left when the port is dropped is written then. A pipe in place of a file keeps the round waiting for as
//! long as its other end is silent.
//!
//! Source: <https://www.ietf.org/archive/id/draft-ietf-opsawg-pcap-05.html>

mod bind;
mod format;
mod rx;
#[cfg(test)]
mod tests;
mod tx;

pub use bind::{PcapConfig, PcapError, Speed, open};
pub use format::FormatError;
pub(in crate::port) use format::{header as file_header, record as packet_header};

use super::copying::{CopyingPort, Device};
use super::{PortCounters, PortState};
use crate::pool::Frame;
use rx::Input;
use tx::Output;

/// A port that reads and writes files.
pub type PcapPort = CopyingPort<Files>;

/// The files of a [`PcapPort`]. Without an input nothing is received; without an output what is transmitted is thrown
/// away, as on a link that nobody listens to.
#[derive(Debug)]
pub struct Files {
    input: Option<Input>,
    output: Option<Output>,
    /// Why the port is down for good.
    down: Option<String>,
}

impl Files {
    /// Whether all has been received that the input will ever give; true without one.
    pub fn is_at_end(&self) -> bool {
        self.down.is_some() || self.input.as_ref().is_none_or(Input::is_at_end)
    }

    /// Takes note of what came of a step that can go wrong.
    #[inline]
    fn heed<T: Default>(&mut self, done: Result<T, String>) -> T {
        done.unwrap_or_else(|reason| {
            self.down.get_or_insert(reason);
            T::default()
        })
    }
}

impl Device for Files {
    fn kind(&self) -> &'static str {
        "pcap"
    }

    #[inline]
    fn receive(&mut self, frames: &mut [Frame], counters: &PortCounters) -> usize {
        match &mut self.input {
            Some(input) if self.down.is_none() => {
                let mut n = 0;
                let done = input.receive(frames, &mut n, counters);
                self.heed(done);
                n
            }
            _ => 0,
        }
    }

    #[inline]
    fn send(&mut self, frames: &[Frame], _counters: &PortCounters) -> usize {
        match &mut self.output {
            _ if self.down.is_some() => 0,
            Some(output) => output.send(frames),
            None => frames.len(),
        }
    }

    fn end_round(&mut self, _counters: &PortCounters) {
        if self.down.is_some() {
            return;
        }
        let read = self.input.as_mut().map_or(Ok(()), Input::read_ahead);
        self.heed(read);
        let written = self.output.as_mut().map_or(Ok(()), Output::write_behind);
        self.heed(written);
    }

    fn is_readable(&mut self) -> bool {
        self.down.is_none() && self.input.as_mut().is_some_and(Input::is_due)
    }

    fn state(&self) -> PortState {
        self.down.clone().map_or(PortState::Up, PortState::Down)
    }
}
