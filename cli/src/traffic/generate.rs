//! HOT: sends packets when they are due.

use super::Ended;
use super::report::Sent;
use super::station::{Closed, Station};
use crate::args::GenArgs;
use crate::failure::Failure;
use crate::forward::report::down;
use crate::stopwatch::Stopwatch;
use netmem::limits::BATCH_MAX;
use netmem::pool::Batch;
use netmem::port::PortState;
use netmem::system::clock::monotonic_ns;
use netmem_ports::DeviceSpec;
use netmem_traffic::{Addresses, INTERFACES, Pace, SIZE_MIN, SIZE_MIN_V6, Stream, StreamConfig};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};

/// The time after which packets in flight are given up at the end, if none of them was sent or read in that time. It does
/// not pass while the machine stands still.
const DRAIN: Duration = Duration::from_secs(2);
/// The longest sleep, since anything may happen during it.
const NAP: Duration = Duration::from_millis(1);
/// The part of a wait that is spent polling: a sleep may last longer than requested.
const AWAKE: Duration = Duration::from_micros(100);

/// Sends as the arguments say. Returns the counts of sent packets, and a line for every failure.
///
/// # Errors
/// [`Failure::Input`] if the set-up fails, or if the port does not come up.
pub fn run(args: &GenArgs, stop: &AtomicBool) -> Result<Ended<Sent>, Failure> {
    let sizes = args.size.as_ref().map_or(&[][..], |sizes| &sizes.0);
    args.station.frame_size.check_packets(sizes).map_err(Failure::Input)?;
    // Before the port is opened: an open xdp port already takes packets from the kernel.
    let mut stream = Stream::new(config(args)?).map_err(Failure::input)?;
    let station = Station::open(std::slice::from_ref(&args.port), &args.station, false)?;
    stream.set_src_mac(args.src_mac.unwrap_or(station.macs[0]));
    let mut generator = Generator { station, stream, waiting: Batch::new(), sent: 0, bytes: 0 };
    let patience = patience(args);
    if let Some(reason) = generator.wait_up(patience, stop) {
        let wait = patience.as_secs_f64();
        return Err(Failure::input(format!("--port {} is not up after {wait} s: {reason}", args.port)));
    }
    let begun = Instant::now();
    let mut pace = Pace::new(args.rate.0, monotonic_ns());
    let complaint = generator.send(args, &mut pace, begun, stop);
    let seconds = begun.elapsed().as_secs_f64();
    let unread = generator.drain();
    let unread = (unread > 0).then(|| {
        format!(
            "port {}: its peer had not read {unread} of the packets when the run ended: they are lost",
            args.port
        )
    });
    let Generator { station, waiting, sent, bytes, .. } = generator;
    drop(waiting);
    let closed = station.close();
    let unsent = closed.unsent().min(sent);
    let left_unread = closed.left_unread();
    let Closed { json, ports, pool, mut broken } = closed;
    // The station has the line too if the port is not one with peers.
    let complaint = complaint.filter(|line| !broken.contains(line));
    broken.extend(complaint.into_iter().chain(unread));
    let report = Sent {
        seconds,
        sent: sent - unsent,
        unsent,
        left_unread,
        bytes,
        missed: pace.missed(),
        flows: args.flows,
        stream: args.stream,
        ports,
        pool,
    };
    Ok(Ended { report, broken, json })
}

/// Returns the time to wait for a port that is down. It is zero for a file, which never comes up again.
fn patience(args: &GenArgs) -> Duration {
    let is_file = matches!(args.port.device, DeviceSpec::Pcap { .. });
    if is_file { Duration::ZERO } else { Duration::from_secs_f64(args.wait) }
}

/// Returns the stream that the arguments describe, but for its source MAC address.
///
/// # Errors
/// [`Failure::Input`] if the addresses do not fit together.
fn config(args: &GenArgs) -> Result<StreamConfig, Failure> {
    let mixed = || Failure::input("--src and --dst: give two IPv4 or two IPv6 addresses");
    let addresses = Addresses::new(args.src, args.dst).ok_or_else(mixed)?;
    let least = match addresses {
        Addresses::V4(..) => SIZE_MIN,
        Addresses::V6(..) => SIZE_MIN_V6,
    };
    Ok(StreamConfig {
        stream: args.stream,
        flows: args.flows,
        sizes: args.size.clone().map_or_else(|| vec![least], |sizes| sizes.0),
        dst_mac: args.dst_mac.unwrap_or(INTERFACES[0].mac),
        addresses,
        src_ports: args.sport,
        dst_ports: args.dport,
        ttl: args.ttl,
        ..StreamConfig::default()
    })
}

