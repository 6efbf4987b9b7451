//! Packets on their way: their heads, ready pairs and rules, as planned.

use super::plan::PacketPlan;
use super::report::FilterReport;
use crate::args::ReadyHeads;
use crate::failure::Failure;
use netmem::forward::filter::{FilterControl, filter};
use netmem::forward::{Forwarder, PacketPath, Protocols};
use netmem::packet::{Form, Heads, HeadsConfig, Pairs};
use netmem::page::Memory;
use netmem::pool::Pool;
use std::sync::Arc;

/// What can be asked about packets while the forwarder has them.
pub struct Hooks {
    pub heads: Heads,
    /// The rules, and what the statistics hook counts; None on the fast path.
    filter: Option<(FilterControl, Arc<Protocols>)>,
    /// The ready pairs, if there are any.
    pub pairs: Option<Pairs>,
}

impl Hooks {
    /// What reads and changes the rules, on the full path.
    pub fn rules(&self) -> Option<&FilterControl> {
        self.filter.as_ref().map(|(control, _)| control)
    }

    /// What the hooks have counted by now.
    pub fn report(&self) -> Option<FilterReport> {
        self.filter.as_ref().map(|(control, protocols)| FilterReport::new(control, protocols))
    }
}

/// Bytes of memory for the heads of as many packets as there are frames, and for what lies in caches meanwhile.
pub fn room(frames: usize) -> usize {
    frames * 64 + (4 << 20)
}

/// Makes packets of the forwarder's frames.
///
/// # Errors
/// [`Failure::Input`].
pub fn set(
    forwarder: &mut Forwarder,
    memory: &Memory,
    pool: &Pool,
    plan: &PacketPlan,
) -> Result<Hooks, Failure> {
    let config = match plan.heads {
        None => HeadsConfig::default(),
        Some(ReadyHeads::None) => HeadsConfig { form: Form::Bulk, ..HeadsConfig::default() },
        Some(ReadyHeads::Array { size, refill, free }) => {
            HeadsConfig { size, refill, free, ..HeadsConfig::default() }
        }
    };
    let heads = Heads::with(memory, &config).map_err(Failure::input)?;
    let pairs = plan.pairs.map(|max| Pairs::new(pool, &heads, max));
    let mut path = PacketPath::new(heads.clone());
    if let Some(pairs) = &pairs {
        path = path.with_pairs(pairs.clone());
    }
    let mut control = None;
    if let Some(rules) = &plan.rules {
        let (filter, rules) = filter(rules.clone()).map_err(Failure::input)?;
        path = path.with_hooks(filter);
        control = Some(rules);
    }
    let filter = control.zip(path.protocols());
    forwarder.set_packet_path(path);
    Ok(Hooks { heads, filter, pairs })
}
