//! What netmem has to reach: at most so much of a rival's time, work by work.

use super::html::Html;
use super::number;
use super::pick::{self, Fixed};
use crate::json::{Ratio, Report};

/// Whom a work is held against.
#[derive(Debug, Clone, Copy)]
enum Against {
    /// This variant and its modes, of which the hardest counts.
    One(&'static str),
    /// The fastest of these in the run.
    FastestOf(&'static [&'static str]),
}

/// One line of what to reach.
#[derive(Debug)]
struct Target {
    work: &'static str,
    rival: &'static str,
    /// At most this ratio of cost; of a rate, more than this.
    must: f64,
    aim: f64,
    ours: &'static [&'static str],
    against: Against,
    fixed: Fixed<'static>,
    /// The command's arguments that measure it.
    made_by: &'static str,
}

const ALLOCATORS: &[&str] = &["glibc", "jemalloc", "mimalloc", "snmalloc", "tcmalloc"];
const RIVALS: &str = "rivals";

const TARGETS: &[Target] = &[
    Target {
        work: "A frame taken and given back by its pool's owner",
        rival: "DPDK mempool, cached",
        must: 0.45,
        aim: 0.2,
        ours: &["netmem"],
        against: Against::One("dpdk"),
        fixed: &[("work", "frame"), ("burst", "1"), ("touch", "false"), ("cores", "same")],
        made_by: RIVALS,
    },
    Target {
        work: "Frames in bulks of 32",
        rival: "DPDK mempool, cached",
        must: 0.75,
        aim: 0.5,
        ours: &["netmem"],
        against: Against::One("dpdk"),
        fixed: &[("work", "frame"), ("burst", "32"), ("touch", "false"), ("cores", "same")],
        made_by: RIVALS,
    },
    Target {
        work: "Frames in bulks of 32, 64 bytes of each written",
        rival: "DPDK mempool, cached",
        must: 1.15,
        aim: 1.0,
        ours: &["netmem"],
        against: Against::One("dpdk"),
        fixed: &[("work", "frame"), ("burst", "32"), ("touch", "true"), ("cores", "same")],
        made_by: RIVALS,
    },
    Target {
        work: "A packet, head and data, made, written and freed",
        rival: "DPDK mbuf, its fast mode",
        must: 0.5,
        aim: 0.3,
        ours: &["netmem"],
        against: Against::One("dpdk"),
        fixed: &[("work", "packet"), ("burst", "1"), ("touch", "true"), ("cores", "same")],
        made_by: RIVALS,
    },
    Target {
        work: "Packets in bulks of 32, written",
        rival: "DPDK mbuf",
        must: 0.5,
        aim: 0.33,
        ours: &["netmem"],
        against: Against::One("dpdk"),
        fixed: &[("work", "packet"), ("burst", "32"), ("touch", "true"), ("cores", "same")],
        made_by: RIVALS,
    },
    Target {
        work: "Packets made on one core, freed on another, bursts of 32, written",
        rival: "DPDK mbuf and ring",
        must: 0.5,
        aim: 0.25,
        ours: &["netmem"],
        against: Against::One("dpdk"),
        fixed: &[("work", "packet"), ("burst", "32"), ("cores", "cross")],
        made_by: RIVALS,
    },
    Target {
        work: "The ring alone, bursts of 32 across cores",
        rival: "DPDK ring",
        must: 0.7,
        aim: 0.5,
        ours: &["netmem"],
        against: Against::One("dpdk"),
        fixed: &[("work", "ring"), ("burst", "32"), ("cores", "cross"), ("bytes", "8")],
        made_by: RIVALS,
    },
    Target {
        work: "The ring alone, bursts of 32 across cores",
        rival: "rtrb",
        must: 0.7,
        aim: 0.5,
        ours: &["netmem"],
        against: Against::One("rtrb"),
        fixed: &[("work", "ring"), ("burst", "32"), ("cores", "cross"), ("bytes", "8")],
        made_by: RIVALS,
    },
    Target {
        work: "An object of 256 bytes, written",
        rival: "the fastest allocator",
        must: 0.5,
        aim: 0.3,
        ours: &["netmem"],
        against: Against::FastestOf(ALLOCATORS),
        fixed: &[("work", "object"), ("burst", "1"), ("bytes", "256"), ("touch", "true"), ("cores", "same")],
        made_by: "slab-bulk rivals",
    },
    Target {
        work: "Objects of 256 bytes in bulks of 64, written",
        rival: "mimalloc, one by one",
        must: 0.3,
        aim: 0.2,
        ours: &["netmem"],
        against: Against::One("mimalloc"),
        fixed: &[("work", "object"), ("burst", "64"), ("bytes", "256"), ("touch", "true"), ("cores", "same")],
        made_by: "slab-bulk rivals",
    },
    Target {
        work: "Objects of 256 bytes in bulks of 64, written",
        rival: "netmem, one by one",
        must: 0.5,
        aim: 0.3,
        ours: &["netmem"],
        against: Against::One("netmem/sheaf-loop"),
        fixed: &[("work", "object"), ("burst", "64"), ("bytes", "256"), ("touch", "true")],
        made_by: "slab-bulk",
    },
    Target {
        work: "A page taken and given back",
        rival: "the fastest allocator, 4 KiB",
        must: 0.4,
        aim: 0.2,
        ours: &["netmem"],
        against: Against::FastestOf(ALLOCATORS),
        fixed: &[("work", "page"), ("burst", "1"), ("bytes", "4096"), ("touch", "false"), ("cores", "same")],
        made_by: "page-fast-path",
    },
    Target {
        work: "A page from core to core, one at a time, both sides looking again at once",
        rival: "the bare ring",
        must: 2.0,
        aim: 1.3,
        ours: &["netmem"],
        against: Against::One("limit"),
        fixed: &[("side", "both"), ("policy", "spin"), ("touch", "false")],
        made_by: "page-cross-worker",
    },
    Target {
        work: "A page from core to core, one at a time, both sides backing off",
        rival: "the bare ring",
        must: 2.0,
        aim: 1.3,
        ours: &["netmem"],
        against: Against::One("limit"),
        fixed: &[("side", "both"), ("policy", "back-off"), ("touch", "false")],
        made_by: "page-cross-worker",
    },
    Target {
        work: "IPv4 forwarding between two wires in the process, two cores",
        rival: "a relay that touches one line",
        must: 1.8,
        aim: 1.3,
        ours: &["netmem/frames-bulk", "netmem/route"],
        against: Against::One("limit"),
        fixed: &[],
        made_by: "forward-bulk-free xdp-verdicts",
    },
    Target {
        work: "Packets per second with bulk free",
        rival: "one free for each object",
        must: 1.0,
        aim: 1.1,
        ours: &["netmem/bulk"],
        against: Against::One("netmem/base"),
        fixed: &[],
        made_by: "forward-bulk-free",
    },
];

