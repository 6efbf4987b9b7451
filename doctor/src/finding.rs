//! What is wrong, and the command that mends it.

use crate::change::Change;
use serde::Serialize;
use std::fmt;

/// What becomes of it if nothing is changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Harm {
    /// It will not work.
    Fails,
    /// Packets are lost, or arrive twice.
    Loses,
    /// It works, and is slower than this host could.
    Slow,
}

impl Harm {
    /// In one word, as it is printed.
    pub fn name(self) -> &'static str {
        match self {
            Harm::Fails => "fails",
            Harm::Loses => "loses",
            Harm::Slow => "slow",
        }
    }
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Finding {
    /// The rule that found it, in one word: `memlock`.
    pub rule: &'static str,
    /// What becomes of it.
    pub harm: Harm,
    /// What it is about: a port as it is written, or `host`.
    pub about: String,
    /// What is wrong.
    pub what: String,
    /// What to do: a command, or a sentence where none does it.
    pub remedy: String,
    /// What `--fix` does; None where the operator has to decide.
    pub change: Option<Change>,
}

/// `xdp:eth0: fails: the interface is down: ip link set dev eth0 up`
impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Finding { harm, about, what, remedy, .. } = self;
        write!(f, "{about}: {}: {what}: {remedy}", harm.name())
    }
}

/// What the rules have found so far.
#[derive(Debug, Default)]
pub struct Findings(Vec<Finding>);

impl Findings {
    /// Adds one that the operator mends.
    pub fn add(&mut self, rule: &'static str, harm: Harm, about: &str, what: String, remedy: String) {
        self.0.push(Finding { rule, harm, about: about.to_owned(), what, remedy, change: None });
    }

    /// Adds one that a change mends.
    pub fn mend(&mut self, rule: &'static str, harm: Harm, about: &str, what: String, change: Change) {
        let remedy = change.to_string();
        self.0.push(Finding { rule, harm, about: about.to_owned(), what, remedy, change: Some(change) });
    }

    /// What does most harm first.
    pub fn sorted(mut self) -> Vec<Finding> {
        self.0.sort_by_key(|finding| finding.harm);
        self.0
    }
}
