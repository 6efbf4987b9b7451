//! [hansen14-page]: a smaller page descriptor, and a double-word compare-and-swap or a lock.

use super::judge::Measured;
use super::{Claim, Finding, Source, Verdict};
use crate::json::{Ratio, Report, Row};
use crate::report::number;
use crate::report::pick;
use crate::sources;

pub(super) const SOURCE: Source = Source {
    text: &sources::PAGE,
    title: "A page descriptor of 56 bytes, and a double compare-and-swap against a lock (Hansen, Morton, 2014)",
    claims: &[
        Claim {
            name: "warm",
            experiment: "slab-descriptor",
            says: "Objects freed while warm show no difference at all: the word in the descriptor is not reached.",
            published: "exactly zero",
            timed: true,
            judge: warm,
        },
        Claim {
            name: "warm-path",
            experiment: "slab-descriptor",
            says: "SLUB's counters confirm it: warm frees go the fast way (Joonsoo Kim's guess), cold ones the slow way.",
            published: "confirmed, no figure",
            timed: false,
            judge: warm_path,
        },
        Claim {
            name: "lock",
            experiment: "slab-descriptor",
            says: "Cold, a lock with interrupts disabled hurts rates by about 30 % beside the double compare-and-swap.",
            published: "1 / 0.7 = 1.43 times the time",
            timed: true,
            judge: lock,
        },
        Claim {
            name: "fades",
            experiment: "slab-descriptor",
            says: "This advantage starts to evaporate with noise in the caches, or across more cores.",
            published: "no figure",
            timed: true,
            judge: fades,
        },
        Claim {
            name: "by-size",
            experiment: "slab-descriptor",
            says: "56 bytes lose up to 5 % below 256 bytes and win above 1 KiB.",
            published: "± 5 %",
            timed: true,
            judge: by_size,
        },
        Claim {
            name: "size-alone",
            experiment: "slab-descriptor",
            says: "64 bytes are faster than 56 independently of the compare-and-swap.",
            published: "no figure of its own",
            timed: true,
            judge: size_alone,
        },
        Claim {
            name: "loads",
            experiment: "slab-descriptor",
            says: "Smaller descriptors need fewer loads from the last-level cache.",
            published: "883,412 → 556,751 loads",
            timed: false,
            judge: |report| simulated(report, "last-level loads", 556_751.0 / 883_412.0),
        },
        Claim {
            name: "load-misses",
            experiment: "slab-descriptor",
            says: "Fewer of them miss the last level.",
            published: "566,546 → 339,106 misses",
            timed: false,
            judge: |report| simulated(report, "last-level misses", 339_106.0 / 566_546.0),
        },
        Claim {
            name: "branch-misses",
            experiment: "slab-descriptor",
            says: "They cost some 15 % more branch misses.",
            published: "1.15 times",
            timed: false,
            judge: |report| simulated(report, "branch misses", 1.15),
        },
        Claim {
            name: "in-practice",
            experiment: "slab-descriptor",
            says: "All of this is hard to demonstrate in practice.",
            published: "no figure",
            timed: true,
            judge: in_practice,
        },
        Claim {
            name: "memory",
            experiment: "slab-descriptor",
            says: "56 bytes for each page save an eighth of the memory that 64 take.",
            published: "16 → 14 MiB for each GiB",
            timed: false,
            judge: memory,
        },
    ],
    slip: None,
};

const BEFORE: &str = "netmem/64-cas128";
const AFTER: &str = "netmem/56-cas128";
const LOCK: &str = "netmem/64-lock-interrupts";
/// The same, with its further lines out of a core's own caches. Older runs do not have it.
const COLD_LOCK: &str = "netmem/64-lock-interrupts-cold";

/// Differences below this share count as no difference.
const NONE: f64 = 0.02;

fn warm(report: &Report) -> Option<Finding> {
    let is_warm = |ratio: &&Ratio| {
        let of_words = ratio.b == BEFORE && ["netmem/64-lock", LOCK, COLD_LOCK].contains(&ratio.a.as_str());
        of_words && pick::has(&ratio.params, &[("use", "warm")])
    };
    let ratios: Vec<Measured> = report.ratios.iter().filter(is_warm).map(Measured::of).collect();
    let far = |ratio: &Measured| (ratio.low.ln().abs()).max(ratio.high.ln().abs());
    let widest = ratios.iter().max_by(|a, b| far(a).total_cmp(&far(b)))?;
    let verdict = ratios.iter().map(|ratio| ratio.is_near_one(NONE)).max()?;
    let sentence = format!(
        "Here a lock in the place of the double compare-and-swap takes {} times the time where the interval reaches furthest from 1, of {} ratios; within 2 % counts as none.",
        widest.text(),
        ratios.len()
    );
    Some(Finding { measured: format!("{:.3}", widest.median), verdict, sentence })
}

