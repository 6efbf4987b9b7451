//! System calls that only experiments make: the processor's counters, and processes that stand still and go on.

#[allow(unsafe_code)]
pub(crate) mod perf;
#[allow(unsafe_code)]
pub(crate) mod process;
