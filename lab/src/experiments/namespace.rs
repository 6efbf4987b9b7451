//! A network namespace of an experiment's own, by ip(8). COLD.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};
use std::{fs, thread};

use netmem::sys::netns;

/// A network namespace; gone when dropped.
#[derive(Debug)]
pub(super) struct Namespace {
    name: String,
}

impl Namespace {
    /// Makes one, with `place` in its name.
    ///
    /// # Errors
    /// Why that cannot be done here.
    pub(super) fn new(place: &str) -> Result<Namespace, String> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        static SWEPT: Once = Once::new();
        SWEPT.call_once(sweep);
        // Relaxed: a number that nobody else has is all it is for.
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("netmem-lab-{}-{number}-{place}", std::process::id());
        ip(&format!("netns add {name}")).map_err(|why| format!("no network namespaces: {why}"))?;
        Ok(Namespace { name })
    }

    /// What ip-netns(8) calls it.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Runs `f` on a thread inside.
    ///
    /// # Errors
    /// Why it cannot be entered.
    pub(super) fn inside<T: Send>(&self, f: impl FnOnce() -> T + Send) -> Result<T, String> {
        netns::inside(&self.name, f).map_err(|error| format!("cannot enter a network namespace: {error}"))
    }

    /// Writes a setting below `/proc/sys/net`.
    ///
    /// # Errors
    /// What the system says.
    pub(super) fn set(&self, setting: &str, value: &str) -> Result<(), String> {
        let write = || fs::write(format!("/proc/sys/net/{setting}"), value);
        self.inside(write)?.map_err(|error| format!("{setting}: {error}"))
    }

    /// Runs ip(8) inside with these words.
    ///
    /// # Errors
    /// What it says.
    pub(super) fn ip(&self, words: &str) -> Result<(), String> {
        ip(&format!("-n {} {words}", self.name))
    }

    /// Has ip(8) do all that `lines` say, one by one.
    ///
    /// # Errors
    /// What it says about the first that fails.
    pub(super) fn ip_batch(&self, lines: &str) -> Result<(), String> {
        let mut ip = Command::new("ip");
        ip.args(["-n", &self.name, "-batch", "-"]).stdin(Stdio::piped()).stderr(Stdio::piped());
        let mut ip = ip.stdout(Stdio::null()).spawn().map_err(not_run)?;
        let input = ip.stdin.take();
        let out = thread::scope(|scope| {
            // Its end is the input's. Where ip(8) stops reading, its exit says why.
            scope.spawn(move || input.map(|mut input| input.write_all(lines.as_bytes())));
            ip.wait_with_output()
        });
        let out = out.map_err(not_run)?;
        let said = String::from_utf8_lossy(&out.stderr);
        let first = || said.lines().next().unwrap_or_default().trim().to_owned();
        if out.status.success() { Ok(()) } else { Err(format!("ip -batch: {}", first())) }
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // One that is gone already is just as well.
        let _ = ip(&format!("netns del {}", self.name));
    }
}

/// Deletes the namespaces of labs that were killed and could not.
fn sweep() {
    for name in left_over(Path::new("/run/netns")) {
        // Somebody may have been quicker.
        let _ = ip(&format!("netns del {name}"));
    }
}

/// The names in a folder of what labs have made there that were killed and could not take it away.
pub(super) fn left_over(folder: &Path) -> Vec<String> {
    let is_alive = |pid: u32| Path::new(&format!("/proc/{pid}")).exists();
    let names = fs::read_dir(folder).into_iter().flatten();
    let names = names.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.filter(|name| is_left_over(name, is_alive)).collect()
}

/// Whether it is the name of something that a lab made, in a process that is no more.
fn is_left_over(name: &str, is_alive: impl Fn(u32) -> bool) -> bool {
    let behind = name.strip_prefix("netmem-lab-");
    let pid = behind.and_then(|behind| behind.split('-').next()?.parse().ok());
    pid.is_some_and(|pid| !is_alive(pid))
}

/// Runs ip(8) with these words (split at spaces).
fn ip(words: &str) -> Result<(), String> {
    let out = Command::new("ip").args(words.split_whitespace()).stdin(Stdio::null()).output();
    let out = out.map_err(not_run)?;
    let said = String::from_utf8_lossy(&out.stderr);
    if out.status.success() { Ok(()) } else { Err(format!("ip {words}: {}", said.trim())) }
}

fn not_run(error: std::io::Error) -> String {
    format!("ip(8) cannot be run ({error}): apt-get install iproute2")
}

/// A link address as ip(8) writes it.
pub(super) fn written(mac: [u8; 6]) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_namespaces_of_labs_that_are_no_more_are_swept_away() {
        let is_alive = |pid| pid == 7;
        assert!(is_left_over("netmem-lab-8-0-dut", is_alive));
        for name in ["netmem-lab-7-0-dut", "netmem-8-0-a", "netmem-lab-x-0-dut", "lab", "netmem-lab--1-h1"] {
            assert!(!is_left_over(name, is_alive), "{name}");
        }
    }

    #[test]
    fn what_ip_refuses_is_told_with_its_words() {
        let why = ip("netns del netmem-no-such-namespace").unwrap_err();
        assert!(why.contains("netmem-no-such-namespace"), "{why}");
        let gone = Namespace { name: "netmem-no-such-namespace".to_owned() };
        assert!(gone.ip_batch("link show").unwrap_err().starts_with("ip -batch: "));
        assert!(gone.inside(|| ()).unwrap_err().starts_with("cannot enter"));
        assert_eq!(written([2, 0, 0, 0, 2, 0xfe]), "02:00:00:00:02:fe");
    }
}
