//! A problem of a host, and the command that fixes it.

use crate::change::Change;
use serde::Serialize;
use std::fmt;

/// The effect if nothing is changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Harm {
    /// The dataplane will not work.
    Fails,
    /// Packets are lost, or arrive twice.
    Loses,
    /// The dataplane works, but slower than this host allows.
    Slow,
}

impl Harm {
    /// Returns the word that is printed for it.
    pub fn name(self) -> &'static str {
        match self {
            Harm::Fails => "fails",
            Harm::Loses => "loses",
            Harm::Slow => "slow",
        }
    }
}

/// One problem.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Finding {
    /// The name of the rule that found it: `locked-memory`.
    pub rule: &'static str,
    /// The effect.
    pub harm: Harm,
    /// The port, as it is written, or `host`.
    pub about: String,
    /// The problem.
    pub what: String,
    /// The remedy: a command, or a sentence if no command fixes it.
    pub remedy: String,
    /// The change that `--fix` makes. None if the operator has to decide, or if an earlier finding has the same change.
    pub change: Option<Change>,
}

/// `xdp:eth0: fails: the interface is down: ip link set dev eth0 up`
impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Finding { harm, about, what, remedy, .. } = self;
        write!(f, "{about}: {}: {what}: {remedy}", harm.name())
    }
}

/// The findings of the rules so far.
#[derive(Debug, Default)]
pub struct Findings(Vec<Finding>);

impl Findings {
    /// Adds a problem that the operator fixes.
    pub fn add(&mut self, rule: &'static str, harm: Harm, about: &str, what: String, remedy: String) {
        self.0.push(Finding { rule, harm, about: about.to_owned(), what, remedy, change: None });
    }

    /// Adds a problem that a change fixes. A change that an earlier finding has is left out.
    pub fn mend(&mut self, rule: &'static str, harm: Harm, about: &str, what: String, change: Change) {
        let remedy = change.to_string();
        let is_there = self.0.iter().any(|earlier| earlier.change.as_ref() == Some(&change));
        let change = Some(change).filter(|_| !is_there);
        self.0.push(Finding { rule, harm, about: about.to_owned(), what, remedy, change });
    }

    /// Returns the findings, the most harmful first.
    pub fn sorted(mut self) -> Vec<Finding> {
        self.0.sort_by_key(|finding| finding.harm);
        self.0
    }
}
