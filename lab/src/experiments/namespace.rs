//! A network namespace for an experiment, made by ip(8). COLD.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Once;
use std::{fs, thread};

use netmem::system::netns;

use super::scratch;

/// A network namespace, which is deleted when dropped.
#[derive(Debug)]
pub(super) struct Namespace {
    name: String,
}

impl Namespace {
    /// Makes one, with `place` in its name.
    ///
    /// # Errors
    /// The reason why that is not possible here.
    pub(super) fn new(place: &str) -> Result<Namespace, String> {
        static SWEPT: Once = Once::new();
        SWEPT.call_once(sweep);
        let name = format!("{}-{place}", scratch::name());
        ip(&format!("netns add {name}")).map_err(|why| format!("no network namespaces: {why}"))?;
        Ok(Namespace { name })
    }

    /// Returns its name in ip-netns(8).
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Runs `f` on a thread inside.
    ///
    /// # Errors
    /// The reason why it cannot be entered.
    pub(super) fn inside<T: Send>(&self, f: impl FnOnce() -> T + Send) -> Result<T, String> {
        netns::inside(&self.name, f).map_err(|error| format!("cannot enter a network namespace: {error}"))
    }

    /// Writes a setting below `/proc/sys/net`.
    ///
    /// # Errors
    /// The system's error.
    pub(super) fn set(&self, setting: &str, value: &str) -> Result<(), String> {
        let write = || fs::write(format!("/proc/sys/net/{setting}"), value);
        self.inside(write)?.map_err(|error| format!("{setting}: {error}"))
    }

    /// Runs ip(8) inside with these words.
    ///
    /// # Errors
    /// The message of ip(8).
    pub(super) fn ip(&self, words: &str) -> Result<(), String> {
        ip(&format!("-n {} {words}", self.name))
    }

    /// Runs all `lines` as commands of ip(8), in order.
    ///
    /// # Errors
    /// The message of ip(8) about the first that fails.
    pub(super) fn ip_batch(&self, lines: &str) -> Result<(), String> {
        let mut ip = Command::new("ip");
        ip.args(["-n", &self.name, "-batch", "-"]).stdin(Stdio::piped()).stderr(Stdio::piped());
        let mut ip = ip.stdout(Stdio::null()).spawn().map_err(not_run)?;
        let input = ip.stdin.take();
        let out = thread::scope(|scope| {
            // The end of `lines` is the end of the input. If ip(8) stops reading, its exit status has the reason.
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
        // It may be gone already.
        let _ = ip(&format!("netns del {}", self.name));
    }
}

/// Deletes the namespaces of labs that were killed before they could.
fn sweep() {
    for name in scratch::left_over(Path::new("/run/netns")) {
        // Another process may have deleted it first.
        let _ = ip(&format!("netns del {name}"));
    }
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

/// Returns a MAC address in the notation of ip(8).
pub(super) fn written(mac: [u8; 6]) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_ip_refuses_is_reported_with_its_message() {
        let why = ip("netns del netmem-no-such-namespace").unwrap_err();
        assert!(why.contains("netmem-no-such-namespace"), "{why}");
        let gone = Namespace { name: "netmem-no-such-namespace".to_owned() };
        assert!(gone.ip_batch("link show").unwrap_err().starts_with("ip -batch: "));
        assert!(gone.inside(|| ()).unwrap_err().starts_with("cannot enter"));
        assert_eq!(written([2, 0, 0, 0, 2, 0xfe]), "02:00:00:00:02:fe");
    }
}
