//! The broker: a small process that keeps the privileges which the rest of a program has given up.
//!
//! ```text
//!   start ─ fork(2), before any thread ─┬─► broker: waits for requests, carries each out, answers with descriptors (SCM_RIGHTS)
//!                                       └─► this process opens its ports, gives up its capabilities, and asks from then on
//! ```
//! If there is a broker, the functions of this stage send it the requests in [`Request`] instead of acting themselves.
//! These are sockets, programs, maps and links of interfaces that come back, neighbours, and files that are read again.
//! The broker answers one request at a time. Requests are numbered: an answer that comes after its timeout is discarded,
//! and the broker stays. Only the process that started it can ask, because the socket has no name.
//!
//! **What it trusts.** Nothing: a request is one of a handful, and is read whole or not at all. The broker loads only
//! programs that it makes itself, and changes only maps of those programs' types. It opens only files and connects only
//! to sockets that it was given when it was started. It attaches only to interfaces of the names that it was given, and
//! has the kernel ask for neighbours only on these, in its own network namespace. An attacker who has taken over the
//! other process can take packets off interfaces and send them, as that process can. The attacker cannot load or run a
//! program. ADR 0058 lists what the broker does not prevent.
//!
//! **Its end.** It ends with the other process, for any reason, because the other end of its socket closes. If the
//! broker ends first, requests fail with `PIPE`, open ports continue, and [`is_gone`] returns true.

// Without some kinds of port no code starts a broker.
#![cfg_attr(
    not(all(feature = "xdp", feature = "af-packet", feature = "tap", feature = "memif")),
    allow(dead_code, unused_imports)
)]

mod ask;
#[cfg(all(feature = "xdp", feature = "af-packet", feature = "tap", feature = "memif"))]
mod carry_out;
mod channel;
#[cfg(all(feature = "xdp", feature = "af-packet", feature = "tap", feature = "memif"))]
mod leftovers;
#[cfg(all(feature = "xdp", feature = "af-packet", feature = "tap", feature = "memif"))]
mod neighbours;
#[cfg(all(feature = "xdp", feature = "af-packet", feature = "tap", feature = "memif"))]
mod process;
mod request;
mod setup;

pub use ask::{Broker, Refusal, ask, ask_for_one, at, current, is_gone, open_to_read, read_so_far, tell};
#[cfg(all(feature = "xdp", feature = "af-packet", feature = "tap", feature = "memif"))]
pub use process::{BrokerError, BrokerProcess, start};
pub use request::{Action, Element, Hook, Leaves, MapKind, Redirect, Request};
pub use setup::Setup;

#[cfg(all(test, feature = "xdp", feature = "af-packet", feature = "tap", feature = "memif"))]
mod tests;
