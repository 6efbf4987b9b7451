//! The stage `sync` has the worker token, and the primitives that workers share.

mod array;
mod doorbell;
mod handle;
#[allow(unsafe_code)]
mod per_worker;
pub(crate) mod shim;
#[allow(unsafe_code)]
mod slot;
mod steps;
#[cfg(test)]
mod tests;
mod worker;

pub(crate) use array::try_array;
pub use doorbell::Doorbell;
pub(crate) use handle::{Close, Handle};
pub(crate) use per_worker::{Owned, PerWorker};
#[cfg(test)]
pub(crate) use slot::Slot;
pub(crate) use steps::Steps;
pub(crate) use worker::{Leave, Roster};
pub use worker::{Worker, WorkerError};
