//! What the control socket shows of packets, rules and the holder, and the keys that turn them.

use super::holding::Holding;
use super::hooks::Hooks;
use crate::control::Record;
use crate::control::board::Board;
use netmem::forward::filter::{FilterControl, Rule};
use netmem::forward::holder::{HolderCounters, Keep};
use netmem::packet::{Heads, Pairs};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

/// What a key that has a range of its own says of a value outside it.
#[derive(Debug)]
struct TooMuch;

impl std::fmt::Display for TooMuch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("too much")
    }
}

/// Frames that a holder may keep, and pairs that may be ready, at most.
const MOST: usize = 1 << 20;
/// The longest time that can be asked for: a week.
const MILLISECONDS: usize = 604_800_000;

/// Adds ready heads, ready pairs and rules, as far as there are any.
pub fn packets(board: &mut Board, hooks: &Hooks) {
    ready_heads(board, &hooks.heads);
    let (heads, pairs) = (hooks.heads.clone(), hooks.pairs.clone());
    board.section("ready", move || {
        let mut records = vec![heads_record(&heads)];
        records.extend(pairs.as_ref().map(pairs_record));
        records
    });
    let heads = hooks.heads.clone();
    board.section("slabs", move || vec![slab_record(&heads)]);
    if let Some(pairs) = &hooks.pairs {
        let (of, to) = (pairs.clone(), pairs.clone());
        let range = (format!("0 to {MOST}"), "pairs", "how many may be ready; those too many are freed");
        board.number(
            "ready.pairs.max",
            range,
            move || of.max(),
            move |max| within(max, MOST).map(|max| to.set_max(max)),
        );
    }
    if let Some(control) = hooks.rules() {
        rules(board, control);
    }
}

fn within(value: usize, most: usize) -> Result<usize, TooMuch> {
    if value <= most { Ok(value) } else { Err(TooMuch) }
}

fn ready_heads(board: &mut Board, heads: &Heads) {
    for (key, name, (range, unit, what)) in [
        ("ready.heads.size", "ready_size", ("1 to 4096", "heads", "how many a worker has ready at most")),
        ("ready.heads.refill", "ready_refill", ("1 to the size", "heads", "how many are taken at once")),
        ("ready.heads.free", "ready_free", ("1 to the size", "heads", "how many are freed at once")),
        (
            "ready.heads.defer_max",
            "defer_max",
            ("0 to 65536", "heads", "how many may wait for the worker that took them; 0: none are sent home"),
        ),
        ("slab.heads.order", "order", ("0 to 10", "", "log2 of the pages of a new slab")),
        (
            "slab.heads.min_partial",
            "min_partial",
            ("0 to 1048576", "slabs", "how many partial slabs are kept"),
        ),
        ("slab.heads.sheaf_capacity", "sheaf_capacity", ("1 to 65536", "heads", "how many a sheaf holds")),
    ] {
        let (of, to) = (heads.clone(), heads.clone());
        let read = move || of.get(name).unwrap_or_default();
        board.number(key, (range, unit, what), read, move |value| to.set(name, value));
    }
}

/// The cache of heads as SLUB would show it.
fn slab_record(heads: &Heads) -> Record {
    let attributes = heads.attributes();
    let said = attributes.iter().filter(|&(name, value)| name != "name" && !value.is_empty());
    said.fold(Record::default().with("name", "heads"), |record, (name, value)| match value.parse::<u64>() {
        Ok(number) => record.with(name, number),
        Err(_) => record.with(name, value),
    })
}

fn heads_record(heads: &Heads) -> Record {
    let stats = heads.stats();
    Record::default().with("name", "heads").with_all([("ready", stats.ready), ("waiting", stats.waiting)])
}

fn pairs_record(pairs: &Pairs) -> Record {
    let stats = pairs.stats();
    Record::default().with("name", "pairs").with_all([
        ("now", stats.now),
        ("max", stats.max),
        ("taken", stats.taken),
        ("kept", stats.kept),
        ("missed", stats.missed),
        ("passed", stats.passed),
        ("released", stats.released),
    ])
}

/// The rules with their counts; one key for the whole list.
fn rules(board: &mut Board, control: &FilterControl) {
    let of = control.clone();
    board.section("rules", move || {
        let counted = of.rules().into_iter().enumerate().map(|(i, count)| {
            let record = Record::default().with("name", i.to_string()).with("rule", count.rule.to_string());
            record.with_all([("packets", count.packets), ("bytes", count.bytes)])
        });
        let unmatched = Record::default().with("name", "none").with_all([("packets", of.unmatched())]);
        counted.chain([unmatched]).collect()
    });
    let (of, to) = (control.clone(), control.clone());
    let read = move || of.rules().iter().map(|count| count.rule.to_string()).collect::<Vec<_>>().join(" ");
    let write = move |text: &str| {
        let parse = |rule: &str| rule.parse::<Rule>().map_err(|error| error.to_string());
        let rules = text.split_whitespace().map(parse).collect::<Result<Vec<_>, _>>()?;
        to.replace(rules).map_err(|error| error.to_string())
    };
    let range = "rules as in --rule, spaces between";
    board.text(
        "rules",
        (range, "", "the first that matches decides; one that stays keeps its counts"),
        read,
        write,
    );
}

/// Adds the holder, if there is one.
pub fn holder(board: &mut Board, holding: &Holding) {
    let Some(keeper) = &holding.keeper else { return };
    let (counters, keep) = (keeper.counters(), keeper.keep());
    board.section("holder", move || vec![holder_record(&counters)]);
    keep_keys(board, &keep);
}

fn holder_record(counters: &HolderCounters) -> Record {
    let counts = [
        ("taken", counters.taken.get()),
        ("freed", counters.given.get()),
        ("kept", counters.kept.get()),
        ("held", counters.held()),
    ];
    Record::default().with("name", "holder").with_all(counts)
}

fn keep_keys(board: &mut Board, keep: &Arc<Keep>) {
    let (of, to) = (Arc::clone(keep), Arc::clone(keep));
    let range = (format!("0 to {MOST}"), "frames", "how many the holder keeps");
    board.number(
        "holder.packets",
        range,
        move || of.packets(),
        move |packets| within(packets, MOST).map(|packets| to.set_packets(packets)),
    );
    let (of, to) = (Arc::clone(keep), Arc::clone(keep));
    let range = (format!("0 to {MILLISECONDS}; more is no limit"), "ms", "how long the holder keeps a frame");
    let read = move || usize::try_from(of.time().as_millis()).unwrap_or(usize::MAX);
    board.number("holder.milliseconds", range, read, move |time| {
        let time = if time > MILLISECONDS { Duration::MAX } else { Duration::from_millis(time as u64) };
        to.set_time(time);
        Ok::<_, Infallible>(())
    });
}
