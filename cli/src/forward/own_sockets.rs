//! The sockets in the file system that a run without a broker removes if it ends with a worker that is stuck. COLD.

use crate::sandbox::SandboxPlan;
use netmem::system::seqpacket::{Identity, socket_at};
use std::fs;
use std::path::PathBuf;
use std::sync::OnceLock;

/// The paths of sockets that the run has made, each with the socket that is there.
#[derive(Debug, Default)]
pub struct OwnSockets(OnceLock<Vec<(PathBuf, Identity)>>);

impl OwnSockets {
    /// Records the sockets of a run that has just made them.
    pub fn record(&self, plan: &SandboxPlan) {
        let found = |path: &PathBuf| socket_at(path).map(|socket| (path.clone(), socket));
        self.0.get_or_init(|| paths(plan).filter_map(found).collect());
    }

    /// Removes those that are still there. Another program may have put another file in the place of one.
    pub fn remove(&self) {
        for (path, own) in self.0.get().into_iter().flatten() {
            if socket_at(path) == Some(*own) {
                // If it is gone already, that is fine.
                let _ = fs::remove_file(path);
            }
        }
    }
}

/// Returns the paths of the run's sockets. The abstract name of a port, which begins with an `@`, is not a path.
fn paths(plan: &SandboxPlan) -> impl Iterator<Item = &PathBuf> {
    let is_path = |made: &&PathBuf| !made.as_os_str().as_encoded_bytes().starts_with(b"@");
    plan.listening.iter().chain(plan.made.iter().filter(is_path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    /// Found in a review: a run without a broker that ended with a stuck worker removed whatever was at the paths of its
    /// sockets, and the file that had the abstract name of a port.
    #[test]
    fn a_run_that_gives_up_removes_its_own_sockets_and_nothing_else() {
        let folder = std::env::temp_dir().join(format!("netmem-own-sockets-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let names = ["control", "file", "replaced", "another", "gone", "none"].map(|name| folder.join(name));
        let [control, file, replaced, another, gone, _] = &names;
        let plan = SandboxPlan {
            on: false,
            user: None,
            interfaces: Vec::new(),
            listening: names.to_vec(),
            made: vec!["@abstract".into(), folder.join("memif")],
            undoes: false,
            peers: Vec::new(),
            locks_again: false,
        };
        assert!(paths(&plan).eq(names.iter().chain([&plan.made[1]])));
        let _listening =
            [control, replaced, another, gone, &plan.made[1]].map(|path| UnixListener::bind(path).unwrap());
        fs::write(file, "of another program").unwrap();
        let own = OwnSockets::default();
        own.record(&plan);
        // Made before the others are gone, whose inodes they would have otherwise.
        let new = folder.join("new");
        fs::write(&new, "of another program").and_then(|()| fs::rename(&new, replaced)).unwrap();
        let _another = UnixListener::bind(&new).unwrap();
        fs::rename(&new, another).unwrap();
        fs::remove_file(gone).unwrap();
        own.remove();
        let left = names.each_ref().map(|path| path.exists());
        assert_eq!(left, [false, true, true, true, false, false]);
        assert!(!plan.made[1].exists());
        fs::remove_dir_all(folder).unwrap();
    }
}
