//! The lab runs every published experiment of netmem's sources by one command, and shows the published figure next to
//! the measured one.
//!
//! Read in this order:
//!
//! - [`experiments`]: the registry, and one file per experiment: its variants, its published figures, its checks.
//! - [`method`]: measurement on a small, shared, noisy machine: windows by the time stamp counter, interleaved
//!   rounds, ratios inside a round with a bootstrap interval.
//! - [`bench`](mod@bench): the interface that an experiment uses during a run. [`history`]: the data kept from one
//!   set-up to the next.
//! - [`runner`]: checks names and keys, runs experiments in turns, handles Ctrl-C, writes the JSON file.
//!   [`remaining`]: the remaining time.
//! - [`metric`]: the unit of a row. [`rivals`]: the allocators that netmem is compared with.
//! - [`json`]: the report's schema. [`table`]: the same report for a terminal. [`report`](mod@report): many of them
//!   as one page.
//! - [`output`]: the JSON file. [`input`]: reads such files. [`compare`]: whether two runs agree.
//! - [`settings`]: the keys of `--set`. [`sources`]: the published texts by key.
//! - [`error`](mod@error): errors of a call, one line each.
#![deny(unsafe_code)]

pub mod bench;
pub mod compare;
pub mod error;
pub mod experiments;
pub mod history;
pub mod input;
pub mod json;
pub mod method;
pub mod metric;
pub mod output;
mod program;
pub mod remaining;
pub mod report;
pub mod rivals;
pub mod runner;
pub mod settings;
pub mod sources;
mod system;
pub mod table;

pub use compare::Agreement;
pub use error::LabError;
pub use json::Report;
pub use remaining::Remaining;
pub use runner::{Options, Progress, least_budget, list, list_json, list_text, run, take_turn};
