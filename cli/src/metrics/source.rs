//! The data of a scrape.

use super::page::{Format, Page};
use super::{families, process};
use crate::forward::carriers::Carriers;
use crate::forward::cuts::Cuts;
use crate::forward::outcomes::Outcomes;
use crate::forward::report::IcmpReport;
use crate::forward::rule_counts::{counted, unmatched};
use crate::forward::worker_setup::WorkerSetup;
use netmem::forward::filter::FilterControl;
use netmem::page::Memory;
use netmem::pool::Pool;
use netmem_router::icmp::IcmpCounters;
use netmem_rtnetlink::FollowerTables;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A run, as a scrape shows it.
pub struct Source {
    cuts: Arc<Cuts>,
    pools: Vec<Pool>,
    memory: Memory,
    scrapes: AtomicU64,
    others: Others,
}

/// What a scrape shows besides the workers and the memory.
pub struct Others {
    /// The kernel's routes, if they are followed.
    pub tables: Option<FollowerTables>,
    /// The rules of each worker. Empty if there are none.
    pub rules: Vec<FilterControl>,
    /// The ICMP errors of each worker. Empty if none are made.
    pub icmp: Vec<Arc<IcmpCounters>>,
    pub carriers: Carriers,
    pub outcomes: Arc<Outcomes>,
}

impl Source {
    /// Makes the source for the run of these workers.
    pub fn new(cuts: &Arc<Cuts>, setups: &[WorkerSetup], memory: &Memory, others: Others) -> Source {
        let pools = setups.iter().flat_map(WorkerSetup::pools).cloned().collect();
        Source { cuts: Arc::clone(cuts), pools, memory: memory.clone(), scrapes: AtomicU64::new(0), others }
    }

    /// Lets workers take a sample. Call it all the time.
    pub fn sample(&self) {
        self.cuts.sample();
    }

    /// Returns a page about one cut.
    pub fn page(&self, format: Format) -> String {
        let scrapes = self.scrapes.fetch_add(1, Relaxed) + 1;
        let (cut, mut page) = (self.cuts.take(), Page::new(format));
        families::run(&mut page, &cut, scrapes);
        let Others { tables, rules, icmp, carriers, outcomes } = &self.others;
        families::process(&mut page, process::started(), &process::Usage::now());
        families::outcomes(&mut page, outcomes);
        families::workers(&mut page, &cut);
        families::ports(&mut page, &cut);
        families::carriers(&mut page, &cut, carriers);
        if !rules.is_empty() {
            families::rules(&mut page, &counted(rules), unmatched(rules));
        }
        if !icmp.is_empty() {
            families::icmp(&mut page, &IcmpReport::new(icmp));
        }
        families::frames(&mut page, &cut);
        families::pools(&mut page, &self.pools);
        families::memory(&mut page, &self.memory);
        if let Some(tables) = tables {
            families::tables(&mut page, tables.len(), tables.count_neighbours());
            families::netlink(&mut page, &tables.counters());
        }
        page.finish()
    }
}
