//! A forwarder's answer, as the values that are displayed.

use crate::control::{NO_CARRIER, Record};
use crate::stat::{LOST, Sections};
use serde_json::Value;

/// The states of a frame, by the ledger's names, each with its letter in a bar.
pub const STATES: [(&str, char); 8] = [
    ("free", 'f'),
    ("cached", 'c'),
    ("ready", 'r'),
    ("owned", 'o'),
    ("posted", 'p'),
    ("queued", 'q'),
    ("returning", '<'),
    ("miscounted", '!'),
];

/// The prefix of a port's state before the reason.
const DOWN: &str = "down: ";

/// A forwarder at one moment: counters since its start, and gauges.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Snapshot {
    /// The time, in seconds since some fixed moment.
    pub at: f64,
    pub queues: Vec<Queue>,
    pub workers: Vec<Worker>,
    pub pools: Vec<Pool>,
    /// Packets dropped, by reason.
    pub drops: Vec<(String, u64)>,
    pub holders: Vec<Holder>,
}

/// One queue of a port.
#[derive(Debug, Clone, PartialEq)]
pub struct Queue {
    /// The name in `netmem stat ports`.
    pub name: String,
    /// Its port, which it shares with the port's other queues. It has the port's number if ports share a name.
    pub port: String,
    /// Its number at the port.
    pub number: String,
    pub rx: u64,
    pub rx_bytes: u64,
    pub tx: u64,
    pub tx_bytes: u64,
    /// Frames that the device or the port dropped.
    pub lost: u64,
    /// The reason why it carries nothing, or empty if it does.
    pub down: String,
    /// Slots of all its rings for reception, and of those for transmission.
    pub ring: u64,
    pub tx_ring: u64,
    /// Empty frames that are posted for reception.
    pub posted: u64,
    /// Frames posted for transmission and not completed.
    pub sending: u64,
}

/// One worker.
#[derive(Debug, Clone, PartialEq)]
pub struct Worker {
    pub name: String,
    /// The core that it is pinned to.
    pub core: String,
    /// Packets from its ports, and those that other workers handed to it.
    pub received: u64,
    pub handed: u64,
    pub transmitted: u64,
    pub dropped: u64,
    pub held: u64,
    /// Rounds that received something, and the time of rounds with work.
    pub rounds: u64,
    pub busy_ns: u64,
    pub idle_rounds: u64,
    pub sleeps: u64,
    pub stalls: u64,
}

/// The states of a pool's frames.
#[derive(Debug, Clone, PartialEq)]
pub struct Pool {
    pub name: String,
    pub total: u64,
    /// In the order of [`STATES`].
    pub states: [u64; STATES.len()],
}

/// A holder of frames that are out.
#[derive(Debug, Clone, PartialEq)]
pub struct Holder {
    pub name: String,
    pub state: String,
    pub frames: u64,
    pub oldest_ms: u64,
}

impl Pool {
    /// Returns true if all states add up to the total and no frame is unaccounted for. This holds while no frame
    /// moves.
    pub fn is_balanced(&self) -> bool {
        let (miscounted, states) = self.states.split_last().unwrap_or((&0, &[]));
        // Wider than any sum of these: a count below 0, which wraps, makes the sum too large.
        let known: u128 = states.iter().map(|&frames| u128::from(frames)).sum();
        *miscounted == 0 && known == u128::from(self.total)
    }
}

impl Snapshot {
    /// Reads the records of the sections that `netmem stat` shows, as of that second. A missing value is 0.
    pub fn new(at: f64, sections: &Sections) -> Snapshot {
        let find = |section: &str| sections.iter().find(|(name, _)| name == section);
        let of = |section: &str| find(section).map_or(&[][..], |(_, records)| records);
        let reasons = of("drops").iter().flat_map(|record| &record.0);
        Snapshot {
            at,
            queues: queues(of("ports")),
            workers: of("workers").iter().map(worker).collect(),
            pools: of("pools").iter().map(pool).collect(),
            drops: reasons.filter_map(|(name, count)| Some((name.clone(), count.as_u64()?))).collect(),
            holders: of("holders").iter().map(holder).collect(),
        }
    }
}

fn number(record: &Record, name: &str) -> u64 {
    record.get(name).and_then(Value::as_u64).unwrap_or(0)
}

