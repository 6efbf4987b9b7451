//! Tests of `docs/metrics.md`, whose tables are made from what a scrape has.

use super::super::page::Format;
use super::*;
use crate::forward::report::IcmpReport;
use netmem::forward::filter::RuleCount;
use netmem::forward::{CrossConnect, Forwarder};
use netmem::port::Port;
use netmem::port::mem::{MemConfig, MemPort};
use netmem::stats::Quantiles;
use netmem::{MemoryConfig, PoolConfig};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;
use std::{env, fs};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/metrics.md");
const HOW: &str = "NETMEM_WRITE_METRICS=1 cargo test -p netmem-cli --lib metrics";

/// Returns each section of the page with all families of a scrape in it.
fn sections() -> Vec<(&'static str, String)> {
    let memory = Memory::new(&MemoryConfig { bytes: 8 << 20, ..Default::default() }).unwrap();
    let mut worker = memory.worker().unwrap();
    let pool = Pool::new(&memory, &mut worker, &PoolConfig { frames: 64, ..Default::default() }).unwrap();
    let links = ["left", "right"].map(|name| MemPort::pair(name, &MemConfig::default()).unwrap());
    let (ports, _devices): (Vec<_>, Vec<_>) =
        links.into_iter().map(|(port, device)| (Box::new(port) as Box<dyn Port>, device)).unzip();
    let forwarder = Forwarder::new(ports, pool.clone(), Box::new(CrossConnect)).unwrap();
    let mut answer = Answer::first(&forwarder);
    answer.windows = Some(Quantiles { p10: 1.0, p50: 1.0, p90: 1.0, windows: 1, dropped: 0 });
    let cut = Cut {
        at: Instant::now(),
        workers: vec![(Arc::new(answer), true)],
        ledgers: vec![Some((pool.ledger(), Instant::now()))],
        is_whole: true,
        between: Vec::new(),
    };
    let seen = Carriers::of(2);
    seen.see(0, (Some(true), true), ("", ""));
    let written = |write: &dyn Fn(&mut Page)| {
        let mut page = Page::new(Format::Classic);
        write(&mut page);
        page.finish()
    };
    vec![
        ("The run", {
            written(&|page| {
                run(page, &cut, 1);
                let usage = Usage {
                    cpu: Duration::ZERO,
                    open_descriptors: Some(0),
                    max_descriptors: Some(0),
                    resident_bytes: Some(0),
                };
                process(page, Duration::ZERO, &usage);
                super::outcomes(page, &Outcomes::default());
            })
        }),
        ("Workers", written(&|page| workers(page, &cut))),
        ("Ports", written(&|page| (super::ports(page, &cut), super::carriers(page, &cut, &seen)).0)),
        ("Pools", written(&|page| (frames(page, &cut), pools(page, std::slice::from_ref(&pool))).0)),
        ("Memory", written(&|page| super::memory(page, &memory))),
        (
            "Rules",
            written(&|page| {
                rules(page, &[RuleCount { rule: "drop".parse().unwrap(), packets: 0, bytes: 0 }], 0)
            }),
        ),
        ("ICMP errors", written(&|page| icmp(page, &IcmpReport::new(&[Arc::default()])))),
        ("The kernel's tables", {
            written(&|page| (tables(page, 0, (0, 0)), netlink(page, &FollowerStats::default())).0)
        }),
    ]
}

/// Returns the table of the families in this part of a scrape.
fn table(scrape: &str) -> String {
    let mut text = "| name | kind | labels | what it is |\n|---|---|---|---|\n".to_owned();
    for family in scrape.split("# HELP ").skip(1) {
        let (head, rest) = family.split_once('\n').unwrap();
        let (name, help) = head.split_once(' ').unwrap();
        let (kind, samples) = rest.split_once('\n').unwrap();
        let kind = kind.rsplit_once(' ').unwrap().1;
        assert!(samples.starts_with(name), "{name} has no sample: {samples}");
        text += &format!("| `{name}` | {kind} | {} | {help} |\n", labels(samples));
    }
    text
}

/// Returns the names of the labels of a family's first sample, except those that belong to the kind.
fn labels(samples: &str) -> String {
    let labels = samples.lines().next().unwrap().split_once('{').map_or("", |(_, labels)| labels);
    let names = labels.split("=\"").filter_map(|part| part.rsplit(['{', ',']).next());
    let names = names.filter(|name| name.chars().all(|c| c.is_ascii_lowercase()) && !name.is_empty());
    let names = names.filter(|name| !["le", "quantile"].contains(name));
    names.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// Returns the page with this table below the heading.
fn with_table(page: &str, heading: &str, table: &str) -> String {
    let heading = format!("\n## {heading}\n");
    let (before, after) =
        page.split_once(&heading).unwrap_or_else(|| panic!("{PAGE} has no heading {heading:?}"));
    let is_row = |line: &&str| line.starts_with('|');
    let prose: String = after.split_inclusive('\n').take_while(|line| !is_row(line)).collect();
    let rest: String = after[prose.len()..].split_inclusive('\n').skip_while(is_row).collect();
    assert!(!prose.contains("\n## "), "{heading:?} has no table");
    format!("{before}{heading}{prose}{table}{rest}")
}

#[test]
fn the_page_of_metrics_has_every_family_with_its_kind_its_labels_and_its_help() {
    let kept = fs::read_to_string(PAGE).unwrap();
    let made = sections()
        .iter()
        .fold(kept.clone(), |page, (heading, scrape)| with_table(&page, heading, &table(scrape)));
    if env::var_os("NETMEM_WRITE_METRICS").is_some() {
        fs::write(PAGE, &made).unwrap();
    } else {
        assert_eq!(kept, made, "{PAGE} is old: {HOW}");
    }
    // What the text around the tables names exists, too.
    let known: BTreeSet<&str> = made
        .split('`')
        .filter(|word| word.starts_with("netmem_") && made.contains(&format!("| `{word}` |")))
        .collect();
    let samples = ["_sum", "_count", "_bucket"];
    for word in made.split(|c: char| !c.is_ascii_alphanumeric() && c != '_') {
        let family = samples.iter().find_map(|end| word.strip_suffix(end)).unwrap_or(word);
        assert!(!word.starts_with("netmem_") || known.contains(family), "{word} is no metric");
    }
    assert!(known.len() > 40, "{known:?}");
}