/// How a target stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    Aim,
    Must,
    Undecided,
    Missed,
}

impl Target {
    /// The hardest ratio among those that fit, and the experiment it is of.
    fn reached<'r>(&self, reports: &'r [Report]) -> Option<(&'r Report, &'r Ratio)> {
        let fits = |ratio: &Ratio| {
            let against = match self.against {
                Against::One(name) => {
                    ratio.b.strip_prefix(name).is_some_and(|mode| mode.is_empty() || mode.starts_with('/'))
                }
                Against::FastestOf(names) => names.contains(&ratio.b.as_str()),
            };
            against && self.ours.contains(&ratio.a.as_str()) && pick::has(&ratio.params, self.fixed)
        };
        let all = reports.iter().flat_map(|report| report.ratios.iter().map(move |ratio| (report, ratio)));
        let cost =
            |ratio: &Ratio| if pick::more_is_better(&ratio.metric) { -ratio.median } else { ratio.median };
        all.filter(|(_, ratio)| fits(ratio)).max_by(|a, b| cost(a.1).total_cmp(&cost(b.1)))
    }

    /// Whether the interval lies on the right side of what must be.
    fn standing(&self, ratio: &Ratio) -> Standing {
        let more = pick::more_is_better(&ratio.metric);
        let within = |x: f64, bound: f64| if more { x > bound } else { x <= bound };
        let (best, worst) = if more { (ratio.high, ratio.low) } else { (ratio.low, ratio.high) };
        match (within(worst, self.must), within(best, self.must)) {
            (true, _) if within(ratio.median, self.aim) => Standing::Aim,
            (true, _) => Standing::Must,
            (false, true) => Standing::Undecided,
            (false, false) => Standing::Missed,
        }
    }
}

