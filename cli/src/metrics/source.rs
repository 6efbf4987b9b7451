//! The data of a scrape.

use super::page::{Format, Page};
use super::{families, process};
use crate::forward::cuts::Cuts;
use crate::forward::outcomes::Outcomes;
use crate::forward::worker_setup::WorkerSetup;
use netmem::page::Memory;
use netmem::pool::Pool;
use netmem_rtnetlink::FollowerTables;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A run, as a scrape shows it.
pub struct Source {
    cuts: Arc<Cuts>,
    pools: Vec<Pool>,
    memory: Memory,
    /// The kernel's routes, if they are followed.
    tables: Option<FollowerTables>,
    scrapes: AtomicU64,
    outcomes: Arc<Outcomes>,
}

impl Source {
    /// Makes the source for the run of these workers, which may follow the kernel's routes.
    pub fn new(
        cuts: &Arc<Cuts>,
        setups: &[WorkerSetup],
        memory: &Memory,
        tables: Option<FollowerTables>,
        outcomes: &Arc<Outcomes>,
    ) -> Source {
        let pools = setups.iter().flat_map(WorkerSetup::pools).cloned().collect();
        Source {
            cuts: Arc::clone(cuts),
            pools,
            memory: memory.clone(),
            tables,
            scrapes: AtomicU64::new(0),
            outcomes: Arc::clone(outcomes),
        }
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
        families::process(&mut page, process::started(), process::resident_bytes());
        families::outcomes(&mut page, &self.outcomes);
        families::workers(&mut page, &cut);
        families::ports(&mut page, &cut);
        families::frames(&mut page, &cut);
        families::pools(&mut page, &self.pools);
        families::memory(&mut page, &self.memory);
        self.tables.iter().for_each(|tables| families::netlink(&mut page, &tables.counters()));
        page.finish()
    }
}
