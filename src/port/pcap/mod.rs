//! The `pcap` port receives the packets of one file, and writes transmitted packets to another.
//!
//! The port reads classic pcap files and pcapng files of Ethernet frames, of either byte order and any time resolution,
//! plain or compressed by gzip. It writes classic pcap in this machine's byte order with nanoseconds. Frames of every
//! length pass unchanged: a runt, an empty frame, a frame of an unknown type. A packet longer than the posted frames is
//! dropped and counted (`rx_too_long`). A packet that was truncated when it was recorded is received truncated, and
//! counted (`rx_snapped`). If a pcapng file has packets of several interfaces, those of interfaces without Ethernet frames
//! are skipped and counted (`rx_other_link`); a file is refused if no interface before its first packet has them. The
//! packets before a damaged place are received. In a compressed file, up to 512 KiB of packets before it are lost, since
//! the decoder returns none of what it has decompressed together with the damage.
//!
//! # What blocks
//! [`Rx::rx`](super::Rx::rx) and [`Tx::tx`](super::Tx::tx) move bytes between frames and two buffers of 512 KiB, and
//! never touch a file. [`Wake::kick`](super::Wake::kick), at the end of a round, fills the first buffer by at most one
//! read and empties the second by one write. Both take as long as the file system takes. So a file is complete up to
//! the last round; the rest is written when the port is dropped. If a write fails, the transmitted packets are lost and
//! counted (`tx_lost`), and the file ends with the last whole packet. Standard output (`-`) is never cut, so it may end
//! within a packet. With [`PcapConfig::rotation`] several files are written in turn, and what they take of the disk is
//! bounded. A process under a limit of file sizes
//! (`RLIMIT_FSIZE`) must ignore or handle `SIGXFSZ`, as `netmem` does; otherwise the signal ends it. A named pipe or
//! a terminal in place of a file is refused, since the process at its other end could delay every round.
//!
//! Standard input and output (`-`) may be pipes. The port opens each a second time, so that its reads and writes never
//! wait. A packet that has not come yet is received in a later round. A packet for which neither the pipe nor the
//! second buffer has room is not taken from [`Tx::tx`](super::Tx::tx). When the port is dropped, it gives the pipe's
//! reader up after two seconds in which the reader read nothing.
//!
//! Sources: <https://www.ietf.org/archive/id/draft-ietf-opsawg-pcap-05.html> and
//! <https://www.ietf.org/archive/id/draft-ietf-opsawg-pcapng-03.html>

mod bind;
mod capture;
mod format;
mod pcapng;
mod rx;
mod source;
#[cfg(test)]
mod tests;
mod tx;
mod written;

pub use bind::{PcapConfig, PcapError, Rotation, Speed};
pub use format::FormatError;
pub(in crate::port) use format::{header as file_header, record as packet_header};
pub(in crate::port) use tx::{cut_off, write_all};

use super::copying::{CopyingPort, Device, RxBuffers};
use super::{PortCounters, PortState};
use crate::pool::Frame;
use crate::stats::Writer;
use crate::sys::event::sleep_until_readable;
use rx::Input;
use std::os::fd::BorrowedFd;
use std::time::Duration;
use tx::Output;

/// A port that reads and writes files.
pub type PcapPort = CopyingPort<Files>;

/// The files of a [`PcapPort`]. Without an input nothing is received. Without an output, transmitted packets are
/// discarded, as on a link without a receiver.
///
/// Each file goes down independently. If the input is damaged, frames are still written; while the disk is full, frames
/// are still received, into those that are posted. The port's state reports either, and it is down for good.
#[derive(Debug)]
pub struct Files {
    input: Option<Input>,
    output: Option<Output>,
    /// The reason why nothing is received any more.
    input_down: Option<String>,
    /// The reason why nothing is written any more.
    output_down: Option<String>,
}

impl Files {
    fn new(input: Option<Input>, output: Option<Output>) -> Files {
        let mut files = Files { input, output, input_down: None, output_down: None };
        files.read_ahead();
        files
    }

    /// The file to read, while it can be read.
    #[inline]
    fn input(&mut self) -> Option<&mut Input> {
        self.input.as_mut().filter(|_| self.input_down.is_none())
    }

    fn read_ahead(&mut self) {
        if let Some(Err(reason)) = self.input().map(Input::read_ahead) {
            self.input_down = Some(reason);
        }
    }
}

impl Device for Files {
    fn kind(&self) -> &'static str {
        "pcap"
    }

    #[inline]
    fn receive(&mut self, rooms: &mut RxBuffers<'_>, counters: &Writer<PortCounters>) -> usize {
        let Some(input) = self.input() else { return 0 };
        let mut n = 0;
        if let Err(reason) = input.receive(rooms, &mut n, counters) {
            self.input_down = Some(reason);
        }
        n
    }

    #[inline]
    fn send(&mut self, frames: &[Frame], _counters: &Writer<PortCounters>) -> usize {
        match &mut self.output {
            _ if self.output_down.is_some() => 0,
            Some(output) => output.send(frames),
            None => frames.len(),
        }
    }

    fn end_round(&mut self, counters: &Writer<PortCounters>) {
        self.read_ahead();
        if let Some(input) = &mut self.input {
            input.count_skipped(counters);
        }
        let output = self.output.as_mut().filter(|_| self.output_down.is_none());
        if let Some(Err(reason)) = output.map(|output| output.write_behind(counters)) {
            self.output_down = Some(reason);
        }
    }

    fn close(&mut self, counters: &Writer<PortCounters>) {
        if let Some(output) = &mut self.output {
            output.close(counters);
        }
    }

    fn is_readable(&mut self, _counters: &Writer<PortCounters>) -> bool {
        self.input().is_some_and(|input| {
            input.has_next() || input.pipe().is_some_and(|pipe| sleep_until_readable(&[pipe], Duration::ZERO))
        })
    }

    fn wakeup_fd(&self) -> Option<BorrowedFd<'_>> {
        self.input.as_ref().filter(|_| self.input_down.is_none()).and_then(Input::pipe)
    }

    fn can_retry_tx(&self) -> bool {
        self.output_down.is_none()
    }

    /// True also without an input, and if the input cannot be read any more.
    fn rx_finished(&self) -> bool {
        self.input_down.is_some() || self.input.as_ref().is_none_or(Input::is_at_end)
    }

    /// Each file that is down stays down, also if the disk has room again.
    fn is_failed(&self) -> bool {
        self.input_down.is_some() || self.output_down.is_some()
    }

    fn state(&self) -> PortState {
        let down = self.input_down.as_ref().or(self.output_down.as_ref());
        down.cloned().map_or(PortState::Up, PortState::Down)
    }
}