/// Reads the records of ports, several of which may share a name.
fn queues(records: &[Record]) -> Vec<Queue> {
    let read = |record: &Record| {
        let mut queue = queue(record);
        if record.shares_name(records) {
            queue.port = format!("{}#{}", queue.port, number(record, "number"));
        }
        queue
    };
    records.iter().map(read).collect()
}

fn queue(record: &Record) -> Queue {
    let of = |name| number(record, name);
    // A run of an earlier version does not have it. Its counters are not read at one moment: one may be ahead.
    let posted = record.get("rx_posted").and_then(Value::as_u64);
    let name = record.text("name");
    let (port, queue) = port_and_queue(name);
    Queue {
        name: name.to_owned(),
        port: port.to_owned(),
        number: queue.to_owned(),
        rx: of("rx"),
        rx_bytes: of("rx_bytes"),
        tx: of("tx"),
        tx_bytes: of("tx_bytes"),
        lost: LOST.into_iter().map(of).fold(0, u64::saturating_add),
        down: why_down(record.text("state")).to_owned(),
        ring: of("ring").saturating_mul(of("rx_queues").max(1)),
        tx_ring: of("ring").saturating_mul(of("tx_queues").max(1)),
        posted: posted.unwrap_or_else(|| of("filled").saturating_sub(of("rx"))),
        sending: of("tx").saturating_sub(of("completed").saturating_add(of("tx_stranded"))),
    }
}

/// `xdp:eth0:3` is queue 3 of `xdp:eth0`. The first queue has the port's name alone.
fn port_and_queue(name: &str) -> (&str, &str) {
    let is_queue = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit() || b == b',');
    match name.rsplit_once(':') {
        Some((port, queue)) if port.contains(':') && is_queue(queue) => (port, queue),
        _ => (name, "0"),
    }
}

/// Returns a worker's core. Earlier versions give its number as text.
fn core(record: &Record) -> String {
    record
        .get("core")
        .and_then(Value::as_u64)
        .map_or_else(|| record.text("core").to_owned(), |core| core.to_string())
}

fn worker(record: &Record) -> Worker {
    let of = |name| number(record, name);
    Worker {
        name: record.text("name").to_owned(),
        core: core(record),
        received: of("received").saturating_add(of("taken")),
        handed: of("handed"),
        transmitted: of("transmitted"),
        dropped: of("dropped"),
        held: of("held"),
        rounds: of("rounds"),
        busy_ns: of("busy_ns"),
        idle_rounds: of("idle_rounds"),
        sleeps: of("sleeps"),
        stalls: of("stalls"),
    }
}

/// Returns why a port in this state carries no frames.
fn why_down(state: &str) -> &str {
    if state == NO_CARRIER { state } else { state.strip_prefix(DOWN).unwrap_or_default() }
}

fn pool(record: &Record) -> Pool {
    Pool {
        name: record.text("name").to_owned(),
        total: number(record, "total"),
        states: STATES.map(|(state, _)| number(record, state)),
    }
}

