use super::super::reading::tests::recorded;
use super::*;
use std::{env, fs};

const TERMINAL: Size = Size { columns: 80, rows: 24 };
const WIDE: Size = Size { columns: 200, rows: 60 };

fn activity(name: &str) -> Activity {
    let (old, new) = recorded(name);
    Activity::new(Some(&old), &new)
}

fn text(screen: &Screen) -> String {
    screen.lines.iter().map(|line| format!("{}\n", line.text)).collect()
}

fn drawn(of: &Activity, view: &View, size: Size) -> String {
    text(&screen(of, view, "/run/netmem.sock every 1 s", size))
}

/// Compares the screen with the stored one, or stores it.
#[track_caller]
fn as_kept(name: &str, drawn: &str) {
    let file = format!("{}/tests/recorded/{name}.txt", env!("CARGO_MANIFEST_DIR"));
    if env::var_os("NETMEM_WRITE_SCREENS").is_some() {
        fs::write(&file, drawn).unwrap();
    }
    let kept = fs::read_to_string(&file).unwrap_or_default();
    assert_eq!(drawn, kept, "{file} is old: NETMEM_WRITE_SCREENS=1 cargo test -p netmem-cli --bins screen");
}

#[test]
fn a_recorded_answer_looks_as_it_did_on_a_terminal_and_on_a_wide_one() {
    let of = activity("two-workers");
    as_kept("two-workers-80x24", &drawn(&of, &View::default(), TERMINAL));
    let all = View { all: true, ..View::default() };
    as_kept("two-workers-200x60", &drawn(&of, &all, WIDE));
}

#[test]
fn sixty_four_queues_begin_with_their_ports_and_fit_no_worse() {
    let of = activity("64-queues");
    as_kept("64-queues-80x24", &drawn(&of, &View::default(), TERMINAL));
    let sorted = View { sort: Sort::Rx, all: true, ..View::default() };
    as_kept("64-queues-200x60", &drawn(&of, &sorted, WIDE));
}

#[test]
fn before_there_are_rates_there_are_dashes() {
    let (_, new) = recorded("two-workers");
    let drawn = drawn(&Activity::new(None, &new), &View::default(), TERMINAL);
    assert!(drawn.starts_with("netmem  rx -  tx -  "), "{drawn}");
    assert!(drawn.contains("mem:0"), "{drawn}");
}

#[test]
fn no_line_or_table_exceeds_a_screen_of_any_size() {
    for name in ["two-workers", "64-queues"] {
        let of = activity(name);
        for columns in (0..=20).chain([40, 60, 79, 80, 81, 120, 300]) {
            for rows in [0, 1, 2, 3, 4, 24, 100, 300] {
                for (offset, help) in [(0, false), (3, true), (usize::MAX / 2, false)] {
                    let view = View { offset, help, all: rows % 2 == 0, ..View::default() };
                    let screen = screen(&of, &view, "somewhere", Size { columns, rows });
                    assert!(screen.lines.len() <= rows, "{columns}x{rows}");
                    let widest = screen.lines.iter().map(|line| line.text.chars().count()).max();
                    assert!(widest.unwrap_or(0) <= columns, "{columns}x{rows}");
                }
            }
        }
    }
}

/// Returns the names of the rows between two headings.
fn names(drawn: &str, heading: &str) -> Vec<String> {
    let below = drawn.lines().skip_while(|line| !line.starts_with(heading)).skip(1);
    let rows = below.take_while(|line| line.contains("xdp:"));
    rows.map(|line| line.split_whitespace().next().unwrap().to_owned()).collect()
}

#[test]
fn rows_are_sorted_by_each_column_and_the_other_way_round() {
    let of = activity("64-queues");
    let size = Size { columns: 100, rows: 200 };
    let of_sort = |sort, is_reversed| {
        let view = View { sort, is_reversed, all: true, ..View::default() };
        names(&drawn(&of, &view, size), "QUEUES")
    };
    let rate = |name: &String, read: fn(&super::super::rates::Traffic) -> f64| {
        read(of.queues.iter().find(|queue| queue.name == *name).unwrap())
    };
    let given = of_sort(Sort::Given, false);
    assert_eq!((given.len(), given[0].as_str(), given[1].as_str()), (64, "xdp:nt0:0", "xdp:nt1:0"));
    let named = of_sort(Sort::Name, false);
    assert_eq!(
        (named[9].as_str(), named[10].as_str(), named[32].as_str()),
        ("xdp:nt0:9", "xdp:nt0:10", "xdp:nt1:0")
    );
    let rx = of_sort(Sort::Rx, false);
    assert!(rx.is_sorted_by_key(|name| -rate(name, |of| of.rx.unwrap())) && rx != given, "{rx:?}");
    let posted = of_sort(Sort::Posted, true);
    assert!(posted.is_sorted_by_key(|name| rate(name, |of| of.rx_fill().unwrap())), "{posted:?}");
}

