//! The same events as in [`simulated`](super::simulated), by the processor's own counters if it has any.

use std::io::{Error, ErrorKind};

use super::form::{FORMS, Form};
use super::simulated::{LOADS, MISSES, Order, SOURCE_PAIRS, label, published, scene};
use crate::bench::{Bench, SetUpError};
use crate::metric::Metric;
use crate::system::perf::{Counters, Event};

/// The counted events, and their names in the report.
const EVENTS: [(Event, &str); 6] = [
    (Event::Instructions, "instructions"),
    (Event::Cycles, "cycles"),
    (Event::Branches, "branches"),
    (Event::BranchMisses, "branch misses"),
    (Event::LastLevelLoads, LOADS),
    (Event::LastLevelMisses, MISSES),
];

/// Pairs that run before the counters start: they bring code and list into the cache.
const WARM_UP: u32 = 10_000;

/// Counts the pairs of every form and reports the rows. Events that cannot be counted get a note.
pub(super) fn run(bench: &mut Bench<'_>) -> Result<(), SetUpError> {
    let (mut counters, counted) = open(bench, &EVENTS);
    if counted.is_empty() {
        return Ok(());
    }
    let pairs = bench.setting("pairs").max(1);
    for form in FORMS {
        let counts = count(bench, &form, &mut counters, (pairs * 1_000) as u32)?;
        for (event, each) in counted.iter().zip(counts) {
            let label = label(form, event, "perf", Order::Random);
            bench.figure(label, Metric::Count, each * SOURCE_PAIRS, published(form, event));
        }
    }
    Ok(())
}

/// Opens a counter for each of `events` that can be counted. Returns the names of these, and notes the others.
fn open<'a>(bench: &mut Bench<'_>, events: &[(Event, &'a str)]) -> (Counters, Vec<&'a str>) {
    let kinds: Vec<Event> = events.iter().map(|(event, _)| *event).collect();
    let (counters, opened) = Counters::open(&kinds);
    let (mut counted, mut missing, mut first) = (Vec::new(), Vec::new(), None);
    for ((_, name), opened) in events.iter().zip(opened) {
        match opened {
            Ok(()) => counted.push(*name),
            Err(error) => {
                missing.push(*name);
                first.get_or_insert(error);
            }
        }
    }
    if let Some(error) = first {
        let of = if counted.is_empty() { String::new() } else { format!(" of {}", missing.join(", ")) };
        bench.note(format!("no hardware counters{of}: {}", remedy(&error)));
    }
    (counters, counted)
}

/// The events of one pair, in the order of the counters.
fn count(
    bench: &mut Bench<'_>,
    form: &Form,
    counters: &mut Counters,
    pairs: u32,
) -> Result<Vec<f64>, SetUpError> {
    let mut counted = Ok(Vec::new());
    scene(bench, form, Order::Random, |run| {
        run(WARM_UP);
        counted = counters.count(|| run(pairs));
    })?;
    let counts = counted.map_err(SetUpError::at("hardware counters"))?;
    Ok(counts.into_iter().map(|count| count / f64::from(pairs)).collect())
}

/// Returns why there are no counters, and how to get some.
fn remedy(error: &Error) -> String {
    match error.kind() {
        ErrorKind::PermissionDenied => {
            format!("{error}; set kernel.perf_event_paranoid to 2 or less, or grant CAP_PERFMON")
        }
        _ => format!("{error}; they need a machine of its own, or a virtual one whose host lends it a PMU"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::tests::report_of;
    use std::path::Path;

    /// Where the kernel shows the processor's counters.
    const PROCESSOR: &str = "/sys/bus/event_source/devices/cpu";

    #[test]
    fn every_counter_counts_every_pair_where_the_kernel_has_it() {
        for events in [vec![Event::PageFaults; 2], EVENTS.map(|(event, _)| event).to_vec()] {
            let (mut counters, opened) = Counters::open(&events);
            if let Some(error) = opened.into_iter().find_map(Result::err) {
                // The kernel itself counts page faults. A virtual machine may have no counters of the processor.
                let is_there = events[0] == Event::PageFaults || Path::new(PROCESSOR).exists();
                let may_skip = std::env::var_os("NETMEM_NO_SKIP").is_none();
                assert!(may_skip || !is_there, "{:?}: {}", events[0], remedy(&error));
                eprintln!("SKIPPED: counters of {:?}: {}", events[0], remedy(&error));
                continue;
            }
            let mut counts = Vec::new();
            let report = report_of(false, |bench| {
                counts = count(bench, &FORMS[0], &mut counters, 1_000).unwrap();
            });
            assert_eq!(counts.len(), events.len());
            assert!(report.ok());
            // A pair causes no page faults, and every pair takes instructions.
            let instructions = events[0] == Event::Instructions;
            assert_eq!(counts[0] >= 10.0, instructions, "{counts:?}");
        }
    }

    /// Seen: a machine that has no counter of one event had no row of the others either.
    #[test]
    fn events_without_a_counter_are_named_and_the_others_are_counted() {
        let named = [("page faults", Event::PageFaults), ("instructions", Event::Instructions)];
        let opens = |event| Counters::open(&[event]).1.iter().all(Result::is_ok);
        let (there, missing): (Vec<_>, Vec<_>) = named.into_iter().partition(|(_, event)| opens(*event));
        let names =
            |events: &[(&'static str, Event)]| events.iter().map(|(name, _)| *name).collect::<Vec<_>>();
        let mut counts = Vec::new();
        let report = report_of(false, |bench| {
            let (mut counters, counted) = open(bench, &named.map(|(name, event)| (event, name)));
            assert_eq!(counted, names(&there));
            counts = counters.count(|| ()).unwrap();
        });
        assert_eq!(counts.len(), there.len());
        let noted = report.notes.iter().find(|note| note.starts_with("no hardware counters"));
        assert_eq!(noted.is_some(), !missing.is_empty(), "{:?}", report.notes);
        let one_is_named =
            there.is_empty() || names(&missing).iter().all(|name| noted.unwrap().contains(name));
        assert!(one_is_named, "{noted:?}");
    }

    #[test]
    fn a_counter_that_cannot_be_opened_is_reported_with_the_remedy() {
        assert!(remedy(&ErrorKind::PermissionDenied.into()).contains("perf_event_paranoid"));
        assert!(remedy(&ErrorKind::NotFound.into()).contains("PMU"));
    }
}
