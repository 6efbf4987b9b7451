//! This program, to start it once more beside itself.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::{env, process};

/// What the kernel appends to the path of a file that has lost its name, in `/proc/PID/exe` (proc_pid_exe(5)).
const LOST: &[u8] = b" (deleted)";

/// This program.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ThisProgram {
    /// The path by which it can be started.
    pub(super) start: PathBuf,
    /// The path that its file has, or had.
    pub(super) file: PathBuf,
}

impl ThisProgram {
    /// Finds it.
    ///
    /// # Errors
    /// The system's error.
    pub(super) fn find() -> io::Result<Self> {
        Ok(Self::of(env::current_exe()?, process::id()))
    }

    /// Returns the program of the process `id`, whose executable is shown as `shown`. If another file has taken its name, as
    /// after a build, it is started by the process's own link. Otherwise by its name: a process with capabilities of its file
    /// does not show that link to every child.
    fn of(shown: PathBuf, id: u32) -> Self {
        let had = shown.as_os_str().as_bytes().strip_suffix(LOST).filter(|_| !shown.exists());
        match had {
            Some(had) => Self {
                start: PathBuf::from(format!("/proc/{id}/exe")),
                file: Path::new(OsStr::from_bytes(had)).to_owned(),
            },
            None => Self { start: shown.clone(), file: shown },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::scratch::Folder;
    use super::*;
    use std::fs;
    use std::process::{Command, Stdio};

    /// Seen: after a build during a run, "netmem (deleted)" was not netmem, and valgrind could not start it.
    #[test]
    fn a_program_whose_file_was_replaced_is_started_again_under_its_name() {
        let folder = Folder::new().unwrap();
        let file = folder.path("netmem");
        fs::copy("/bin/sh", &file).unwrap();
        let mut command = Command::new(&file);
        command.stdin(Stdio::piped()).stdout(Stdio::null());
        let mut runs = command.spawn().unwrap();
        let of = || ThisProgram::of(fs::read_link(format!("/proc/{}/exe", runs.id())).unwrap(), runs.id());
        assert_eq!(of(), ThisProgram { start: file.clone(), file: file.clone() });
        fs::remove_file(&file).unwrap();
        fs::write(&file, "another program").unwrap();
        let program = of();
        assert_eq!(program.file, file);
        let again = Command::new(&program.start).stdin(Stdio::null()).status();
        drop(runs.stdin.take());
        runs.wait().unwrap();
        assert!(again.unwrap().success());
    }

    #[test]
    fn a_program_of_such_a_name_has_not_lost_it() {
        let folder = Folder::new().unwrap();
        let file = folder.path("netmem (deleted)");
        fs::write(&file, "").unwrap();
        assert_eq!(ThisProgram::of(file.clone(), 1), ThisProgram { start: file.clone(), file });
    }
}
