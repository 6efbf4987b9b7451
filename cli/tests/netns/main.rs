//! Tests of `netmem forward` over AF_XDP between two hosts, each in its own network namespace.
//!
//! Needs root, iproute2, iputils-ping, iperf3 and python3. Without them each test prints on standard error that it was
//! skipped, and why. All traffic stays inside the namespaces and ends by itself.

mod interface_flaps;
mod accounting;
mod carriers;
mod copies;
mod doctor;
#[path = "../dpdk/mod.rs"]
mod dpdk;
mod endings;
mod fixes;
mod forwarder;
mod forwarding;
mod granted;
#[path = "../iperf3/mod.rs"]
mod iperf3;
mod late;
mod links;
mod measured;
mod mixed;
#[path = "../test_frames/mod.rs"]
mod test_frames;
mod offloads;
mod packets;
mod punt;
mod qualify;
mod reasons;
mod refusals;
mod renamed;
#[path = "../netmem/running.rs"]
mod running;
mod sandbox;
mod soak;
#[path = "../netmem/stalls.rs"]
mod stalls;
mod start;
mod stream;
mod summary;
mod tap;
#[path = "../../../tests/testbed/mod.rs"]
mod testbed;
#[path = "../stall/mod.rs"]
mod stall;
mod testpmd;
mod traffic;
#[path = "../tshark/mod.rs"]
mod tshark;
mod wire;
mod workers;