/// Returns the share of frees that took the slow path, in percent: the maximum of the warm ones, and the minimum of
/// the cold ones.
fn warm_path(report: &Report) -> Option<Finding> {
    let shares = |usage| {
        let fixed = [("event", "free_slowpath"), ("use", usage)];
        let of = |row: &&Row| row.metric == "percent" && pick::has(&row.params, &fixed);
        report.rows.iter().filter(of).map(|row| row.median).collect::<Vec<f64>>()
    };
    let (warm, cold) = (shares("warm"), shares("cold+write"));
    let most = warm.iter().copied().reduce(f64::max)?;
    let least = cold.iter().copied().reduce(f64::min)?;
    // Frees are counted and not timed, so there is no interval.
    let verdict = if most == 0.0 && least >= 50.0 { Verdict::Holds } else { Verdict::Fails };
    let sentence = format!(
        "Here at most {} % of the frees are slow in {} warm groups, and at least {} % in {} cold ones.",
        number::figure(most),
        warm.len(),
        number::figure(least),
        cold.len()
    );
    let measured = format!("{} %; {} %", number::figure(most), number::figure(least));
    Some(Finding { measured, verdict, sentence })
}

/// Cold and written, with no other work on the machine.
fn cold<'r>(report: &'r Report, a: &str, b: &str, bytes: &str) -> Option<&'r Ratio> {
    let fixed = [("use", "cold+write"), ("bytes", bytes), ("work", "object")];
    let alone = |ratio: &&Ratio| {
        (ratio.a.as_str(), ratio.b.as_str()) == (a, b)
            && pick::has(&ratio.params, &fixed)
            && !ratio.params.contains_key("threads")
            && !ratio.params.contains_key("noise")
    };
    report.ratios.iter().find(alone)
}

/// Returns the remark about a ratio whose run freed in the order of allocation, as all older runs did.
fn order(ratio: &Ratio) -> &'static str {
    if ratio.params.contains_key("order") {
        return "";
    }
    " This run's objects went back in the order of their allocation, so that few descriptors were cold."
}

fn lock(report: &Report) -> Option<Finding> {
    let cold_lines = cold(report, COLD_LOCK, BEFORE, "256");
    let ratio = cold_lines.or_else(|| cold(report, LOCK, BEFORE, "256"))?;
    let finding = Measured::of(ratio).finding(1.0 / 0.7, "256 bytes, cold and written, take", "the time");
    let lines = if cold_lines.is_some() {
        let hot = cold(report, LOCK, BEFORE, "256").map(|ratio| Measured::of(ratio).text());
        format!(
            "The two lines that stand for disabled interrupts have left a core's own caches, as the source's; where every change writes the same two, it is {} times.",
            hot.unwrap_or_else(|| "-".to_owned())
        )
    } else {
        "The two lines that stand for disabled interrupts are the thread's own and written at every change, so that they stay in the first cache; the source's were cold.".to_owned()
    };
    Some(finding.because(&format!("{lines}{}", order(ratio))))
}

/// In either form, at the size with the source's largest effect.
fn size_alone(report: &Report) -> Option<Finding> {
    let swap = cold(report, AFTER, BEFORE, "32")?;
    let lock = Measured::of(cold(report, "netmem/56-lock", "netmem/64-lock", "32")?);
    let verdict = Measured::of(swap).is_more().max(lock.is_more());
    let sentence = format!(
        "Here 56 bytes take {} times the time of 64 under a lock, and {} times by the compare-and-swap (32 bytes, cold and written).{}",
        lock.text(),
        Measured::of(swap).text(),
        order(swap)
    );
    Some(Finding { measured: format!("{:.3}", lock.median), verdict, sentence })
}

/// Measured sizes above 1 KiB.
const LARGE: [&str; 4] = ["1536", "2048", "4096", "8192"];

