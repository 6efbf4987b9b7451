//! Anything as what the kernel says over rtnetlink, and the table that follows from it.
//!
//! `cargo +nightly fuzz run netlink`; what it finds worth keeping goes into `corpus/netlink`, which `cargo test` replays.

#![no_main]

#[path = "../../rtnetlink/tests/sequences/netlink.rs"]
mod netlink;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| drop(netlink::run(bytes)));
