//! The lab: every published experiment of netmem's sources as one command, with the published figure beside
//! the measured one.
//!
//! Read in this order:
//!
//! - [`experiments`]: the registry, and one file per experiment: its variants, its published figures, its checks.
//! - [`method`]: how a figure is taken on a small, shared, noisy machine: windows by the time stamp counter,
//!   interleaved rounds, ratios inside a round with a bootstrap interval.
//! - [`bench`](mod@bench): what an experiment is handed while it runs, and where its rows go. [`history`]: what it keeps
//!   from one set-up to the next.
//! - [`runner`]: names and keys checked, experiments run in turns, Ctrl-C, the JSON file. [`remaining`]: how long it
//!   still takes.
//! - [`metric`]: what a row measures. [`rivals`]: the allocators that stand beside netmem.
//! - [`json`]: the report's schema. [`table`]: the same report for a terminal. [`report`](mod@report): many of them as
//!   one page.
//! - [`output`]: the JSON file. [`input`]: such files read again. [`compare`]: whether two runs agree.
//! - [`settings`]: the keys of `--set`. [`sources`]: the published texts by key.
//! - [`error`](mod@error): what was wrong with a call, in one line.
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
pub use runner::{Options, Progress, list, list_json, list_text, run, take_turn};
