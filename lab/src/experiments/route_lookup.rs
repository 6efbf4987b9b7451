//! `route-lookup`: a full table of either family: the cost of loading and changing a route, the memory that it
//! takes, and the cost of a lookup. Compared with a plain prefix map of the library that the table is built on, the
//! kernel's own table, and a table of a few routes.
//!
//! The prefixes are made up, all different, with roughly as many of each length as in the Internet's tables.
//! poptrie, the other library for such lookups, is left out: the time to build its table grows with the square of
//! the number of routes.

mod kernel;
mod reverse_path;
mod routes;
mod tables;
mod updates;

use std::hint::black_box;
use std::net::IpAddr;

use ipnet::IpNet;
use netmem::system::bpf::{BpfError, RouteLookup};
use serde_json::Value;

use super::Experiment;
use crate::bench::{Bench, Comparison, Cores, Effort, SetUpError};
use crate::json::params;
use crate::method::random::Random;
use crate::method::round::{Label, Variant};
use crate::method::window::OpLoop;
use crate::metric::Metric;
use crate::settings::Key;
use crate::sources;
use kernel::{InKernel, Kernel};
use routes::{Family, Kind, Way};
use tables::{Loaded, Plain};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "route-lookup",
    source: sources::NONE.key,
    question: "What does a full table of routes cost: to load, to hold, to look up in, and to change?",
    seconds: 900,
    keys: &[ROUTES_V4, ROUTES_V6],
    run,
};

const ROUTES_V4: Key = Key {
    name: "routes-v4",
    what: "IPv4 prefixes in the table",
    min: 100,
    max: 2_000_000,
    full: 1_000_000,
    quick: 100_000,
};
const ROUTES_V6: Key = Key {
    name: "routes-v6",
    what: "IPv6 prefixes in the table",
    min: 100,
    max: 1_000_000,
    full: 200_000,
    quick: 20_000,
};

/// Destinations that are looked up in turn, for each kind of route.
const DESTINATIONS: usize = 1 << 15;
/// Lookups in a window, which take 10 to 500 µs, and windows before the first that counts: enough to have looked up
/// every destination once, for every contender.
const WINDOW: (u32, usize) = (2_048, DESTINATIONS / 2_048);
/// Number of destinations that are compared with the kernel's answers.
const COMPARED: u32 = 1_024;
/// Routes of the small table.
const FEW: usize = 4;

fn run(bench: &mut Bench<'_>) -> Result<(), SetUpError> {
    let mut random = Random::new(bench.setting("seed"));
    for (family, key) in [(Family::V4, ROUTES_V4), (Family::V6, ROUTES_V6)] {
        let routes = routes::routes(family, bench.setting(key.name) as usize, &mut random);
        measure(bench, family, &routes, &mut random)?;
        if family == Family::V4 {
            few(bench, &routes, &mut random);
        }
    }
    findings(bench);
    Ok(())
}

/// The question for all three tables.
struct Full<'a> {
    family: Family,
    routes: &'a [(IpNet, Way)],
    ours: Loaded,
    plain: Plain,
    kernel: Option<Kernel>,
}

impl Full<'_> {
    fn label(&self, variant: &str, of: &str) -> Label {
        label(variant, self.family, self.routes.len(), of)
    }
}

fn label(variant: &str, family: Family, routes: usize, of: &str) -> Label {
    let value = |text: &str| Value::from(text);
    let params = params([("family", value(family.name())), ("routes", routes.into()), ("of", value(of))]);
    Label { variant: variant.to_owned(), params }
}

/// Measures one family's full table, compared with the plain map and the kernel's.
fn measure(
    bench: &mut Bench<'_>,
    family: Family,
    routes: &[(IpNet, Way)],
    random: &mut Random,
) -> Result<(), SetUpError> {
    let clock = bench.clock;
    let ours = tables::load(&clock, family, routes);
    let (plain, plain_ns) = Plain::load(&clock, family, routes);
    let kernel = Kernel::load(family, routes);
    if let Err(why) = &kernel {
        bench.note(format!("{}: no row of the kernel, which needs root: {why}", family.name()));
    }
    let full = Full { family, routes, ours, plain, kernel: kernel.ok() };
    bench.once(|bench| {
        costs_of_holding(bench, &full, plain_ns);
        Ok(())
    })?;
    let mut to_stations = Vec::new();
    for kind in Kind::ALL {
        let to = destinations(&full, kind, random);
        look_up(bench, &full, kind, &to);
        if kind == Kind::Station {
            to_stations = to;
        }
    }
    let Full { ours, .. } = full;
    let effort = effort(bench, Kind::Paths);
    reverse_path::measure(bench, (family, routes.len()), &ours.fib, &to_stations, effort);
    updates::measure(bench, family, routes, ours, &to_stations);
    Ok(())
}

