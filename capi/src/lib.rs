//! libnetmem: netmem's memory from C, with handles that catch every misuse.
//!
//! What C holds of a frame is a 64-bit word that names the frame and the use it was given out for. `table.rs` has the uses
//! and is the only place that turns words into frames, by the slots of `slots.rs`; `lanes.rs` has the ends of lanes between workers, and `lane_packets.rs` the packets in them; `workers.rs` lets one thread at a time be a worker; `misuse.rs` says
//! what becomes of a word that is refused. `objects.rs` has the uses of objects, pages, packets and shared frames, and `packets.rs` turns those of the last two into what they are; `stock.rs` does as much for objects that a program has already, by their addresses. The functions of `netmem.h` stand in `api/`, one file for each part of the header,
//! and do nothing but read arguments and call the library. [ADR 0039] has the argument.
//!
//! [ADR 0039]: ../docs/adr/0039-handles.md
#![deny(unsafe_code)]

#[allow(unsafe_code)]
mod api;
#[allow(unsafe_code)]
mod code;
mod errno;
mod failure;
mod lane_packets;
mod lanes;
mod misuse;
#[allow(unsafe_code)]
mod objects;
mod opened;
#[allow(unsafe_code)]
mod packets;
#[allow(unsafe_code)]
mod pools;
#[allow(unsafe_code)]
mod process;
mod registry;
#[allow(unsafe_code)]
mod sites;
#[allow(unsafe_code)]
mod slots;
mod stock;
#[allow(unsafe_code)]
mod table;
#[allow(unsafe_code)]
mod thread;
mod word;
#[allow(unsafe_code)]
mod workers;
