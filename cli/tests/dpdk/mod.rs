//! DPDK's testpmd as the other end of something.

use rustix::process::{Pid, Signal, kill_process};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::{env, fs, io};

/// A testpmd that forwards between its devices. With an odd number of devices the last one forwards to itself. A drop
/// ends it and removes its run-time files.
pub struct Testpmd {
    child: Child,
    /// The folder of its run-time files.
    run: PathBuf,
    /// The file with its output.
    said: PathBuf,
}

impl Testpmd {
    /// Starts it by `command` with these devices. Its output goes to the file `said`. Returns None if testpmd is not
    /// installed.
    ///
    /// # Panics
    /// When it cannot be started for another reason.
    pub fn start(mut command: Command, devices: &[String], said: PathBuf) -> Option<Testpmd> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let prefix = format!("netmem-{}-{}", std::process::id(), NEXT.fetch_add(1, Relaxed));
        let eal = format!("--no-huge -m 256 --no-pci --file-prefix {prefix} --lcores 0@0,1@0");
        let application = "--forward-mode=io --total-num-mbufs=8192 --no-flush-rx --auto-start";
        command.args(eal.split_whitespace()).args(devices.iter().flat_map(|device| ["--vdev", device]));
        // It ends when its standard input does.
        command.arg("--").args(application.split_whitespace()).stdin(Stdio::piped());
        let file = fs::File::create(&said).expect("a file in the folder");
        let run = run_directory().join(prefix);
        match command.stdout(file.try_clone().expect("the file once more")).stderr(file).spawn() {
            Ok(child) => Some(Testpmd { child, run, said }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => panic!("dpdk-testpmd does not start: {error}"),
        }
    }

    /// Returns its output so far. Text on standard output appears only when it ends, unless it was started under stdbuf.
    fn said(&self) -> String {
        fs::read_to_string(&self.said).unwrap_or_default()
    }

    /// Whether it has said that it forwards.
    #[allow(dead_code, reason = "not every test starts it under stdbuf")]
    pub fn forwards(&self) -> bool {
        self.said().contains("io packet forwarding - ports=")
    }

    /// Ends it. Returns how many packets it counted as received by all its devices, and as sent.
    pub fn end(mut self) -> [u64; 2] {
        drop(self.child.stdin.take());
        self.child.wait().expect("it ends");
        let said = self.said();
        // For each device, and at last for all.
        ["RX-packets:", "TX-packets:"].map(|word| {
            let number = said.rsplit_once(word).and_then(|(_, behind)| behind.split_whitespace().next());
            number.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("no {word} in {said}"))
        })
    }
}

impl Drop for Testpmd {
    fn drop(&mut self) {
        // Its standard input is closed with it.
        drop(self.child.stdin.take());
        if let Ok(None) = self.child.try_wait() {
            let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        }
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.run);
    }
}

/// The folder in which DPDK keeps the run-time files of its processes.
fn run_directory() -> PathBuf {
    let own = env::var_os("XDG_RUNTIME_DIR").filter(|_| !rustix::process::geteuid().is_root());
    let base = own.map_or_else(
        || Path::new(if rustix::process::geteuid().is_root() { "/var/run" } else { "/tmp" }).to_owned(),
        PathBuf::from,
    );
    base.join("dpdk")
}
