//! The page: its head, its summary, and the order of the other parts.

use super::claims::Verdict;
use super::html::Html;
use super::{experiment, losses, machine, noise, setups, summary, targets};
use crate::experiments::EXPERIMENTS;
use crate::json::Report;
use crate::table::thousands;

/// Returns the reports as one page of HTML without external resources or scripts.
///
/// The page begins with each source's claims, netmem's targets, its losses, and the cases that a run cannot decide.
/// Then come the experiments of the registry in order, or the command that runs a missing one, and last the
/// experiments that the registry does not know. Of several reports of one experiment on one machine the best
/// is shown. Those of several machines are shown next to each other.
pub fn page(reports: &[Report]) -> String {
    let shown = best_of_each(reports);
    let mut html = Html::default();
    html.own("<!DOCTYPE html>\n<html lang=\"en\">\n");
    head(&mut html);
    html.element("body", &[], |html| {
        opening(html, &shown, reports.len());
        html.element("main", &[], |html| {
            findings(html, &shown);
            experiments(html, &shown);
        });
        html.own("<footer><p>Made by <code>netmem lab report</code>. Nothing on this page is loaded from elsewhere.</p></footer>\n");
    });
    html.own("</html>\n");
    html.into_markup()
}

/// Returns the best report of each experiment on each machine, in the registry's order, unknown ones last: one of more
/// worth, then a full one, then the last. Ratios of too few set-ups are marked.
pub(crate) fn best_of_each(reports: &[Report]) -> Vec<Report> {
    let place = |name: &str| EXPERIMENTS.iter().position(|e| e.name == name).unwrap_or(EXPERIMENTS.len());
    let rank = |report: &Report| (report.worth(), !report.quick);
    let mut shown: Vec<Report> = Vec::new();
    for report in reports {
        let same = |earlier: &Report| {
            earlier.experiment == report.experiment && machine::name(earlier) == machine::name(report)
        };
        if shown.iter().any(|earlier| same(earlier) && rank(earlier) > rank(report)) {
            continue;
        }
        shown.retain(|earlier| !same(earlier));
        shown.push(setups::marked(report));
    }
    shown.sort_by_key(|report| place(&report.experiment));
    shown
}

fn head(html: &mut Html) {
    html.element("head", &[], |html| {
        html.own("<meta charset=\"utf-8\"/>\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n");
        html.own("<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:\"/>\n");
        html.own("<meta name=\"color-scheme\" content=\"light dark\"/>\n<link rel=\"icon\" href=\"data:,\"/>\n");
        html.own("<title>netmem: the lab's report</title>\n<style>\n");
        html.own(include_str!("style.css"));
        html.own("</style>\n");
    });
    html.line();
}

/// Writes the title, the summary, and the table of contents.
fn opening(html: &mut Html, reports: &[Report], given: usize) {
    html.element("header", &[], |html| {
        html.own("<h1>netmem: the lab's report</h1>\n<p class=\"lead\">Every published experiment on packet memory, run again on this machine: what the sources claim, what is measured here, and whether it holds.</p>\n");
        tiles(html, reports);
        let mut machines: Vec<&Report> = Vec::new();
        for report in reports {
            if machines.iter().all(|other| machine::name(other) != machine::name(report)) {
                machines.push(report);
            }
        }
        machines.iter().for_each(|report| machine::write(html, report));
        if machines.len() > 1 {
            html.own("<p class=\"warning\"><b>More than one machine.</b> Of a claim the worst is told first, then what each machine says; a target counts on the machine where it is hardest; each report names its machine.</p>\n");
        }
        if given > reports.len() {
            let left_out = given - reports.len();
            html.leaf("p", &[("class", "warning")], &format!("{left_out} more reports of the same experiments were given and are not shown: a report that was finished counts before one that was not, a full one before a quick one, and then the last."));
        }
        html.own("<nav><a href=\"#claims\">Claims</a> <a href=\"#targets\">To reach</a> <a href=\"#losses\">Losses</a> <a href=\"#noise\">Noise</a> <a href=\"#experiments\">Experiments</a> <a href=\"#method\">Method</a></nav>\n");
    });
}

