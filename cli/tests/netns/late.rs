//! Tests of interfaces that appear, or are set up, after the start of the forwarder, and of sockets that a service
//! leaves behind.

use crate::forwarder::{Forwarder, netmem};
use crate::test_frames::Folder;
use crate::testbed::{Testbed, Wiring, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread;

const NOBODY: u32 = 65534;

/// As at a boot: one interface is made after the start, the other one is set up after it.
#[test]
fn a_run_that_waits_begins_when_all_interfaces_are_there_and_up() {
    let Some(bed) = Testbed::lay(Wiring::Bridged, &["ping"]) else { return };
    // Seen: with queues=all a run did not wait, and ended at once.
    let all = ["xdp:one,queues=all", "xdp:two,queues=all"];
    for ports in [["xdp:one", "xdp:two"], ["packet:one", "packet:two"], all] {
        bed.dut.ip("link set dev one down");
        bed.h2.ip("link del eth0");
        let mut command = netmem(&bed);
        command.args(["forward", "--mode=cross-connect", "--json", "--wait=600"]);
        command.args(ports.map(|port| format!("--port={port}")));
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("netmem starts");
        let lines = BufReader::new(child.stderr.take().expect("it is piped")).lines();
        let mut lines = lines.map(|line| line.expect("text"));
        let waits = |what| Some(format!("netmem: waits for interface {what} (--wait)"));
        assert_eq!(lines.next(), waits("one, which is down"));
        bed.dut.ip("link set dev one up");
        assert_eq!(lines.next(), waits("two, which does not exist"));
        bed.wire(2, 1);
        let rest = thread::spawn(move || lines.collect::<Vec<_>>());
        bed.wait_for_the_path();
        kill_process(Pid::from_child(&child), Signal::TERM).expect("kill(2)");
        let out = child.wait_with_output().expect("it ends");
        assert!(out.status.success(), "{:?}", rest.join());
        bed.assert_nothing_left();
    }
}

#[test]
fn a_run_whose_wait_is_over_reports_what_is_missing() {
    let Some(bed) = Testbed::lay(Wiring::Bridged, &[]) else { return };
    for missing in ["xdp:three", "xdp:three,queues=all"] {
        let mut command = netmem(&bed);
        command.args(["forward", "--mode=cross-connect", "--wait=2", "--port=xdp:one", "--port", missing]);
        let out = command.output().expect("netmem");
        let said = String::from_utf8_lossy(&out.stderr);
        // Seen: by exit code 2 the service was never started again.
        assert_eq!(out.status.code(), Some(3), "{said}");
        let lines: Vec<_> = said.lines().collect();
        assert!(
            matches!(lines[..], [waits, error] if waits.contains("waits for interface three, which does not")
                && error.starts_with("error: interface three does not exist")),
            "{said}"
        );
    }
}

/// `netmem forward` with the capabilities of the unit, and its socket there.
fn as_a_service(bed: &Testbed, control: &Path) -> Command {
    let mut command = bed.dut.command("setpriv");
    let capabilities = "-all,+net_admin,+net_raw,+bpf,+ipc_lock,+perfmon,+setuid,+setgid,+chown";
    command.args(["--bounding-set", capabilities, env!("CARGO_BIN_EXE_netmem"), "forward", "--json"]);
    command.args(["--mode=cross-connect", "--port=xdp:one", "--port=xdp:two"]);
    command.arg(format!("--control={}", control.display()));
    command
}

/// Seen: after `user = "nobody"` the service did not start again if its folder was kept.
#[test]
fn a_socket_that_another_user_has_left_is_replaced_without_the_capability_to_override_modes() {
    let Some(bed) = Testbed::lay(Wiring::Bridged, &["setpriv"]) else { return };
    let folder = Folder::new("late-sockets");
    fs::set_permissions(folder.path(""), Permissions::from_mode(0o700)).expect("chmod");
    let control = folder.path("netmem.sock");
    let listener = UnixListener::bind(&control).expect("a socket");
    chown(&control, Some(NOBODY), Some(NOBODY)).expect("chown");
    fs::set_permissions(&control, Permissions::from_mode(0o600)).expect("chmod");
    let Output { status, stderr, .. } = as_a_service(&bed, &control).output().expect("netmem");
    let said = String::from_utf8_lossy(&stderr);
    assert!(status.code() == Some(3) && said.contains("another program listens there"), "{said}");
    assert_eq!(fs::metadata(&control).expect("it is there").uid(), NOBODY, "it is theirs as before");
    drop(listener);
    let forwarder = Forwarder::spawn(&bed, &mut as_a_service(&bed, &control), 1);
    wait_until("the socket is its own", || fs::metadata(&control).is_ok_and(|socket| socket.uid() == 0));
    let out = forwarder.end(Signal::TERM);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    assert!(!control.exists());
    assert_eq!(fs::read_dir(folder.path("")).expect("the folder").count(), 0, "nothing else is in it");
    bed.assert_nothing_left();
}
