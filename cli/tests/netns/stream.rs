//! Streams of UDP packets from one host to the other in which every byte is known.

use crate::testbed::{PATIENCE, Testbed, is_silence};
use std::net::UdpSocket;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

/// The largest UDP payload that one Ethernet frame carries.
const PAYLOAD_MAX: usize = 1472;
/// How long a look for a packet takes at most.
const LOOK: Duration = Duration::from_millis(100);
/// Looks, one after the other, in which nothing has to come after the last packet was sent until the rest is given up. A
/// time in which the machine or this process stands still is in one of them, however long it is.
const QUIET: u32 = 30;

/// What became of the packets.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// Packets whose every byte was right, each counted once.
    pub good: u64,
    /// Packets that were not sent so.
    pub corrupt: u64,
    /// Packets that came again.
    pub twice: u64,
    /// Good packets that came after a later one.
    pub reordered: u64,
}

/// From one host to the other, from and to the same port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flow {
    pub from: u8,
    pub to: u8,
    pub port: u16,
}

impl Flow {
    /// The number of its first packet: packets of different flows have different numbers.
    fn first(self) -> u64 {
        u64::from(self.port) << 40 | u64::from(self.from) << 32
    }
}

/// Sends `packets` packets of all sizes from h1 to h2, one every `interval`. Returns when they have arrived or are
/// lost.
pub fn stream(bed: &Testbed, packets: u64, interval: Duration) -> Received {
    let [received] = streams(bed, [Flow { from: 1, to: 2, port: 9000 }], packets, interval);
    received
}

/// As [`stream`], in each of the flows, all at once.
pub fn streams<const N: usize>(
    bed: &Testbed,
    flows: [Flow; N],
    packets: u64,
    interval: Duration,
) -> [Received; N] {
    let bind = |host: u8, port| {
        let namespace = if host == 1 { &bed.h1 } else { &bed.h2 };
        let address = bed.address(host);
        namespace.inside(move || UdpSocket::bind((address, port)).expect("a UDP socket"))
    };
    let hosts = |flow: Flow| [bind(flow.from, flow.port), bind(flow.to, flow.port)];
    let sockets = flows.map(hosts);
    let (sent, patience) = (flows.map(|_| AtomicU64::new(0)), PATIENCE + interval * packets as u32);
    thread::scope(|scope| {
        let running = flows.map(|flow| {
            let at = flows.iter().position(|known| *known == flow).expect("it is one of them");
            let (sent, [from, to]) = (&sent[at], &sockets[at]);
            from.connect((bed.address(flow.to), flow.port)).expect("connect");
            scope.spawn(move || send(from, flow.first(), packets, interval, sent));
            scope.spawn(move || receive(to, flow.first(), packets, sent, patience))
        });
        running.map(|flow| flow.join().expect("a receiver"))
    })
}

/// Sends on a schedule. After a pause of the machine the schedule moves, so that no burst compensates for it.
fn send(socket: &UdpSocket, first: u64, packets: u64, interval: Duration, sent: &AtomicU64) {
    let mut payload = [0; PAYLOAD_MAX];
    let mut due = Instant::now();
    for number in 0..packets {
        let now = Instant::now();
        match due.checked_duration_since(now) {
            Some(early) => thread::sleep(early),
            None if now - due > Duration::from_millis(1) => due = now,
            None => {}
        }
        due += interval;
        let len = write(first + number, &mut payload);
        assert_eq!(socket.send(&payload[..len]).expect("send"), len);
        sent.fetch_add(1, Relaxed);
    }
}

fn receive(socket: &UdpSocket, first: u64, packets: u64, sent: &AtomicU64, patience: Duration) -> Received {
    socket.set_read_timeout(Some(LOOK)).expect("a timeout");
    let mut seen = vec![false; packets as usize];
    let (mut received, mut latest) = (Received::default(), 0);
    let (begun, mut quiet) = (Instant::now(), 0);
    let (mut payload, mut expected) = ([0; 2048], [0; PAYLOAD_MAX]);
    while received.good < packets {
        assert!(begun.elapsed() < patience, "the stream does not end: {received:?}");
        match socket.recv(&mut payload) {
            Ok(len) => {
                quiet = 0;
                match verify(&payload[..len], first, packets, &mut expected) {
                    None => received.corrupt += 1,
                    Some(number) if seen[number] => received.twice += 1,
                    Some(number) => {
                        seen[number] = true;
                        received.good += 1;
                        received.reordered += u64::from(number < latest);
                        latest = latest.max(number);
                    }
                }
            }
            Err(error) if is_silence(&error) => {
                quiet = if sent.load(Relaxed) == packets { quiet + 1 } else { 0 };
                if quiet == QUIET {
                    break;
                }
            }
            Err(error) => panic!("receive: {error}"),
        }
    }
    received
}

/// Returns the number of this packet in the stream. Returns None if it is not of the stream or a byte is wrong.
fn verify(payload: &[u8], first: u64, packets: u64, expected: &mut [u8; PAYLOAD_MAX]) -> Option<usize> {
    let number = u64::from_le_bytes(*payload.first_chunk()?);
    let len = write(number, expected);
    let place = number.checked_sub(first).filter(|&place| place < packets)?;
    (payload == &expected[..len]).then_some(place as usize)
}

/// Writes packet `number`: its number, then bytes that are computed from it (xorshift). Returns its length.
fn write(number: u64, payload: &mut [u8; PAYLOAD_MAX]) -> usize {
    let len = 8 + (number as usize).wrapping_mul(7919) % (PAYLOAD_MAX - 7);
    payload[..8].copy_from_slice(&number.to_le_bytes());
    let mut state = number.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    for eight in payload[8..len].chunks_mut(8) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        eight.copy_from_slice(&state.to_le_bytes()[..eight.len()]);
    }
    len
}

#[test]
fn a_packet_of_the_stream_is_known_by_every_byte() {
    let (mut payload, mut expected) = ([0; PAYLOAD_MAX], [0; PAYLOAD_MAX]);
    let first = Flow { from: 2, to: 1, port: 9001 }.first();
    for number in 0..2000 {
        let len = write(first + number, &mut payload);
        assert_eq!(verify(&payload[..len], first, 2000, &mut expected), Some(number as usize));
        assert_eq!(verify(&payload[..len], 0, 2000, &mut expected), None, "of another flow");
        assert_eq!(verify(&payload[..len - 1], first, 2000, &mut expected), None);
        payload[number as usize % len] ^= 1;
        assert_eq!(verify(&payload[..len], first, 2000, &mut expected), None);
    }
}
