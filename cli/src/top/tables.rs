//! The rows of ports, workers, pools, drop reasons, holders and queues, as lines.

use super::line::{Cells, Line, Style};
use super::pools;
use super::rates::{Activity, Drops, Rate, Traffic, Work};
use super::reading::Holder;
use super::view::{Sort, View};
use crate::control::NO_CARRIER;
use crate::output::thousands;
use std::cmp::Ordering;

/// The heading of ports.
const PORTS: &str = "PORTS";
/// Columns of ports and of workers on every screen.
const USUAL: usize = 8;

/// Returns all visible rows under their headings. Tables with a row for each queue come last.
pub fn lines(activity: &Activity, view: &View, columns: usize) -> Vec<Line> {
    let mut lines = Vec::new();
    traffic(&mut lines, PORTS, &activity.ports, view, columns);
    drops(&mut lines, &activity.drops, view, columns);
    workers(&mut lines, &activity.workers, view, columns);
    frames(&mut lines, activity, view, columns);
    holders(&mut lines, &activity.holders, view, columns);
    let is_idle = |queue: &Traffic| [queue.rx, queue.tx, queue.lost].iter().all(|rate| *rate == Some(0.0));
    let busy: Vec<Traffic> =
        activity.queues.iter().filter(|queue| view.all || !is_idle(queue)).cloned().collect();
    if !activity.queues.is_empty() {
        let heading = format!("QUEUES {} of {}", busy.len(), activity.queues.len());
        traffic(&mut lines, &heading, &busy, view, columns);
    }
    lines
}

/// Returns the visible rows in the selected order: the largest first, names from A.
fn ordered<'a, T>(
    rows: &'a [T],
    view: &View,
    name: fn(&T) -> &str,
    value: impl Fn(&T) -> Option<f64>,
) -> Vec<&'a T> {
    let mut rows: Vec<&T> = rows.iter().filter(|row| view.wants(name(row))).collect();
    match view.sort {
        Sort::Given => {}
        Sort::Name => rows.sort_by(|a, b| by_name(name(a), name(b))),
        _ => rows.sort_by(|a, b| value(b).unwrap_or(-1.0).total_cmp(&value(a).unwrap_or(-1.0))),
    }
    if view.is_reversed {
        rows.reverse();
    }
    rows
}

/// Compares names by their letters, and names that differ only in the number at the end by the number.
fn by_name(a: &str, b: &str) -> Ordering {
    let parts = |name: &str| {
        let letters = name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
        (name[..letters].to_owned(), name[letters..].parse::<u64>().ok())
    };
    parts(a).cmp(&parts(b))
}

fn traffic(lines: &mut Vec<Line>, heading: &str, rows: &[Traffic], view: &View, columns: usize) {
    const TITLES: [&str; 11] = [
        "rx/s", "Mbit/s", "tx/s", "Mbit/s", "lost/s", "rx ring", "tx ring", "link", "posted", "in tx",
        "slots",
    ];
    let value = |of: &Traffic| match view.sort {
        Sort::Rx => of.rx,
        Sort::RxBits => of.rx_bits,
        Sort::Tx => of.tx,
        Sort::TxBits => of.tx_bits,
        Sort::Lost => of.lost,
        Sort::Posted => of.rx_fill(),
        Sort::Sending => of.tx_fill(),
        Sort::Given | Sort::Name => None,
    };
    let rows = ordered(rows, view, |of| &of.name, value);
    if rows.is_empty() && !view.filter.is_empty() {
        return;
    }
    let (cells, titles) = cells(columns, &TITLES, USUAL);
    lines.push(cells.line(Style::Heading, heading, titles));
    for of in rows {
        let name = if of.queues > 1 { format!("{} ({})", of.name, of.queues) } else { of.name.clone() };
        let figures = [
            cells.rate(of.rx),
            cells.megabits(of.rx_bits),
            cells.rate(of.tx),
            cells.megabits(of.tx_bits),
            cells.rate(of.lost),
            cells.share(of.rx_fill()),
            cells.share(of.tx_fill()),
            if of.down.is_empty() || of.down == NO_CARRIER { "up".to_owned() } else { "DOWN".to_owned() },
            cells.figure(of.posted as f64),
            cells.figure(of.sending as f64),
            cells.figure(of.ring as f64),
        ];
        let style = if of.down.is_empty() { loss(of.lost) } else { Style::Loss };
        lines.push(cells.line(style, &name, &figures[..titles.len()]));
        if !of.down.is_empty() && heading == PORTS {
            lines.push(Line::new(Style::Loss, &format!("    {}", of.down), columns));
        }
    }
}

