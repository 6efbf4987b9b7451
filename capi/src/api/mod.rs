//! The functions of `netmem.h`, one file for each of its parts, in its order.
//!
//! # Unsafe code
//! Each function is called by C: its name is exported as it is, and it reads and writes what its pointers name. Of those C promises what
//! `netmem.h` says of them, as of any function of a C library: null where that is allowed, or memory of the stated type and length that is the
//! call's meanwhile; strings end with a 0. Null elsewhere is refused. Nothing else is believed: whatever bits a handle has,
//! it is looked up before anything is done with it (`table`, `workers`, `registry`). The functions for raw frames are the exception, and
//! say so.

mod burst;
mod cache;
mod frame;
mod heads;
mod known;
mod lane;
mod library;
mod memory;
mod object;
mod packet;
mod packet_data;
mod packet_lane;
mod packet_parts;
mod packet_port;
mod page;
mod pool;
mod port;
mod port_open;
mod raw;
mod ready;
mod reclaim;
mod report;
mod shared;
mod stock;
mod transfer;
mod types;
mod worker;
