//! One colour for each contender, the same in all plots of a page.

use super::{Look, Series};
use crate::json::Report;
use crate::report::pick;

/// Number of colours for netmem's own variants, in the order of the report.
const OWN: usize = 8;

/// The other contenders, each with a colour after those.
const CONTENDERS: [&str; 11] = [
    "limit",
    "dpdk",
    "glibc",
    "jemalloc",
    "mimalloc",
    "snmalloc",
    "tcmalloc",
    "kernel",
    "rtrb",
    "crossbeam",
    "prefix-trie",
];

/// Returns the contender of a series: for a ratio, the one that netmem is compared with.
fn contender(name: &str) -> &str {
    let (above, below) = name.split_once(" / ").unwrap_or((name, name));
    let whose = if pick::is_netmem(below) { above } else { below };
    whose.split(' ').next().unwrap_or(whose)
}

/// Assigns each series its look.
pub(super) fn assign(series: &mut [Series], report: &Report) {
    let mut own: Vec<&str> = Vec::new();
    for row in report.rows.iter().filter(|row| pick::is_netmem(&row.variant)) {
        if !own.contains(&row.variant.as_str()) {
            own.push(&row.variant);
        }
    }
    let base = |name: &str| contender(name).split('/').next().unwrap_or_default().to_owned();
    let rival = |name: &str| CONTENDERS.iter().position(|one| *one == base(name)).map(|place| OWN + place);
    let by_report = |name: &str| own.iter().position(|one| *one == contender(name)).unwrap_or(0) % OWN;
    let of_netmem: Vec<usize> =
        series.iter().filter(|one| rival(&one.name).is_none()).map(|one| by_report(&one.name)).collect();
    // Several settings of one variant in a plot, or more variants than colours: then colours follow the positions
    // in the plot.
    let collide = of_netmem.iter().enumerate().any(|(place, colour)| of_netmem[..place].contains(colour));
    for (place, one) in series.iter_mut().enumerate() {
        let own = if collide { place % OWN } else { by_report(&one.name) };
        one.look = Look { colour: rival(&one.name).unwrap_or(own), mark: place };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::{Row, tests::sample};

    fn looks(names: &[&str]) -> Vec<usize> {
        let row = |name: &str| Row { variant: name.into(), ..sample().rows.remove(0) };
        let rows = ["netmem/base", "netmem", "netmem/loop"].map(row).into();
        let report = Report { rows, ..sample() };
        let none = Look { colour: 0, mark: 0 };
        let one = |name: &&str| Series { name: (*name).to_owned(), points: vec![], look: none };
        let mut series: Vec<Series> = names.iter().map(one).collect();
        assign(&mut series, &report);
        series.iter().map(|series| series.look.colour).collect()
    }

    #[test]
    fn a_contender_has_one_colour_in_all_plots() {
        assert_eq!(looks(&["netmem", "dpdk", "glibc"]), [1, 9, 10]);
        assert_eq!(looks(&["glibc", "netmem/loop", "dpdk/zero-copy"]), [10, 2, 9]);
        assert_eq!(looks(&["netmem / dpdk", "netmem/loop / netmem/base"]), [9, 2]);
    }

    #[test]
    fn settings_of_one_variant_are_distinguished() {
        assert_eq!(looks(&["netmem lists a", "netmem lists b", "limit"]), [0, 1, 8]);
    }
}
