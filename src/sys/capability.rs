//! What the process may do: capabilities and the limit on locked memory.

use rustix::process::{Resource, getrlimit};
use rustix::thread::{CapabilitySet, capabilities};

/// The capabilities that AF_XDP needs and this thread lacks, by name.
///
/// CAP_NET_RAW opens the socket; CAP_BPF and CAP_NET_ADMIN make the map and load the redirect program, for which
/// CAP_SYS_ADMIN stands in.
pub fn missing_for_xdp() -> Vec<&'static str> {
    let Ok(sets) = capabilities(None) else { return Vec::new() };
    let has = |one: CapabilitySet| sets.effective.contains(one);
    let mut missing = Vec::new();
    if !has(CapabilitySet::NET_RAW) {
        missing.push("CAP_NET_RAW");
    }
    let admin = has(CapabilitySet::SYS_ADMIN);
    if !admin && !has(CapabilitySet::NET_ADMIN) {
        missing.push("CAP_NET_ADMIN");
    }
    if !admin && !has(CapabilitySet::BPF) {
        missing.push("CAP_BPF");
    }
    missing
}

/// How many bytes the user may lock (RLIMIT_MEMLOCK, the current limit); None when there is no limit.
pub fn locked_memory_limit() -> Option<u64> {
    getrlimit(Resource::Memlock).current
}
