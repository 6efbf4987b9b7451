//! The findings of the source, and whether they hold here.

use netmem::page::Memory;

use super::cells::{ALL, FIFTY, Max, PUBLISHED, Side};
use crate::bench::Bench;
use crate::method::ratio::{BesideOne, TOO_FEW};

/// Reports the source's findings, cell by cell, and whether they hold here.
pub(super) fn notes(bench: &mut Bench<'_>, memory: &Memory) {
    bench.note(format!("memory: {}", memory.region().backing()));
    bench.note(
        "under a lock: the pool's owner has no cache of frames, so every frame passes the pool's lock, and heads \
         are allocated one by one from slabs whose word is changed under a lock; without a lock: the product's \
         defaults, with that cache and arrays of heads. So the two differ in their layers too, and the first has none. \
         That CURRENT of 2002 locked and STABLE did not is netmem's reading: the text names the systems, and says that \
         the driver holds Giant already. By its footnote this STABLE has \"some proprietary optimizations\" and the old \
         ipfw, which \"is significantly slower\", with fastfwd=0, so its columns differ in more than locks. No other \
         thread wants a lock here",
    );
    lock_alone(bench);
    bench.note("the source prints 195 pps for one cell. Its table shows that this means kpps");
    lists(bench);
    changing(bench);
    for (full, below, without, with) in PUBLISHED {
        let [fifty, all] = [FIFTY, ALL].map(Max::Pairs);
        let cells = [(fifty, true), (all, false), (fifty, false), (Max::Ring, false)];
        for (max, by_round) in cells {
            let [a, b] =
                [max, Max::Pairs(0)].map(|max| Side { full, below, max, list: None, by_round }.variant());
            let Some(ratio) = bench.reported_ratio(&a, &b) else { continue };
            let (median, low, high) = (ratio.median, ratio.low, ratio.high);
            let verdict = match ratio.beside_one() {
                BesideOne::TooFew => TOO_FEW,
                BesideOne::Above => "the pool helps",
                BesideOne::Below => {
                    "the pool costs more than it saves: what is below is as short as the pool itself"
                }
                BesideOne::Around => "no difference that shows: what is below is as short as the pool itself",
            };
            bench.note(format!(
                "{a} forwards {median} ({low} to {high}) times the packets of {b}; the source, with 50: {:.3}; {verdict}",
                with / without
            ));
        }
    }
}

/// Answers what the lock alone does: both sides have the same layers.
fn lock_alone(bench: &mut Bench<'_>) {
    let over = |a: &str, b: &str| {
        let [a, b] = [a, b].map(|end| format!("netmem/fast-each-{end}-by-round"));
        let ratio = bench.reported_ratio(&a, &b)?;
        Some(format!("{} ({} to {})", ratio.median, ratio.low, ratio.high))
    };
    let (Some(lock), Some(locked), Some(free)) =
        (over("lock-0", "free-0"), over("lock-50", "lock-0"), over("free-50", "free-0"))
    else {
        return;
    };
    bench.note(format!(
        "the lock alone: heads one by one from slabs, frames from the owner's cache. If the slabs' words are changed under \
         a lock, {lock} times the packets are forwarded without pairs. 50 pairs forward {locked} times the packets \
         with that lock and {free} times without. The lock of frames cannot be varied alone: without it there is a \
         cache, which is a layer"
    ));
}

/// Answers the source's questions about the locks, and about the time at which a pair is reset.
fn lists(bench: &mut Bench<'_>) {
    let over = |a: &str, b: &str| {
        let [a, b] = [a, b].map(|end| format!("netmem/fast-lock-{end}"));
        let ratio = bench.reported_ratio(&a, &b)?;
        let which = match ratio.beside_one() {
            BesideOne::TooFew => "more, fewer or as many packets (too few set-ups or rounds to tell) than",
            BesideOne::Above => "more packets than",
            BesideOne::Below => "fewer packets than",
            BesideOne::Around => "as many packets, as far as this run can tell, as",
        };
        Some(format!("{which} {b}: {} ({} to {}) times", ratio.median, ratio.low, ratio.high))
    };
    let own = (over("256-list", "0"), over("256-list", "256"));
    let all =
        (over("50-list", "50"), over("50-list-locked", "50-list"), over("50-list-reset-at-put", "50-list"));
    let ((Some(none), Some(by_worker)), (Some(list), Some(locked), Some(at_put))) = (own, all) else {
        return;
    };
    bench.note(format!(
        "the source's own form, one list whose lock is taken once for a bulk, as by a driver that holds it, with 256 \
         pairs: it forwards {none}; and {by_worker}, which has a list for each worker without a lock"
    ));
    bench.note(format!(
        "the source asks which lock the pairs need: one for each CPU, Giant, or the one that the caller holds. With 50 \
         pairs, one list under its caller's lock forwards {list}. A separate lock for each pair forwards {locked}. No \
         other thread needs these locks, so the cost of waiting for Giant is not included"
    ));
    bench.note(format!(
        "a reset when a pair is put, as in the mail of June, instead of when it is taken, as in the mail of July, \
         forwards {at_put}"
    ));
}

/// Explains the row of the changing maximum.
fn changing(bench: &mut Bench<'_>) {
    let Some(ratio) = bench.reported_ratio("netmem/fast-lock-changing", "netmem/fast-lock-50") else {
        return;
    };
    let (median, low, high) = (ratio.median, ratio.low, ratio.high);
    bench.note(format!(
        "netmem/fast-lock-changing sets the maximum to 0 and to the ring's size in turn at every poll round, which \
         no administrator does. Each decrease frees all pairs at once, under the locks below, and the next refill \
         makes as many again. The row shows that no packet is lost, and bounds the cost: {median} ({low} to {high}) \
         times the packets of 50 pairs"
    ));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::tests::{ratio, report_of};
    use netmem::page::MemoryConfig;

    /// Seen: a run that was stopped after a set-up said where the pool helps.
    #[test]
    fn that_the_pool_helps_or_a_list_forwards_more_is_noted_only_of_enough_set_ups() {
        let memory = Memory::new(&MemoryConfig::default()).unwrap();
        let pairs = [
            ("256", "0"),
            ("256-list", "0"),
            ("256-list", "256"),
            ("50-list", "50"),
            ("50-list-locked", "50-list"),
            ("50-list-reset-at-put", "50-list"),
        ];
        for too_few in [false, true] {
            let report = report_of(false, |bench| {
                for (a, b) in pairs {
                    let [a, b] = [a, b].map(|end| format!("netmem/fast-lock-{end}"));
                    bench.report_ratio(ratio(&a, &b, (1.1, 1.2), too_few));
                }
                notes(bench, &memory);
            });
            let noted = |what: &str| report.notes.iter().filter(|note| note.contains(what)).count();
            assert_eq!(
                [noted("the pool helps"), noted("it forwards more packets than")],
                [usize::from(!too_few); 2]
            );
            assert_eq!(noted(TOO_FEW) > 0, too_few, "{:?}", report.notes);
        }
    }
}
