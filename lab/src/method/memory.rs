//! The memory that an experiment can still take. Source: proc_meminfo(5), cgroups(7), `admin-guide/cgroup-v2` of the
//! kernel's documentation.

use std::fs;
use std::path::{Component, Path, PathBuf};

const MEMINFO: &str = "/proc/meminfo";
const GROUPS: &str = "/sys/fs/cgroup";

/// Returns the bytes of memory that can be allocated without reclaim, by the kernel's estimate (MemAvailable), and within
/// the limits of this process's control group, or `None` if there is no estimate.
pub fn memory_available() -> Option<usize> {
    let of_machine = available(&fs::read_to_string(MEMINFO).ok()?)?;
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    Some(left_in_groups(Path::new(GROUPS), &own).map_or(of_machine, |left| left.min(of_machine)))
}

/// The reserved huge pages of the machine's usual size.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HugePages {
    /// How many are free.
    pub free: usize,
    /// Bytes of one.
    pub bytes: usize,
}

impl HugePages {
    /// Reads how many there are. None are free if the system does not tell.
    pub fn read() -> Self {
        fs::read_to_string(MEMINFO).map_or(Self::default(), |text| Self::of(&text))
    }

    /// The number of pages on which `bytes` lie.
    pub fn holding(self, bytes: usize) -> usize {
        if self.bytes == 0 { 0 } else { bytes.div_ceil(self.bytes) }
    }

    fn of(meminfo: &str) -> Self {
        let free = line(meminfo, "HugePages_Free:").and_then(|text| text.parse().ok());
        let bytes = line(meminfo, "Hugepagesize:").and_then(kibibytes);
        free.zip(bytes).map_or(Self::default(), |(free, bytes)| Self { free, bytes })
    }
}

fn line<'a>(meminfo: &'a str, key: &str) -> Option<&'a str> {
    meminfo.lines().find_map(|line| line.strip_prefix(key)).map(str::trim)
}

/// `5 kB` are 5,120 bytes.
fn kibibytes(text: &str) -> Option<usize> {
    text.strip_suffix("kB")?.trim_end().parse::<usize>().ok()?.checked_mul(1024)
}

fn available(meminfo: &str) -> Option<usize> {
    line(meminfo, "MemAvailable:").and_then(kibibytes)
}

/// Returns the bytes that are left in the group and in each group around it, or `None` without a limit. `own` is the text
/// of `/proc/self/cgroup`. Groups of version 1 are not read.
fn left_in_groups(root: &Path, own: &str) -> Option<usize> {
    let own = own.lines().find_map(|line| line.strip_prefix("0::"))?;
    // A group outside of the namespace (`/../other`) has no folder there, but the root of the namespace has.
    let names = Path::new(own).components().filter_map(|part| match part {
        Component::Normal(name) => Some(Some(name)),
        Component::ParentDir => Some(None),
        _ => None,
    });
    let own = names.collect::<Option<PathBuf>>().unwrap_or_default();
    own.ancestors().filter_map(|group| left(&root.join(group))).min()
}

/// What is used includes the cache of files, which the kernel gives up when memory is short.
fn left(group: &Path) -> Option<usize> {
    let read = |name: &str| fs::read_to_string(group.join(name)).ok();
    // The word `max` stands for no limit.
    let most: usize = read("memory.max")?.trim().parse().ok()?;
    let used: usize = read("memory.current")?.trim().parse().ok()?;
    let state = read("memory.stat").unwrap_or_default();
    let of = |name: &str| {
        let line = state.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.and_then(|number| number.parse::<usize>().ok()).unwrap_or(0)
    };
    let cache = of("active_file").saturating_add(of("inactive_file"));
    Some(most.saturating_sub(used.saturating_sub(cache)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_that_is_available_is_read_from_meminfo() {
        let text = "MemFree:  1 kB\nMemAvailable:   23068672 kB\nSwapTotal: 0 kB\n";
        assert_eq!(available(text), Some(22 << 30));
        assert_eq!((available("MemFree: 1 kB\n"), available("MemAvailable: many\n")), (None, None));
        assert!(memory_available().is_some_and(|bytes| bytes > 0));
    }

    #[test]
    fn free_huge_pages_are_read_with_their_size_and_a_part_of_one_takes_all_of_it() {
        let pages = HugePages::of(
            "HugePages_Total:       9\nHugePages_Free:        7\nHugepagesize:       2048 kB\n",
        );
        assert_eq!(pages, HugePages { free: 7, bytes: 2 << 20 });
        assert_eq!([1, 2 << 20, (2 << 20) + 1].map(|bytes| pages.holding(bytes)), [1, 1, 2]);
        assert_eq!(HugePages::of("HugePages_Free: 7\n"), HugePages::default());
    }

    /// Seen: in a container of little memory, a set-up took what the machine had, and its process was killed.
    #[test]
    fn the_smallest_limit_of_a_group_and_those_around_it_applies() {
        let root = std::env::temp_dir().join(format!("netmem-lab-groups-{}", std::process::id()));
        let own = root.join("outer/own");
        fs::create_dir_all(&own).unwrap();
        let write = |folder: &Path, [most, used]: [&str; 2]| {
            fs::write(folder.join("memory.max"), format!("{most}\n")).unwrap();
            fs::write(folder.join("memory.current"), format!("{used}\n")).unwrap();
        };
        let left = |text: &str| left_in_groups(&root, text);
        assert_eq!(left("0::/outer/own\n"), None, "there is no such file");
        write(&own, ["max", "5000"]);
        write(&root.join("outer"), ["9000", "6000"]);
        assert_eq!(left("9:name=systemd:/x\n0::/outer/own\n"), Some(3000));
        fs::write(root.join("outer/memory.stat"), "anon 4000\ninactive_file 1500\nactive_file 500\n")
            .unwrap();
        assert_eq!(left("0::/outer/own\n"), Some(5000), "the cache of files can be given up");
        write(&own, ["2000", "1500"]);
        assert_eq!(left("0::/outer/own\n"), Some(500));
        for other in ["0::/../outer\n", "0::/\n", "4:memory:/outer\n"] {
            assert_eq!(left(other), None, "{other}");
        }
        fs::remove_dir_all(&root).unwrap();
    }
}
