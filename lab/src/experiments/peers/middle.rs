//! The device under test: a process that forwards between two ports. COLD.

use std::env;
use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use netmem::limits::CHUNK_SIZE;

use crate::bench::{Bench, SetUpError};
use crate::method::memory::HugePages;
use crate::system::cpu_time::CpuClock;
use crate::system::process;

use super::super::scratch;
use super::super::this_program::ThisProgram;

/// The time to end after a request.
const FAREWELL: Duration = Duration::from_secs(5);

/// A process that forwards, and stops when it is asked to. It is ended when dropped.
pub(in crate::experiments) struct Middle {
    child: Child,
    stands: bool,
    /// The file with its output.
    said: PathBuf,
}

impl Middle {
    /// Starts `command` on `core`, where all its threads stay. Its output goes to `said`, and DPDK's run-time files
    /// go next to that. The process never outlives the calling thread.
    ///
    /// # Errors
    /// The system's error.
    pub(in crate::experiments) fn start(
        mut command: Command,
        core: usize,
        said: &Path,
    ) -> io::Result<Middle> {
        let out = File::create(said)?;
        command.stdin(Stdio::piped()).stdout(out.try_clone()?).stderr(out);
        // Otherwise every testpmd would leave some MiB in /run.
        let kept = said.with_extension("kept");
        fs::create_dir_all(&kept)?;
        command.env("RUNTIME_DIRECTORY", kept);
        let child = process::start_on(core, &mut command)?;
        Ok(Middle { child, stands: false, said: said.to_owned() })
    }

    /// Returns its CPU-time clock.
    ///
    /// # Errors
    /// The system's error.
    pub(in crate::experiments) fn cpu_clock(&self) -> io::Result<CpuClock> {
        CpuClock::of(&self.child)
    }