/// Reports the rows that are the same in each set-up, or nearly.
fn costs_of_holding(bench: &mut Bench<'_>, full: &Full<'_>, plain_ns: f64) {
    let (load, memory) = ("load, per route", "memory of a table");
    bench.figure(full.label("netmem", load), Metric::NsPerOp, full.ours.ns_per_route, None);
    bench.figure(full.label("prefix-trie", load), Metric::NsPerOp, plain_ns, None);
    let ours = full.ours.fib.table.bytes() as f64;
    bench.figure(full.label("netmem", memory), Metric::Bytes, ours, None);
    bench.figure(full.label("prefix-trie", memory), Metric::Bytes, full.plain.bytes() as f64, None);
    if let Some(bytes) = full.kernel.as_ref().and_then(|kernel| kernel.bytes(full.family)) {
        bench.figure(full.label("kernel", memory), Metric::Bytes, bytes, None);
    }
}

/// Returns up to [`DESTINATIONS`] addresses that are reached by routes of this kind. The number of addresses is a power of
/// two. It is 0 if the table has no such route.
fn destinations(full: &Full<'_>, kind: Kind, random: &mut Random) -> Vec<IpAddr> {
    let of_kind: Vec<_> = full.routes.iter().filter(|(_, way)| way.kind() == kind).copied().collect();
    if of_kind.is_empty() {
        return Vec::new();
    }
    // A longer prefix of another kind may cover it.
    let is_it = |to: &IpAddr| full.plain.lookup(*to).is_some_and(|way| way.kind() == kind);
    let drawn = (0..2 * DESTINATIONS).map(|_| routes::destination(&of_kind, random));
    let mut all: Vec<IpAddr> = drawn.filter(is_it).take(DESTINATIONS).collect();
    // The kernel's lookups cycle through a power of two of destinations, so all others do too.
    all.truncate(all.len().checked_ilog2().map_or(0, |power| 1 << power));
    all
}

/// Looks up routes of one kind in each table that has them.
fn look_up(bench: &mut Bench<'_>, full: &Full<'_>, kind: Kind, to: &[IpAddr]) {
    let name = full.family.name();
    if to.is_empty() {
        bench.note(format!("{name}: no row of lookups, {}: too few routes to have one", kind.name()));
        return;
    }
    let loaded = &full.ours.fib;
    let is_wrong = |(flow, to): &(u32, &IpAddr)| {
        !tables::agrees(loaded, **to, flow.wrapping_mul(0x9e37_79b9), full.plain.lookup(**to))
    };
    let wrong = (0..).zip(to).filter(is_wrong).count();
    bench.check(
        &format!("{name}, {}: every lookup finds what the plain map finds", kind.name()),
        wrong == 0 && loaded.table.len() == full.routes.len(),
        format!("{wrong} of {} differ, {} routes of {}", to.len(), loaded.table.len(), full.routes.len()),
    );
    let asked = ask_kernel(bench, full, kind, to);
    time_lookups(bench, full, (kind, to), asked.as_ref().map(|(kernel, lookup)| (*kernel, lookup)));
}

/// Returns the lookups in the kernel's table, whose answers are compared with those of the plain map. If it does not answer,
/// for example because bpf(2) is forbidden, there is a note instead, and the other tables are measured without it.
fn ask_kernel<'a>(
    bench: &mut Bench<'_>,
    full: &'a Full<'_>,
    kind: Kind,
    to: &[IpAddr],
) -> Option<(&'a Kernel, RouteLookup)> {
    let kernel = full.kernel.as_ref()?;
    let count = COMPARED.min(to.len() as u32);
    let compared = kernel.lookup(to).and_then(|lookup| {
        let differing = kernel.differing((&lookup, to), count, |to| full.plain.lookup(to))?;
        Ok((lookup, differing))
    });
    let of = format!("{}, {}", full.family.name(), kind.name());
    match compared {
        Ok((lookup, differing)) => {
            let name = format!("{of}: the kernel's table answers as the plain map does");
            bench.check(&name, differing == 0, format!("{differing} of {count} differ"));
            Some((kernel, lookup))
        }
        Err(why) => {
            bench.lasting_note(&format!("{of}: no row of the kernel, whose table cannot be asked: {why}"));
            None
        }
    }
}

