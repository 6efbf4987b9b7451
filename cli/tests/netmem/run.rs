//! A run that is looked at while it forwards.

use super::{assert_adds_up, object, output, start, stderr, stdout, wait_while_it_runs};
use serde_json::Value;
use std::env;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Output};

/// A run that forwards and has its own control socket.
pub struct Run {
    child: Option<Child>,
    pub path: PathBuf,
}

impl Run {
    pub fn start(name: &str) -> Run {
        Run::start_with(name, "")
    }

    /// As `start`, with further options.
    pub fn start_with(name: &str, options: &str) -> Run {
        let path = env::temp_dir().join(format!("netmem-control-{}-{name}", std::process::id()));
        let mut child =
            start(&format!("forward --seconds 600 --json {options} --control {}", path.display()));
        wait_while_it_runs(&mut child, "it listens", || UnixStream::connect(&path).is_ok());
        Run { child: Some(child), path }
    }

    /// A command that looks at this run.
    pub fn ask(&self, words: &str) -> Output {
        output(&format!("{words} --control {}", self.path.display()))
    }

    pub fn json(&self, words: &str) -> Value {
        let out = self.ask(words);
        assert_eq!((stderr(&out).as_str(), out.status.code()), ("", Some(0)), "{words}");
        serde_json::from_str(&stdout(&out)).expect("one JSON value")
    }

    /// Ends it by SIGINT. Returns its lines.
    pub fn lines_at_its_end(&mut self) -> String {
        let child = self.child.take().expect("it runs");
        let pid = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("it can be signalled");
        stderr(&child.wait_with_output().expect("it ends"))
    }

    /// Ends it by SIGINT. Its counters must add up, and its socket must be gone. Of its lines only those about what was set
    /// are allowed.
    pub fn end(mut self) -> Value {
        let child = self.child.take().expect("it runs");
        let pid = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("it can be signalled");
        let mut out = child.wait_with_output().expect("it ends");
        out.stderr = without_settings(&stderr(&out)).into_bytes();
        let report = object(&out);
        assert_adds_up(&report);
        assert!(!self.path.exists(), "the socket is gone");
        report
    }
}

/// Returns the lines that are not about what `netmem set` has changed.
pub fn without_settings(lines: &str) -> String {
    lines.split_inclusive('\n').filter(|line| !line.starts_with("netmem: set ")).collect()
}

impl Drop for Run {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
