//! HOT: receives packets and judges them.

use super::Ended;
use super::report::{Latency, Received};
use super::station::{Closed, Station};
use crate::args::{LimitArgs, SinkArgs};
use crate::failure::Failure;
use crate::idle::Idle;
use netmem::pool::Batch;
use netmem::stats::Histogram;
use netmem::system::clock::monotonic_ns;
use netmem_ports::{DeviceSpec, PortSpec};
use netmem_traffic::{Arrival, Arrivals, Expected, Fault, Identity, Tally};
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// Times in packets wrap at this value.
const WRAP: u64 = 1 << 48;
/// The maximum age of a packet whose time is used: a day.
const OLDEST: u64 = 86_400 * SECOND;
/// Nanoseconds.
const SECOND: u64 = 1_000_000_000;
/// Maximum number of listed seconds.
const LISTED: usize = 3600;

/// Receives as the arguments say. Returns the counts, and a line for every failure.
///
/// # Errors
/// [`Failure::Input`] if the set-up fails.
pub fn run(args: &SinkArgs, stop: &AtomicBool) -> Result<Ended<Received>, Failure> {
    let mut station = Station::open(&args.port, &args.station, true)?;
    let SinkArgs { stream, src_mac, dst_mac, ttl, .. } = *args;
    let mut sink = Sink::new(Expected { stream, src_mac, dst_mac, ttl });
    sink.are_files = args.port.iter().map(is_file).collect();
    sink.receive(&mut station, args, stop);
    let Closed { json, ports, pool, mut broken } = station.close();
    let tally = sink.arrivals.tally();
    let report = Received {
        seconds: sink.last.saturating_sub(sink.first.unwrap_or(sink.last)) as f64 / 1e9,
        first_burst: sink.first_burst,
        tally,
        lost: args.count.map_or(tally.missing, |count| count.saturating_sub(tally.distinct())),
        foreign: sink.arrivals.foreign(),
        flows: sink.arrivals.flows(),
        faults: sink.faults.into_iter().collect(),
        bytes: sink.bytes,
        per_second: sink.per_second,
        latency: Latency::of(&sink.latency, sink.unusable),
        ports,
        pool,
    };
    broken.extend(beyond(&args.limits, &report));
    broken.extend(unknown(&args.limits, &report.tally));
    broken.extend(nothing_came(&args.limits, &report));
    Ok(Ended { report, broken, json })
}

fn is_file(port: &PortSpec) -> bool {
    matches!(port.device, DeviceSpec::Pcap { .. })
}

/// Returns the counts that exceed the limits. Packets that came late may be among the lost ones.
fn beyond(limits: &LimitArgs, report: &Received) -> impl Iterator<Item = String> {
    let tally = report.tally;
    let found = tally.late.min(report.lost);
    let late = if found > 0 { format!("; up to {found} of them may have come late") } else { String::new() };
    let counts = [
        ("lost", report.lost, limits.max_lost),
        ("reordered", tally.reordered, limits.max_reordered),
        ("duplicates", tally.duplicates, limits.max_duplicates),
        ("corrupt", tally.corrupt, limits.max_corrupt),
        ("foreign", report.foreign, limits.max_foreign),
    ];
    counts.into_iter().filter_map(move |(name, count, limit)| {
        let limit = limit.filter(|&limit| count > limit)?;
        let late = if name == "lost" { late.as_str() } else { "" };
        Some(format!("check failed: {name} {count}, and --max-{name} allows {limit}{late}"))
    })
}

/// Returns a line for each limit that is only exceeded if the late packets count: each of them came for the first
/// time or again, and it is not known which.
fn unknown(limits: &LimitArgs, tally: &Tally) -> impl Iterator<Item = String> {
    let Tally { reordered, duplicates, late, .. } = *tally;
    let counts =
        [("reordered", reordered, limits.max_reordered), ("duplicates", duplicates, limits.max_duplicates)];
    counts.into_iter().filter_map(move |(name, count, limit)| {
        let limit = limit.filter(|&limit| count <= limit && count + late > limit)?;
        Some(format!(
            "check failed: {late} packets came late, for the first time or again, so --max-{name} {limit} cannot be checked"
        ))
    })
}

/// Returns a line if nothing was received: a limit on loss proves nothing then, because a link without packets has
/// no known loss.
fn nothing_came(limits: &LimitArgs, report: &Received) -> Option<String> {
    let limit = limits.max_lost.filter(|&limit| report.tally.received == 0 && report.lost <= limit)?;
    Some(format!("check failed: no packet was received, so --max-lost {limit} cannot be checked"))
}

struct Sink {
    arrivals: Arrivals,
    /// For each port whether it reads a file. The packets of a file were received at an unknown time.
    are_files: Vec<bool>,
    /// Corrupt packets by fault.
    faults: BTreeMap<&'static str, u64>,
    bytes: u64,
    /// The times of the first and the last packet.
    first: Option<u64>,
    last: u64,
    /// Packets that came at the first time.
    first_burst: u64,
    per_second: Vec<u64>,
    latency: Histogram,
    /// Packets with an impossible time.
    unusable: u64,
}