/// Reports the rows of [`look_up`]. The plain map treats all kinds in the same way, so it is only compared for the
/// usual one.
fn time_lookups(
    bench: &mut Bench<'_>,
    full: &Full<'_>,
    (kind, to): (Kind, &[IpAddr]),
    kernel: Option<(&Kernel, &RouteLookup)>,
) {
    let seen = kernel::Seen::default();
    let (clock, metric) = (bench.clock, Metric::NsPerOp);
    let label = |variant: &str| {
        let mut label = full.label(variant, "lookup");
        label.params.insert("route".to_owned(), kind.name().into());
        label
    };
    let fib = &full.ours.fib;
    let body: Box<dyn FnMut(u32)> = match kind {
        Kind::Station => looking_up(to, |to, _| tables::hop(fib, to).copied()),
        _ => looking_up(to, |to, flow| fib.table.next_hop(to, || flow)),
    };
    let mut variants: Vec<Box<dyn Variant + '_>> =
        vec![Box::new(OpLoop::fixed(WINDOW, label("netmem"), &clock, body))];
    if kind == Kind::Station {
        let body = looking_up(to, |to, _| full.plain.lookup(to));
        variants.push(Box::new(OpLoop::fixed(WINDOW, label("prefix-trie"), &clock, body)));
    }
    let others_before = kernel.map(|(_, lookup)| lookup.others());
    if let Some(of) = kernel {
        variants.push(Box::new(InKernel::new(label("kernel"), clock, of, &seen)));
    }
    let comparisons: Vec<_> = (1..variants.len()).map(|b| Comparison { a: 0, b, metric }).collect();
    let effort = effort(bench, kind);
    let series = bench.measure_with(&mut variants, &comparisons, Cores::Same, effort);
    drop(variants);
    series.iter().for_each(|series| bench.row(series, metric, None));
    if let Some(why) = seen.failed.take() {
        bench.note(format!("a round of the kernel's lookups has no window: {why}"));
    } else if let (Some((_, lookup)), Some(Ok(before))) = (kernel, others_before) {
        let others = lookup.others().map(|others| others.wrapping_sub(before));
        check_timed(bench, (full.family, kind), seen.asked.get() as u32, others);
    }
}

/// Checks that each lookup in the kernel's windows ended as its kind does, because a failed lookup is the fastest.
/// Counters of 32 bits may have wrapped.
fn check_timed(
    bench: &mut Bench<'_>,
    (family, kind): (Family, Kind),
    asked: u32,
    others: Result<u32, BpfError>,
) {
    let expected = if kind == Kind::Blackhole { asked } else { 0 };
    bench.check(
        &format!("{}, {}: each of the kernel's timed lookups ends there", family.name(), kind.name()),
        matches!(others, Ok(others) if others == expected),
        match others {
            Ok(others) => format!("of {asked} lookups {others} led to no station"),
            Err(error) => error.to_string(),
        },
    );
}

/// Returns the effort: the usual kind of route has half of the rounds.
fn effort(bench: &Bench<'_>, kind: Kind) -> Effort {
    bench.effort().shared_by(if kind == Kind::Station { 2 } else { 4 })
}

/// Measures a table of a few routes, which is scanned.
fn few(bench: &mut Bench<'_>, routes: &[(IpNet, Way)], random: &mut Random) {
    let clock = bench.clock;
    let stations = routes.iter().filter(|(_, way)| way.kind() == Kind::Station);
    let routes: Vec<_> = stations.take(FEW).copied().collect();
    let fib = tables::load(&clock, Family::V4, &routes).fib;
    let to: Vec<IpAddr> = (0..DESTINATIONS).map(|_| routes::destination(&routes, random)).collect();
    let mut label = label("netmem", Family::V4, routes.len(), "lookup");
    label.params.insert("route".to_owned(), Kind::Station.name().into());
    let body = looking_up(&to, |to, _| tables::hop(&fib, to).copied());
    let mut variants: Vec<Box<dyn Variant + '_>> = vec![Box::new(OpLoop::new(label, &clock, body))];
    let effort = effort(bench, Kind::Station);
    let series = bench.measure_with(&mut variants, &[], Cores::Same, effort);
    series.iter().for_each(|series| bench.row(series, Metric::NsPerOp, None));
}

/// Returns a loop that looks up one destination after the other, with ever new flows.
fn looking_up<'a, T>(to: &'a [IpAddr], find: impl Fn(IpAddr, u32) -> T + 'a) -> Box<dyn FnMut(u32) + 'a> {
    let (mut at, mut flow) = (0, 0_u32);
    Box::new(move |ops| {
        for _ in 0..ops {
            at = if at + 1 == to.len() { 0 } else { at + 1 };
            flow = flow.wrapping_add(0x9e37_79b9);
            black_box(find(to[at], flow));
        }
    })
}

