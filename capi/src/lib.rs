//! libnetmem is the C library of netmem, with checked handles.
//!
//! A C program holds a frame as a handle: a 64-bit word that names the frame and one use of it.
//!
//! - `table.rs` has the uses of frames. Only this file turns handles into frames, by the slots of `slots.rs`.
//! - `objects.rs` has the uses of objects, pages, packets and shared frames, whose entries `entries.rs` finds.
//!   `packets.rs` turns the handles of packets and shared frames into what they name.
//! - `stock.rs` does the same for objects that a program has already, by their addresses. `census.rs` says where
//!   they are, and `lock.rs` refuses a signal handler what the interrupted call holds.
//! - `lanes.rs` has the ends of lanes between workers, and `lane_packets.rs` the packets in lanes.
//! - `workers.rs` lets one thread at a time use a worker.
//! - `misuse.rs` counts and reports refused handles. `report.rs` passes the lines on. `answer.rs` turns what a slow call returns into its number.
//! - `api/` has the functions of `netmem.h`, one file for each part of the header. They read their arguments and
//!   call the library, and do nothing else.
//!
//! [ADR 0039] explains the design.
//!
//! [ADR 0039]: ../docs/adr/0039-handles.md
#![deny(unsafe_code)]

mod answer;
#[allow(unsafe_code)]
mod api;
mod census;
#[allow(unsafe_code)]
mod code;
#[allow(unsafe_code)]
mod entries;
mod errno;
mod failure;
mod lane_packets;
mod lanes;
#[allow(unsafe_code)]
mod lock;
mod misuse;
mod objects;
mod opened;
mod own;
#[allow(unsafe_code)]
mod packets;
#[allow(unsafe_code)]
mod pools;
#[allow(unsafe_code)]
mod process;
mod registry;
mod report;
#[allow(unsafe_code)]
mod sites;
#[allow(unsafe_code)]
mod slots;
#[allow(unsafe_code)]
mod stderr;
mod stock;
#[allow(unsafe_code)]
mod table;
#[allow(unsafe_code)]
mod thread;
mod word;
#[allow(unsafe_code)]
mod workers;
