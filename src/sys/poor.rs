//! Tests that run out of descriptors, each in a process of its own.

use std::env;
use std::process::Command;

/// Set in that process.
const POOR: &str = "NETMEM_TEST_OUT_OF_DESCRIPTORS";

/// Runs `body` in a process that may have few descriptors, in which it is the only test. `module` is the calling test's
/// [`module_path!`], and `test` its name.
pub(crate) fn in_poor_process(module: &str, test: &str, body: impl FnOnce()) {
    if env::var_os(POOR).is_some() {
        return body();
    }
    let test = format!("{}::{test}", module.split_once("::").expect("a path in the crate").1);
    let mut shell = Command::new("sh");
    shell.args(["-c", "ulimit -n 64; exec \"$0\" --exact \"$1\" --test-threads=1"]);
    let out = shell
        .arg(env::current_exe().expect("this program"))
        .arg(test)
        .env(POOR, "1")
        .output()
        .expect("a shell");
    let said = String::from_utf8_lossy(&out.stdout);
    assert!(out.status.success() && said.contains("1 passed"), "{said}");
}
