//! Packets to addresses in thousands of networks, of which each has one owner.

use crate::testbed::{Namespace, PATIENCE, is_silence};
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use std::{panic, thread};

/// How many networks of 16 addresses there are, from 100.64.0.0 on.
pub const NETWORKS: u32 = 10_000;
/// The port of the receivers.
const PORT: u16 = 9000;
/// Packets sent one behind the other, and the pause after them.
const BURST: (u32, Duration) = (20, Duration::from_millis(2));

/// The host that a network belongs to: networks take turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    H2,
    H3,
}

/// The networks of one owner: their numbers.
pub fn networks(owner: Owner) -> impl Iterator<Item = u32> {
    (0..NETWORKS).filter(move |number| self::owner(*number) == owner)
}

fn owner(number: u32) -> Owner {
    if number.is_multiple_of(2) { Owner::H2 } else { Owner::H3 }
}

/// The address in a network, counted from its first.
pub fn address(number: u32, host: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(0x6440_0000 + (number << 4) + host)
}

/// Sets its flags when it is dropped, also by a panic. So the threads that check them end, and the scope of threads
/// ends too.
pub struct Ends<'a, const N: usize>(pub [&'a AtomicBool; N]);

impl<const N: usize> Drop for Ends<'_, N> {
    fn drop(&mut self) {
        self.0.iter().for_each(|flag| flag.store(true, Relaxed));
    }
}

/// Numbers of packets that came to one host.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Come {
    /// Packets for its own networks.
    pub right: u64,
    /// Packets for the networks of the other host.
    pub wrong: u64,
}

/// Sends packets to the networks of `numbers`, until it ends.
pub fn send(from: &Namespace, numbers: impl Iterator<Item = u32>) {
    let socket = from.inside(|| UdpSocket::bind("0.0.0.0:0").expect("a UDP socket"));
    let mut host = 0;
    for (sent, number) in (1..).zip(numbers) {
        host = host % 14 + 1;
        let to = address(number, host);
        socket.send_to(&number.to_be_bytes(), (to, PORT)).expect("send");
        if sent % BURST.0 == 0 {
            thread::sleep(BURST.1);
        }
    }
}

/// Receives at a host until `stop` is set and nothing more comes.
pub fn receive(at: &Namespace, owner: Owner, stop: &AtomicBool) -> Come {
    let socket = at.inside(|| UdpSocket::bind(("0.0.0.0", PORT)).expect("a UDP socket"));
    socket.set_read_timeout(Some(Duration::from_millis(500))).expect("a timeout");
    let (mut come, mut number) = (Come::default(), [0; 4]);
    loop {
        let stopped = stop.load(Relaxed);
        match socket.recv(&mut number) {
            Ok(_) if self::owner(u32::from_be_bytes(number)) == owner => come.right += 1,
            Ok(_) => come.wrong += 1,
            Err(error) if is_silence(&error) => {
                if stopped {
                    return come;
                }
            }
            Err(error) => panic!("recv: {error}"),
        }
    }
}

#[test]
fn a_sender_stops_also_when_its_test_fails() {
    let (stop, begun) = (AtomicBool::new(false), Instant::now());
    let failed = panic::catch_unwind(|| {
        thread::scope(|scope| {
            let _ends = Ends([&stop]);
            // Without patience a flag that is never set would be a hang, and no failure.
            scope.spawn(|| {
                while !stop.load(Relaxed) && begun.elapsed() < PATIENCE {
                    thread::yield_now();
                }
            });
            panic!("as a test fails");
        })
    });
    assert!(failed.is_err() && stop.load(Relaxed));
}
