//! The control socket: what runs is looked at and tuned from outside.
//!
//! ```text
//!   netmem stat, set ─► client ─► [socket] ─► server ─► request ─► registry   what can be seen, and the keys
//! ```
//! One JSON object a line each way. The forwarder's thread has no part in it: the server reads counters and sets the
//! library's tunables on threads of its own (`listening`).

pub mod registry;
pub mod client;
mod record;
mod request;
mod server;
mod socket;

pub use record::Record;
pub use request::{Answer, answer};
pub use server::{bind, start};
pub use socket::{Socket, default_path};