/// Returns cells and titles that fit: the first `usual` titles, or all on a wide screen.
fn cells<'a>(columns: usize, titles: &'a [&'a str], usual: usize) -> (Cells, &'a [&'a str]) {
    let all = Cells::new(columns, titles.len());
    if all.is_wide() { (all, titles) } else { (Cells::new(columns, usual), &titles[..usual]) }
}

/// Returns the style of a row with this loss.
fn loss(rate: Rate) -> Style {
    if rate > Some(0.0) { Style::Loss } else { Style::Plain }
}

fn drops(lines: &mut Vec<Line>, rows: &[Drops], view: &View, columns: usize) {
    let value = |of: &Drops| of.rate.filter(|_| view.sort == Sort::Lost);
    let seen = |of: &&Drops| view.all || of.packets > 0;
    let rows: Vec<_> = ordered(rows, view, |of| &of.reason, value).into_iter().filter(seen).collect();
    if rows.is_empty() {
        return;
    }
    let cells = Cells::new(columns, 2);
    lines.push(cells.line(Style::Heading, "DROPS", &["packets", "drop/s"]));
    lines.extend(rows.into_iter().map(|of| {
        cells.line(loss(of.rate), &of.reason, &[cells.figure(of.packets as f64), cells.rate(of.rate)])
    }));
}

fn workers(lines: &mut Vec<Line>, rows: &[Work], view: &View, columns: usize) {
    const TITLES: [&str; 11] = [
        "rx/s", "hand/s", "tx/s", "drop/s", "busy", "burst", "ns/pkt", "stalls", "held", "idle/s", "sleep/s",
    ];
    let value = |of: &Work| match view.sort {
        Sort::Rx | Sort::RxBits => of.rx,
        Sort::Tx | Sort::TxBits => of.tx,
        Sort::Lost => of.dropped,
        _ => None,
    };
    // The sum of all is above them.
    let (all, each) = rows.split_at(usize::from(rows.len() > 1));
    let all = all.iter().filter(|of| view.wants(&of.name));
    let rows: Vec<_> = all.chain(ordered(each, view, |of| &of.name, value)).collect();
    if rows.is_empty() {
        return;
    }
    let (cells, titles) = cells(columns, &TITLES, USUAL);
    lines.push(cells.line(Style::Heading, "WORKERS", titles));
    lines.extend(rows.into_iter().map(|of| {
        let name =
            if of.core.is_empty() { of.name.clone() } else { format!("{} (core {})", of.name, of.core) };
        let figures = [
            cells.rate(of.rx),
            cells.rate(of.handed),
            cells.rate(of.tx),
            cells.rate(of.dropped),
            cells.share(of.busy()),
            cells.rate(of.burst()),
            cells.rate(of.ns()),
            cells.figure(of.stalls as f64),
            cells.figure(of.held as f64),
            cells.rate(of.idle_rounds),
            cells.rate(of.sleeps),
        ];
        cells.line(Style::Plain, &name, &figures[..titles.len()])
    }));
}

/// Adds a bar for each pool. The first, which is the sum if there are several, also has numbers.
fn frames(lines: &mut Vec<Line>, activity: &Activity, view: &View, columns: usize) {
    let wanted: Vec<_> = activity.pools.iter().filter(|pool| view.wants(&pool.name)).collect();
    if !wanted.is_empty() {
        lines.push(pools::heading(columns));
    }
    for (at, pool) in wanted.into_iter().enumerate() {
        lines.push(pools::row(pool, columns));
        if at == 0 || view.all {
            lines.push(pools::numbers(pool, columns));
        }
    }
}

fn holders(lines: &mut Vec<Line>, rows: &[Holder], view: &View, columns: usize) {
    let rows: Vec<_> = rows.iter().filter(|holder| view.wants(&holder.name)).collect();
    if rows.is_empty() {
        return;
    }
    let line = |style, heading: &str, [frames, place, oldest, site]: [&str; 4]| {
        let text = format!("{heading:<8}{frames:>10}  {place:<10} {oldest:>12}  {site}");
        Line::new(style, &text, columns)
    };
    lines.push(line(Style::Heading, "HOLDERS", ["frames", "state", "oldest", "taken at"]));
    lines.extend(rows.into_iter().map(|of| {
        let oldest = format!("{} ms", thousands(of.oldest_ms));
        line(Style::Plain, "", [&thousands(of.frames), &of.state, &oldest, &of.name])
    }));
}

#[cfg(test)]
mod tests {
    use super::by_name;
    use std::cmp::Ordering::{Equal, Greater, Less};

    #[test]
    fn names_that_end_in_numbers_stand_in_the_order_of_those() {
        for (a, b, order) in [
            ("eth0:2", "eth0:10", Less),
            ("eth1:0", "eth0:9", Greater),
            ("a", "a1", Less),
            ("b", "a99999999999999999999", Greater),
            ("x1", "x1", Equal),
        ] {
            assert_eq!(by_name(a, b), order, "{a} {b}");
        }
    }
}
