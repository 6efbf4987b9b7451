//! `netmem forward --routes kernel` between two hosts: what `ip route`, `ip neigh` and a routing daemon do to the kernel
//! of the machine between them, netmem follows.
//!
//! Needs root and iproute2, and for some tests iputils-ping, iputils-tracepath, traceroute, iperf3, curl, python3,
//! nftables and bird2. Without them each test prints on standard error that it was skipped, and why.

mod advertised;
mod anycast;
mod bird;
mod changes;
mod comparison;
mod control;
mod configured;
mod counted;
mod firewall;
mod flaps;
mod flood;
mod forged;
mod fragments;
mod frames;
#[path = "../iperf3/mod.rs"]
mod iperf3;
mod questions;
mod random;
mod renamed;
mod router;
#[path = "../netmem/running.rs"]
mod running;
mod scan;
mod spray;
#[path = "../netmem/stalls.rs"]
mod stalls;
mod traffic;
mod unnumbered;
mod vrrp;
#[path = "../../../tests/testbed/mod.rs"]
#[allow(dead_code, reason = "shared with tests that use more of it")]
mod testbed;
