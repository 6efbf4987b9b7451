//! The output of `netmem stat` for people.

use super::Sections;
use crate::control::Record;
use crate::output::thousands;
use serde_json::Value;
use std::fmt::Write;
use std::time::Duration;

const BOLD: &str = "\x1b[1m";
const RED: &str = "\x1b[31m";
const PLAIN: &str = "\x1b[0m";

/// The current values of each section, which have no rate. All other values are counts since the start.
const GAUGES: [(&str, &[&str]); 12] = [
    ("ports", &["number", "worker", "ring", "rx_queues", "tx_queues", "rx_posted"]),
    ("forward", &["held"]),
    ("workers", &["core", "held"]),
    (
        "pools",
        &[
            "limit",
            "total",
            "free",
            "cached",
            "ready",
            "owned",
            "posted",
            "queued",
            "returning",
            "miscounted",
            "inflight",
            "mapped_pages",
            "leaving_pages",
        ],
    ),
    ("holders", &["frames", "oldest_ms"]),
    ("pages", &["bytes", "total", "free", "cached", "guards"]),
    ("ready", &["ready", "waiting", "now", "max"]),
    ("slabs", &["slabs", "partial", "total_objects", "cached_objects"]),
    ("local_queue", &["kept", "copies", "held", "kept_bytes"]),
    ("steer", &["waiting"]),
    ("routes", &["metric"]),
    ("netlink", &["routes"]),
];
/// The values that tell the records of a section apart. Ports of several workers share a name, and so do memif ports of
/// one socket, holders of frames in several states, and routes for one prefix.
const KEYS: [&str; 6] = ["name", "number", "state", "worker", "table", "metric"];

/// The form of the output.
#[derive(Debug, Clone, Copy)]
pub struct Look {
    /// Names in bold, drops in red.
    pub coloured: bool,
    /// Values of 0 are shown too.
    pub all: bool,
}

impl Look {
    fn paint(self, colour: &str, text: String) -> String {
        if self.coloured { format!("{colour}{text}{PLAIN}") } else { text }
    }

    /// Returns a block for each record: its name, then a line for each value, with its growth in a second.
    pub fn text(self, sections: &Sections, before: Option<(&Sections, Duration)>) -> String {
        let mut text = String::new();
        for (name, records) in sections {
            // An empty section is left out among others: that of holders, if no trace is on.
            if records.is_empty() && sections.len() == 1 {
                let _ = writeln!(text, "{}\n  none", self.paint(BOLD, name.clone()));
            }
            for record in records {
                let old = before.and_then(|(old, time)| Some((find(old, name, record)?, time)));
                self.block(&mut text, name, record, old);
            }
        }
        text
    }

    fn block(self, text: &mut String, section: &str, record: &Record, before: Option<(&Record, Duration)>) {
        let name = record.text("name");
        let name = if name == section { name.to_owned() } else { format!("{section} {name}") };
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{}", self.paint(BOLD, name));
        let drops = section == "drops";
        // The core 0 is one like the others.
        let is_shown = |name: &str, value: &Value| self.all || *value != 0 || name == "core";
        let values: Vec<_> =
            record.0.iter().filter(|(name, value)| name != "name" && is_shown(name, value)).collect();
        if values.is_empty() {
            text.push_str("  none\n");
        }
        let width = values.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        for (name, value) in values {
            let old = before.filter(|_| !is_gauge(section, name));
            let rate = old.and_then(|(old, time)| rate(old.get(name)?, value, time));
            let line = match rate {
                Some(rate) => format!("  {name:<width$}  {:>16}  {rate:>16}/s", shown(value)),
                None => format!("  {name:<width$}  {:>16}", shown(value)),
            };
            let lost = drops && *value != 0;
            let _ = writeln!(text, "{}", if lost { self.paint(RED, line) } else { line });
        }
    }
}

/// Returns true if a value is a current value, and not a count since the start.
pub fn is_gauge(section: &str, name: &str) -> bool {
    GAUGES.iter().any(|(of, names)| *of == section && names.contains(&name))
}

/// Returns the earlier record in the same section whose keys are all the same.
pub fn find<'a>(old: &'a Sections, section: &str, record: &Record) -> Option<&'a Record> {
    let (_, records) = old.iter().find(|(name, _)| name == section)?;
    records.iter().find(|known| KEYS.iter().all(|key| known.get(key) == record.get(key)))
}

fn shown(value: &Value) -> String {
    match (value.as_u64(), value.as_str()) {
        (Some(number), _) => thousands(number),
        (_, Some(text)) => text.to_owned(),
        _ => value.to_string(),
    }
}

