//! Ports that break a promise: the conformance test refuses each.

use crate::pool::Frame;
use crate::port::conformance::{Peer, check};
use crate::port::copying::{CopyingPort, Device, RxBuffers};
use crate::port::mem::{MemConfig, MemPort};
use crate::port::tests::moody::{Mood, Moody};
use crate::port::{PortCounters, PortState};
use crate::stats::Writer;
use crate::sys::event::Event;
use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

/// The promise that a device breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Breaks {
    Nothing,
    /// Received packets are cut to 30 bytes.
    CutIn,
    /// It says that it received one more than it did.
    Invents,
    /// Sent packets are cut to 100 bytes.
    CutOut,
    /// Every 7th received packet is lost, and not counted.
    Loses,
    /// As `Loses`, and it is counted.
    LosesCounted,
    /// Two received packets are exchanged.
    Swaps,
    /// A received packet comes twice.
    Doubles,
    /// Its descriptor is never readable.
    Deaf,
}

/// Both directions of a line of packets.
#[derive(Default)]
struct Line {
    inward: VecDeque<Vec<u8>>,
    outward: Vec<Vec<u8>>,
}

struct Broken {
    line: Arc<Mutex<Line>>,
    breaks: Breaks,
    received: usize,
    event: Event,
}

impl Device for Broken {
    fn kind(&self) -> &'static str {
        "broken"
    }

    fn receive(&mut self, rooms: &mut RxBuffers<'_>, counters: &Writer<PortCounters>) -> usize {
        let mut line = self.line.lock().unwrap();
        let mut n = 0;
        while let Some(mut room) = rooms.get(n) {
            if self.breaks == Breaks::Swaps && line.inward.len() > 1 {
                line.inward.swap(0, 1);
            }
            let Some(mut packet) = line.inward.pop_front() else { break };
            self.received += 1;
            match self.breaks {
                Breaks::CutIn => packet.truncate(30),
                Breaks::Loses if self.received.is_multiple_of(7) => continue,
                Breaks::LosesCounted if self.received.is_multiple_of(7) => {
                    counters.add(|counters| &counters.rx_dropped, 1);
                    continue;
                }
                Breaks::Doubles if self.received.is_multiple_of(7) => line.inward.push_front(packet.clone()),
                _ => {}
            }
            room.put(packet.len()).unwrap().copy_from_slice(&packet);
            n += 1;
        }
        n + usize::from(self.breaks == Breaks::Invents && n > 0)
    }

    fn send(&mut self, frames: &[Frame], _counters: &Writer<PortCounters>) -> usize {
        let most = if self.breaks == Breaks::CutOut { 100 } else { usize::MAX };
        let bytes = frames.iter().map(|frame| frame.data()[..frame.len().min(most)].to_vec());
        self.line.lock().unwrap().outward.extend(bytes);
        frames.len()
    }

    fn wakeup_fd(&self) -> Option<BorrowedFd<'_>> {
        (self.breaks == Breaks::Deaf).then(|| self.event.as_fd())
    }

    fn state(&self) -> PortState {
        PortState::Up
    }
}

struct Network(Arc<Mutex<Line>>);

impl Peer for Network {
    fn deliver(&mut self, frame: &[u8]) {
        self.0.lock().unwrap().inward.push_back(frame.to_vec());
    }

    fn collect(&mut self) -> Option<Vec<Vec<u8>>> {
        Some(std::mem::take(&mut self.0.lock().unwrap().outward))
    }
}

/// Returns what the conformance test says of a port that breaks this.
fn said_of(breaks: Breaks, name: &str) -> Option<String> {
    said(|| {
        check(|_| {
            let line = Arc::new(Mutex::new(Line::default()));
            let device =
                Broken { line: Arc::clone(&line), breaks, received: 0, event: Event::new().unwrap() };
            (Box::new(CopyingPort::new(name.into(), device, 48)), Box::new(Network(line)))
        });
    })
}

/// Returns the text of the panic.
fn said(checking: impl FnOnce()) -> Option<String> {
    let panic = catch_unwind(AssertUnwindSafe(checking)).err()?;
    let said = panic.downcast_ref::<String>().cloned();
    Some(said.or_else(|| panic.downcast_ref::<&str>().map(|said| (*said).to_owned())).unwrap_or_default())
}

/// Seen: a port that cut packets, invented one, or lost every seventh without counting it passed the conformance test,
/// and so did one whose descriptor was never readable.
#[test]
fn a_port_that_cuts_invents_or_loses_packets_is_refused() {
    for breaks in [Breaks::Nothing, Breaks::LosesCounted] {
        assert_eq!(said_of(breaks, "broken:0"), None, "{breaks:?}");
    }
    for (breaks, why) in [
        (Breaks::CutIn, "received 30 bytes that were not sent so"),
        (Breaks::Invents, "received 0 bytes, which nobody sent"),
        (Breaks::CutOut, "the "),
        (Breaks::Loses, "neither received nor counted as lost"),
        (Breaks::Swaps, "before an earlier one"),
        (Breaks::Doubles, "received a frame twice"),
        (Breaks::Deaf, "its descriptor was not readable"),
    ] {
        let said = said_of(breaks, "broken:0");
        assert!(said.as_ref().is_some_and(|said| said.contains(why)), "{breaks:?}: {said:?}");
    }
}

/// Seen: the message was "tun:0 is no udptunnel".
#[test]
fn a_port_whose_name_does_not_begin_with_its_kind_is_told_so() {
    let said = said_of(Breaks::Nothing, "tun:0").unwrap();
    assert_eq!(said, "the name \"tun:0\" does not begin with the port's kind \"broken\"");
}

/// Seen: a port that always said that no frame was posted for reception, or 1,000, passed the conformance test.
#[test]
fn a_port_that_miscounts_its_posted_frames_is_refused() {
    for number in [0, 1000] {
        let said = said(|| {
            check(|_| {
                let (port, device) = MemPort::pair("0", &MemConfig { ring: 64, coalesce: 4 }).unwrap();
                (Box::new(Moody::new(port, Mood::Posted(number))), Box::new(device))
            });
        });
        assert!(
            said.as_ref().is_some_and(|said| said.contains("posted for reception")),
            "{number}: {said:?}"
        );
    }
}
