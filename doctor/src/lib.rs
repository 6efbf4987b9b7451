//! Finds properties of a host that keep a dataplane from working, lose its packets or make it slow, and the
//! commands that fix them.
//!
//! ```text
//!   kernel ─► read ─► Host ─┐
//!                           ├─► rules ─► Findings ─► Change ─► Journal ─► the host as it was
//!   configuration ─► Wanted ┘
//! ```
//! [`Host`] and [`Wanted`] are plain data. The rules ask the kernel nothing, so a host can be saved, sent and
//! examined elsewhere.
#![forbid(unsafe_code)]

mod again;
mod change;
mod finding;
mod host;
mod journal;
mod read;
mod rules;
mod wanted;

pub use again::{FIX_LOOKS, await_carriers, new_changes};
pub use change::{Change, ChangeError};
pub use finding::{Finding, Harm};
pub use host::{
    BoundSocket, Cores, Host, Interface, Kernel, MemoryState, NeighbourTable, OfferedModes, Paths, Process,
    QueueCounts, RingSizes,
};
pub use journal::{Journal, JournalError, Undone};
pub use rules::{beside_the_kernel, findings, longer_than_frames};
pub use wanted::{Device, Wanted, WantedPort, XdpPlace};
