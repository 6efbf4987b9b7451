//! The registry: every experiment by name, and one file for each.

mod cluster_pool;
mod endpoint;
mod forward_bulk_free;
mod forward_memif;
mod forward_offload;
mod forward_xdp;
mod handoff;
mod hardening;
mod lines;
mod namespace;
mod page_bulk;
mod page_cross_worker;
mod page_fast_path;
mod page_order;
mod page_outstanding;
mod pages;
mod peers;
mod pool_recycle;
mod relay;
mod rivals;
mod route_lookup;
mod router;
mod scratch;
mod self_check;
mod slab_bulk;
mod slab_descriptor;
#[allow(unsafe_code)]
mod slab_objects;
mod slab_windows;
mod slab_working_set;
mod this_program;
mod valgrind;
mod veths;
mod xdp_verdicts;

use netmem::pool::Pool;

use crate::bench::{Bench, SetUpError};
use crate::settings::Key;

/// One experiment of the sources.
#[derive(Debug)]
pub struct Experiment {
    /// Its name on the command line.
    pub name: &'static str,
    /// The key of the text that published it ([`sources`](crate::sources)), or `none`.
    pub source: &'static str,
    /// The question that it answers.
    pub question: &'static str,
    /// Seconds that a full run takes, roughly and without pauses.
    pub seconds: u32,
    /// Its own settings, in addition to those of the method.
    pub keys: &'static [Key],
    /// Runs it on the calling thread.
    pub(crate) run: fn(&mut Bench<'_>) -> Result<(), SetUpError>,
}

/// All experiments, in the order in which `all` runs them.
pub const EXPERIMENTS: &[Experiment] = &[
    self_check::EXPERIMENT,
    page_fast_path::EXPERIMENT,
    page_order::EXPERIMENT,
    page_outstanding::EXPERIMENT,
    page_bulk::EXPERIMENT,
    page_cross_worker::EXPERIMENT,
    slab_bulk::EXPERIMENT,
    slab_descriptor::EXPERIMENT,
    pool_recycle::EXPERIMENT,
    xdp_verdicts::EXPERIMENT,
    cluster_pool::EXPERIMENT,
    forward_bulk_free::EXPERIMENT,
    handoff::EXPERIMENT,
    route_lookup::EXPERIMENT,
    forward_memif::EXPERIMENT,
    forward_xdp::EXPERIMENT,
    forward_offload::EXPERIMENT,
    endpoint::EXPERIMENT,
    hardening::EXPERIMENT,
    rivals::EXPERIMENT,
];

/// Checks that every frame of `pool` is back in it.
fn check_all_freed(bench: &mut Bench<'_>, variant: &str, pool: &Pool) {
    let ledger = pool.ledger();
    let freed = ledger.free + ledger.cached + ledger.ready + ledger.returning;
    bench.check(
        &format!("{variant}: ledger balanced"),
        ledger.balanced() && ledger.all_freed(),
        format!("{freed} of {} frames freed", ledger.total),
    );
}
