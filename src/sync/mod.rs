//! Stage `sync`: the worker's token, and what hangs on it.

mod lifo;
pub(crate) mod shim;
#[allow(unsafe_code)]
mod slot;
#[cfg(test)]
mod tests;
#[allow(unsafe_code)]
mod worker;

pub(crate) use lifo::Lifo;
#[cfg(test)]
use slot::Slot;
pub(crate) use worker::{Leave, Owned, PerWorker, Roster};
pub use worker::{Worker, WorkerError};
