//! Ports whose device copies, and may be full for a moment.

use super::{Forwarder, MemPort, Reason, Rig, cross_connect, rig};
use netmem::pool::Frame;
use netmem::port::copying::{CopyingPort, Device, RxBuffers};
use netmem::port::mem::{MemConfig, MemDevice};
use netmem::port::{Port, PortCounters, PortState};
use netmem::stats::Writer;

/// A device that accepts no frames for this many rounds.
struct Full {
    rounds: usize,
    state: PortState,
}

impl Device for Full {
    fn kind(&self) -> &'static str {
        "full"
    }

    fn receive(&mut self, _rooms: &mut RxBuffers<'_>, _counters: &Writer<PortCounters>) -> usize {
        0
    }

    fn send(&mut self, frames: &[Frame], _counters: &Writer<PortCounters>) -> usize {
        if self.rounds == 0 { frames.len() } else { 0 }
    }

    fn end_round(&mut self, _counters: &Writer<PortCounters>) {
        self.rounds = self.rounds.saturating_sub(1);
    }

    fn rx_finished(&self) -> bool {
        true
    }

    fn state(&self) -> PortState {
        self.state.clone()
    }
}

/// A device with this many frames to receive.
struct Few(usize);

impl Device for Few {
    fn kind(&self) -> &'static str {
        "few"
    }

    fn receive(&mut self, rooms: &mut RxBuffers<'_>, _counters: &Writer<PortCounters>) -> usize {
        let n = rooms.len().min(self.0);
        self.0 -= n;
        n
    }

    fn send(&mut self, _frames: &[Frame], _counters: &Writer<PortCounters>) -> usize {
        0
    }

    fn rx_finished(&self) -> bool {
        self.0 == 0
    }

    fn state(&self) -> PortState {
        PortState::Up
    }
}

/// A rig whose port 1 accepts no frames for `rounds` rounds, and the far end of its port 0.
fn leads_to(rounds: usize, state: PortState) -> (Rig, MemDevice) {
    let mut rig = rig(512, cross_connect());
    let (from, device) = MemPort::pair("0", &MemConfig::default()).unwrap();
    let to = CopyingPort::new("full:1".into(), Full { rounds, state }, 64);
    rig.forwarder =
        Forwarder::new(vec![Box::new(from), Box::new(to)], rig.pool.clone(), cross_connect()).unwrap();
    rig.forwarder.poll(&mut rig.w);
    (rig, device)
}

/// Delivers ten frames. Returns the number transmitted in eight rounds, and the number refused.
fn ten(mut rig: Rig, mut device: MemDevice) -> (u64, u64) {
    assert_eq!(device.deliver(10, |_| 60), 10);
    for _ in 0..8 {
        rig.forwarder.poll(&mut rig.w);
    }
    rig.check();
    let meters = rig.forwarder.meters();
    let seen = (meters.transmitted.get(), meters.drops.get(Reason::TxRefused));
    drop(device);
    rig.end();
    seen
}

#[test]
fn frames_wait_for_a_port_that_is_briefly_full_and_not_for_one_that_is_down() {
    let (rig, device) = leads_to(5, PortState::Up);
    assert_eq!(ten(rig, device), (10, 0));
    let (rig, device) = leads_to(usize::MAX, PortState::Down("unplugged".into()));
    assert_eq!(ten(rig, device), (0, 10));
}

#[test]
fn frames_for_a_link_whose_device_is_dropped_are_lost_or_refused_and_counted() {
    let mut rig = rig(512, cross_connect());
    let (lost, device) = MemPort::pair("1", &MemConfig::default()).unwrap();
    let (from, mut network) = MemPort::pair("0", &MemConfig::default()).unwrap();
    let counters = lost.counters();
    rig.forwarder =
        Forwarder::new(vec![Box::new(from), Box::new(lost)], rig.pool.clone(), cross_connect()).unwrap();
    let mut receive = |rig: &mut Rig| {
        rig.forwarder.poll(&mut rig.w);
        assert_eq!(network.deliver(10, |_| 60), 10);
        rig.forwarder.poll(&mut rig.w);
        rig.check();
    };
    receive(&mut rig);
    drop(device);
    receive(&mut rig);
    receive(&mut rig);
    rig.forwarder.poll(&mut rig.w);
    let meters = rig.forwarder.meters();
    let refused = meters.drops.get(Reason::TxRefused);
    assert_eq!((meters.transmitted.get(), meters.completed.get(), refused), (10, 10, 20));
    assert_eq!(counters.tx_lost.get(), 10);
    rig.check();
    drop(network);
    rig.end();
}

#[test]
fn a_run_ends_when_all_frames_of_the_last_input_have_left() {
    let mut rig = rig(512, cross_connect());
    let from = CopyingPort::new("few:0".into(), Few(100), 64);
    let to = CopyingPort::new("full:1".into(), Full { rounds: 5, state: PortState::Up }, 64);
    rig.forwarder =
        Forwarder::new(vec![Box::new(from), Box::new(to)], rig.pool.clone(), cross_connect()).unwrap();
    let meters = rig.forwarder.meters();
    let mut rounds = 0;
    while !rig.forwarder.is_over() {
        rig.forwarder.poll(&mut rig.w);
        rounds += 1;
    }
    let dropped = meters.drops.total();
    assert_eq!((meters.received.get(), meters.completed.get() + dropped), (100, 100));
    assert!(rounds > 5 && meters.held.get() == 0, "{rounds}");
    rig.check();
    rig.end();
}