fn tiles(html: &mut Html, reports: &[Report]) {
    let checks = reports.iter().flat_map(|report| &report.checks);
    let failed = checks.clone().filter(|check| !check.ok).count();
    let claims =
        Verdict::ALL.map(|verdict| (summary::count(reports, verdict), tile_words(verdict), verdict.class()));
    let lost: usize = losses::find(reports).len();
    html.element("ul", &[("class", "tiles")], |html| {
        let mut tile = |figure: usize, words: &str, class: &str| {
            html.element("li", &[("class", class)], |html| {
                html.leaf("b", &[], &thousands(figure as u64));
                html.leaf("span", &[], words);
            });
        };
        for (figure, words, class) in claims.into_iter().filter(|(figure, ..)| *figure > 0) {
            tile(figure, words, class);
        }
        match failed {
            0 => tile(checks.count(), "checks, all hold", "good"),
            failed => tile(failed, "checks failed", "bad"),
        }
        tile(
            targets::missed(reports),
            "targets missed",
            if targets::missed(reports) > 0 { "bad" } else { "good" },
        );
        if losses::were_there_rivals(reports) {
            tile(lost, "losses to rivals", if lost > 0 { "bad" } else { "good" });
        }
    });
    html.line();
}

fn tile_words(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Holds => "claims hold",
        Verdict::OtherRegime => "hold in another regime",
        Verdict::Fails => "do not hold",
        Verdict::CannotTell => "cannot be told",
        Verdict::NotComparable => "not comparable",
        Verdict::NotMeasured => "not measured",
    }
}

/// Writes a part of the page with its title.
fn part(html: &mut Html, id: &'static str, title: &'static str, inside: impl FnOnce(&mut Html)) {
    html.element("section", &[("id", id)], |html| {
        html.leaf("h2", &[], title);
        inside(html);
    });
    html.line();
}

fn findings(html: &mut Html, reports: &[Report]) {
    part(html, "claims", "What the sources claim, and what holds here", |html| {
        html.own("<p>A ratio is computed within the rounds of one run. Its 95 % interval follows it. A verdict uses the whole interval and never the median alone. If two variants were never in one round, the ratio of their medians stands here, and the spread of their windows (10th to 90th percentile) follows it, called <em>windows</em>; it is wider than an interval, and more windows do not narrow it. A claim <em>holds</em> if the interval lies between half of its effect and twice its effect (both of the logarithm of the ratio); it <em>holds in another regime</em> if the interval lies on the claimed side and outside of that; it <em>does not hold</em> where no such effect is left in the interval; where the interval has more than one of these in it, the run <em>cannot tell</em>. A claim of no difference holds if the whole interval is within a few percent of 1. <em>Not comparable</em> is what is measured otherwise than in the source, with the reason. A <em>set-up</em> is a process that sets the experiment up anew; from fewer set-ups than nine nothing is concluded. Cycles here are ticks of the time stamp counter. A run that lost half of its time to pauses tells nothing but what it counted.</p>\n");
        summary::write(html, reports);
    });
    part(html, "targets", "Targets", |html| {
        html.own("<p>A cost of netmem over that of the rival (for packets per second: a rate over the rival's), in the same run on the same cores. A target is reached if the whole interval keeps the bound <em>must</em>. <em>Core-ns</em> are nanoseconds of processor time, summed over all cores that take part. The <em>limit</em> is the work that any program has to do there: the ring alone, or the relay alone, without memory management.</p>\n");
        targets::write(html, reports);
    });
    part(html, "losses", "Where netmem loses", |html| losses::write(html, reports));
    part(html, "noise", "Where this run cannot tell", |html| noise::write(html, reports));
    part(html, "method", "How it is measured", |html| html.own(include_str!("method.html")));
}

fn experiments(html: &mut Html, reports: &[Report]) {
    part(html, "experiments", "The experiments", |html| {
        for known in EXPERIMENTS {
            let here: Vec<&Report> = reports.iter().filter(|r| r.experiment == known.name).collect();
            if here.is_empty() {
                missing(html, known.name, known.question);
            }
            for (place, report) in here.into_iter().enumerate() {
                experiment::write(html, report, place);
            }
        }
        let is_known = |name: &str| EXPERIMENTS.iter().any(|known| known.name == name);
        reports
            .iter()
            .filter(|r| !is_known(&r.experiment))
            .for_each(|report| experiment::write(html, report, 0));
    });
}

fn missing(html: &mut Html, name: &str, question: &str) {
    html.element("p", &[("class", "missing"), ("id", name)], |html| {
        html.leaf("b", &[], name);
        html.text(&format!(" · {question} · Not in these files; to measure it: "));
        html.leaf("code", &[], &format!("netmem lab run {name} --json {name}.json"));
    });
    html.line();
}
