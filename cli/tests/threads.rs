//! A system that gives no threads: each thread of a run in turn is the one that cannot be had.

mod netmem;
mod test_frames;

use netmem::{child_of, stderr, stdout};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};
use test_frames::Folder;

/// Runs the program with these words as a user that no other process has and that may have `threads` threads.
fn limited(program: &Path, user: u32, threads: usize, words: &str) -> Output {
    let mut command = Command::new("setpriv");
    command.args([&format!("--reuid={user}"), &format!("--regid={user}"), "--clear-groups"]);
    command.args(["prlimit", &format!("--nproc={threads}")]).arg(program).args(words.split_whitespace());
    child_of(&mut command).output().expect("setpriv(1) starts")
}

/// Returns a user without processes. If this process cannot change its user, prints why and returns None.
fn nobody() -> Option<u32> {
    let is_root =
        fs::metadata("/proc/self").is_ok_and(|process| std::os::unix::fs::MetadataExt::uid(&process) == 0);
    if !is_root {
        assert_ne!(std::env::var("NETMEM_NO_SKIP").as_deref(), Ok("1"), "it takes root to be another user");
        eprintln!("SKIPPED: it takes root to be another user");
        return None;
    }
    Some(1_000_000 + std::process::id())
}

#[test]
fn each_thread_that_cannot_be_started_ends_the_run_with_one_line_and_exit_code_3() {
    let Some(user) = nobody() else { return };
    let folder = Folder::new("no-thread");
    fs::set_permissions(folder.path(""), fs::Permissions::from_mode(0o777)).expect("the folder is ours");
    // In a place where another user can run it.
    let program = folder.path("netmem");
    // By cp: the kernel runs no file that a child of another test thread may still have open for writing.
    let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_netmem")).arg(&program).status();
    assert!(copied.expect("cp").success());
    let control = folder.path("control");
    let run = format!(
        "forward --seconds 0.2 --workers 3 --mode pass --local-queue 10 --control {}",
        control.display()
    );
    // This one, the broker, the control socket's, the generator, the local queue, three workers.
    for threads in 1..=8 {
        let out = limited(&program, user, threads, &run);
        let (said, complaint) = (stdout(&out), stderr(&out));
        if threads == 8 {
            assert_eq!((out.status.code(), complaint.as_str()), (Some(0), ""), "{said}");
            continue;
        }
        let whose = [
            "the broker",
            "the control socket",
            "the generator",
            "the local queue",
            "worker 0",
            "worker 1",
            "worker 2",
        ];
        assert_eq!((out.status.code(), said.as_str()), (Some(3), ""), "{threads}: {complaint}");
        let line = format!("error: no thread for {}: ", whose[threads - 1]);
        assert!(complaint.starts_with(&line) && complaint.contains("ulimit -u"), "{threads}: {complaint}");
        assert!(complaint.contains(&format!("({threads} now)")), "{complaint}");
        assert_eq!(complaint.lines().count(), 1, "{complaint}");
        assert!(!control.exists(), "something is left behind");
    }
}
