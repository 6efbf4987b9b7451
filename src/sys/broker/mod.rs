//! The broker: a small process that keeps the privileges which the rest of a program has given up.
//!
//! ```text
//!   start ─ fork(2), before any thread ─┬─► broker: waits for requests, carries each out, answers with descriptors (SCM_RIGHTS)
//!                                       └─► this process opens its ports, gives up its capabilities, and asks from then on
//! ```
//! Where a broker is there, what [`Request`] lists is asked of it by the functions of this stage that would do it themselves: sockets, programs,
//! maps and links of interfaces that come back, neighbours, files that are read again. It answers one request at a time, and nobody but the
//! process that started it can ask: the socket has no name.
//!
//! **What it trusts.** Nothing: a request is one of a handful, read whole or not at all; it loads only programs that it makes itself, changes only maps of
//! those programs' types, opens only files and connects only to sockets that it was told of when it was started, and attaches only to interfaces of the names
//! that it was told. Who has taken the other process over can take packets off interfaces and send them, as that process can, but loads no program of his own and runs
//! none. What else it does not hold back stands in ADR 0058.
//!
//! **Its end.** It ends with the other process, whatever ends that, because its end of the socket closes. Should it end first, requests fail
//! with `PIPE`, ports that are open go on, and [`is_gone`] says so.

// Where a kind of port is left out nobody starts one.
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
