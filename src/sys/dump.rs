//! The contents of a core dump of a process.

use rustix::mm::{Advice, madvise};

/// Leaves mapped memory out of core dumps, because it would show packets to every reader of a dump. If the kernel
/// refuses, the memory is in the dumps.
#[cold]
pub(super) fn leave_out_of_dumps(base: *mut u8, len: usize) {
    // SAFETY: the caller mapped the range just now; the advice changes no byte.
    let _ = unsafe { madvise(base.cast(), len, Advice::LinuxDontDump) };
}

#[cfg(test)]
mod tests {
    use crate::sys::memfd::SharedMemory;
    use crate::sys::region::{BackingPreference, Region};
    use std::fs;

    /// The flags of the first mapping whose line has `what` in it, as smaps(5) has them.
    fn flags(what: &str) -> String {
        let maps = fs::read_to_string("/proc/self/smaps").unwrap();
        let mut found = false;
        for line in maps.lines() {
            found |= line.contains(what);
            if let Some(flags) = line.strip_prefix("VmFlags:").filter(|_| found) {
                return flags.to_owned();
            }
        }
        panic!("there is no mapping {what}")
    }

    #[test]
    fn frames_and_what_peers_share_are_in_no_core_dump() {
        let private = Region::new(2 << 20, BackingPreference::Small).unwrap();
        let shared = Region::shared(2 << 20, BackingPreference::Small).unwrap();
        let _ring = SharedMemory::new("in-no-dump", 4096).unwrap();
        let begin = |region: &Region| format!("{:x}-", region.base().addr());
        for what in [begin(&private), begin(&shared), "memfd:in-no-dump".into()] {
            let flags = flags(&what);
            assert!(flags.split_whitespace().any(|flag| flag == "dd"), "{flags}");
        }
    }
}
