//! The registry: every experiment by name, and one file for each.

mod forward_bulk_free;
mod page_fast_path;
mod relay;
mod router;

use netmem::pool::Pool;

use crate::bench::{Bench, SetUpError};
use crate::settings::Key;

/// One experiment of the sources.
#[derive(Debug)]
pub struct Experiment {
    /// Its name on the command line.
    pub name: &'static str,
    /// File name of the source that published it.
    pub source: &'static str,
    /// What it answers.
    pub question: &'static str,
    /// Seconds that a full run takes, roughly and without pauses.
    pub seconds: u32,
    /// Its own settings, besides those of the method.
    pub keys: &'static [Key],
    /// Runs it on the calling thread.
    pub(crate) run: fn(&mut Bench<'_>) -> Result<(), SetUpError>,
}

/// All experiments, in the order in which `all` runs them.
pub const EXPERIMENTS: &[Experiment] = &[page_fast_path::EXPERIMENT, forward_bulk_free::EXPERIMENT];

/// Checks that every frame of `pool` is home.
fn check_home(bench: &mut Bench<'_>, variant: &str, pool: &Pool) {
    let ledger = pool.ledger();
    let home = ledger.free + ledger.cached + ledger.ready + ledger.returning;
    bench.check(
        &format!("{variant}: ledger balanced"),
        ledger.balanced() && ledger.all_home(),
        format!("{home} of {} frames home", ledger.total),
    );
}