/// Returns the growth of a counter in a second, or None if it did not grow.
fn rate(old: &Value, new: &Value, time: Duration) -> Option<String> {
    let grown = new.as_u64()?.checked_sub(old.as_u64()?).filter(|&grown| grown > 0)?;
    Some(thousands((grown as f64 / time.as_secs_f64()) as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOOK: Look = Look { coloured: false, all: false };

    fn sections(rx: u64) -> Sections {
        let port = Record::default().with("name", "mem:0").with("kind", "mem").with_all([("rx", rx)]);
        let pool = Record::default().with("name", "rx").with_all([("free", rx), ("alloc_fast", 7 * rx)]);
        let drops = Record::default().with("name", "forward").with_all([("martian", rx / 5_000), ("arp", 0)]);
        vec![("ports".into(), vec![port]), ("pools".into(), vec![pool]), ("drops".into(), vec![drops])]
    }

    fn text(look: Look, rx: u64, before: Option<(u64, u64)>) -> String {
        let before = before.map(|(rx, seconds)| (sections(rx), Duration::from_secs(seconds)));
        look.text(&sections(rx), before.as_ref().map(|(old, time)| (old, *time)))
    }

    #[test]
    fn a_block_has_a_line_for_each_value_and_what_a_counter_grew_by() {
        let first = text(LOOK, 1_000, None);
        assert!(
            first.starts_with("ports mem:0\n  kind               mem\n  rx               1,000\n"),
            "{first}"
        );
        let grown = text(LOOK, 5_000, Some((1_000, 2)));
        assert!(grown.contains("  rx               5,000             2,000/s\n"), "{grown}");
        assert!(grown.contains("  alloc_fast            35,000            14,000/s\n"), "{grown}");
        assert!(grown.contains("  free                   5,000\n"), "what is there now has no rate: {grown}");
    }

    /// Seen: the rates of the second worker's port came from the counters of the first worker's.
    #[test]
    fn records_that_share_a_name_are_compared_each_with_itself() {
        let port = |worker: u64, rx: u64| {
            Record::default().with("name", "packet:a0").with("worker", worker).with("rx", rx)
        };
        let route = |table: &str, metric: u64, paths: &str| {
            let named = Record::default().with("name", "10.0.0.0/8").with("table", table);
            named.with("metric", metric).with("paths", paths)
        };
        let routes = [route("main", 0, "a"), route("main", 20, "b"), route("static", 20, "c")];
        let old: Sections =
            vec![("ports".into(), vec![port(0, 1_000), port(1, 5_000)]), ("routes".into(), routes.to_vec())];
        for record in &old[0].1 {
            assert_eq!(find(&old, "ports", record), Some(record));
        }
        for record in &routes {
            assert_eq!(find(&old, "routes", record), Some(record));
        }
        assert_eq!(find(&old, "routes", &route("static", 0, "a")), None);
        let new: Sections = vec![("ports".into(), vec![port(0, 1_000), port(1, 5_200)])];
        let text = LOOK.text(&new, Some((&old, Duration::from_secs(2))));
        assert!(text.contains(" 5,200               100/s\n") && text.matches("/s").count() == 1, "{text}");
    }

    /// Seen: the rates of the second memif port of a socket came from the counters of the first.
    #[test]
    fn ports_of_one_worker_that_share_a_name_are_compared_each_with_itself() {
        let port = |number: u64, rx: u64| {
            let named = Record::default().with("name", "memif:/run/a").with("number", number);
            named.with("worker", 0).with("rx", rx)
        };
        let old: Sections = vec![("ports".into(), vec![port(0, 1_000), port(1, 5_000)])];
        assert_eq!(find(&old, "ports", &port(1, 7_000)), Some(&port(1, 5_000)));
        let new: Sections = vec![("ports".into(), vec![port(0, 1_000), port(1, 5_200)])];
        let text = LOOK.text(&new, Some((&old, Duration::from_secs(2))));
        assert!(text.contains(" 5,200               100/s\n") && text.matches("/s").count() == 1, "{text}");
    }

    #[test]
    fn a_gauge_has_no_rate() {
        for (section, name) in [
            ("ports", "worker"),
            ("workers", "core"),
            ("ports", "number"),
            ("ports", "rx_posted"),
            ("routes", "metric"),
            ("pools", "limit"),
            ("pools", "leaving_pages"),
            ("netlink", "routes"),
            ("pages", "guards"),
            ("steer", "waiting"),
            ("local_queue", "kept"),
            ("local_queue", "copies"),
            ("local_queue", "held"),
            ("local_queue", "kept_bytes"),
        ] {
            let of = |value: u64| -> Sections {
                vec![(section.into(), vec![Record::default().with("name", "one").with_all([(name, value)])])]
            };
            assert!(is_gauge(section, name), "{section}.{name}");
            let text = LOOK.text(&of(7), Some((&of(3), Duration::from_secs(1))));
            assert!(!text.contains("/s"), "{text}");
        }
        assert!(!is_gauge("pages", "guards_refused") && !is_gauge("netlink", "events"));
    }

    #[test]
    fn a_zero_is_shown_if_it_is_asked_for() {
        assert!(text(LOOK, 1_000, None).ends_with("drops forward\n  none\n"));
        assert!(text(LOOK, 5_000, None).ends_with("drops forward\n  martian                 1\n"));
        let all = text(Look { all: true, ..LOOK }, 5_000, None);
        assert!(all.ends_with("  martian                 1\n  arp                     0\n"), "{all}");
    }

    /// Seen: `netmem stat neighbours` printed nothing when no neighbour was known.
    #[test]
    fn a_section_without_records_that_is_asked_for_alone_says_none() {
        let none = |name: &str| (name.to_owned(), Vec::new());
        assert_eq!(LOOK.text(&vec![none("neighbours")], None), "neighbours\n  none\n");
        let painted = Look { coloured: true, ..LOOK }.text(&vec![none("routes")], None);
        assert_eq!(painted, "\x1b[1mroutes\x1b[0m\n  none\n");
        let pools = vec![sections(7).remove(1), none("holders")];
        assert_eq!(LOOK.text(&pools, None), LOOK.text(&vec![pools[0].clone()], None));
    }

    #[test]
    fn a_section_of_one_is_not_named_twice_and_colours_come_where_they_are_wanted() {
        let record = Record::default().with("name", "forward").with_all([("received", 1)]);
        let one: Sections = vec![("forward".into(), vec![record])];
        assert_eq!(LOOK.text(&one, None), "forward\n  received                 1\n");
        let painted = Look { coloured: true, ..LOOK }.text(&one, None);
        assert_eq!(painted, "\x1b[1mforward\x1b[0m\n  received                 1\n");
        let lost = text(Look { coloured: true, ..LOOK }, 5_000, None);
        assert!(lost.ends_with("\x1b[31m  martian                 1\x1b[0m\n"), "{lost:?}");
    }
}
