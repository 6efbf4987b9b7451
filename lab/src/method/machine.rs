//! The fingerprint of the machine, which a reader needs to compare two reports.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::clock::Clock;

/// The machine of a report. A field is null if the system does not provide the value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// The processor's name, with its family and model where it has them: under a hypervisor several generations may
    /// have one name.
    pub cpu: Option<String>,
    /// Cores that this process may use.
    pub cores: usize,
    /// The kernel's release.
    pub kernel: Option<String>,
    /// True under a hypervisor.
    #[serde(rename = "virtual")]
    pub is_virtual: Option<bool>,
    /// Rate of the time stamp counter, in GHz: the "cycles" of every row.
    pub tsc_ghz: f64,
    /// True if that counter keeps its rate at any frequency of the processor and also runs while the processor
    /// sleeps.
    #[serde(default)]
    pub tsc_invariant: Option<bool>,
    /// The caches of the first core, nearest first. Empty if the system does not report them.
    #[serde(default)]
    pub caches: Vec<Cache>,
    /// Huge pages: the number of 2 MiB pages, and whether transparent ones are in use.
    pub hugepages: Option<String>,
    /// The frequency governor of the first core.
    pub governor: Option<String>,
}

/// One cache of the first core.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cache {
    /// 1 is the nearest.
    pub level: u32,
    /// `data`, `instruction` or `unified`.
    pub kind: String,
    /// Its size.
    pub bytes: u64,
    /// Cores that share it.
    pub shared_by: usize,
}

/// The directory in which Linux describes the first core's caches, with one directory for each.
const CACHES: &str = "/sys/devices/system/cpu/cpu0/cache";

impl Machine {
    /// Reads the fingerprint of this machine from /proc and /sys.
    pub fn read(clock: &impl Clock, cores: usize) -> Self {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").ok();
        Self {
            cpu: cpuinfo.as_deref().and_then(processor),
            cores,
            kernel: line("/proc/sys/kernel/osrelease"),
            is_virtual: cpuinfo.as_deref().and_then(under_hypervisor),
            tsc_ghz: (clock.ticks_per_ns() * 1e3).round() / 1e3,
            tsc_invariant: cpuinfo.as_deref().and_then(keeps_its_rate),
            caches: caches(Path::new(CACHES)),
            hugepages: hugepages(
                line("/proc/sys/vm/nr_hugepages"),
                line("/sys/kernel/mm/transparent_hugepage/enabled"),
            ),
            governor: line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        }
    }

    /// Returns true if both have the same processor, cores and kernel, by which reports tell machines apart.
    pub fn is_named_as(&self, other: &Self) -> bool {
        (&self.cpu, self.cores, &self.kernel) == (&other.cpu, other.cores, &other.kernel)
    }
}

fn line(path: impl AsRef<Path>) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

fn field<'a>(cpuinfo: &'a str, name: &str) -> Option<&'a str> {
    cpuinfo
        .lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(key, _)| key.trim() == name)
        .map(|(_, v)| v.trim())
}

fn processor(cpuinfo: &str) -> Option<String> {
    let name = field(cpuinfo, "model name")?;
    Some(match (field(cpuinfo, "cpu family"), field(cpuinfo, "model")) {
        (Some(family), Some(model)) => format!("{name} (family {family}, model {model})"),
        _ => name.to_owned(),
    })
}

/// The flag `hypervisor` stands for CPUID leaf 1, ECX bit 31, which no processor sets and every hypervisor does.
fn under_hypervisor(cpuinfo: &str) -> Option<bool> {
    field(cpuinfo, "flags").map(|flags| flags.split_whitespace().any(|flag| flag == "hypervisor"))
}

/// The flags `constant_tsc` and `nonstop_tsc`: one rate in every P-state and in every C-state.
fn keeps_its_rate(cpuinfo: &str) -> Option<bool> {
    let flags: Vec<&str> = field(cpuinfo, "flags")?.split_whitespace().collect();
    Some(["constant_tsc", "nonstop_tsc"].iter().all(|flag| flags.contains(flag)))
}

