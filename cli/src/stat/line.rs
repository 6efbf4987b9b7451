//! A line of `netmem stat --interval`, like vmstat's: rates of the whole run, and the states of its frames.

use super::{LOST, Sections};
use crate::control::Record;
use crate::output::short;
use serde_json::Value;
use std::time::Duration;

/// Lines between two headers.
pub const PAGE: usize = 20;

/// The header above the columns.
pub const HEADER: &str = "\
-------------- packets -------------- ---- Mbit/s --- ------ frames ----- worker
\x20  rx/s    tx/s  drop/s lost/s   held      rx      tx free% posted queued  busy%
";

/// Returns the line about the time from `old` to `new`.
pub fn line(old: &Sections, new: &Sections, time: Duration) -> String {
    let grown = |section: &str, names: &[&str]| {
        let before = total(old, section, names);
        total(new, section, names).saturating_sub(before) as f64 / time.as_secs_f64()
    };
    let megabits = |name: &str| short(grown("ports", &[name]) * 8.0 / 1e6);
    let now = |section: &str, names: &[&str]| total(new, section, names);
    let (free, made) = (now("pools", &["free", "cached", "returning"]), now("pools", &["total"]));
    // Frames that were not needed yet are as good as free ones.
    let all = now("pools", &["limit"]).max(made);
    let share = 100.0 * (free.saturating_add(all) - made) as f64 / all.max(1) as f64;
    let workers = records(new, "workers").count().max(1);
    let busy = grown("workers", &["busy_ns"]) / 1e7 / workers as f64;
    format!(
        "{:>7} {:>7} {:>7} {:>6} {:>6} {:>7} {:>7} {share:>5.1} {:>6} {:>6} {busy:>6.1}\n",
        short(grown("ports", &["rx"])),
        short(grown("ports", &["tx"])),
        short(every(new, old, time)),
        short(grown("ports", &LOST)),
        short(now("forward", &["held"]) as f64),
        megabits("rx_bytes"),
        megabits("tx_bytes"),
        short(now("pools", &["posted"]) as f64),
        short(now("pools", &["queued"]) as f64),
    )
}

/// Returns the packets dropped in a second, for any reason.
fn every(new: &Sections, old: &Sections, time: Duration) -> f64 {
    let all = |of: &Sections| {
        let values = records(of, "drops").flat_map(|record| &record.0).map(|(_, value)| value);
        sum(values)
    };
    all(new).saturating_sub(all(old)) as f64 / time.as_secs_f64()
}

fn records<'a>(of: &'a Sections, section: &'a str) -> impl Iterator<Item = &'a Record> {
    of.iter().filter(move |(name, _)| name == section).flat_map(|(_, records)| records)
}

/// Returns the sum of these values over all records of a section. It is at most `u64::MAX`: a pool's count below 0 wraps,
/// and the sum must not overflow.
fn total(of: &Sections, section: &str, names: &[&str]) -> u64 {
    sum(records(of, section).flat_map(|record| names.iter().filter_map(|name| record.get(name))))
}

/// Returns the sum of those values that are numbers. It is at most `u64::MAX`.
fn sum<'a>(values: impl Iterator<Item = &'a Value>) -> u64 {
    values.filter_map(Value::as_u64).fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sections(n: u64) -> Sections {
        let named = |name: &str, values: &[(&'static str, u64)]| {
            Record::default().with("name", name).with_all(values.iter().copied())
        };
        let port = |at: u64| {
            let counts =
                [("rx", n * at), ("tx", n), ("rx_bytes", n * 100), ("tx_bytes", 0), ("rx_no_frame", n / 20)];
            named(&format!("mem:{at}"), &counts)
        };
        let pool = named(
            "rx",
            &[("total", 800), ("limit", 1000), ("free", 200), ("cached", 50), ("posted", 512), ("queued", 7)],
        );
        vec![
            ("ports".into(), vec![port(1), port(2)]),
            ("pools".into(), vec![pool]),
            ("forward".into(), vec![named("forward", &[("held", 3)])]),
            ("drops".into(), vec![named("forward", &[("martian", n / 100), ("ttl", n / 50)])]),
            ("workers".into(), vec![named("0", &[("busy_ns", n * 100)]), named("1", &[("busy_ns", 7)])]),
        ]
    }

    #[test]
    fn a_line_has_rates_of_the_whole_run_below_its_columns() {
        let text = line(&sections(1_000_000), &sections(3_000_000), Duration::from_secs(2));
        assert_eq!(
            text,
            "  3000k   2000k   30000   100k      3    1600       0  45.0    512      7    5.0\n"
        );
        let idle = line(&sections(5), &sections(5), Duration::from_secs(1));
        assert_eq!(
            idle,
            "      0       0       0      0      3       0       0  45.0    512      7    0.0\n"
        );
        let widths: Vec<_> = HEADER.lines().map(str::len).collect();
        assert_eq!((widths, idle.len()), (vec![80; 2], 81));
    }

    /// Seen: with jumbo packets and short frames every packet was dropped, and lost/s was 0.
    #[test]
    fn packets_that_are_too_long_or_cannot_be_cut_count_as_lost() {
        let ports = |n: u64| -> Sections {
            let counts = [("rx_too_long", n), ("udp_without_size", 2 * n)];
            vec![("ports".into(), vec![Record::default().with("name", "xdp:eth0").with_all(counts)])]
        };
        let text = line(&ports(10), &ports(30), Duration::from_secs(1));
        assert_eq!(text.split_whitespace().nth(3), Some("60"), "{text}");
    }

    /// Seen: `netmem stat --interval` panicked with several pools, because a count below 0 wraps.
    #[test]
    fn a_count_below_0_of_one_pool_does_not_overflow_the_line() {
        for place in ["free", "cached", "returning", "posted", "queued"] {
            let pool = |frames: u64| Record::default().with("name", "rx").with_all([(place, frames)]);
            let pools: Sections = vec![("pools".into(), vec![pool(u64::MAX - 3), pool(14)])];
            let text = line(&pools, &pools, Duration::from_secs(1));
            assert!(text.ends_with(" 0.0\n"), "{place}: {text}");
        }
    }

    /// Found by reasoning: the sum of the drops overflowed if the program at the control socket reported too many.
    #[test]
    fn drops_that_are_more_than_a_number_holds_do_not_overflow_the_line() {
        let drops = Record::default().with_all([("ttl", u64::MAX), ("martian", 1)]);
        let all: Sections = vec![("drops".into(), vec![drops])];
        let text = line(&sections(5), &all, Duration::from_secs(1));
        assert!(text.ends_with(" 0.0\n"), "{text}");
    }
}
