//! System calls of experiments only: the processor's counters, CPU time of processes, stopping and resuming
//! processes, opening libraries, and datagrams by io_uring.

#[allow(unsafe_code)]
pub(crate) mod cpu_time;
#[allow(unsafe_code)]
pub(crate) mod library;
#[allow(unsafe_code)]
pub(crate) mod perf;
#[allow(unsafe_code)]
pub(crate) mod process;
#[cfg(feature = "rivals")]
#[allow(unsafe_code)]
pub(crate) mod uring;
