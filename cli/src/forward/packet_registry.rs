//! The sections and keys of packets, rules and the local queue at the control socket.

use super::hooks::Hooks;
use super::plan::{Plan, check_rules};
use super::retention::RetentionThread;
use super::rule_counts::{counted, unmatched};
use crate::args::{LOCAL_QUEUE_BYTES_MAX, READY_PACKETS_MAX};
use crate::control::Record;
use crate::control::registry::Registry;
use netmem::forward::filter::{FilterControl, Rule};
use netmem::forward::local_queue::{LocalQueueCounters, Retention, RetentionLimit};
use netmem::packet::{HeadCache, ReadyPackets};
use std::sync::Arc;
use std::time::Duration;

/// The error of a key with a range of its own for a value outside the range.
#[derive(Debug)]
struct TooMuch;

impl std::fmt::Display for TooMuch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("too much")
    }
}

/// The maximum number of frames in a local queue.
const MOST: usize = 1 << 20;
/// The longest time limit: a week.
const MILLISECONDS: u64 = 604_800_000;
/// The value for no limit.
const NO_LIMIT: &str = "none";

/// Adds ready heads, ready packets and the rules of a run with this many ports, as far as there are any.
pub fn packets(registry: &mut Registry, hooks: &Hooks, ports: usize) {
    ready_heads(registry, &hooks.heads);
    let (heads, ready) = (hooks.heads.clone(), hooks.ready.clone());
    registry.section("ready", move || {
        let mut records = vec![heads_record(&heads)];
        records.extend(
            ready.iter().enumerate().map(|(i, of)| ready_record(&named("packets", i, ready.len()), of)),
        );
        records
    });
    let heads = hooks.heads.clone();
    registry.section("slabs", move || vec![slab_record(&heads)]);
    if let Some(first) = hooks.ready.first() {
        let (of, to) = (first.clone(), hooks.ready.clone());
        let range = (
            format!("0 to {READY_PACKETS_MAX}"),
            "packets",
            "how many each worker may have ready; any more are freed",
        );
        registry.number(
            "ready.packets.max",
            range,
            move || of.max(),
            move |max| {
                within(max, READY_PACKETS_MAX).map(|max| to.iter().for_each(|ready| ready.set_max(max)))
            },
        );
    }
    let controls = hooks.rules();
    if !controls.is_empty() {
        rules(registry, controls, ports);
    }
}

/// Returns `ready` if there is one worker, else `pairs0`, `pairs1`, ….
fn named(what: &str, number: usize, workers: usize) -> String {
    if workers == 1 { what.to_owned() } else { format!("{what}{number}") }
}

fn within(value: usize, most: usize) -> Result<usize, TooMuch> {
    if value <= most { Ok(value) } else { Err(TooMuch) }
}

