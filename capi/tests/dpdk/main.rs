//! Programs of DPDK as they are packaged, with netmem's mempool ops.

mod alone;
mod faults;
mod many;
mod pmd;
#[path = "../programs/prefix.rs"]
#[allow(dead_code)]
mod prefix;
mod refilled;
mod telemetry;

use prefix::{command, output, prefix, said};
use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::{env, fs, io, process, thread};

/// What a test of this file wants: the ops, installed, and the machine for itself, since each has as many busy threads as a small one
/// has cores.
struct Dpdk {
    /// Where the ops are.
    ops: PathBuf,
    _turn: MutexGuard<'static, ()>,
}

/// None, after saying why on standard error, where DPDK is not installed; that is a failure if NETMEM_NO_SKIP is 1.
fn dpdk(program: &str) -> Option<Dpdk> {
    static TURN: Mutex<()> = Mutex::new(());
    static INSTALLED: OnceLock<()> = OnceLock::new();
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let path = env::var_os("PATH").unwrap_or_default();
    let has = |program: &str| env::split_paths(&path).any(|folder| folder.join(program).is_file());
    let headers = Command::new("pkg-config").args(["--exists", "libdpdk"]).status();
    if !has(program) || !headers.is_ok_and(|status| status.success()) {
        let thread = thread::current();
        let test = thread.name().unwrap_or("a test");
        let reason = format!("needs {program} and the headers of DPDK: install dpdk-dev");
        assert!(env::var("NETMEM_NO_SKIP").as_deref() != Ok("1"), "{test} must not be skipped: {reason}");
        let line = format!("SKIPPED {test}: {reason}\n");
        io::Write::write_all(&mut io::stderr(), line.as_bytes()).expect("standard error");
        return None;
    }
    INSTALLED.get_or_init(|| drop(prefix::make(&["install-dpdk", "CFLAGS=-Werror"], prefix())));
    Some(Dpdk { ops: prefix().join("lib/librte_mempool_netmem.so"), _turn })
}

impl Dpdk {
    /// A program with the arguments of its EAL: no huge pages, no cards, two threads on one core, and netmem's ops. What it keeps in
    /// the file system lies in the folder that comes with it.
    fn program(&self, program: impl AsRef<OsStr>) -> (Command, PathBuf) {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let folder = env::temp_dir().join(format!("nm{}-{}", process::id(), NUMBER.fetch_add(1, Relaxed)));
        fs::create_dir_all(&folder).expect("a folder for what DPDK keeps");
        let core = (0..).find(|&core| affinity().is_set(core)).unwrap_or(0);
        // A line at a time, for who reads along.
        let mut started = command("stdbuf");
        started
            .arg("-oL")
            .arg(program)
            .env("RUNTIME_DIRECTORY", &folder)
            .args(["--no-huge", "-m", "1024", "--no-pci", "--file-prefix=t"])
            .arg(format!("--lcores=0@{core},1@{core}"))
            .arg("-d")
            .arg(&self.ops)
            .arg("--mbuf-pool-ops-name=netmem");
        (started, folder)
    }
}

fn affinity() -> rustix::thread::CpuSet {
    rustix::thread::sched_getaffinity(None).expect("a thread has cores")
}

/// Runs one of the packaged tests of DPDK.
fn autotest(name: &str) {
    let Some(dpdk) = dpdk("dpdk-test") else { return };
    let (mut program, folder) = dpdk.program("dpdk-test");
    let out = output(program.env("DPDK_TEST", name));
    let _ = fs::remove_dir_all(folder);
    let said = said(&out);
    assert!(out.status.success() && said.contains("Test OK"), "{}\n{said}", out.status);
    // A mempool with something out at its end, or the test's own word.
    let ours = ["netmem: mempool ", "Testing netmem mempool handler"];
    assert!(ours.iter().any(|line| said.contains(line)), "no mempool had netmem's ops:\n{said}");
}

#[test]
fn the_packaged_mempool_autotest_passes() {
    autotest("mempool_autotest");
}

#[test]
fn the_packaged_mbuf_autotest_passes() {
    autotest("mbuf_autotest");
}
