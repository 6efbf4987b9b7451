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
            says: "The patch that shrinks the descriptor has some 15 % more branch misses, probably by the size of its code.",
            published: "1.15 times",
            timed: false,
            judge: branches,
        },
        Claim {
            name: "in-practice",
            experiment: "slab-descriptor",
            says: "All of these differences are hard or impossible to demonstrate in practice.",
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
/// The same, with further lines that are out of a core's own caches, whatever the work does. Older runs do not have it.
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

/// Judged by two bounds. The source's lines are the same at each change, and as cold as its objects leave them.
fn lock(report: &Report) -> Option<Finding> {
    let first = cold(report, LOCK, BEFORE, "256")?;
    let (near, far) = (Measured::of(first), Measured::of(cold(report, COLD_LOCK, BEFORE, "256")?));
    let between = Measured::of_settings(&[near, far])?;
    let finding = between.finding(1.0 / 0.7, "256 bytes, cold and written, take", "the time");
    Some(finding.because(&format!(
        "These are bounds. Where every change writes the same two lines, which never leave the first cache, it is {}. Where it writes two others of 4 MiB, which are cold whatever the objects do, it is {}. The source's lines are the same each time, and its objects evict them.{}",
        near.text(),
        far.text(),
        order(first)
    )))
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

/// The lock over the double compare-and-swap: alone, beside noise, and on two threads. Its lines are the same at each
/// change: those of [`COLD_LOCK`] are cold by themselves, so that noise changes nothing about them.
fn fades(report: &Report) -> Option<Finding> {
    let fixed = |more| [("use", "cold+write"), ("bytes", "256"), ("work", "object"), more];
    let beside = |more| Measured::find(report, LOCK, BEFORE, &fixed(more));
    let alone = Measured::of(cold(report, LOCK, BEFORE, "256")?);
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

/// Judges a count of the simulator in both orders, of which the worse counts: the source does not tell its own.
fn simulated(report: &Report, event: &str, published: f64) -> Option<Finding> {
    let of = |variant, order| {
        let fixed = [("event", event), ("by", "cachegrind"), ("order", order)];
        pick::row(report, variant, "count", &fixed)
    };
    let both = |order| Some((of(AFTER, order)?, of(BEFORE, order)?));
    let (random, in_turn) = (both("random")?, both("in turn")?);
    if report.quick {
        let sentence = "A quick run counts 50 thousand pairs of 262,144 objects: none comes up a second time, so that nothing is told.".to_owned();
        return Some(Finding { measured: "–".to_owned(), verdict: Verdict::CannotTell, sentence });
    }
    let over = |(after, before): (&Row, &Row)| {
        let each = format!("{:.3}", before.median / PAIRS);
        let figures = [after, before].map(|row| number::figure(row.median));
        let text = format!("{} instead of {} of them, {each} a pair before", figures[0], figures[1]);
        Some((text, Measured::over(after, before)?))
    };
    let ((text, random), (turn_text, in_turn)) = (over(random)?, over(in_turn)?);
    let verdict = random.against(published).max(in_turn.against(published));
    let sentence = format!(
        "Here a simulator, whose first cache has 256 KiB, counts {text}, if objects are freed in a random order, {} times as many; and {turn_text}, in the order of allocation, {} times. The worse counts; the source, whose order is not told: {published:.3} times, and 0.053 loads a pair before.",
        random.text(),
        in_turn.text()
    );
    Some(Finding { measured: format!("{:.3}; {:.3}", random.median, in_turn.median), verdict, sentence })
}

/// Pairs of the source's counts.
const PAIRS: f64 = 16.8e6;

fn branches(report: &Report) -> Option<Finding> {
    let of = |variant| pick::row(report, variant, "count", &[("event", "branch misses")]);
    let ratio = Measured::over(of(AFTER)?, of(BEFORE)?)?;
    let reason = "the source gives them to the size of the code that its patch added; the forms here are other code, none of which is beside another";
    Some(Finding::not_comparable(format!("{:.3}", ratio.median), reason))
}

/// The source's differences, where packets are forwarded: by the lock, and by the size.
const DELTAS: [(&str, &str); 4] =
    [("netmem/64-lock", BEFORE), (LOCK, BEFORE), (AFTER, BEFORE), ("netmem/56-lock", "netmem/64-lock")];

/// Judged by all differences of which the source says so; the worst counts.
fn in_practice(report: &Report) -> Option<Finding> {
    let find = |a, b| Measured::find(report, a, b, &[("work", "forward")]);
    find(AFTER, BEFORE)?;
    let found = DELTAS.into_iter().filter_map(|(a, b)| Some((a, b, find(a, b)?)));
    let found: Vec<(&str, &str, Measured)> = found.collect();
    let verdicts = found.iter().map(|(_, _, ratio)| ratio.is_near_one(NONE));
    let verdict = verdicts.max()?;
    let far = |ratio: &Measured| (ratio.low.ln().abs()).max(ratio.high.ln().abs());
    let (_, _, worst) = found.iter().max_by(|(.., a), (.., b)| far(a).total_cmp(&far(b)))?;
    let each: Vec<String> =
        found.iter().map(|(a, b, ratio)| format!("{} times ({a} over {b})", ratio.text())).collect();
    let bound = find(COLD_LOCK, BEFORE).map_or_else(String::new, |ratio| {
        format!(" With lines of the lock that are cold whatever is forwarded it would be {}, which is a bound and not judged.", ratio.text())
    });
    let sentence = format!(
        "Here forwarding, with a head for each packet, takes {}; within 2 % counts as none.{bound}",
        each.join(", ")
    );
    Some(Finding { measured: format!("{:.3}", worst.median), verdict, sentence })
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