fn ready_heads(registry: &mut Registry, heads: &HeadCache) {
    for (key, name, (range, unit, what)) in [
        ("ready.heads.size", "ready_size", ("1 to 4096", "heads", "how many each worker has ready at most")),
        ("ready.heads.refill", "ready_refill", ("1 to the size", "heads", "how many are taken at once")),
        ("ready.heads.free", "ready_free", ("1 to the size", "heads", "how many are freed at once")),
        (
            "ready.heads.defer_max",
            "defer_max",
            ("0 to 65536", "heads", "how many may wait for the worker that took them; 0 sends none back"),
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
        registry.number(key, (range, unit, what), read, move |value| to.set(name, value));
    }
}

/// Returns the cache of heads in the form of SLUB's statistics.
fn slab_record(heads: &HeadCache) -> Record {
    let attributes = heads.attributes();
    let said = attributes.iter().filter(|&(name, value)| name != "name" && !value.is_empty());
    said.fold(Record::default().with("name", "heads"), |record, (name, value)| match value.parse::<u64>() {
        Ok(number) => record.with(name, number),
        Err(_) => record.with(name, value),
    })
}

fn heads_record(heads: &HeadCache) -> Record {
    let stats = heads.stats();
    Record::default().with("name", "heads").with_all([("ready", stats.ready), ("waiting", stats.waiting)])
}

fn ready_record(name: &str, ready: &ReadyPackets) -> Record {
    let stats = ready.stats();
    Record::default().with("name", name).with_all([
        ("now", stats.now),
        ("max", stats.max),
        ("taken", stats.taken),
        ("kept", stats.kept),
        ("missed", stats.missed),
        ("passed", stats.passed),
        ("released", stats.released),
    ])
}

/// Adds the rules with the counts of all workers, and one key for the whole list.
pub fn rules(registry: &mut Registry, controls: Vec<FilterControl>, ports: usize) {
    let of = controls.clone();
    registry.section("rules", move || rule_records(&of));
    let of = controls.clone();
    let read = move || counted(&of).iter().map(|count| count.rule.to_string()).collect::<Vec<_>>().join(" ");
    let write = move |text: &str| {
        let parse = |rule: &str| rule.parse::<Rule>().map_err(|error| error.to_string());
        let rules = text.split_whitespace().map(parse).collect::<Result<Vec<_>, _>>()?;
        check_rules(&rules, ports)?;
        // If there are too many rules, the first worker rejects them as well, and nothing has changed.
        controls.iter().try_for_each(|to| to.replace(rules.clone())).map_err(|error| error.to_string())
    };
    let range = "rules as in --rule, spaces between";
    registry.text(
        "rules",
        (range, "", "the first rule that matches decides; a rule that stays keeps its counts"),
        read,
        write,
    );
}

fn rule_records(controls: &[FilterControl]) -> Vec<Record> {
    let records = counted(controls).into_iter().enumerate().map(|(i, count)| {
        let record = Record::default().with("name", i.to_string()).with("rule", count.rule.to_string());
        record.with_all([("packets", count.packets), ("bytes", count.bytes)])
    });
    let unmatched = Record::default().with("name", "none").with_all([("packets", unmatched(controls))]);
    records.chain([unmatched]).collect()
}

/// Adds the local queue, if there is one.
pub fn local_queue(registry: &mut Registry, retention: &RetentionThread, plan: &Plan) {
    let Some(limit) = &retention.limit else { return };
    let counters: Vec<_> = retention.retentions.iter().map(Retention::counters).collect();
    registry.section("local_queue", move || vec![local_queue_record(&counters)]);
    retention_keys(registry, limit, kept_max(plan));
    retention_bytes_key(registry, limit);
}

/// Returns the held frames of all workers.
fn local_queue_record(counters: &[Arc<LocalQueueCounters>]) -> Record {
    let sum = |count: fn(&LocalQueueCounters) -> u64| counters.iter().map(|one| count(one)).sum();
    let counts = [
        ("taken", sum(|one| one.taken.get())),
        ("freed", sum(|one| one.given.get())),
        ("kept", sum(|one| one.kept.get())),
        ("copies", sum(|one| one.copies.get())),
        ("held", sum(LocalQueueCounters::held)),
        ("kept_bytes", sum(|one| one.kept_bytes.get())),
    ];
    Record::default().with("name", "local_queue").with_all(counts)
}

/// Returns the maximum number of frames that a worker's local queue may keep. As at the start ([`Plan::of`]), a frame
/// of its pool is left for reception.
fn kept_max(plan: &Plan) -> usize {
    plan.frames.saturating_sub(plan.mirror.unwrap_or(0) + 1).min(MOST)
}

fn retention_keys(registry: &mut Registry, limit: &Arc<RetentionLimit>, most: usize) {
    let (of, to) = (Arc::clone(limit), Arc::clone(limit));
    let range = (format!("0 to {most}"), "frames", "how many per worker the local queue keeps");
    registry.number(
        "local_queue.packets",
        range,
        move || of.packets(),
        move |packets| within(packets, most).map(|packets| to.set_packets(packets)),
    );
    let (of, to) = (Arc::clone(limit), Arc::clone(limit));
    let range =
        (format!("0 to {MILLISECONDS}, or none"), "ms", "how long the local queue keeps a frame at most");
    registry.text(
        "local_queue.milliseconds",
        range,
        move || milliseconds(of.time()),
        move |text| {
            to.set_time(if text == NO_LIMIT { Duration::MAX } else { time(text)? });
            Ok(())
        },
    );
}

fn retention_bytes_key(registry: &mut Registry, limit: &Arc<RetentionLimit>) {
    let (of, to) = (Arc::clone(limit), Arc::clone(limit));
    let what = "memory per worker for the frames that the local queue keeps";
    registry.text(
        "local_queue.bytes",
        (format!("0 to {LOCAL_QUEUE_BYTES_MAX}, or none"), "bytes", what),
        move || bytes_text(of.bytes()),
        move |text| {
            to.set_bytes(if text == NO_LIMIT { usize::MAX } else { bytes(text)? });
            Ok(())
        },
    );
}

fn bytes_text(bytes: usize) -> String {
    if bytes > LOCAL_QUEUE_BYTES_MAX { NO_LIMIT.to_owned() } else { bytes.to_string() }
}

fn bytes(text: &str) -> Result<usize, String> {
    let limit = text.parse().map_err(|_| format!("{text:?} is neither a whole number nor {NO_LIMIT}"))?;
    if limit > LOCAL_QUEUE_BYTES_MAX {
        return Err(format!("{limit} is more than a TiB"));
    }
    Ok(limit)
}

fn milliseconds(time: Duration) -> String {
    let limit = u64::try_from(time.as_millis()).ok().filter(|&limit| limit <= MILLISECONDS);
    limit.map_or_else(|| NO_LIMIT.to_owned(), |limit| limit.to_string())
}

fn time(text: &str) -> Result<Duration, String> {
    let limit = text.parse().map_err(|_| format!("{text:?} is neither a whole number nor {NO_LIMIT}"))?;
    if limit > MILLISECONDS {
        return Err(format!("{limit} is more than a week"));
    }
    Ok(Duration::from_millis(limit))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::forward_of;

    /// Found in a review: the key took a million frames of any pool, and then no packet was received any more.
    #[test]
    fn a_local_queue_that_would_keep_every_frame_of_its_pool_is_refused_also_by_its_key() {
        let most = |text: &str| {
            let args = forward_of(&format!("mode = 'pass'\nframes = 4096\n{text}"), &[]).unwrap();
            Plan::of(&args).map(|plan| kept_max(&plan)).map_err(|_| ())
        };
        assert_eq!(most("local-queue = 4095"), Ok(4095));
        assert_eq!(most("local-queue = 4096"), Err(()));
        assert_eq!(most("local-queue = 10\nmirror = 95"), Ok(4000));
        assert_eq!(most("local-queue = 4001\nmirror = 95"), Err(()));
    }
}
