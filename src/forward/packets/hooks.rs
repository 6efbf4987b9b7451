//! The hooks of the full path: rules, then statistics.

use super::Protocols;
use crate::forward::filter::{Action, Filter};
use crate::forward::{Reason, Verdict};
use std::sync::Arc;

/// The hooks that packets pass before the mode decides.
#[derive(Debug)]
pub(super) struct Hooks {
    pub(super) filter: Filter,
    pub(super) protocols: Arc<Protocols>,
    /// The decision sees packets that rules have decided about.
    pub(super) are_told: bool,
}

impl Hooks {
    /// Returns the action of the hooks for a packet received on port `from`, or None to go on.
    #[inline]
    pub(super) fn judge(&self, data: &[u8], from: usize) -> Option<Verdict> {
        let fields = self.filter.fields(data, from as u8);
        self.protocols.count(&fields, data.len());
        match self.filter.judge(&fields, data.len()) {
            Some(Action::Drop) => Some(Verdict::Drop(Reason::FilterDrop)),
            Some(Action::Pass) => Some(Verdict::Pass),
            Some(Action::Accept) | None => None,
        }
    }
}
