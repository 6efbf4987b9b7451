//! The privileges of this process, and its cores. Source: capabilities(7), getrlimit(2), sched_getaffinity(2).

use crate::host::Process;
use rustix::process::{Resource, getrlimit};
use rustix::thread::{CapabilitySet, CpuSet, capabilities, sched_getaffinity};

/// The capabilities that a dataplane may need.
const NEEDED: [(CapabilitySet, &str); 6] = [
    (CapabilitySet::NET_RAW, "CAP_NET_RAW"),
    (CapabilitySet::NET_ADMIN, "CAP_NET_ADMIN"),
    (CapabilitySet::BPF, "CAP_BPF"),
    (CapabilitySet::SYS_ADMIN, "CAP_SYS_ADMIN"),
    (CapabilitySet::IPC_LOCK, "CAP_IPC_LOCK"),
    (CapabilitySet::SYS_RESOURCE, "CAP_SYS_RESOURCE"),
];

pub fn process() -> Process {
    let effective = capabilities(None).map_or(CapabilitySet::empty(), |sets| sets.effective);
    let has = NEEDED.into_iter().filter(|(one, _)| effective.contains(*one));
    Process {
        capabilities: has.map(|(_, name)| name.to_owned()).collect(),
        locked_memory: getrlimit(Resource::Memlock).current,
    }
}

/// Returns the cores that this process may run on.
pub fn allowed_cores() -> Vec<u32> {
    let Ok(set) = sched_getaffinity(None) else { return Vec::new() };
    (0..CpuSet::MAX_CPU)
        .filter(|&core| set.is_set(core))
        .filter_map(|core| u32::try_from(core).ok())
        .collect()
}
