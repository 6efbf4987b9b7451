//! `packet` ports whose packets have the time at which the kernel received them: in network namespaces, as root.

#![allow(clippy::unwrap_used)]

// It uses a part of this.
#[allow(dead_code)]
mod netns;

use netmem::pool::Batch;
use netmem::port::af_packet::{AfPacketConfig, AfPacketPort};
use netmem::port::conformance::Fixture;
use netmem::port::{Fill, Port, PortState, Rx, Wake};
use netns::{Wire, in_namespace, ip, veth};
use std::thread::yield_now;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A frame of 60 bytes: the number, and with `tag` VLAN 7.
fn frame(number: u8, tag: bool) -> Vec<u8> {
    let tag: &[u8] = if tag { &[0x81, 0, 0, 7] } else { &[] };
    let mut frame = [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2], tag, &[8, 0, number]].concat();
    frame.resize(60, 0);
    frame
}

fn open(kernel_timestamps: bool) -> AfPacketPort {
    AfPacketPort::open("a0", &AfPacketConfig { ring: 64, kernel_timestamps }).unwrap()
}

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap()
}

/// Receives `n` packets. Returns their bytes and times.
fn receive(port: &mut AfPacketPort, fixture: &mut Fixture, n: usize) -> Vec<(Vec<u8>, Option<Duration>)> {
    let mut received = Vec::new();
    while received.len() < n {
        let mut batch = Batch::new();
        port.refill(&mut fixture.w, &fixture.pool);
        port.rx(&mut fixture.w, &mut batch);
        received.extend(batch.iter().map(|frame| (frame.data().to_vec(), frame.timestamp())));
        batch.free(&mut fixture.w);
        yield_now();
    }
    received
}

/// Sends packets and receives them, until one has a time before the port received it. The kernel begins to take times somewhat after
/// it was asked to. For packets before that it reports when the port received them.
fn wait_for_times(port: &mut AfPacketPort, fixture: &mut Fixture, wire: &Wire) {
    loop {
        wire.send(&frame(0, false));
        let sent = now();
        let [(_, Some(time))] = receive(port, fixture, 1)[..] else { panic!("a packet without a time") };
        if time <= sent {
            return;
        }
    }
}

#[test]
fn packets_have_the_time_at_which_the_kernel_received_them_with_a_tag_too() {
    in_namespace("packets_have_the_time_at_which_the_kernel_received_them_with_a_tag_too", || {
        veth("a0", "a1", 1);
        let (mut port, mut without, mut fixture) = (open(true), open(false), Fixture::new(1024));
        let wire = Wire::open("a1");
        wait_for_times(&mut port, &mut fixture, &wire);
        let begin = now();
        let sent = [frame(1, false), frame(2, true), frame(3, false)];
        sent.iter().for_each(|frame| wire.send(frame));
        let end = now();
        let received = receive(&mut port, &mut fixture, 3);
        assert!(received.iter().map(|(bytes, _)| bytes).eq(&sent));
        let times: Vec<Duration> = received.iter().filter_map(|(_, time)| *time).collect();
        assert_eq!(times.len(), 3);
        assert!(times.is_sorted() && begin <= times[0] && times[2] <= end, "{begin:?} {times:?} {end:?}");
        // It has the packets sent before, too, whose number is not known.
        while receive(&mut without, &mut fixture, 1).last() != Some(&(frame(3, false), None)) {}
        assert_eq!((port.counters().rx_drops(), without.counters().rx_drops()), (0, 0));
    });
}

#[test]
fn packets_have_times_also_after_the_interface_was_removed_and_made_again() {
    in_namespace("packets_have_times_also_after_the_interface_was_removed_and_made_again", || {
        veth("a0", "a1", 1);
        let (mut port, mut fixture) = (open(true), Fixture::new(1024));
        ip("link del a0");
        let mut look_until = |is_reached: &dyn Fn(&AfPacketPort) -> bool| {
            while !is_reached(&port) {
                let _ = port.arm();
                port.disarm();
            }
        };
        look_until(&|port| port.state() != PortState::Up);
        veth("a0", "a1", 1);
        look_until(&|port| port.state() == PortState::Up);
        wait_for_times(&mut port, &mut fixture, &Wire::open("a1"));
    });
}
