//! `netmem forward --metrics`: what a run counts, as Prometheus reads it.
//!
//! ```text
//!   scraper ─► [TCP, Unix socket] ─► server ─► request ─► source ─┬─ a cut of the run (forward::cuts)
//!                                                                 └─ families ─► page
//! ```
//! Workers answer at the end of a round and never wait for a scraper. The server has threads of its own (`listening`), with a bound
//! on their number, and one on the time and bytes of each request.

mod address;
mod families;
mod page;
mod request;
mod server;
mod source;

pub use address::Address;
pub use server::{Listener, bind, start};
pub use source::Source;
