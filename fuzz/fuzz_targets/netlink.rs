//! Reads any bytes as messages of the kernel over rtnetlink, and checks the resulting table.
//!
//! Run `cargo +nightly fuzz run netlink`. Inputs worth keeping go into `corpus/netlink`, which `cargo test`
//! replays.

#![no_main]

#[path = "../../rtnetlink/tests/sequences/netlink.rs"]
mod netlink;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| drop(netlink::run(bytes)));
