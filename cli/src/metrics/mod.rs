//! `netmem forward --metrics`: the counters of a run in the format of Prometheus.
//!
//! ```text
//!   scraper ─► [TCP, Unix socket] ─► server ─► request ─► source ─┬─ a cut of the run (forward::cuts)
//!                                                                 └─ families ─► page
//! ```
//! Workers answer at the end of a round and never wait for a scraper. The server has a limited number of threads of
//! its own (`listening`). The time and the bytes of each request are limited too. If all threads are taken, a connection that does
//! nothing is given up (`crate::connections`).

mod address;
mod families;
mod page;
mod process;
mod request;
mod server;
mod source;

pub use address::Address;
pub use process::started;
pub use server::{Listener, bind, start};
pub use source::{Others, Source};
