//! The source says that bulk free adds no latency.

use netmem::forward::LatencyQuantiles;

use super::variants::{Kind, VARIANTS};
use super::{Stage, label, place, stage};
use crate::bench::{Bench, Comparison, Cores};
use crate::experiments::router::{FarSide, Pace, Router};
use crate::method::clock::Clock;
use crate::method::quantile::{median, quantile};
use crate::method::round::Series;
use crate::metric::Metric;

/// The variants that are compared: they differ in how heads are freed alone.
const PAIR: [&str; 2] = ["netmem/base", "netmem/patched"];

/// The rates, as a share of what the first of them forwards if the generator is always ahead.
const LOADS: [(&str, f64); 2] = [("a quarter", 0.25), ("half", 0.5)];

/// The rounds of each variant at each rate, in turn; their time, and the time before the first packet that is timed.
const ROUNDS: usize = 5;
const ROUND_NS: f64 = 10e6;
const WARM_UP_NS: f64 = 2e6;

const QUANTILES: [(&str, f64); 2] = [("p50", 0.5), ("p99", 0.99)];

/// From when a packet was due to when it came out, where packets come at a fixed rate, the same for both variants: the median of
/// each quantile over the rounds of a set-up.
pub(super) fn at_fixed_rates(
    bench: &mut Bench<'_>,
    (peer_core, ring): (usize, usize),
    stages: &[Stage],
    routers: &mut [(Router, FarSide)],
    series: &[Series],
) {
    let Some(alone) = median(&series[place(PAIR[0])].per_op) else { return };
    let clock = bench.clock;
    let ticks = |ns: f64| (ns * clock.ticks_per_ns()) as u64;
    for (load, share) in LOADS {
        let pace = Pace { interval: alone / share, warm_up: ticks(WARM_UP_NS), round: ticks(ROUND_NS) };
        let mut rounds: [Vec<Vec<f64>>; 2] = Default::default();
        for _ in 0..ROUNDS {
            for (variant, rounds) in PAIR.iter().zip(&mut rounds) {
                let place = place(variant);
                let (router, far) = &mut routers[place];
                let worker = &mut stages[stage(place)].worker.borrow_mut();
                rounds.push(router.paced(far, worker, peer_core, (&clock, pace)));
            }
        }
        for (name, q) in QUANTILES {
            let of = |times: &Vec<f64>| Some(quantile(times, q)? / clock.ticks_per_ns());
            let reading = |rounds: &Vec<Vec<f64>>| median(&rounds.iter().filter_map(of).collect::<Vec<_>>());
            let own = [("mode", "ip"), ("quantile", name), ("load", load)];
            let readings = PAIR.iter().zip(&rounds);
            let readings = readings.map(|(one, rounds)| (label(one, "forward", ring, &own), reading(rounds)));
            let over = Comparison { a: 1, b: 0, metric: Metric::LatencyNs };
            bench.latencies(readings.collect(), &[over], Cores::Cross);
        }
    }
}

/// From reception to completion, on the forwarder's own clock: a reading of each set-up. The source says that bulk free
/// adds no latency.
pub(super) fn at_full_load(bench: &mut Bench<'_>, ring: usize, routers: &[(Router, FarSide)]) {
    let latencies: Vec<Option<LatencyQuantiles>> =
        routers.iter().map(|(router, _)| router.latency()).collect();
    for (latency, variant) in latencies.iter().zip(VARIANTS) {
        if latency.is_none() {
            let name = variant.name;
            bench.note(format!("{name}: no packet was timed from reception to completion"));
        }
    }
    let over = Comparison { a: place("netmem/patched"), b: place("netmem/base"), metric: Metric::LatencyNs };
    for (quantile, comparisons) in [("p50", &[over][..]), ("p99", &[])] {
        let of = |latency: &LatencyQuantiles| if quantile == "p50" { latency.p50 } else { latency.p99 };
        let reading = |(latency, variant): (&Option<LatencyQuantiles>, &Kind)| {
            let own = [("mode", "ip"), ("quantile", quantile)];
            (label(variant.name, "forward", ring, &own), latency.as_ref().map(of))
        };
        let readings = latencies.iter().zip(VARIANTS).map(reading).collect();
        bench.latencies(readings, comparisons, Cores::Cross);
    }
}