fn findings(bench: &mut Bench<'_>) {
    bench.note(
        "memory is that of one table. A router that follows changes has two, and the list of all that it knows. The \
         kernel's is the value in fib_triestat, which has only IPv4. The kernel's loading has no row, because \
         ip(8), which loads the routes, takes most of that time for itself",
    );
    bench.note(
        "a lookup is one of 32,768 destinations all over the table, each of which the same table looked up shortly \
         before. In netmem's table it ends, for a station, at the port and the MAC address. For two paths it also \
         uses a given hash of the flow and finds the neighbour. The plain map ends at a number. Few routes have two \
         paths or are blackholes, so more of those stay in caches than of the others",
    );
    bench.note(
        "a lookup in the kernel's table is bpf_fib_lookup, which a program inside the kernel calls with \
         destinations from an array: the check that forwarding is on, the route, the path by a hash that it \
         computes itself, the MTU, the neighbour and both MAC addresses. The system call, the array and the rest of \
         the program are measured without the call, and subtracted",
    );
    bench.note(
        "before a decision a frame is copied to one buffer, because its header is changed; with the reverse path \
         check its source is looked up too",
    );
    bench.note(
        "a change removes a route or adds it again, in bursts: the best route is chosen, and both copies of the \
         table are changed. The number of changes in a second is 10^9 over the row. The worker checks for a new \
         table after every 32 lookups. If it is away for longer than a burst takes, the whole table is copied: \
         windows in which that happens count as pauses, and a check reports their number",
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::tests::report_of;

    #[test]
    fn a_quick_run_finds_every_route_and_says_what_it_costs() {
        let report = report_of(false, |bench| {
            bench.cores = netmem::system::cpu::allowed().unwrap();
            let mut random = Random::new(7);
            let routes = routes::routes(Family::V6, 6_000, &mut random);
            measure(bench, Family::V6, &routes, &mut random).unwrap();
            few(bench, &routes::routes(Family::V4, 100, &mut random), &mut random);
        });
        assert!(report.ok(), "{:?}", report.checks);
        let of = |variant: &str, of: &str| {
            let is = |row: &&crate::json::Row| row.variant == variant && row.params["of"] == of;
            report.rows.iter().filter(is).filter(|row| row.median > 0.0).count()
        };
        assert_eq!([of("netmem", "load, per route"), of("netmem", "memory of a table")], [1, 1]);
        assert_eq!([of("netmem", "lookup"), of("prefix-trie", "lookup")], [4, 1]);
        assert_eq!(of("netmem", "frame, decided about"), 3);
        let noted = |what: &str| report.notes.iter().any(|note| note.contains(what));
        assert!(of("kernel", "lookup") == 3 || noted("no row of the kernel"), "{:?}", report.notes);
        assert!(of("netmem", "change, per route") == 2 || noted("a second core"), "{:?}", report.notes);
    }

    /// Seen: the experiment had no rows where the routes could be loaded, but bpf(2) was forbidden.
    #[test]
    fn a_lookup_that_the_kernel_refuses_is_a_note() {
        let (clock, mut random) = (crate::method::clock::Tsc::new(), Random::new(7));
        let routes = routes::routes(Family::V4, 200, &mut random);
        let kernel = match Kernel::load(Family::V4, &routes) {
            Ok(kernel) => Some(kernel),
            Err(why) => {
                assert!(std::env::var_os("NETMEM_NO_SKIP").is_none(), "{why}");
                eprintln!("SKIPPED: it needs root and network namespaces: {why}");
                return;
            }
        };
        let (ours, (plain, _)) =
            (tables::load(&clock, Family::V4, &routes), Plain::load(&clock, Family::V4, &routes));
        let full = Full { family: Family::V4, routes: &routes, ours, plain, kernel };
        let report = report_of(false, |bench| {
            // No kernel accepts an empty list, as none does where bpf(2) is forbidden.
            assert!(ask_kernel(bench, &full, Kind::Station, &[]).is_none());
        });
        let noted = |note: &String| note.contains("no row of the kernel, whose table cannot be asked");
        assert!(report.ok() && report.notes.iter().any(noted), "{:?}", report.notes);
    }

    #[test]
    fn a_route_that_leads_elsewhere_is_noticed() {
        let mut random = Random::new(7);
        let mut routes = routes::routes(Family::V4, 200, &mut random);
        routes.retain(|(_, way)| way.kind() != Kind::Blackhole);
        let fib = tables::load(&crate::method::clock::Tsc::new(), Family::V4, &routes).fib;
        let (prefix, way) = routes[0];
        let other = Way::Station((way.stations()[0] + 2) % routes::STATIONS);
        for (way, holds) in
            [(Some(way), true), (Some(other), false), (Some(Way::Blackhole), false), (None, false)]
        {
            assert_eq!(tables::agrees(&fib, prefix.addr(), 1, way), holds, "{way:?}");
        }
    }
}
