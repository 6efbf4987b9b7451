//! The privileges of the process: capabilities and the limit on locked memory.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};
use std::sync::{Mutex, PoisonError};

/// Admits one call at a time: otherwise a limit that another call has lifted would be taken for the original limit.
static LIFTED: Mutex<()> = Mutex::new(());

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

/// Whether no capability of this thread is in force.
pub fn has_given_up_privileges() -> bool {
    capabilities(None).is_ok_and(|sets| sets.effective.is_empty())
}

/// How many bytes the user may lock (RLIMIT_MEMLOCK, the current limit); None when there is no limit.
pub fn locked_memory_limit() -> Option<u64> {
    getrlimit(Resource::Memlock).current
}

/// Calls `call` with CAP_IPC_LOCK in force, if this thread is permitted the capability and does not have it in force.
pub fn with_lock_capability<T>(call: impl FnOnce() -> T) -> T {
    let lock = CapabilitySet::IPC_LOCK;
    let before = capabilities(None)
        .ok()
        .filter(|sets| sets.permitted.contains(lock) && !sets.effective.contains(lock));
    let Some(before) = before else { return call() };
    let raised = CapabilitySets { effective: before.effective.union(lock), ..before };
    // If it cannot be raised, the call reports what it lacks.
    let _ = set_capabilities(None, raised);
    let done = call();
    // The state before is allowed.
    let _ = set_capabilities(None, before);
    done
}

/// Calls `call` without a limit on locked memory, or with the highest limit that this process may have. The limit is
/// restored afterwards.
pub fn without_lock_limit<T>(call: impl FnOnce() -> T) -> T {
    let _alone = LIFTED.lock().unwrap_or_else(PoisonError::into_inner);
    let before = getrlimit(Resource::Memlock);
    let highest = Rlimit { current: before.maximum, maximum: before.maximum };
    // Only CAP_SYS_RESOURCE raises the maximum.
    let none = Rlimit { current: None, maximum: None };
    let is_lifted =
        setrlimit(Resource::Memlock, none).or_else(|_| setrlimit(Resource::Memlock, highest)).is_ok();
    let done = call();
    if is_lifted {
        // The limit before is allowed again.
        setrlimit(Resource::Memlock, before).ok();
    }
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seen: on Linux 5.10 root could not make the maps of an xdp port, since they count as locked memory there.
    #[test]
    fn the_limit_on_locked_memory_is_lifted_over_a_call_and_as_it_was_behind_it() {
        let before = getrlimit(Resource::Memlock);
        let within = without_lock_limit(|| getrlimit(Resource::Memlock));
        let is_highest = |limit: &Rlimit| limit.current.is_none() || limit.current == before.maximum;
        assert!(is_highest(&within), "{within:?} of {before:?}");
        assert_eq!(getrlimit(Resource::Memlock), before);
    }
}
