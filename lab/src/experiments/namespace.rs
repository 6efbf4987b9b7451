//! A network namespace of an experiment's own, by ip(8). COLD.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Once;
use std::{fs, thread};

use netmem::system::netns;

use super::scratch;

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
        static SWEPT: Once = Once::new();
        SWEPT.call_once(sweep);
        let name = format!("{}-{place}", scratch::name());
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
    for name in scratch::left_over(Path::new("/run/netns")) {
        // Somebody may have been quicker.
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

/// A link address as ip(8) writes it.
pub(super) fn written(mac: [u8; 6]) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}

#[cfg(test)]
mod tests {
    use super::*;

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