/// Returns the caches under `directory`: `index0`, `index1` and so on (Linux,
/// Documentation/ABI/testing/sysfs-devices-system-cpu).
fn caches(directory: &Path) -> Vec<Cache> {
    let cache = |index: usize| {
        let text = |name: &str| line(directory.join(format!("index{index}")).join(name));
        Some(Cache {
            level: text("level")?.parse().ok()?,
            kind: text("type")?.to_lowercase(),
            bytes: kibibytes(&text("size")?)? << 10,
            shared_by: listed_cores(&text("shared_cpu_list")?)?,
        })
    };
    (0..).map_while(cache).collect()
}

/// `48K` is 48.
fn kibibytes(size: &str) -> Option<u64> {
    size.strip_suffix('K')?.parse().ok()
}

/// Returns the number of cores in a list such as `0-3,8`.
fn listed_cores(list: &str) -> Option<usize> {
    let part = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        Some((last.checked_sub(first)?) + 1)
    };
    list.split(',').map(part).sum()
}

fn hugepages(reserved: Option<String>, transparent: Option<String>) -> Option<String> {
    let reserved = reserved.map(|count| format!("{count} of 2 MiB"));
    let transparent = transparent.as_deref().and_then(chosen).map(|mode| format!("transparent: {mode}"));
    let known: Vec<String> = reserved.into_iter().chain(transparent).collect();
    (!known.is_empty()).then(|| known.join(", "))
}

/// Returns the word in brackets of `always [madvise] never`.
fn chosen(modes: &str) -> Option<&str> {
    Some(modes.split_once('[')?.1.split_once(']')?.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CPUINFO: &str =
        "processor\t: 0\nmodel name\t: A Processor @ 2.60GHz\nflags\t\t: fpu tsc hypervisor\n";

    #[test]
    fn the_processor_and_the_hypervisor_are_read_from_cpuinfo() {
        assert_eq!(processor(CPUINFO).as_deref(), Some("A Processor @ 2.60GHz"));
        assert_eq!(under_hypervisor(CPUINFO), Some(true));
        assert_eq!(under_hypervisor("flags : fpu hypervisor_like\n"), Some(false));
        assert_eq!((processor(""), under_hypervisor("")), (None, None));
    }

    #[test]
    fn two_generations_under_one_name_are_two_processors() {
        let of =
            |model| format!("cpu family\t: 25\nmodel\t\t: {model}\nmodel name\t: AMD EPYC\nstepping\t: 1\n");
        assert_eq!(processor(&of(1)).as_deref(), Some("AMD EPYC (family 25, model 1)"));
        assert_eq!(processor(&of(17)).as_deref(), Some("AMD EPYC (family 25, model 17)"));
    }

    #[test]
    fn a_counter_keeps_its_rate_only_with_both_flags() {
        assert_eq!(keeps_its_rate("flags : constant_tsc nonstop_tsc\n"), Some(true));
        assert_eq!(keeps_its_rate(CPUINFO), Some(false));
        assert_eq!(keeps_its_rate(""), None);
    }

    #[test]
    fn caches_are_read_with_their_size_and_who_shares_them() {
        let directory = std::env::temp_dir().join(format!("netmem-lab-caches-{}", std::process::id()));
        for (index, [level, kind, size, cores]) in
            [["1", "Data", "48K", "0"], ["3", "Unified", "245760K", "0-1,4"]].iter().enumerate()
        {
            let index = directory.join(format!("index{index}"));
            fs::create_dir_all(&index).unwrap();
            for (name, text) in [("level", level), ("type", kind), ("size", size), ("shared_cpu_list", cores)]
            {
                fs::write(index.join(name), format!("{text}\n")).unwrap();
            }
        }
        let found = caches(&directory);
        fs::remove_dir_all(&directory).unwrap();
        let cache =
            |level, kind: &str, bytes, shared_by| Cache { level, kind: kind.into(), bytes, shared_by };
        assert_eq!(found, [cache(1, "data", 48 << 10, 1), cache(3, "unified", 240 << 20, 3)]);
        assert_eq!(caches(&directory), []);
    }

    #[test]
    fn huge_pages_are_reported_as_far_as_known() {
        let modes = Some("always [madvise] never".to_owned());
        assert_eq!(hugepages(Some("8".into()), modes).as_deref(), Some("8 of 2 MiB, transparent: madvise"));
        assert_eq!(hugepages(None, None), None);
    }
}
