//! Objects that a lab makes outside of its own process. Their names tell the lab they belong to, so that a later
//! lab removes those of a killed one. COLD.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};
use std::{env, fs, io};

/// The beginning of all names.
const HEAD: &str = "netmem-lab";

/// Returns a unique name: `netmem-lab-SPACE-PID-NUMBER`.
pub(super) fn name() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    // Relaxed: the number only has to be unique.
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("{HEAD}-{}-{}-{number}", space(), process::id())
}

/// Returns the names in `folder` that were left by labs which were killed. Call this before this process makes
/// anything there: a name with its own number then belongs to an earlier process with that number.
pub(super) fn left_over(folder: &Path) -> Vec<String> {
    let is_alive = |pid| pid != process::id() && Path::new(&format!("/proc/{pid}")).exists();
    let names = fs::read_dir(folder).into_iter().flatten();
    let names = names.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.filter(|name| is_left_over(name, space(), is_alive)).collect()
}

/// Returns the PID namespace of this process. Processes of other namespaces are not visible from here.
fn space() -> u64 {
    fs::metadata("/proc/self/ns/pid").map_or(0, |space| space.ino())
}

/// Returns true if it is the name of an object that a lab of this namespace made, in a process that does not exist
/// any more.
fn is_left_over(name: &str, space: u64, is_alive: impl Fn(u32) -> bool) -> bool {
    let behind = name.strip_prefix(HEAD).and_then(|behind| behind.strip_prefix('-'));
    let mut parts = behind.into_iter().flat_map(|behind| behind.split('-'));
    let is_ours = parts.next().and_then(|part| part.parse().ok()) == Some(space);
    let pid = parts.next().and_then(|part| part.parse().ok());
    is_ours && pid.is_some_and(|pid| !is_alive(pid))
}

/// A temporary folder, which is removed when dropped, or by a later lab.
#[derive(Debug)]
pub(super) struct Folder(PathBuf);

impl Folder {
    /// Makes one.
    ///
    /// # Errors
    /// The system's error.
    pub(super) fn new() -> io::Result<Folder> {
        static SWEPT: Once = Once::new();
        SWEPT.call_once(|| {
            for name in left_over(&env::temp_dir()) {
                // Another process may have removed it first, or it belongs to another user.
                let _ = fs::remove_dir_all(env::temp_dir().join(name));
            }
        });
        let path = env::temp_dir().join(name());
        fs::create_dir(&path)?;
        Ok(Folder(path))
    }

    /// Returns the path of a file in it.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // If that fails, it stays in the system's folder for temporary files.
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_labs_left_that_are_no_more_is_swept_away() {
        let is_alive = |pid| pid == 7;
        let swept = |name: &str| is_left_over(name, 40, is_alive);
        assert!(swept("netmem-lab-40-8-0") && swept("netmem-lab-40-8-0-dut"));
        for name in [
            "netmem-lab-40-7-0-dut",
            "netmem-lab-41-8-0-dut",
            "netmem-lab-8-0-dut",
            "netmem-40-8-0",
            "netmem-lab-40-x-0",
            "netmem-lab-40",
            "lab",
        ] {
            assert!(!swept(name), "{name}");
        }
    }

    #[test]
    fn what_a_killed_process_left_is_found_by_the_names_that_are_given() {
        let folder = Folder::new().unwrap();
        let mut ended = process::Command::new("true").spawn().unwrap();
        ended.wait().unwrap();
        let of = |pid: u32| name().replace(&format!("-{}-", process::id()), &format!("-{pid}-"));
        let [left, alive] = [of(ended.id()), of(1)];
        for name in [&left, &alive] {
            fs::create_dir(folder.path(name)).unwrap();
        }
        assert_eq!(left_over(&folder.0), [left]);
        let path = folder.0.clone();
        drop(folder);
        assert!(!path.exists());
    }
}