    /// Waits until it has made these files, or has ended.
    ///
    /// # Errors
    /// If it has ended or the time is over, with its last output.
    pub(in crate::experiments) fn wait_for(
        &mut self,
        files: &[PathBuf],
        at_most: Duration,
    ) -> io::Result<()> {
        let begun = Instant::now();
        while !files.iter().all(|file| file.exists()) {
            if let Some(error) = self.ended() {
                return Err(error);
            }
            if begun.elapsed() > at_most {
                return Err(self.with_words(&io::Error::other("they do not come")));
            }
            thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Stops it. Does nothing if it is stopped.
    ///
    /// # Errors
    /// If it has ended, with its last output.
    pub(in crate::experiments) fn hold(&mut self) -> io::Result<()> {
        if !self.stands {
            self.ended().map_or(Ok(()), Err)?;
            process::stop(&self.child).map_err(|error| self.with_words(&error))?;
            self.stands = true;
        }
        Ok(())
    }

    /// Resumes it.
    ///
    /// # Errors
    /// As [`Middle::hold`].
    pub(in crate::experiments) fn release(&mut self) -> io::Result<()> {
        self.ended().map_or(Ok(()), Err)?;
        process::resume(&self.child).map_err(|error| self.with_words(&error))?;
        self.stands = false;
        Ok(())
    }

    /// Returns an error with its last output if it has ended.
    pub(in crate::experiments) fn ended(&mut self) -> Option<io::Error> {
        match self.child.try_wait() {
            Ok(None) => None,
            Ok(Some(status)) => Some(self.with_words(&io::Error::other(status.to_string()))),
            Err(error) => Some(error),
        }
    }

    fn with_words(&self, error: &io::Error) -> io::Error {
        let said = fs::read_to_string(&self.said).unwrap_or_default();
        let lines: Vec<&str> = said.lines().filter(|line| !line.trim().is_empty()).collect();
        // DPDK says why before it prints the stack.
        let panic = lines.iter().position(|line| line.contains("PANIC"));
        let last = lines[panic.unwrap_or(lines.len().saturating_sub(2))..].join(" / ");
        io::Error::new(error.kind(), format!("{error}; it said last: {last}"))
    }
}

impl Drop for Middle {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        if matches!(self.child.try_wait(), Ok(None)) {
            // The process number is not reused yet. If the process ends now, the signal reaches no other process.
            let _ = process::terminate(&self.child);
            let _ = process::resume(&self.child);
        }
        let asked = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) {
            if asked.elapsed() > FAREWELL {
                let _ = self.child.kill();
                let _ = self.child.wait();
                return;
            }
            thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Returns the command of this program, if it is `netmem`: it then forwards in the same way as for any user.
///
/// # Errors
/// The reason why it cannot be started: the lab is part of another program.
pub(in crate::experiments) fn netmem() -> Result<Command, String> {
    let program = ThisProgram::find();
    let program = program.map_err(|error| format!("this program does not know where it lies: {error}"))?;
    if program.file.file_name().is_none_or(|name| name != "netmem") {
        return Err(format!(
            "{} is not netmem, which is what is measured: run netmem lab",
            program.file.display()
        ));
    }
    let mut command = Command::new(program.start);
    command.arg0("netmem");
    Ok(command)
}

/// Returns what was `made` for a device. A rival that cannot start, or crashes, is a note: it does not keep the others from
/// being measured.
///
/// # Errors
/// That of a device that `is_needed`.
pub(in crate::experiments) fn unless_rival<T>(
    bench: &mut Bench<'_>,
    (name, is_needed): (&str, bool),
    made: Result<T, SetUpError>,
) -> Result<Option<T>, SetUpError> {
    match made {
        Ok(made) => Ok(Some(made)),
        Err(error) if is_needed => Err(error),
        Err(SetUpError { step, cause }) => {
            bench.lasting_note(&format!("rival {name}: {step}: {cause}"));
            Ok(None)
        }
    }
}

/// The packets that testpmd takes at a time: its default, and as many as netmem takes. Both are measured, and the
/// faster counts.
pub(in crate::experiments) const BURSTS: [usize; 2] = [32, 64];

/// Returns the command of DPDK's testpmd, which forwards packets between two virtual devices on a thread of its own
/// on `core`. `memory` are its memory options.
pub(in crate::experiments) fn testpmd(
    program: &Path,
    core: usize,
    vdevs: [String; 2],
    (memory, burst): (&str, usize),
) -> Command {
    let mut command = Command::new(program);
    command.args(memory.split_whitespace());
    command.args(["--no-pci", "--no-telemetry", "--file-prefix", &scratch::name()]);
    command.args(["--lcores", &format!("0@{core},1@{core}")]);
    command.args(vdevs.iter().flat_map(|vdev| ["--vdev", vdev]));
    command.args(["--", "--forward-mode=io", "--total-num-mbufs=16384", "--no-flush-rx", "--auto-start"]);
    command.arg(format!("--burst={burst}"));
    command
}

/// Returns the backing of netmem's memory, as it reported at its end, or None without such a report.
pub(in crate::experiments) fn backing(said: &Path) -> Option<String> {
    let said = fs::read_to_string(said).ok()?;
    let (_, behind) = said.split_once("\"backing\":")?;
    behind.split('"').nth(1).map(str::to_owned)
}

/// The devices that live at the same time, each between two peers of netmem.
#[derive(Debug, Clone, Copy)]
pub(in crate::experiments) struct Devices {
    pub(in crate::experiments) testpmd: usize,
    pub(in crate::experiments) netmem: usize,
    /// Devices that bring no memory.
    pub(in crate::experiments) others: usize,
}

/// Bytes of the memory of one testpmd, as in its options.
const TESTPMD_BYTES: usize = 256 << 20;

/// Rings of frames in the memory of `netmem forward` with two ports, and in that of the peers.
const RINGS_OF_NETMEM: usize = 8;
const RINGS_OF_PEERS: usize = 4;

/// Returns testpmd's memory options: huge pages if enough are free for all devices and their peers. Otherwise none
/// uses them, so that the variants of testpmd have the same memory. Call this before other code takes them.
pub(in crate::experiments) fn memory_of_dpdk(devices: Devices, ring: usize) -> &'static str {
    memory_on(HugePages::read(), devices, ring)
}

fn memory_on(pages: HugePages, devices: Devices, ring: usize) -> &'static str {
    let Devices { testpmd, netmem, others } = devices;
    let of = |rings: usize| pages.holding(rings * ring * CHUNK_SIZE);
    let peers = (testpmd + netmem + others) * of(RINGS_OF_PEERS);
    let wanted = testpmd * pages.holding(TESTPMD_BYTES) + netmem * of(RINGS_OF_NETMEM) + peers;
    if pages.free > 0 && pages.free >= wanted { "--in-memory -m 256" } else { "--no-huge -m 256" }
}

/// Returns the path of a program in PATH.
pub(in crate::experiments) fn find(program: &str) -> Option<PathBuf> {
    let paths = env::var_os("PATH")?;
    env::split_paths(&paths).map(|folder| folder.join(program)).find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::tests::report_of;
    use crate::experiments::scratch::Folder;
    use netmem::system::cpu;

    fn echo(folder: &Folder) -> Middle {
        let mut command = Command::new("sh");
        command.args(["-c", "echo ready; while :; do :; done"]);
        Middle::start(command, cpu::allowed().unwrap()[0], &folder.path("said")).unwrap()
    }

    #[test]
    fn a_middle_stands_still_and_goes_on_and_is_gone_with_its_value() {
        let folder = Folder::new().unwrap();
        let mut middle = echo(&folder);
        let id = middle.child.id();
        for _ in 0..3 {
            middle.hold().unwrap();
            middle.hold().unwrap();
            middle.release().unwrap();
        }
        middle.hold().unwrap();
        assert!(middle.ended().is_none());
        drop(middle);
        assert!(!Path::new(&format!("/proc/{id}")).exists());
    }

    #[test]
    fn a_middle_that_ends_by_itself_is_reported_with_its_last_output() {
        let folder = Folder::new().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "echo no such port; exit 3"]);
        let mut middle = Middle::start(command, cpu::allowed().unwrap()[0], &folder.path("said")).unwrap();
        let error = loop {
            if let Some(error) = middle.ended() {
                break error.to_string();
            }
        };
        assert!(error.contains("no such port"), "{error}");
        for refused in [middle.hold(), middle.release()] {
            assert!(refused.unwrap_err().to_string().contains("no such port"), "nobody is told to stop");
        }
    }

    /// Seen: huge pages for one testpmd were free, and the second of two that live at once could not start.
    #[test]
    fn testpmd_has_huge_pages_only_if_all_that_live_at_once_have_them() {
        let devices = Devices { testpmd: 2, netmem: 3, others: 1 };
        let uses =
            |free| memory_on(HugePages { free, bytes: 2 << 20 }, devices, 2_048).contains("--in-memory");
        // 256 MiB for each testpmd, 32 for each netmem, 16 for the peers of each.
        let wanted = (2 * 256 + 3 * 32 + 6 * 16) / 2;
        assert_eq!([150, wanted - 1, wanted].map(uses), [false, false, true]);
        assert_eq!(memory_on(HugePages::default(), devices, 2_048), "--no-huge -m 256");
    }

    /// Seen: a testpmd that crashed ended forward-xdp, and a kernel without the flags of io_uring failed endpoint.
    #[test]
    fn a_rival_that_cannot_start_is_a_note_and_a_device_that_is_needed_an_error() {
        let failed = || Err::<(), _>(SetUpError { step: "greeting", cause: "it panicked".to_owned() });
        let report = report_of(false, |bench| {
            assert_eq!(unless_rival(bench, ("dpdk", false), failed()), Ok(None));
            assert_eq!(unless_rival(bench, ("netmem", true), failed()), failed().map(Some));
            assert_eq!(unless_rival(bench, ("dpdk", false), Ok(1)), Ok(Some(1)));
        });
        let noted: Vec<_> = report.notes.iter().filter(|note| note.starts_with("rival")).collect();
        assert_eq!(noted, ["rival dpdk: greeting: it panicked (set-up 1)"]);
    }

    #[test]
    fn only_netmem_itself_is_measured() {
        assert!(netmem().unwrap_err().contains("is not netmem"));
    }
}
