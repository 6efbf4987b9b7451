//! The fingerprint of the machine: what a reader must know to compare two reports.

use std::fs;

use serde::{Deserialize, Serialize};

use super::clock::Clock;

/// Where a report was made; a field is null where the system does not tell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// The processor's name.
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
    /// Huge pages: how many of 2 MiB, and whether transparent ones are in use.
    pub hugepages: Option<String>,
    /// The frequency governor of the first core.
    pub governor: Option<String>,
}

impl Machine {
    /// Reads the fingerprint of this machine from /proc and /sys.
    pub fn read(clock: &impl Clock, cores: usize) -> Self {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").ok();
        Self {
            cpu: cpuinfo.as_deref().and_then(model),
            cores,
            kernel: line("/proc/sys/kernel/osrelease"),
            is_virtual: cpuinfo.as_deref().and_then(under_hypervisor),
            tsc_ghz: (clock.ticks_per_ns() * 1e3).round() / 1e3,
            hugepages: hugepages(
                line("/proc/sys/vm/nr_hugepages"),
                line("/sys/kernel/mm/transparent_hugepage/enabled"),
            ),
            governor: line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        }
    }
}

fn line(path: &str) -> Option<String> {
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

fn model(cpuinfo: &str) -> Option<String> {
    field(cpuinfo, "model name").map(str::to_owned)
}

/// The flag `hypervisor` stands for CPUID leaf 1, ECX bit 31, which no processor sets and every hypervisor does.
fn under_hypervisor(cpuinfo: &str) -> Option<bool> {
    field(cpuinfo, "flags").map(|flags| flags.split_whitespace().any(|flag| flag == "hypervisor"))
}

fn hugepages(reserved: Option<String>, transparent: Option<String>) -> Option<String> {
    let reserved = reserved.map(|count| format!("{count} of 2 MiB"));
    let transparent = transparent.as_deref().and_then(chosen).map(|mode| format!("transparent: {mode}"));
    let known: Vec<String> = reserved.into_iter().chain(transparent).collect();
    (!known.is_empty()).then(|| known.join(", "))
}

/// The word in brackets of `always [madvise] never`.
fn chosen(modes: &str) -> Option<&str> {
    Some(modes.split_once('[')?.1.split_once(']')?.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CPUINFO: &str =
        "processor\t: 0\nmodel name\t: A Processor @ 2.60GHz\nflags\t\t: fpu tsc hypervisor\n";

    #[test]
    fn the_model_and_the_hypervisor_are_read_from_cpuinfo() {
        assert_eq!(model(CPUINFO).as_deref(), Some("A Processor @ 2.60GHz"));
        assert_eq!(under_hypervisor(CPUINFO), Some(true));
        assert_eq!(under_hypervisor("flags : fpu hypervisor_like\n"), Some(false));
        assert_eq!((model(""), under_hypervisor("")), (None, None));
    }

    #[test]
    fn huge_pages_are_told_as_far_as_known() {
        let modes = Some("always [madvise] never".to_owned());
        assert_eq!(hugepages(Some("8".into()), modes).as_deref(), Some("8 of 2 MiB, transparent: madvise"));
        assert_eq!(hugepages(None, None), None);
    }
}
