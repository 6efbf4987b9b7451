//! Gives up privileges once a process has what it needs: another user, fewer capabilities, no new privileges.
//!
//! All of this applies to the calling thread, and to the threads that it starts afterwards.
//!
//! Source: capabilities(7), setresuid(2), PR_SET_NO_NEW_PRIVS of prctl(2).

use super::user::remember_user;
use rustix::io::Errno;
use rustix::process::{Gid, Resource, Rlimit, Uid, getrlimit, setrlimit};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities, set_keep_capabilities, set_no_new_privs,
    set_thread_groups, set_thread_res_gid, set_thread_res_uid,
};

/// The capabilities that a broker keeps, as far as it has them. Sockets, programs and neighbours need the first three.
/// CAP_PERFMON is not needed with Linux 6.18; older kernels were not tried without it. CAP_SYS_ADMIN enters the network
/// namespace of an interface that was moved, and before Linux 5.8 replaces CAP_BPF. The last one looks up files that only
/// root may look up.
const OF_A_BROKER: CapabilitySet = CapabilitySet::NET_ADMIN
    .union(CapabilitySet::NET_RAW)
    .union(CapabilitySet::BPF)
    .union(CapabilitySet::PERFMON)
    .union(CapabilitySet::SYS_ADMIN)
    .union(CapabilitySet::DAC_OVERRIDE);

/// Which of a thread's capabilities are kept, as far as it has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// The capabilities that a broker needs.
    OfBroker,
    /// CAP_IPC_LOCK, which is in force only during the call that needs it: it locks packet memory again that is longer
    /// than the limit.
    ToLock,
    /// None.
    Nothing,
}

/// Gives up, for good, all capabilities of this thread that are not kept. The thread gains no others through any
/// program that it runs. If a user and group are given, it becomes that user and group, without further groups.
///
/// # Errors
/// The kernel's error: `PERM` for a user without CAP_SETUID and CAP_SETGID.
pub fn give_up(kept: Kept, user: Option<(u32, u32)>) -> Result<(), Errno> {
    let (permitted, effective) = match kept {
        Kept::OfBroker => (OF_A_BROKER, OF_A_BROKER),
        Kept::ToLock => (CapabilitySet::IPC_LOCK, CapabilitySet::empty()),
        Kept::Nothing => (CapabilitySet::empty(), CapabilitySet::empty()),
    };
    let now = capabilities(None)?;
    // Only CAP_SETPCAP narrows the bounding set. Without it no program that is run gains anything either.
    if now.effective.contains(CapabilitySet::SETPCAP) {
        for one in CapabilitySet::all().difference(effective).iter() {
            match remove_capability_from_bounding_set(one) {
                // A capability that this kernel does not know.
                Ok(()) | Err(Errno::INVAL) => {}
                Err(errno) => return Err(errno),
            }
        }
    }
    // A broker's programs, which undo changes of the host, keep the capabilities that the broker has for them.
    if kept != Kept::OfBroker {
        clear_ambient_capability_set()?;
    }
    if let Some((user, group)) = user {
        remember_user();
        set_keep_capabilities(true)?;
        become_user(Uid::from_raw(user), Gid::from_raw(group))?;
        set_keep_capabilities(false)?;
    }
    set_no_new_privs(true)?;
    let permitted = now.permitted.intersection(permitted);
    let effective = permitted.intersection(effective);
    let inheritable = now.inheritable.intersection(effective);
    set_capabilities(None, CapabilitySets { effective, permitted, inheritable })
}

fn become_user(user: Uid, group: Gid) -> Result<(), Errno> {
    set_thread_groups(&[])?;
    set_thread_res_gid(group, group, group)?;
    set_thread_res_uid(user, user, user)
}

/// Raises the limit on locked memory as far as this process may. Returns the limit in bytes, None for no limit.
pub fn raise_lock_limit() -> Option<u64> {
    let before = getrlimit(Resource::Memlock);
    let none = Rlimit { current: None, maximum: None };
    let highest = Rlimit { current: before.maximum, maximum: before.maximum };
    // If neither is allowed, the limit is unchanged.
    let _ = setrlimit(Resource::Memlock, none).or_else(|_| setrlimit(Resource::Memlock, highest));
    getrlimit(Resource::Memlock).current
}

/// Raises the limit on open descriptors as far as this process may. A port on a queue has up to eight, and the usual limit
/// is for programs that call select(2).
pub fn raise_descriptor_limit() {
    let maximum = getrlimit(Resource::Nofile).maximum;
    // If it is not allowed, the limit is unchanged.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}

/// How many descriptors this process may have open (RLIMIT_NOFILE, the current limit); None when there is no limit.
pub fn descriptor_limit() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::capability::with_lock_capability;
    use std::thread;

    fn status(key: &str) -> String {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(key)).unwrap();
        line.trim_start_matches(':').trim().to_owned()
    }

    #[test]
    fn a_thread_that_keeps_none_has_none_and_gains_none_and_the_others_are_as_they_were() {
        let before = status("CapEff");
        thread::spawn(|| {
            give_up(Kept::Nothing, None).unwrap();
            for set in ["CapEff", "CapPrm", "CapInh", "CapAmb"] {
                assert_eq!(u64::from_str_radix(&status(set), 16), Ok(0), "{set}");
            }
            assert_eq!(status("NoNewPrivs"), "1");
            let below = thread::spawn(|| status("CapEff")).join().unwrap();
            assert_eq!(u64::from_str_radix(&below, 16), Ok(0));
        })
        .join()
        .unwrap();
        assert_eq!(status("CapEff"), before);
    }

    #[test]
    fn one_that_keeps_what_locks_memory_has_it_in_force_over_a_call_alone() {
        let has_it = capabilities(None).unwrap().permitted.contains(CapabilitySet::IPC_LOCK);
        thread::spawn(move || {
            give_up(Kept::ToLock, None).unwrap();
            let in_force = || capabilities(None).unwrap().effective.contains(CapabilitySet::IPC_LOCK);
            let during = with_lock_capability(in_force);
            assert_eq!((in_force(), during), (false, has_it));
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_broker_keeps_what_it_had_of_those_that_it_needs() {
        thread::spawn(|| {
            let before = capabilities(None).unwrap().effective;
            give_up(Kept::OfBroker, None).unwrap();
            assert_eq!(capabilities(None).unwrap().effective, before.intersection(OF_A_BROKER));
        })
        .join()
        .unwrap();
    }
}
