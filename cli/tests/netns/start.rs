//! The forwarder starts while packets are coming in already.

use crate::forwarder::Forwarder;
use crate::testbed::{Testbed, Wiring, wait_until};
use crate::wire::Wire;
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Two thousand packets a second.
const INTERVAL: Duration = Duration::from_micros(500);
/// Packets of each run that are to reach the other host.
const PACKETS: u64 = 500;
/// Runs under one stream.
const STARTS: usize = 5;
/// Room for the packets of some seconds, in which no process may get a core.
const RING: &str = "--ring=16384";

#[test]
fn no_packet_of_a_running_stream_finds_the_fill_ring_empty_at_start_in_native_mode() {
    no_packet_finds_the_fill_ring_empty_at_start("native");
}

#[test]
fn no_packet_of_a_running_stream_finds_the_fill_ring_empty_at_start_in_generic_mode() {
    no_packet_finds_the_fill_ring_empty_at_start("generic");
}

fn no_packet_finds_the_fill_ring_empty_at_start(mode: &str) {
    let Some(bed) = Testbed::lay(Wiring::Routed, &[]) else { return };
    let _stream = Stream::start(&bed);
    for start in 0..STARTS {
        wait_for_packets("packets arrive with no forwarder there", || Wire::read(&bed.dut, "one").rx, 10);
        let forwarder = Forwarder::start(&bed, &["--xdp-mode", mode, RING]);
        wait_for_packets("the stream is forwarded", || Wire::read(&bed.h2, "eth0").rx, PACKETS);
        let summary = forwarder.interrupt();
        assert_eq!(summary.ports("rx_no_frame"), 0, "start {start}, received {}", summary.number("received"));
        assert!(summary.number("transmitted") >= PACKETS);
        bed.assert_nothing_left();
    }
}

/// Waits until a counter has grown by `n`.
fn wait_for_packets(what: &str, counter: impl Fn() -> u64, n: u64) {
    let before = counter();
    wait_until(what, || counter() >= before + n);
}

/// UDP packets from h1 to h2 until dropped.
struct Stream {
    stop: Arc<AtomicBool>,
    sender: Option<JoinHandle<()>>,
}

impl Stream {
    fn start(bed: &Testbed) -> Stream {
        let socket = bed.h1.inside(|| UdpSocket::bind((bed.address(1), 9000))).expect("a UDP socket");
        socket.connect((bed.address(2), 9000)).expect("connect");
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let send = move || {
            while !stopped.load(Relaxed) {
                // Refused while no process listens there. The next one is sent nevertheless.
                let _ = socket.send(&[0; 64]);
                thread::sleep(INTERVAL);
            }
        };
        Stream { stop, sender: Some(thread::spawn(send)) }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        self.sender.take().map(JoinHandle::join);
    }
}
