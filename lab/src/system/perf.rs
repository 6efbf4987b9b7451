//! perf_event_open(2): the processor's own counts for one thread in user mode.
//!
//! Most virtual machines have no such counters, and a kernel may forbid them (`kernel.perf_event_paranoid` above 2
//! without CAP_PERFMON). Others have some and lack some. [`Counters::open`] opens those that there are.
//!
//! Source: perf_event_open(2), `linux/perf_event.h`.

use rustix::io::read;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// The countable events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// Instructions retired.
    Instructions,
    /// Cycles of the core, at its current frequency.
    Cycles,
    /// Branches retired.
    Branches,
    /// Mispredicted branches.
    BranchMisses,
    /// Loads that reached the last-level cache.
    LastLevelLoads,
    /// Loads that missed the last-level cache.
    LastLevelMisses,
    /// Page faults. The kernel counts them, so they are available on every test machine.
    #[cfg(test)]
    PageFaults,
}

impl Event {
    /// `type` and `config` of `struct perf_event_attr`.
    fn encoding(self) -> (u32, u64) {
        const HARDWARE: u32 = 0;
        #[cfg(test)]
        const SOFTWARE: u32 = 1;
        const CACHE: u32 = 3;
        /// PERF_COUNT_HW_CACHE_LL, OP_READ. The result is in the upper bits.
        const LAST_LEVEL_READ: u64 = 2;
        const MISS: u64 = 1 << 16;
        match self {
            Self::Cycles => (HARDWARE, 0),
            Self::Instructions => (HARDWARE, 1),
            Self::Branches => (HARDWARE, 4),
            Self::BranchMisses => (HARDWARE, 5),
            Self::LastLevelLoads => (CACHE, LAST_LEVEL_READ),
            Self::LastLevelMisses => (CACHE, LAST_LEVEL_READ | MISS),
            #[cfg(test)]
            Self::PageFaults => (SOFTWARE, 2),
        }
    }
}

/// The first published form of `struct perf_event_attr` (PERF_ATTR_SIZE_VER0). Every kernel accepts it.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint_type: u32,
    config1: u64,
}

/// Disabled at first, and not counting in the kernel or in a hypervisor.
const DISABLED: u64 = 1;
const EXCLUDE_KERNEL: u64 = 1 << 5;
const EXCLUDE_HYPERVISOR: u64 = 1 << 6;
/// The count is followed by the nanoseconds for which it was enabled, and those for which it ran.
const TIME_ENABLED: u64 = 1;
const TIME_RUNNING: u64 = 2;

const CLOSE_ON_EXEC: libc::c_ulong = 8;
const ENABLE: libc::c_ulong = 0x2400;
const DISABLE: libc::c_ulong = 0x2401;
const RESET: libc::c_ulong = 0x2403;

/// Counters of the thread that opened them.
#[derive(Debug)]
pub struct Counters(Vec<OwnedFd>);

impl Counters {
    /// Opens a counter for each of `events`, on the calling thread. Returns whether there is one of each event, in their
    /// order: the error of perf_event_open(2) is `NotFound` if the processor, or its hypervisor, has no such counter, and
    /// `PermissionDenied` if the kernel forbids it.
    pub fn open(events: &[Event]) -> (Self, Vec<io::Result<()>>) {
        let mut counters = Vec::new();
        let opened = events.iter().map(|event| open(*event).map(|counter| counters.push(counter)));
        let opened = opened.collect();
        (Self(counters), opened)
    }

    /// Counts while `body` runs, which must stay on this thread. Returns the counts of the opened counters, in the order of
    /// their events.
    ///
    /// If there are more events than counters, the kernel multiplexes them, and a count is scaled to the whole
    /// time.
    ///
    /// # Errors
    /// The error of ioctl(2) or read(2).
    pub fn count(&mut self, body: impl FnOnce()) -> io::Result<Vec<f64>> {
        self.tell(RESET)?;
        self.tell(ENABLE)?;
        body();
        self.tell(DISABLE)?;
        self.0.iter().map(value).collect()
    }

    fn tell(&self, request: libc::c_ulong) -> io::Result<()> {
        for counter in &self.0 {
            // SAFETY: the descriptor is open, and these requests take a plain number.
            if unsafe { libc::ioctl(counter.as_raw_fd(), request, 0) } < 0 {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(())
    }
}

fn open(event: Event) -> io::Result<OwnedFd> {
    let (kind, config) = event.encoding();
    let attributes = Attributes {
        kind,
        size: size_of::<Attributes>() as u32,
        config,
        read_format: TIME_ENABLED | TIME_RUNNING,
        flags: DISABLED | EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR,
        ..Attributes::default()
    };
    let (this_thread, any_core, no_group): (libc::pid_t, libc::c_int, libc::c_int) = (0, -1, -1);
    // SAFETY: the kernel reads `size` bytes of the attributes, which is what they have, and keeps no pointer.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attributes,
            this_thread,
            any_core,
            no_group,
            CLOSE_ON_EXEC,
        )
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a new descriptor that no other code has.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as libc::c_int) })
}

/// Returns the count, scaled up if the counter was multiplexed.
fn value(counter: &OwnedFd) -> io::Result<f64> {
    let mut bytes = [0; 24];
    if read(counter, &mut bytes)? != bytes.len() {
        return Err(io::Error::other("a counter gave less than its count and two times"));
    }
    let (words, _) = bytes.as_chunks::<8>();
    let [count, enabled, running] = [words[0], words[1], words[2]].map(u64::from_ne_bytes);
    scaled(count, enabled, running)
        .ok_or_else(|| io::Error::other("a counter never ran: all of the processor's are taken"))
}

fn scaled(count: u64, enabled: u64, running: u64) -> Option<f64> {
    match running {
        0 if enabled > 0 => None,
        0 => Some(count as f64),
        _ => Some(count as f64 * (enabled as f64 / running as f64).max(1.0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hint::black_box;

    #[test]
    fn the_attributes_have_the_size_that_the_kernel_knows() {
        assert_eq!(size_of::<Attributes>(), 64);
    }

    #[test]
    fn a_counter_that_ran_half_of_the_time_saw_half() {
        assert_eq!(scaled(100, 10, 5), Some(200.0));
        assert_eq!(scaled(100, 10, 10), Some(100.0));
        assert_eq!(scaled(0, 10, 0), None);
    }

    #[test]
    fn page_faults_of_touched_memory_are_counted_where_the_kernel_lets_us() {
        let (mut counters, opened) = Counters::open(&[Event::PageFaults]);
        if let Some(Err(error)) = opened.first() {
            let forbidden = [io::ErrorKind::PermissionDenied, io::ErrorKind::Unsupported];
            return assert!(forbidden.contains(&error.kind()), "{error}");
        }
        // Page faults count in user mode, whatever handles them. 4 MiB are mapped separately and never touched
        // before.
        const PAGES: usize = 1_024;
        let counts = counters.count(|| {
            let mut memory = Vec::<u8>::with_capacity(PAGES * 4_096);
            memory.resize(PAGES * 4_096, 1);
            black_box(&memory);
        });
        // Huge pages cause fewer of them.
        assert!(counts.unwrap()[0] >= 1.0);
        let nothing = counters.count(|| ()).unwrap();
        assert!(nothing[0] < PAGES as f64, "{nothing:?}");
    }
}