impl Sink {
    fn new(expected: Expected) -> Sink {
        Sink {
            arrivals: Arrivals::new(expected),
            are_files: Vec::new(),
            faults: BTreeMap::new(),
            bytes: 0,
            first: None,
            last: monotonic_ns(),
            first_burst: 0,
            per_second: Vec::new(),
            latency: Histogram::default(),
            unusable: 0,
        }
    }

    /// Receives until the end condition.
    fn receive(&mut self, station: &mut Station, args: &SinkArgs, stop: &AtomicBool) {
        let nanoseconds =
            |seconds: Option<f64>| seconds.map(|s| Duration::from_secs_f64(s).as_nanos() as u64);
        let (time, quiet) = (nanoseconds(args.seconds), nanoseconds(args.quiet));
        let (begun, count) = (monotonic_ns(), args.count.unwrap_or(u64::MAX));
        let mut idle = Idle::default();
        loop {
            let received = self.round(station);
            if stop.load(Relaxed) || self.arrivals.tally().distinct() >= count {
                return;
            }
            idle.round(received > 0);
            if received == 0 && station.ports.iter().all(|port| port.rx_finished()) {
                return;
            }
            // Checked even if every round receives something, so that a flood does not keep the sink from ending.
            let now = monotonic_ns();
            station.look(now);
            let is_over =
                |time: Option<u64>, since: u64| time.is_some_and(|time| now.saturating_sub(since) >= time);
            if is_over(time, begun) || (self.first.is_some() && is_over(quiet, self.last)) {
                return;
            }
        }
    }

    /// Receives one burst of each port. Returns the number of frames.
    #[inline]
    fn round(&mut self, station: &mut Station) -> usize {
        let share = station.share();
        let Station { ports, owner, .. } = station;
        let (mut batch, mut received) = (Batch::new(), 0);
        for (number, port) in ports.iter_mut().enumerate() {
            port.refill_to(&mut owner.worker, &owner.pool, share);
            let n = port.rx(&mut owner.worker, &mut batch);
            port.kick();
            if n > 0 {
                self.take(&batch, self.are_files[number]);
                batch.free(&mut owner.worker);
            }
            received += n;
        }
        received
    }

    /// Judges a burst.
    #[inline]
    fn take(&mut self, batch: &Batch, is_file: bool) {
        let now = monotonic_ns();
        let mut ours = 0;
        for frame in &**batch {
            match self.arrivals.take(frame.data()) {
                Arrival::Good(_) if is_file => {}
                Arrival::Good(Identity { time, .. }) => self.time(now, time),
                Arrival::Corrupt(fault) => self.corrupt(fault),
                Arrival::Foreign => continue,
            }
            ours += 1;
            self.bytes += frame.len() as u64;
        }
        if ours > 0 {
            self.count(now, ours);
        }
    }

    /// Counts the packets of this second.
    #[inline]
    fn count(&mut self, now: u64, n: u64) {
        let first = *self.first.get_or_insert_with(|| {
            self.first_burst = n;
            now
        });
        self.last = now;
        let second = ((now - first) / SECOND) as usize;
        if second < LISTED {
            if second >= self.per_second.len() {
                self.per_second.resize(second + 1, 0);
            }
            self.per_second[second] += n;
        }
    }

    #[inline]
    fn time(&mut self, now: u64, sent: u64) {
        match now.wrapping_sub(sent) % WRAP {
            latency if latency <= OLDEST => self.latency.add(latency),
            _ => self.unusable += 1,
        }
    }

    #[cold]
    fn corrupt(&mut self, fault: Fault) {
        *self.faults.entry(fault.name()).or_default() += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_begin_with_the_first_packet_and_those_without_one_are_0() {
        let mut sink = Sink::new(Expected::default());
        for (now, n) in [(7 * SECOND, 1), (8 * SECOND - 1, 2), (8 * SECOND, 4), (10 * SECOND, 8)] {
            sink.count(now, n);
        }
        assert_eq!(sink.per_second, [3, 4, 0, 8]);
        assert_eq!(sink.first_burst, 1);
        sink.count((7 + LISTED as u64) * SECOND, 16);
        assert_eq!((sink.per_second.len(), sink.last), (4, (7 + LISTED as u64) * SECOND));
    }

    #[test]
    fn a_time_of_the_future_or_long_past_is_unusable_and_one_across_the_wrap_is_not() {
        let mut sink = Sink::new(Expected::default());
        for (now, sent) in [(100, 101), (OLDEST + 1, 0), (WRAP + 5, WRAP - 5), (3 * WRAP + 9, 8)] {
            sink.time(now, sent);
        }
        assert_eq!((sink.unusable, sink.latency.counted()), (2, 2));
        assert_eq!((sink.latency.least(), sink.latency.most()), (Some(1), Some(10)));
    }
}