fn holder(record: &Record) -> Holder {
    Holder {
        name: record.text("name").to_owned(),
        state: record.text("state").to_owned(),
        frames: number(record, "frames"),
        oldest_ms: number(record, "oldest_ms"),
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use netmem::port::PortCounters;
    use netmem::stats::{Count, Writer};
    use serde::Deserialize;

    /// A line of `netmem stat --json`.
    #[derive(Deserialize)]
    struct Answer {
        time: f64,
        ports: Vec<Record>,
        workers: Vec<Record>,
        pools: Vec<Record>,
        drops: Vec<Record>,
        holders: Vec<Record>,
    }

    #[test]
    fn the_core_of_a_worker_is_a_number_or_a_text() {
        let of = |value: Value| core(&Record::default().with("core", value));
        assert_eq!([of(3.into()), of("3".into()), of("any".into())], ["3", "3", "any"]);
    }

    /// Returns the first two answers of a recorded run.
    pub fn recorded(name: &str) -> (Snapshot, Snapshot) {
        let file = format!("{}/tests/recorded/{name}.json", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(file).unwrap();
        let read = |line: &str| {
            let Answer { time, ports, workers, pools, drops, holders } = serde_json::from_str(line).unwrap();
            let sections = [
                ("ports", ports),
                ("workers", workers),
                ("pools", pools),
                ("drops", drops),
                ("holders", holders),
            ];
            Snapshot::new(time, &sections.map(|(name, records)| (name.to_owned(), records)).into())
        };
        let mut lines = text.lines().map(read);
        (lines.next().unwrap(), lines.next().unwrap())
    }

    #[test]
    fn a_queue_belongs_to_the_port_that_its_name_begins_with() {
        for (name, port, queue) in [
            ("xdp:eth0", "xdp:eth0", "0"),
            ("xdp:eth0:12", "xdp:eth0", "12"),
            ("xdp:eth0:0,1,2", "xdp:eth0", "0,1,2"),
            ("mem:1", "mem:1", "0"),
            ("packet:eth0.100", "packet:eth0.100", "0"),
            ("memif:/run/a:b", "memif:/run/a:b", "0"),
            ("", "", "0"),
        ] {
            assert_eq!(port_and_queue(name), (port, queue), "{name}");
        }
    }

    #[test]
    fn a_recorded_answer_has_its_values_and_an_empty_one_has_none() {
        let (old, new) = recorded("two-workers");
        assert!(new.at > old.at);
        assert!(new.workers[0].busy_ns > old.workers[0].busy_ns && new.workers[0].rounds > 0);
        assert_eq!((new.queues[0].ring, new.queues[0].down.as_str()), (512, ""));
        assert_eq!((new.queues.len(), new.workers.len(), new.pools.len()), (4, 2, 2));
        assert!(new.queues[0].rx > 0 && new.queues[0].posted > 0, "{:?}", new.queues[0]);
        assert!(
            new.drops.iter().any(|(reason, count)| reason == "filter_drop" && *count > 0),
            "{:?}",
            new.drops
        );
        assert!(new.holders.iter().any(|holder| holder.name.contains(".rs:")), "{:?}", new.holders);
        assert_eq!(Snapshot::new(0.0, &Vec::new()), Snapshot::default());
    }

    /// Seen: `netmem top` showed `rx ring` of a port with eight queues as 800 %, and after frames had been given back
    /// it stayed above what was posted.
    #[test]
    fn a_port_of_several_queues_has_the_slots_of_all_and_the_frames_that_are_posted_now() {
        let port = Record::default().with("name", "xdp:eth0:0,1,2,3").with("ring", 512);
        let port = port.with("rx_queues", 4).with("tx_queues", 1).with("rx_posted", 2048);
        let read = queue(&port.with_all([("filled", 9_000), ("rx", 1_000)]));
        assert_eq!((read.ring, read.tx_ring, read.posted), (2048, 512, 2048));
        let early =
            Record::default().with("name", "mem:0").with_all([("ring", 64), ("filled", 70), ("rx", 8)]);
        let read = queue(&early);
        assert_eq!((read.ring, read.tx_ring, read.posted), (64, 64, 62));
    }

    /// Seen: lost/s was 0 while a port dropped every packet as too long.
    #[test]
    fn the_lost_frames_of_a_queue_are_those_that_the_library_counts_as_dropped() {
        let counters = Writer::<PortCounters>::default();
        let all: [fn(&PortCounters) -> &Count; 5] = [
            |c| &c.rx_no_frame,
            |c| &c.rx_ring_full,
            |c| &c.rx_dropped,
            |c| &c.rx_too_long,
            |c| &c.udp_without_size,
        ];
        for (which, at) in all.into_iter().zip(0..) {
            counters.add(which, 1 << at);
        }
        let counters = counters.reader();
        let read = queue(&Record::default().with("name", "xdp:eth0").with_all(counters.iter()));
        assert_eq!((read.lost, counters.rx_drops()), (31, 31));
    }

    /// Seen: `netmem top` panicked, because a count below 0 wraps and the sum of the states overflowed.
    #[test]
    fn a_pool_is_balanced_when_its_states_add_up_and_no_frame_is_miscounted() {
        let pool = |states| Pool { name: "rx".into(), total: 10, states };
        assert!(pool([1, 2, 3, 0, 4, 0, 0, 0]).is_balanced());
        assert!(!pool([1, 2, 3, 0, 3, 0, 0, 0]).is_balanced());
        assert!(!pool([1, 2, 3, 0, 4, 0, 0, 1]).is_balanced());
        // -4, which wraps: the sum is right only if it wraps too.
        assert!(!pool([1, 2, 3, u64::MAX - 3, 8, 0, 0, 0]).is_balanced());
    }
}