struct Generator {
    station: Station,
    stream: Stream,
    /// Written, and not accepted by the port yet.
    waiting: Batch,
    /// Accepted by the port, and their bytes.
    sent: u64,
    bytes: u64,
}

impl Generator {
    /// Sends until the end condition. Returns a line if the port went down and stayed down.
    fn send(&mut self, args: &GenArgs, pace: &mut Pace, begun: Instant, stop: &AtomicBool) -> Option<String> {
        let time = args.seconds.map(Duration::from_secs_f64);
        let patience = patience(args);
        let count = args.count.unwrap_or(u64::MAX);
        let is_over = || stop.load(Relaxed) || time.is_some_and(|time| begun.elapsed() >= time);
        let mut reason = None;
        while reason.is_none() && self.sent < count && !is_over() {
            let (left, now) = (count - self.sent, monotonic_ns());
            self.station.look(now);
            let due = pace.due(now).min(left);
            let sent = self.round(due);
            pace.sent(sent);
            if !self.waiting.is_empty() {
                pace.stayed();
            }
            if sent > 0 {
                continue;
            }
            if due == 0 {
                rest(pace.wait());
            } else if let PortState::Down(_) = self.station.ports[0].state() {
                pace.port_down();
                let left = time.map_or(patience, |time| time.saturating_sub(begun.elapsed()));
                reason = self.wait_up(left.min(patience), stop);
            } else {
                // Also without a waiting packet: the port has all frames of the pool.
                pace.stayed();
                thread::yield_now();
            }
        }
        if self.sent < count {
            // Counts what became due since the last call: the wait for the port may have been long.
            pace.due(monotonic_ns());
        }
        down(self.station.ports[0].name(), &PortState::Down(reason?))
    }

    /// Sends a burst of due packets. Returns the number that the port accepted.
    #[inline]
    fn round(&mut self, due: u64) -> u64 {
        let Generator { station, stream, waiting, .. } = self;
        let (worker, port) = (&mut station.owner.worker, &mut station.ports[0]);
        let wanted = usize::try_from(due).unwrap_or(BATCH_MAX).min(BATCH_MAX);
        let first = waiting.len();
        if wanted > first {
            station.owner.pool.alloc_burst(worker, waiting, wanted - first);
            let now = monotonic_ns();
            for frame in &mut waiting[first..] {
                let size = stream.next_size();
                // A frame has room for the largest size.
                if let Ok(room) = frame.put(size) {
                    stream.write(room, now);
                }
            }
        }
        let before: usize = waiting.iter().map(|frame| frame.len()).sum();
        let sent = if wanted == 0 { 0 } else { port.tx(worker, waiting) };
        let after: usize = waiting.iter().map(|frame| frame.len()).sum();
        port.kick();
        station.free_sent();
        self.sent += sent as u64;
        self.bytes += (before - after) as u64;
        sent as u64
    }

    /// Waits for the port to be up. Returns the reason if that takes longer than `patience`.
    fn wait_up(&mut self, patience: Duration, stop: &AtomicBool) -> Option<String> {
        let begun = Instant::now();
        loop {
            let port = &mut self.station.ports[0];
            port.kick();
            let PortState::Down(reason) = port.state() else { return None };
            if stop.load(Relaxed) {
                return None;
            }
            if begun.elapsed() >= patience {
                return Some(reason);
            }
            self.station.free_sent();
            thread::sleep(AWAKE);
        }
    }

    /// Waits for packets in flight to be sent, and for a peer to read them. The time starts again whenever the peer
    /// reads some. Returns the number of packets that the peer has not read.
    fn drain(&mut self) -> usize {
        let (mut waited, mut least) = (Stopwatch::start(), usize::MAX);
        loop {
            let port = &mut self.station.ports[0];
            port.kick();
            let (posted, unread) = (port.tx_posted(), port.tx_unread());
            if posted + unread < least {
                (waited, least) = (Stopwatch::start(), posted + unread);
            }
            if least == 0 || waited.look() >= DRAIN {
                return unread;
            }
            if self.station.free_sent() == 0 {
                thread::yield_now();
            }
        }
    }
}

/// Sleeps until a packet is due.
fn rest(wait: Duration) {
    match wait.checked_sub(2 * AWAKE) {
        Some(long) => thread::sleep((long + AWAKE).min(NAP)),
        None => thread::yield_now(),
    }
}
