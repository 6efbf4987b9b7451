//! What of a host keeps a dataplane from working, loses its packets or makes it slow, and the command that mends it.
//!
//! ```text
//!   kernel ─► read ─► Host ─┐
//!                           ├─► rules ─► Findings ─► Change ─► Journal ─► the host as it was
//!   configuration ─► Wanted ┘
//! ```
//! [`Host`] and [`Wanted`] are plain data: the rules ask the kernel nothing, so a host can be saved, sent and looked at elsewhere.
#![forbid(unsafe_code)]

mod change;
mod finding;
mod host;
mod journal;
mod read;
mod rules;
mod wanted;

pub use change::{Change, ChangeError};
pub use finding::{Finding, Harm};
pub use host::{
    BoundSocket, Cores, Host, Interface, Kernel, MemoryState, OfferedModes, Paths, Process, QueueCounts,
    RingSizes,
};
pub use journal::{Journal, JournalError, Undone};
pub use rules::{beside_the_kernel, findings};
pub use wanted::{Device, Wanted, WantedPort, XdpPlace};
