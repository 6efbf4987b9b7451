//! The functions of `netmem.h`: one file for each part of the header, in the order of the header.
//!
//! # Unsafe code
//! C calls each function. So the names of the functions are exported unmangled, and the functions read and write
//! through the pointers they are given. *The promise of C* in the `SAFETY` comments is the usual contract of a C
//! library, as `netmem.h` states it. A pointer is null where that is allowed, or points to memory of the stated
//! type and length that no other thread uses during the call. A string ends with a 0. A null pointer elsewhere is
//! refused.
//!
//! Nothing else is trusted. A handle can have any bits: each function looks it up before it does anything with it
//! (`table`, `workers`, `registry`). The functions for raw frames are the exception, and say so.

mod burst;
mod cache;
mod frame;
mod heads;
mod known;
mod lane;
mod library;
mod memory;
mod object;
mod offload;
mod packet;
mod packet_data;
mod packet_lane;
mod packet_offload;
mod packet_parts;
mod packet_port;
mod page;
mod pool;
mod port;
mod port_open;
mod port_state;
mod put;
mod raw;
mod raw_data;
mod raw_move;
mod raw_offload;
mod ready;
mod reclaim;
mod report;
mod segments;
mod shared;
mod stock;
mod timestamp;
mod transfer;
mod types;
mod unsendable;
mod worker;
