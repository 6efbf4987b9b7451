//! The limits of the control group of this process, which a container or a unit of systemd has. Source: cgroups(7),
//! `admin-guide/cgroup-v2` of the kernel's documentation.

use std::fs;
use std::path::{Component, Path, PathBuf};

const ROOT: &str = "/sys/fs/cgroup";

/// The limits of a process by its control group and all groups around it.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of memory that are left, or None without a limit.
    pub memory_left: Option<u64>,
    /// Thousandths of a core, or None without a limit.
    pub thousandths: Option<u64>,
}

/// Returns the limits of this process. Groups of version 1 are not read.
pub fn limits() -> Limits {
    limits_of(Path::new(ROOT), &fs::read_to_string("/proc/self/cgroup").unwrap_or_default())
}

/// The smallest limit applies, because a group is also limited by those around it.
fn limits_of(root: &Path, text: &str) -> Limits {
    let Some(own) = text.lines().find_map(|line| line.strip_prefix("0::")) else { return Limits::default() };
    let groups = groups(root, own);
    Limits {
        memory_left: groups.iter().filter_map(|group| memory_left(group)).min(),
        thousandths: groups.iter().filter_map(|group| thousandths(group)).min(),
    }
}

/// Returns the folder of the group, and of each group around it. A group outside of the namespace (`/../other`) has no
/// folder there, but the root of the namespace has.
fn groups(root: &Path, own: &str) -> Vec<PathBuf> {
    let names = Path::new(own).components().filter_map(|part| match part {
        Component::Normal(name) => Some(Some(name)),
        Component::ParentDir => Some(None),
        _ => None,
    });
    let own: Option<PathBuf> = names.collect();
    let own = own.unwrap_or_default();
    own.ancestors().map(|group| root.join(group)).collect()
}

/// What is used includes the cache of files, which the kernel gives up when memory is short.
fn memory_left(group: &Path) -> Option<u64> {
    let read = |name: &str| fs::read_to_string(group.join(name)).ok();
    // The word `max` stands for no limit.
    let most: u64 = read("memory.max")?.trim().parse().ok()?;
    let used: u64 = read("memory.current")?.trim().parse().ok()?;
    let state = read("memory.stat").unwrap_or_default();
    let of = |name: &str| {
        let line = state.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.and_then(|number| number.parse::<u64>().ok()).unwrap_or(0)
    };
    let cache = of("active_file").saturating_add(of("inactive_file"));
    Some(most.saturating_sub(used.saturating_sub(cache)))
}

/// The file has the microseconds of processor time in a period, or `max`, and those of the period.
fn thousandths(group: &Path) -> Option<u64> {
    let text = fs::read_to_string(group.join("cpu.max")).ok()?;
    let mut numbers = text.split_whitespace().map(str::parse::<u64>);
    let (time, period) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
    time.saturating_mul(1000).checked_div(period)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seen: in a container, a run was killed for its memory or throttled, and nothing had been found.
    #[test]
    fn the_smallest_limit_of_a_group_and_those_around_it_applies() {
        let root = std::env::temp_dir().join(format!("netmem-doctor-group-{}", std::process::id()));
        let own = root.join("outer/own");
        fs::create_dir_all(&own).unwrap();
        let limits = |text: &str| limits_of(&root, text);
        assert_eq!(limits("0::/outer/own\n"), Limits::default(), "there is no such file");
        let write = |folder: &Path, files: &[(&str, &str)]| {
            files.iter().for_each(|(name, text)| fs::write(folder.join(name), text).unwrap());
        };
        write(&own, &[("memory.max", "max\n"), ("memory.current", "5000\n"), ("cpu.max", "150000 100000\n")]);
        write(&root.join("outer"), &[("memory.max", "9000\n"), ("memory.current", "6000\n")]);
        write(&root.join("outer"), &[("cpu.max", "max 100000\n")]);
        let found = Limits { memory_left: Some(3000), thousandths: Some(1500) };
        assert_eq!(limits("9:name=systemd:/x\n0::/outer/own\n"), found);
        write(&root.join("outer"), &[("memory.stat", "anon 4000\ninactive_file 1500\nactive_file 500\n")]);
        write(&root, &[("cpu.max", "50000 100000\n")]);
        let found = Limits { memory_left: Some(5000), thousandths: Some(500) };
        assert_eq!(limits("0::/outer/own\n"), found, "the cache of files can be given up");
        for outside in ["0::/../outer\n", "0::/\n"] {
            let found = Limits { memory_left: None, thousandths: Some(500) };
            assert_eq!(limits(outside), found, "only the root of the namespace is seen");
        }
        assert_eq!(limits("4:memory:/outer\n"), Limits::default(), "that is version 1");
        fs::remove_dir_all(&root).unwrap();
    }
}
