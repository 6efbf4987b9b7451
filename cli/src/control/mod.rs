//! The control socket: other programs read and tune a running process through it.
//!
//! ```text
//!   netmem stat, set ─► client ─► [socket] ─► server ─► request ─► registry   what can be seen, and the keys
//! ```
//! Each request and each answer is one JSON object on a line. The forwarder's threads take no part. The server
//! reads counters and sets the library's tunables on threads of its own (`listening`).

pub mod registry;
pub mod client;
mod record;
mod request;
mod server;
mod socket;

pub use record::{NO_CARRIER, Record};
pub use request::{Answer, answer};
pub use server::{bind, start};
pub use socket::{Socket, path_of_run};