/// At the size with the source's largest loss, and at all sizes above 1 KiB, of which the worst counts.
fn by_size(report: &Report) -> Option<Finding> {
    let first = cold(report, AFTER, BEFORE, "32")?;
    // Older runs and small settings have some of the sizes. 4096 is the source's own.
    cold(report, AFTER, BEFORE, "4096")?;
    let at = |size: &'static str| Some((size, Measured::of(cold(report, AFTER, BEFORE, size)?)));
    let large: Vec<(&str, Measured)> = LARGE.into_iter().filter_map(at).collect();
    // The claim is a gain: the inverse is more than 1.
    let wins = |&(size, ratio): &(&'static str, Measured)| {
        let inverse = Measured { low: 1.0 / ratio.high, high: 1.0 / ratio.low, ..ratio };
        (inverse.is_more(), size, ratio)
    };
    let (won, _, worst) = large.iter().map(wins).max_by_key(|(verdict, ..)| *verdict)?;
    let small = Measured::of(first);
    let each: Vec<String> =
        large.iter().map(|(size, ratio)| format!("{} times at {size}", ratio.text())).collect();
    let sentence = format!(
        "Here 56 bytes take {} times the time at 32 bytes (the source: 1.05), and above 1 KiB (there: less than 1) {}; the place of a memory makes differences too.{}",
        small.text(),
        each.join(", "),
        order(first)
    );
    let measured = format!("{:.3}; {:.3}", small.median, worst.median);
    Some(Finding { measured, verdict: small.against(1.05).max(won), sentence })
}

/// The lock with cold lines over the double compare-and-swap: alone, beside noise, and on two threads.
fn fades(report: &Report) -> Option<Finding> {
    let fixed = |more| [("use", "cold+write"), ("bytes", "256"), ("work", "object"), more];
    let beside = |more| Measured::find(report, COLD_LOCK, BEFORE, &fixed(more));
    let alone = Measured::of(cold(report, COLD_LOCK, BEFORE, "256")?);
    let (noise, two) = (beside(("noise", "true"))?, beside(("threads", "2"))?);
    let sentence = format!(
        "Here the lock takes {} times the time of the double compare-and-swap alone, {} beside noise on the second core, and {} on two threads.",
        alone.text(),
        noise.text(),
        two.text()
    );
    let measured = format!("{:.3} → {:.3}; {:.3}", alone.median, noise.median, two.median);
    Some(Finding { measured, verdict: faded(alone, [noise, two]), sentence })
}

/// Judges whether an advantage that is there alone is smaller beside both.
fn faded(alone: Measured, beside: [Measured; 2]) -> Verdict {
    match () {
        () if alone.undecided || beside.iter().any(|one| one.undecided) => Verdict::CannotTell,
        // There is nothing that could fade.
        () if alone.low <= 1.0 => Verdict::CannotTell,
        () if beside.iter().all(|one| one.high < alone.low) => Verdict::Holds,
        () if beside.iter().any(|one| one.low > alone.high) => Verdict::Fails,
        () => Verdict::CannotTell,
    }
}

fn simulated(report: &Report, event: &str, published: f64) -> Option<Finding> {
    // Older runs, before frees were shuffled, have one order only, and do not name it.
    let of = |variant| {
        let random = [("event", event), ("order", "random")];
        let row = |fixed| pick::row(report, variant, "count", fixed);
        row(&random).or_else(|| row(&random[..1]))
    };
    let (after, before) = (of(AFTER)?, of(BEFORE)?);
    let by = match before.params.get("by").map(pick::text).as_deref() {
        Some("perf") => "the processor counts",
        _ => "a simulator, whose first cache has 256 KiB, counts",
    };
    let what = format!(
        "{by} {} instead of {} of them,",
        number::figure(after.median),
        number::figure(before.median)
    );
    Some(Measured::over(after, before)?.finding(published, &what, "as many"))
}

fn in_practice(report: &Report) -> Option<Finding> {
    let ratio = Measured::find(report, AFTER, BEFORE, &[("work", "forward")])?;
    let sentence = format!("Here forwarding takes {} times the time with 56 bytes.", ratio.text());
    Some(Finding { measured: format!("{:.3}", ratio.median), verdict: ratio.is_near_one(NONE), sentence })
}

fn memory(report: &Report) -> Option<Finding> {
    let of = |variant| Some(pick::row(report, variant, "bytes", &[("per", "GiB")])?.median);
    let mebibytes = |bytes: f64| number::figure(bytes / f64::from(1 << 20));
    let (after, before) = (of("netmem/56")?, of("netmem/64")?);
    let compact = of("netmem/compact").map_or_else(String::new, |bytes| {
        format!(", and the compact one of netmem's own {}", mebibytes(bytes))
    });
    let sentence = format!(
        "Here they take {} instead of {} MiB for each GiB{compact}.",
        mebibytes(after),
        mebibytes(before)
    );
    // Bytes are counted, so there is no interval.
    let counted = Measured::counted(after / before);
    let measured = format!("{} → {} MiB", mebibytes(before), mebibytes(after));
    Some(Finding { measured, verdict: counted.against(0.875), sentence })
}
