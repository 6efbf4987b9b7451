//! System calls that only experiments make: the processor's counters, the time that processes have had a core, processes that stand
//! still and go on, libraries that are opened while it runs, and datagrams by io_uring.

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
