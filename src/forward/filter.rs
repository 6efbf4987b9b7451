//! The filter: a list of rules. The first rule that matches a packet decides, and its match is counted.
//!
//! ```text
//!   FilterControl::replace, insert, remove    any thread: a new list, one lock
//!                    │
//!   Filter::refresh  ▼                        the forwarder, once a round: one load while nothing changed
//!   Filter::judge    first match wins         one packet
//! ```
//! A rule that is in both the old and the new list keeps its counts.

mod fields;
mod rule;
#[cfg(test)]
mod tests;

pub use fields::Fields;
pub use rule::{Action, Rule, RuleError};

use crate::stats::Count;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The maximum number of rules.
pub const RULES_MAX: usize = 1024;

/// A rule and its counts; written by the forwarder, read by any thread.
#[derive(Debug)]
struct Counted {
    rule: Rule,
    packets: Count,
    bytes: Count,
}

/// A list of rules; never changed, only replaced.
type List = Arc<[Arc<Counted>]>;

#[derive(Debug)]
struct Shared {
    /// Number of changes of `list` so far.
    changes: AtomicU64,
    list: Mutex<List>,
    unmatched: Count,
}

/// A rule and the number of packets that it has decided about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleCount {
    /// The rule.
    pub rule: Rule,
    /// Number of packets.
    pub packets: u64,
    /// Number of their bytes.
    pub bytes: u64,
}

/// The rules were not changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FilterError {
    /// There are too many rules.
    #[error("{rules} rules: give at most {RULES_MAX}")]
    TooMany {
        /// The resulting number of rules.
        rules: usize,
    },
    /// There is no rule of this number.
    #[error("no rule has number {at}: there are {rules}")]
    NoSuchRule {
        /// The given number.
        at: usize,
        /// Number of rules.
        rules: usize,
    },
}

/// The forwarder's end of the rules.
#[derive(Debug)]
pub struct Filter {
    shared: Arc<Shared>,
    list: List,
    /// A rule of `list` names a protocol or ports.
    asks_carried: bool,
    /// The value of `changes` that corresponds to `list`.
    seen: u64,
}

/// The control end of the rules, which other threads can read and change under traffic.
#[derive(Debug, Clone)]
pub struct FilterControl {
    shared: Arc<Shared>,
}

/// Makes a filter of these rules, and the control that changes it.
///
/// # Errors
/// Returns [`FilterError::TooMany`].
#[cold]
pub fn filter(rules: Vec<Rule>) -> Result<(Filter, FilterControl), FilterError> {
    let list = renewed(&[], rules)?;
    let shared = Arc::new(Shared {
        changes: AtomicU64::new(0),
        list: Mutex::new(Arc::clone(&list)),
        unmatched: Count::default(),
    });
    let asks_carried = asks_carried(&list);
    Ok((Filter { shared: Arc::clone(&shared), list, asks_carried, seen: 0 }, FilterControl { shared }))
}

/// Returns a list of `rules`. Rules that `old` also has keep their counts, each once.
fn renewed(old: &[Arc<Counted>], rules: Vec<Rule>) -> Result<List, FilterError> {
    if rules.len() > RULES_MAX {
        return Err(FilterError::TooMany { rules: rules.len() });
    }
    let mut old: Vec<_> = old.iter().collect();
    let list = rules.into_iter().map(|rule| match old.iter().position(|counted| counted.rule == rule) {
        Some(at) => Arc::clone(old.remove(at)),
        None => Arc::new(Counted { rule, packets: Count::default(), bytes: Count::default() }),
    });
    Ok(list.collect())
}

fn asks_carried(list: &List) -> bool {
    list.iter().any(|counted| counted.rule.names_carried())
}

impl Filter {
    /// Adopts changed rules, if there are any and no thread is changing them at the moment.
    ///
    /// # Cost
    /// One load if nothing changed.
    #[inline]
    pub fn refresh(&mut self) {
        // Relaxed: the lock orders the list itself.
        if self.shared.changes.load(Relaxed) != self.seen {
            self.renew();
        }
    }

    #[cold]
    #[inline(never)]
    fn renew(&mut self) {
        let Ok(list) = self.shared.list.try_lock() else { return };
        self.list = Arc::clone(&list);
        self.asks_carried = asks_carried(&list);
        self.seen = self.shared.changes.load(Relaxed);
    }

    /// Reads the fields of a frame that the rules use: [`Fields::read`], without the content of an IPv6 packet if no
    /// rule asks for it.
    #[inline]
    pub(super) fn fields(&self, frame: &[u8], ingress: u8) -> Fields {
        Fields::read_for(frame, ingress, self.asks_carried)
    }

    /// Returns the action of the first rule that matches, which counts the packet of `bytes`. Returns None if none
    /// matches.
    #[inline]
    pub fn judge(&self, fields: &Fields, bytes: usize) -> Option<Action> {
        match self.list.iter().find(|counted| counted.rule.matches(fields)) {
            Some(counted) => {
                counted.packets.add(1);
                counted.bytes.add(bytes as u64);
                Some(counted.rule.action)
            }
            None => {
                self.shared.unmatched.add(1);
                None
            }
        }
    }
}

impl FilterControl {
    /// The rules in their order, each with its counts.
    pub fn rules(&self) -> Vec<RuleCount> {
        let count = |counted: &Arc<Counted>| RuleCount {
            rule: counted.rule.clone(),
            packets: counted.packets.get(),
            bytes: counted.bytes.get(),
        };
        self.list().iter().map(count).collect()
    }

    /// Packets that no rule matched.
    pub fn unmatched(&self) -> u64 {
        self.shared.unmatched.get()
    }

    /// Replaces all rules.
    ///
    /// # Errors
    /// Returns [`FilterError::TooMany`].
    pub fn replace(&self, rules: Vec<Rule>) -> Result<(), FilterError> {
        self.change(|_| Ok(rules))
    }

    /// Inserts a rule before number `at`, or behind the last one if there are as many.
    ///
    /// # Errors
    /// Returns [`FilterError`].
    pub fn insert(&self, at: usize, rule: Rule) -> Result<(), FilterError> {
        self.change(|mut rules| match rules.len() {
            len if at > len => Err(FilterError::NoSuchRule { at, rules: len }),
            _ => {
                rules.insert(at, rule);
                Ok(rules)
            }
        })
    }

    /// Removes rule number `at`.
    ///
    /// # Errors
    /// Returns [`FilterError::NoSuchRule`].
    pub fn remove(&self, at: usize) -> Result<(), FilterError> {
        self.change(|mut rules| match rules.len() {
            len if at >= len => Err(FilterError::NoSuchRule { at, rules: len }),
            _ => {
                rules.remove(at);
                Ok(rules)
            }
        })
    }

    fn change(
        &self,
        to: impl FnOnce(Vec<Rule>) -> Result<Vec<Rule>, FilterError>,
    ) -> Result<(), FilterError> {
        let mut list = self.list();
        let rules = to(list.iter().map(|counted| counted.rule.clone()).collect())?;
        *list = renewed(&list, rules)?;
        self.shared.changes.fetch_add(1, Relaxed);
        Ok(())
    }

    fn list(&self) -> MutexGuard<'_, List> {
        self.shared.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