#[test]
fn a_filter_leaves_rows_of_that_name_and_no_empty_table() {
    let view = View { filter: "nt1".into(), ..View::default() };
    let shown = drawn(&activity("64-queues"), &view, Size { columns: 80, rows: 200 });
    assert!(names(&shown, "QUEUES").iter().all(|name| name.starts_with("xdp:nt1:")), "{shown}");
    assert_eq!(names(&shown, "PORTS"), ["xdp:nt1"]);
    for heading in ["WORKERS", "POOLS", "DROPS"] {
        assert!(!shown.contains(heading), "{shown}");
    }
    assert!(shown.contains("  ? keys  ") && shown.contains("filter: nt1"), "{shown}");
    let none = View { filter: "none of these".into(), ..View::default() };
    assert!(drawn(&activity("two-workers"), &none, TERMINAL).contains("\nfilter: none of these  0-0 of 0  "));
    let typed = View { filter: "nt1".into(), is_typing: true, ..View::default() };
    assert!(drawn(&activity("64-queues"), &typed, TERMINAL).ends_with("filter: nt1_\n"));
}

#[test]
fn reasons_and_queues_of_zeros_are_shown_by_the_key_a() {
    let (of, all) = (activity("two-workers"), View { all: true, ..View::default() });
    let size = Size { columns: 80, rows: 200 };
    let (few, every) = (drawn(&of, &View::default(), size), drawn(&of, &all, size));
    assert!(few.contains("\nfilter_drop ") && !few.contains("\nttl_expired "), "{few}");
    assert!(every.contains("\nttl_expired ") && every.contains("\nall rows  "), "{every}");
    let mut quiet = activity("64-queues");
    for queue in &mut quiet.queues[1..] {
        (queue.rx, queue.tx, queue.lost) = (Some(0.0), Some(0.0), Some(0.0));
    }
    assert!(drawn(&quiet, &View::default(), size).contains("\nQUEUES 1 of 64 "));
}

#[test]
fn a_port_that_is_down_says_why_below_its_row_and_its_queues_do_not() {
    let (old, mut new) = recorded("64-queues");
    for queue in new.queues.iter_mut().filter(|queue| queue.port == "xdp:nt1") {
        queue.down = "interface nt1 is down".into();
    }
    let of = Activity::new(Some(&old), &new);
    let all = View { all: true, ..View::default() };
    let shown = drawn(&of, &all, Size { columns: 80, rows: 200 });
    let row = shown.lines().position(|line| line.starts_with("xdp:nt1 (32)")).unwrap();
    let lines: Vec<_> = shown.lines().skip(row).take(2).collect();
    assert!(lines[0].ends_with(" DOWN") && lines[1] == "    interface nt1 is down", "{shown}");
    assert_eq!((shown.matches(" DOWN").count(), shown.matches("is down").count()), (33, 1), "{shown}");
    let screen = screen(&of, &all, "", TERMINAL);
    assert!(screen.lines.iter().filter(|line| line.style == Style::Loss).count() >= 2);
}

#[test]
fn scrolling_ends_with_the_last_row_and_says_where_it_is() {
    let of = activity("64-queues");
    let at = |offset| screen(&of, &View { offset, all: true, ..View::default() }, "", TERMINAL);
    let (first, second, last) = (at(0), at(1), at(usize::MAX / 2));
    assert_eq!(first.lines[2], second.lines[1]);
    let rows = tables::lines(&of, &View { all: true, ..View::default() }, 80).len();
    assert_eq!((second.offset, last.offset), (1, rows - 22));
    assert!(text(&last).contains(&format!("{}-{rows} of {rows}", rows - 21)), "{}", text(&last));
    assert_eq!(names(&text(&last), "xdp:").last().map(String::as_str), Some("xdp:nt1:31"));
    let paused = View { is_paused: true, sort: Sort::Tx, is_reversed: true, ..View::default() };
    assert!(drawn(&of, &paused, TERMINAL).contains("\nPAUSED  sort: tx/s, reversed  1-22 of "));
}

#[test]
fn the_line_of_help_fits_the_narrowest_terminal() {
    assert!(HELP.len() <= 80);
    let view = View { help: true, is_typing: true, ..View::default() };
    assert!(drawn(&activity("two-workers"), &view, TERMINAL).ends_with(&format!("{HELP}\n")));
}
