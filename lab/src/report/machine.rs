//! The machine of a report, and the share of its time in which it stood still.

use super::html::Html;
use super::number;
use crate::json::{Counters, Report};
use crate::method::machine::Cache;

/// The share of lost time from which on the page warns.
const PAUSES_WORTH_A_WARNING: f64 = 20.0;

/// Returns the share of its time that a run lost to pauses, in percent, if that is so much that the run is void.
pub(crate) fn does_not_stand(report: &Report) -> Option<f64> {
    report.pauses.and_then(|pauses| pauses.too_many())
}

/// Returns the name of a machine: its processor, cores and kernel.
pub(crate) fn name(report: &Report) -> String {
    let known = |text: &Option<String>| text.clone().unwrap_or_else(|| "unknown".to_owned());
    let machine = &report.machine;
    format!("{}, {} cores, Linux {}", known(&machine.cpu), machine.cores, known(&machine.kernel))
}

/// Returns the machine's properties, each with its name.
fn traits(report: &Report) -> Vec<(&'static str, String)> {
    let machine = &report.machine;
    let known = |text: &Option<String>| text.clone().unwrap_or_else(|| "unknown".to_owned());
    let kind = match machine.is_virtual {
        Some(true) => "virtual: its host may stop it without notice",
        Some(false) => "not virtual",
        None => "unknown whether virtual",
    };
    let rate = match machine.tsc_invariant {
        Some(true) => ", at one rate in every state",
        Some(false) => ", not at one rate in every state",
        None => "",
    };
    vec![
        ("processor", format!("{}, {} cores for the lab", known(&machine.cpu), machine.cores)),
        (
            "clock",
            format!("time stamp counter of {:.3} GHz{rate}; its ticks are the cycles here", machine.tsc_ghz),
        ),
        ("caches", caches(&machine.caches)),
        ("machine", kind.to_owned()),
        ("kernel", format!("Linux {}", known(&machine.kernel))),
        ("huge pages", known(&machine.hugepages)),
        ("frequency governor", known(&machine.governor)),
    ]
}

fn caches(caches: &[Cache]) -> String {
    if caches.is_empty() {
        return "unknown".to_owned();
    }
    let one = |cache: &Cache| {
        let size = match cache.bytes {
            bytes if bytes >= 1 << 20 => format!("{} MiB", bytes >> 20),
            bytes => format!("{} KiB", bytes >> 10),
        };
        let shared =
            if cache.shared_by > 1 { format!(", shared by {}", cache.shared_by) } else { String::new() };
        format!("L{} {} {size}{shared}", cache.level, cache.kind)
    };
    caches.iter().map(one).collect::<Vec<_>>().join("; ")
}

/// Returns the properties of the run: pauses, and the source of counts.
fn run(report: &Report) -> Vec<(&'static str, String)> {
    let pauses = report.pauses.map_or_else(
        || "not watched in this run".to_owned(),
        |pauses| {
            let during = pauses.during_percent.map_or_else(
                || "nothing was timed in windows".to_owned(),
                |percent| format!("{} % during it", number::figure(percent)),
            );
            let before = number::figure(pauses.before_percent);
            format!(
                "{before} % of the second before the run, {during}; the longest {} µs",
                number::figure(pauses.longest_us)
            )
        },
    );
    let counters = match report.counters {
        Some(Counters::Perf) => "the processor's own, by perf_event_open",
        Some(Counters::Simulated) => "simulated: cachegrind or callgrind",
        Some(Counters::None) => "none",
        None => "not told by this run",
    };
    vec![("time lost to pauses", pauses), ("counters of events", counters.to_owned())]
}

fn list(html: &mut Html, facts: Vec<(&'static str, String)>) {
    html.element("dl", &[("class", "facts")], |html| {
        for (name, fact) in facts {
            html.element("div", &[], |html| {
                html.leaf("dt", &[], name);
                html.leaf("dd", &[], &fact);
            });
        }
    });
    html.line();
}

/// Writes the machine alone.
pub(super) fn write(html: &mut Html, report: &Report) {
    list(html, traits(report));
}

/// Writes the machine, and its state during this run.
pub(super) fn write_with_run(html: &mut Html, report: &Report) {
    list(html, run(report).into_iter().chain(traits(report)).collect());
}

/// Writes a warning for a run that lost much of its time.
pub(super) fn warn(html: &mut Html, report: &Report) {
    if report.interrupted {
        html.own("<p class=\"warning\"><b>Interrupted. </b>The run was ended before its time: its intervals are of fewer set-ups.</p>\n");
    }
    let Some(lost) = report.pauses.and_then(|pauses| pauses.during_percent) else { return };
    if lost >= PAUSES_WORTH_A_WARNING {
        html.element("p", &[("class", "warning")], |html| {
            html.leaf("b", &[], "The machine stood still. ");
            let stands = if does_not_stand(report).is_some() { " The run does not stand: nothing is concluded from it." } else { "" };
            html.text(&format!(
                "{} % of the measured time was lost to pauses; the windows with a pause in them were dropped.{stands}",
                number::figure(lost)
            ));
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::{Pauses, tests::sample};

    fn text(report: &Report) -> String {
        let mut html = Html::default();
        warn(&mut html, report);
        write_with_run(&mut html, report);
        html.into_markup()
    }

    #[test]
    fn the_machine_and_its_pauses_are_reported() {
        let text = text(&sample());
        for part in [
            "a processor, 2 cores",
            "2.600 GHz, at one rate",
            "L1 data 48 KiB",
            "virtual: its host",
            "1.50 % of the second before the run, 2.50 % during it; the longest 400 µs",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert!(!text.contains("stood still"), "{text}");
    }

    #[test]
    fn a_run_that_lost_much_of_its_time_is_warned_of() {
        let pauses = Pauses { before_percent: 70.0, during_percent: Some(65.0), longest_us: 7e5 };
        let text = text(&Report { pauses: Some(pauses), ..sample() });
        assert!(text.contains("stood still") && text.contains("65.0 % of the measured time"), "{text}");
    }

    #[test]
    fn a_run_that_lost_half_of_its_time_or_was_interrupted_says_so() {
        let during =
            |percent| Some(Pauses { before_percent: 1.0, during_percent: Some(percent), longest_us: 1e3 });
        let lost = Report { pauses: during(50.0), interrupted: true, ..sample() };
        assert_eq!(does_not_stand(&lost), Some(50.0));
        assert!(text(&lost).contains("does not stand") && text(&lost).contains("Interrupted."));
        assert_eq!(does_not_stand(&Report { pauses: during(49.0), ..sample() }), None);
    }

    #[test]
    fn a_field_that_an_older_report_lacks_is_shown_as_unknown() {
        let mut report = Report { pauses: None, counters: None, ..sample() };
        report.machine.caches.clear();
        report.machine.tsc_invariant = None;
        let text = text(&report);
        for part in ["not watched in this run", "not told by this run", "<dd>unknown</dd>"] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }
}
