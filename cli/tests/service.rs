//! Tests of the messages to a service manager, and of the lines for the journal.

mod netmem;
mod test_frames;

use netmem::netmem;
use rustix::process::{Pid, Signal, kill_process};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixStream};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;
use std::{fs, io::Read};
use test_frames::Folder;

/// Returns the next message that is not `but`.
fn next_notification(manager: &UnixDatagram, but: &str) -> String {
    loop {
        let mut said = [0; 256];
        // A process that was stopped and goes on is interrupted.
        let n = match manager.recv(&mut said) {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            received => received.expect("within a minute"),
        };
        let said = String::from_utf8_lossy(&said[..n]).into_owned();
        if said != but {
            return said;
        }
    }
}

/// A run beside a manager that listens there, from its start to its end.
fn managed(manager: &UnixDatagram, name: &str) {
    manager.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
    let folder = Folder::new(&format!("service-{}", name.len()));
    let file = folder.write("netmem.toml", b"icmp-rate = 5\n");
    let mut run =
        netmem(&format!("forward --seconds 600 --flows 1 --json --log-time --config {}", file.display()));
    run.env("NOTIFY_SOCKET", name).env("WATCHDOG_USEC", "200000").env_remove("WATCHDOG_PID");
    let child = run.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("netmem starts");
    let signal = |signal| kill_process(Pid::from_child(&child), signal).expect("it can be signalled");
    assert_eq!(next_notification(manager, ""), "READY=1");
    assert_eq!(
        (next_notification(manager, ""), next_notification(manager, "")),
        ("WATCHDOG=1".into(), "WATCHDOG=1".into())
    );
    signal(Signal::HUP);
    assert_eq!(next_notification(manager, "WATCHDOG=1"), "RELOADING=1");
    assert_eq!(next_notification(manager, "WATCHDOG=1"), "READY=1");
    signal(Signal::TERM);
    assert_eq!(next_notification(manager, "WATCHDOG=1"), "STOPPING=1");
    let out = child.wait_with_output().expect("it ends");
    assert_eq!(out.status.code(), Some(0), "a run that was asked to end has not failed");
    // Seen: a log did not tell since when which version runs.
    let said = String::from_utf8_lossy(&out.stderr);
    let line = concat!(" info netmem: ready, version ", env!("CARGO_PKG_VERSION"));
    assert_eq!(said.lines().filter(|one| one.ends_with(line)).count(), 1, "{said}");
}

#[test]
fn systemd_is_notified_that_a_run_is_ready_alive_reloads_and_stops() {
    let folder = Folder::new("service-socket");
    let path = folder.path("notify");
    managed(&UnixDatagram::bind(&path).expect("a socket"), path.to_str().expect("a path"));
    let name = format!("netmem-service-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).expect("a name");
    managed(&UnixDatagram::bind_addr(&address).expect("a socket"), &format!("@{name}"));
}

/// Returns the first line of a run about a missing file, if `stream` names the journal's socket.
fn said(stream: impl Fn(&UnixStream) -> String) -> String {
    let (mut journal, its_end) = UnixStream::pair().expect("a pair");
    let stream = stream(&its_end);
    let mut run = netmem("forward --config /nonexistent.toml");
    run.env("JOURNAL_STREAM", stream).stderr(std::os::fd::OwnedFd::from(its_end));
    assert_eq!(run.status().expect("it ends").code(), Some(2));
    drop(run);
    let mut text = String::new();
    journal.read_to_string(&mut text).expect("text");
    text
}

#[test]
fn lines_for_the_journal_begin_with_their_level() {
    let same = |end: &UnixStream| {
        let fd = std::os::fd::AsRawFd::as_raw_fd(end);
        let meta = fs::metadata(format!("/proc/self/fd/{fd}")).expect("it is open");
        format!("{}:{}", meta.dev(), meta.ino())
    };
    assert!(said(same).starts_with("<3>error: --config /nonexistent.toml: "));
    assert!(said(|_| "1:1".to_owned()).starts_with("error: "));
}

#[test]
fn systemd_accepts_the_unit() {
    let unit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../dist/netmem.service");
    let text = fs::read_to_string(&unit).expect("the unit");
    let lines = [
        "Type=notify",
        "NotifyAccess=main",
        "WatchdogSec=30",
        // Seen: after a set-up that only failed for now, nothing started the service again.
        "Restart=on-failure",
        "RestartPreventExitStatus=2",
        "RestartSec=2",
        "StartLimitIntervalSec=0",
        // Longer than the ten seconds for a stuck worker and the twenty for the undo.
        "TimeoutStopSec=45",
        "NoNewPrivileges=yes",
        "ProtectSystem=strict",
        "ReadOnlyPaths=/proc/sys -/proc/sysrq-trigger -/proc/acpi -/proc/apm -/proc/asound -/proc/bus -/proc/fs -/proc/irq -/proc/latency_stats -/proc/mtrr -/proc/scsi -/proc/timer_stats /sys",
        "InaccessiblePaths=-/proc/kallsyms -/proc/kcore",
        "ReadWritePaths=/proc/sys/net -/proc/sys/vm/nr_hugepages",
        // Otherwise a stop removes the journals of the changes.
        "RuntimeDirectoryPreserve=yes",
        // With the option user the socket belongs to another user.
        "ExecReload=+/usr/bin/netmem reload --control /run/netmem/netmem.sock",
        "ExecStopPost=/usr/bin/netmem doctor --undo --journal /run/netmem/forward.journal",
    ];
    for line in lines {
        assert!(text.lines().any(|its| its == line), "{line}");
    }
    // The command of the unit is one that netmem understands.
    let command =
        text.lines().find_map(|line| line.strip_prefix("ExecStart=/usr/bin/netmem ")).expect("a command");
    let out = netmem(&command.replace("/etc/netmem.toml", "/nonexistent.toml")).output().expect("it starts");
    assert!(
        String::from_utf8_lossy(&out.stderr).contains("--config /nonexistent.toml: there is no such file")
    );
}