impl Standing {
    fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Aim => ("aim reached", "good"),
            Self::Must => ("reached", "good"),
            Self::Undecided => ("undecided", "open"),
            Self::Missed => ("missed", "bad"),
        }
    }
}

/// How many targets are missed for certain, for the page's head.
pub(super) fn missed(reports: &[Report]) -> usize {
    let missed = |target: &&Target| {
        target.reached(reports).is_some_and(|(_, ratio)| target.standing(ratio) == Standing::Missed)
    };
    TARGETS.iter().filter(missed).count()
}

/// The table of all targets.
pub(super) fn write(html: &mut Html, reports: &[Report]) {
    html.element("table", &[("class", "cards")], |html| {
        html.own("<thead><tr><th>work</th><th>held against</th><th>must</th><th>aim</th><th>here, with its 95 % interval</th><th></th></tr></thead>");
        html.element("tbody", &[], |html| TARGETS.iter().for_each(|target| line(html, target, reports)));
    });
}

fn line(html: &mut Html, target: &Target, reports: &[Report]) {
    let reached = target.reached(reports);
    let more = reached.is_some_and(|(_, ratio)| pick::more_is_better(&ratio.metric));
    let bound = |x: f64| format!("{} {x}", if more { ">" } else { "≤" });
    let (words, class) = reached.map_or(("not measured", "open"), |(_, r)| target.standing(r).words());
    html.element("tr", &[], |html| {
        html.leaf("td", &[("class", "head")], target.work);
        let rival = match reached {
            Some((_, ratio)) if matches!(target.against, Against::FastestOf(_)) => {
                format!("{}: {}", target.rival, ratio.b)
            }
            _ => target.rival.to_owned(),
        };
        html.leaf("td", &[("data-label", "held against")], &rival);
        html.leaf("td", &[("data-label", "must"), ("class", "bound")], &bound(target.must));
        html.leaf("td", &[("data-label", "aim"), ("class", "bound")], &bound(target.aim));
        html.element("td", &[("data-label", "here")], |html| match reached {
            Some((report, ratio)) => {
                html.text(&format!("{} ", number::with_interval(ratio.median, ratio.low, ratio.high)));
                let link = format!("#{}", report.experiment);
                html.leaf("a", &[("href", &link)], &report.experiment);
            }
            None => html.leaf("code", &[], &format!("netmem lab run {}", target.made_by)),
        });
        html.element("td", &[], |html| html.leaf("span", &[("class", &format!("mark {class}"))], words));
    });
    html.line();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::{params, tests::sample};

    fn ratio(b: &str, low: f64, median: f64, high: f64) -> Ratio {
        let params = params([
            ("work", "frame".into()),
            ("burst", 1.into()),
            ("touch", false.into()),
            ("cores", "same".into()),
        ]);
        Ratio { b: b.into(), low, median, high, params, ..sample().ratios.remove(0) }
    }

    fn of(ratios: Vec<Ratio>) -> Vec<Report> {
        vec![Report { ratios, ..sample() }]
    }

    #[test]
    fn the_hardest_mode_of_a_rival_counts() {
        let reports = of(vec![ratio("dpdk/aliased", 0.1, 0.1, 0.1), ratio("dpdk", 0.5, 0.51, 0.52)]);
        let (_, hardest) = TARGETS[0].reached(&reports).unwrap();
        assert_eq!(hardest.b, "dpdk");
        assert_eq!(TARGETS[0].standing(hardest), Standing::Missed);
        assert_eq!(missed(&reports), 1);
    }

    #[test]
    fn a_target_is_reached_with_its_whole_interval_or_not_at_all() {
        for (low, median, high, standing) in [
            (0.1, 0.15, 0.18, Standing::Aim),
            (0.3, 0.35, 0.44, Standing::Must),
            (0.4, 0.44, 0.50, Standing::Undecided),
            (0.46, 0.5, 0.6, Standing::Missed),
        ] {
            assert_eq!(TARGETS[0].standing(&ratio("dpdk", low, median, high)), standing);
        }
    }

    #[test]
    fn what_was_not_measured_says_how_to_measure_it() {
        let mut html = Html::default();
        write(&mut html, &[]);
        let markup = html.into_markup();
        assert_eq!(markup.matches("not measured").count(), TARGETS.len());
        assert!(markup.contains("netmem lab run rivals"), "{markup}");
    }
}
