//! The privileges of this process, and its cores. Source: capabilities(7), user_namespaces(7), getrlimit(2),
//! sched_getaffinity(2).

use crate::host::Process;
use rustix::process::{Resource, getrlimit};
use rustix::thread::{CapabilitySet, CpuSet, capabilities, sched_getaffinity};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;

/// The capabilities that a dataplane may need.
const NEEDED: [(CapabilitySet, &str); 6] = [
    (CapabilitySet::NET_RAW, "CAP_NET_RAW"),
    (CapabilitySet::NET_ADMIN, "CAP_NET_ADMIN"),
    (CapabilitySet::BPF, "CAP_BPF"),
    (CapabilitySet::SYS_ADMIN, "CAP_SYS_ADMIN"),
    (CapabilitySet::IPC_LOCK, "CAP_IPC_LOCK"),
    (CapabilitySet::SYS_RESOURCE, "CAP_SYS_RESOURCE"),
];

/// Those of them that the kernel asks for in the first user namespace only. Those for the network are asked for in the user
/// namespace that has made the network namespace, except by bpf(2), which also needs one of these.
const OF_THE_FIRST: CapabilitySet = CapabilitySet::BPF
    .union(CapabilitySet::SYS_ADMIN)
    .union(CapabilitySet::IPC_LOCK)
    .union(CapabilitySet::SYS_RESOURCE);
/// The number of the first user namespace (`PROC_USER_INIT_INO`).
const FIRST: u64 = 0xEFFF_FFFD;

pub fn process() -> Process {
    let number = fs::metadata("/proc/self/ns/user").ok().map(|file| file.ino());
    let in_user_namespace = is_another(number, fs::read_to_string("/proc/self/uid_map").ok().as_deref());
    let effective = capabilities(None).map_or(CapabilitySet::empty(), |sets| sets.effective);
    Process {
        capabilities: names(effective, in_user_namespace),
        in_user_namespace,
        locked_memory: getrlimit(Resource::Memlock).current,
    }
}

/// Returns true for a user namespace that is not the first, by its number and its map of users. The first maps each user to itself.
fn is_another(number: Option<u64>, map: Option<&str>) -> bool {
    let is_whole = |map: &str| map.split_whitespace().eq(["0", "0", "4294967295"]);
    number.is_some_and(|number| number != FIRST) || map.is_some_and(|map| !is_whole(map))
}

/// Returns the names of the needed capabilities that have an effect.
fn names(effective: CapabilitySet, in_user_namespace: bool) -> BTreeSet<String> {
    let counts = if in_user_namespace { effective.difference(OF_THE_FIRST) } else { effective };
    let has = NEEDED.into_iter().filter(|(one, _)| counts.contains(*one));
    has.map(|(_, name)| name.to_owned()).collect()
}

/// Returns the cores that this process may run on.
pub fn allowed_cores() -> Vec<u32> {
    let Ok(set) = sched_getaffinity(None) else { return Vec::new() };
    (0..CpuSet::MAX_CPU)
        .filter(|&core| set.is_set(core))
        .filter_map(|core| u32::try_from(core).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Found in a review: in a rootless container nothing was found, and bpf(2) failed.
    #[test]
    fn capabilities_of_a_user_namespace_do_not_load_programs_or_lock_memory() {
        let all = NEEDED.into_iter().fold(CapabilitySet::empty(), |all, (one, _)| all | one);
        assert_eq!(names(all, false).len(), NEEDED.len());
        assert_eq!(names(all, true), ["CAP_NET_ADMIN", "CAP_NET_RAW"].map(str::to_owned).into());
        let whole = Some("         0          0 4294967295\n");
        assert!(!is_another(Some(FIRST), whole) && !is_another(None, None));
        assert!(is_another(Some(FIRST - 1), whole), "one that root has made");
        assert!(is_another(None, Some("         0       1000          1\n")));
    }
}
