//! Tests that `netmem forward --fix` changes the host for its run, and that a run reports at its start what else the
//! kernel does with its packets.

use crate::forwarder::{netmem, said};
use crate::links::Pair;
use crate::sandbox::broker_of;
use crate::stall::Stall;
use crate::test_frames::{Folder, frames, pcap_at_intervals};
use crate::testbed::{Namespace, Testbed, Wiring, host_mac, wait_until};
use ::netmem::system::seqpacket::Listener;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

/// Settings that disturb a router with packet sockets, and their values during the run.
const SETTINGS: [(&str, &str, &str); 3] = [
    ("ipv4/conf/one/forwarding", "1", "0"),
    ("ipv4/conf/two/forwarding", "1", "0"),
    ("ipv4/conf/two/rp_filter", "1", "2"),
];

fn file(setting: &str) -> PathBuf {
    Path::new("/proc/sys/net").join(setting)
}

/// A testbed whose kernel forwards too, and filters by reverse path.
fn planted() -> Option<Testbed> {
    let bed = Testbed::lay(Wiring::Routed, &["ping"])?;
    for (setting, before, _) in SETTINGS {
        bed.dut.inside(|| fs::write(file(setting), before)).expect("a setting");
    }
    Some(bed)
}

fn settings(dut: &Namespace) -> [String; 3] {
    SETTINGS.map(|(setting, ..)| {
        dut.inside(|| fs::read_to_string(file(setting))).expect("a setting").trim().to_owned()
    })
}

/// A router beside which the kernel has copies of its packets, and which changes the host by that journal.
fn options(journal: &Path) -> [String; 4] {
    let [one, two] = routes();
    [one, two, "--kernel-copies=keep".to_owned(), format!("--fix={}", journal.display())]
}

fn routes() -> [String; 2] {
    [(0, 1), (1, 2)].map(|(port, host)| format!("--route=10.77.{host}.0/24,{port},{}", host_mac(host)))
}

fn start(bed: &Testbed, options: &[String]) -> Pair {
    let words: Vec<&str> = options.iter().map(String::as_str).collect();
    Pair::start_as(&bed.dut, ["packet:one", "packet:two"], &words)
}

/// What becomes of a run that is to be refused.
fn refused(bed: &Testbed, journal: &Path, more: &[&str]) -> Output {
    let mut command = netmem(bed);
    command.args(["forward", "--port=packet:one", "--port=packet:two"]).args(options(journal)).args(more);
    command.output().expect("netmem")
}

fn undo(bed: &Testbed, journal: &Path) -> Output {
    let mut command = netmem(bed);
    command.args(["doctor", "--undo", "--journal"]).arg(journal).output().expect("netmem")
}

/// How the line about a broker begins that ended before the run began.
const ENDED: &str = "error: sandbox: the broker (netmem-broker) has ended while the run was set up";
const BEFORE: [&str; 3] = [SETTINGS[0].1, SETTINGS[1].1, SETTINGS[2].1];
const MEANWHILE: [&str; 3] = [SETTINGS[0].2, SETTINGS[1].2, SETTINGS[2].2];

#[test]
fn the_changes_of_a_run_are_reverted_when_it_has_ended_or_could_not_begin() {
    let Some(bed) = planted() else { return };
    let folder = Folder::new("fixes");
    let journal = folder.path("journal");
    let pair = start(&bed, &options(&journal));
    bed.wait_for_the_path();
    assert_eq!((settings(&bed.dut), journal.exists()), (MEANWHILE.map(str::to_owned), true));
    let out = pair.end();
    let lines = said(&out);
    assert!(out.status.success(), "{lines}");
    assert_eq!(
        lines.lines().filter(|line| line.starts_with("netmem: changed for this run: sysctl -w net.")).count(),
        3,
        "{lines}"
    );
    assert_eq!(
        (lines.lines().count(), settings(&bed.dut), journal.exists()),
        (3, BEFORE.map(str::to_owned), false),
        "{lines}"
    );
    let refused = refused(&bed, &journal, &["--control=/nonexistent/socket"]);
    assert_eq!(
        (refused.status.code(), settings(&bed.dut), journal.exists()),
        (Some(2), BEFORE.map(str::to_owned), false)
    );
    bed.assert_nothing_left();
}

/// Found in a review: the broker ran no program, so that a change by ip(8) stayed.
#[test]
fn an_interface_that_was_set_up_for_a_run_is_down_again_after_it() {
    let Some(bed) = Testbed::lay(Wiring::Routed, &["ping"]) else { return };
    bed.dut.ip("link set dev two down");
    let is_up = || bed.dut.ip("link show dev two").contains(",UP");
    assert!(!is_up());
    let folder = Folder::new("fixes-link");
    let journal = folder.path("journal");
    let pair = start(&bed, &options(&journal));
    wait_until("it is set up", is_up);
    let out = pair.end();
    assert!(out.status.success(), "{}", said(&out));
    assert!(said(&out).contains("ip link set dev two up"), "{}", said(&out));
    assert_eq!((is_up(), journal.exists()), (false, false), "{}", said(&out));
}

/// Found in a review: of two joined interfaces that were down only one was set up, and no packet passed.
#[test]
fn both_ends_of_a_pair_that_is_down_are_set_up_for_a_run() {
    let Some(bed) = Testbed::lay(Wiring::Routed, &["ping"]) else { return };
    let folder = Folder::new("fixes-pair");
    let journal = folder.path("journal");
    bed.dut.ip("link add x0 type veth peer name x1");
    let mut command = netmem(&bed);
    command.args([
        "forward",
        "--mode=cross-connect",
        "--port=packet:x0",
        "--port=packet:two",
        "--seconds=0.2",
    ]);
    let out = command.arg(format!("--fix={}", journal.display())).output().expect("netmem");
    let lines = said(&out);
    assert!(out.status.success(), "{lines}");
    for end in ["x0", "x1"] {
        assert!(lines.contains(&format!("changed for this run: ip link set dev {end} up\n")), "{lines}");
        assert!(!bed.dut.ip(&format!("link show dev {end}")).contains(",UP"), "{lines}");
    }
    assert!(!journal.exists(), "{lines}");
}

#[test]
fn the_broker_of_a_killed_run_reverts_its_changes() {
    let Some(bed) = planted() else { return };
    let folder = Folder::new("fixes-broker");
    let journal = folder.path("journal");
    let pair = start(&bed, &options(&journal));
    // Once packets cross there is a broker. A run that is killed between its last change and the fork leaves the
    // journal.
    bed.wait_for_the_path();
    assert_eq!(settings(&bed.dut), MEANWHILE);
    drop(pair);
    wait_until("the host is as it was", || settings(&bed.dut) == BEFORE && !journal.exists());
}

/// Found in a review: the unit's `ExecStopPost=` undid the changes of a live run, after a second start with its journal was refused.
#[test]
fn a_journal_of_a_live_run_is_not_undone_and_not_taken_by_a_second_run() {
    let Some(bed) = planted() else { return };
    let folder = Folder::new("fixes-live");
    let journal = folder.path("journal");
    let pair = start(&bed, &options(&journal));
    bed.wait_for_the_path();
    // An interface that is down, as it is made.
    bed.dut.ip("link add x0 type veth peer name x1");
    let fix = || netmem(&bed).args(["doctor", "--fix", "packet:x0", "--journal"]).arg(&journal).output();
    for refused in [refused(&bed, &journal, &[]), undo(&bed, &journal), fix().expect("netmem")] {
        let line = said(&refused);
        let wanted = format!("error: journal {}: ", journal.display());
        assert!(line.starts_with(&wanted) && line.contains(" has not ended uses it"), "{line}");
        assert_eq!((refused.status.code(), line.lines().count()), (Some(2), 1), "{line}");
        assert_eq!((settings(&bed.dut), journal.exists()), (MEANWHILE.map(str::to_owned), true));
    }
    let out = pair.end();
    assert!(out.status.success(), "{}", said(&out));
    assert_eq!((settings(&bed.dut), journal.exists()), (BEFORE.map(str::to_owned), false));
    assert!(undo(&bed, &journal).status.success());
}

/// Found in a review: the broker of a run as root ran whatever the rest of the run had written into the journal.
#[test]
fn what_is_written_into_the_journal_during_a_run_is_not_run_by_the_broker() {
    let Some(bed) = planted() else { return };
    let folder = Folder::new("fixes-planted");
    let (journal, evil) = (folder.path("journal"), folder.path("evil"));
    let line =
        format!("{{\"run\":{{\"command\":[\"true\"],\"undo\":[\"touch\",\"{}\"]}}}}\n", evil.display());
    for is_killed in [false, true] {
        let pair = start(&bed, &options(&journal));
        bed.wait_for_the_path();
        assert_eq!(settings(&bed.dut), MEANWHILE);
        fs::write(&journal, &line).expect("the journal");
        if is_killed {
            drop(pair);
        } else {
            let out = pair.end();
            assert!(out.status.success(), "{}", said(&out));
        }
        wait_until("the host is as it was", || settings(&bed.dut) == BEFORE && !journal.exists());
        assert!(!evil.exists(), "killed: {is_killed}");
    }
}

/// Returns the paths that a line of the unit has, those that may be missing too.
fn paths_of_the_unit(key: &str) -> String {
    let unit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../dist/netmem.service");
    let unit = fs::read_to_string(unit).expect("the unit");
    let lines = unit.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix('='));
    let paths = lines.flat_map(str::split_whitespace).map(|path| path.trim_start_matches('-'));
    paths.collect::<Vec<_>>().join(" ")
}

/// Found in a review: without a capability, root could still write kernel.core_pattern, which names a program that the
/// kernel runs as root. The paths are mounted as systemd does for the unit.
#[test]
fn under_the_unit_a_run_makes_its_changes_and_root_writes_no_other_setting() {
    let Some(bed) = planted() else { return };
    let folder = Folder::new("fixes-unit");
    let journal = folder.path("journal");
    let (read, written) = (paths_of_the_unit("ReadOnlyPaths"), paths_of_the_unit("ReadWritePaths"));
    let script = format!(
        "for path in {read} {written}; do test ! -e $path || mount --rbind $path $path || exit 91; done
         for path in {read}; do test ! -e $path || mount -o remount,ro,bind $path || exit 92; done
         for path in /proc/sys/kernel/core_pattern /proc/sys/vm/overcommit_memory /proc/sys/fs/file-max /proc/sysrq-trigger; do
             test ! -e $path || (: >>$path) 2>/dev/null && test -e $path && exit 93
         done
         for path in {written}; do test -d $path || test ! -e $path || (: >>$path) || exit 94; done
         exec \"$0\" \"$@\""
    );
    let mut command = bed.dut.command("unshare");
    command.args(["-m", "sh", "-c", &script, env!("CARGO_BIN_EXE_netmem"), "forward", "--seconds=1"]);
    command.args(["--port=packet:one", "--port=packet:two"]).args(options(&journal));
    let out = command.output().expect("unshare");
    let lines = said(&out);
    assert!(out.status.success(), "{}: {lines}", out.status);
    assert_eq!(lines.matches("netmem: changed for this run: sysctl -w net.").count(), 3, "{lines}");
    assert_eq!((settings(&bed.dut), journal.exists()), (BEFORE.map(str::to_owned), false), "{lines}");
}

#[test]
fn a_killed_run_without_a_broker_leaves_a_journal_that_the_next_run_keeps_and_undo_reverts() {
    let Some(bed) = planted() else { return };
    let folder = Folder::new("fixes-kill");
    let journal = folder.path("journal");
    let pair = start(&bed, &[&options(&journal)[..], &["--no-sandbox".to_owned()]].concat());
    wait_until("the host is changed", || settings(&bed.dut) == MEANWHILE);
    drop(pair);
    let refused = refused(&bed, &journal, &[]);
    let line = said(&refused);
    assert!(
        refused.status.code() == Some(2) && line.contains("--undo --journal") && line.lines().count() == 1,
        "{line}"
    );
    assert_eq!(settings(&bed.dut), MEANWHILE);
    let undone = undo(&bed, &journal);
    assert!(undone.status.success(), "{}", said(&undone));
    assert_eq!((settings(&bed.dut), journal.exists()), (BEFORE.map(str::to_owned), false));
}

/// Seen: after its interface was removed, the journal of a killed run could not be undone, and every later start was refused.
#[test]
fn changes_of_an_interface_that_was_removed_do_not_block_the_next_start() {
    let Some(bed) = planted() else { return };
    let folder = Folder::new("fixes-removed");
    let journal = folder.path("journal");
    let pair = start(&bed, &[&options(&journal)[..], &["--no-sandbox".to_owned()]].concat());
    wait_until("the host is changed", || settings(&bed.dut) == MEANWHILE);
    drop(pair);
    bed.dut.ip("link del two");
    let undone = undo(&bed, &journal);
    assert!(undone.status.success() && said(&undone).is_empty(), "{}", said(&undone));
    let lines = String::from_utf8_lossy(&undone.stdout).into_owned();
    let gone = "nothing left to undo, because the interface is gone: sysctl -w net.ipv4.conf.two.";
    assert_eq!((lines.matches(gone).count(), lines.lines().count()), (2, 3), "{lines}");
    assert!(lines.contains("undone: sysctl -w net.ipv4.conf.one.forwarding=1\n"), "{lines}");
    assert!(!journal.exists());
}

/// Seen: the run went on, or ended with "Broken pipe", and the host stayed as the run had changed it.
#[test]
fn a_run_whose_broker_is_killed_while_it_is_set_up_ends_with_one_line_and_the_host_as_it_was() {
    let Some(bed) = planted() else { return };
    let folder = Folder::new("fixes-set-up");
    let (journal, silent) = (folder.path("journal"), folder.path("silent"));
    let _listener = Listener::new(&silent).expect("a socket");
    let mut command = netmem(&bed);
    command.args(["forward", "--seconds=1", "--port=packet:one", "--port=packet:two"]);
    command.arg(format!("--port=memif:{}", silent.display())).args(options(&journal));
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("netmem");
    let mut said = BufReader::new(child.stderr.take().expect("its lines")).lines().map_while(Result::ok);
    assert!(said.any(|line| line.contains("waiting for")), "it ended by itself");
    let broker = Pid::from_raw(broker_of(child.id()).cast_signed()).expect("a number");
    kill_process(broker, Signal::KILL).expect("kill(2)");
    let lines: Vec<String> = said.collect();
    assert_eq!(child.wait().expect("wait").code(), Some(3), "{lines:?}");
    assert!(lines.len() == 1 && lines[0].starts_with(ENDED), "{lines:?}");
    assert_eq!((settings(&bed.dut), journal.exists()), (BEFORE.map(str::to_owned), false), "{lines:?}");
}

/// Seen: a worker that stood in a write at the end had the process end with the host as the run had changed it.
#[test]
fn the_changes_of_a_run_without_a_broker_are_reverted_although_a_worker_never_ends() {
    let Some(bed) = planted() else { return };
    let folder = Folder::new("fixes-stuck");
    let (journal, control) = (folder.path("journal"), folder.path("control"));
    let input = folder.write("in.pcap", &pcap_at_intervals(&frames(), 1000));
    let stall = Stall::new(&folder.path(""), true);
    let mut command = netmem(&bed);
    command.args(["forward", "--no-sandbox", "--watchdog=0.5", "--port=packet:one", "--port=packet:two"]);
    let trace = folder.path("trace");
    command.arg(format!(
        "--port=trace:file={}/pcap:in={},speed=recorded,loop=0",
        trace.display(),
        input.display()
    ));
    command.arg(format!("--control={}", control.display())).args(options(&journal));
    let mut child = stall.within(&mut command).stderr(Stdio::piped()).spawn().expect("netmem");
    let mut said = BufReader::new(child.stderr.take().expect("its lines")).lines().map_while(Result::ok);
    stall.line(&mut said);
    assert_eq!(settings(&bed.dut), MEANWHILE);
    kill_process(Pid::from_child(&child), Signal::INT).expect("kill(2)");
    let lines: Vec<String> = said.collect();
    assert_eq!(child.wait().expect("wait").code(), Some(1), "{lines:?}");
    assert!(lines.iter().any(|line| line.starts_with("error: worker 0 does not end: ")), "{lines:?}");
    assert_eq!((settings(&bed.dut), journal.exists()), (BEFORE.map(str::to_owned), false), "{lines:?}");
    assert!(!control.exists(), "{lines:?}");
}

#[test]
fn a_failed_change_reverts_those_before_it_and_nothing_is_forwarded() {
    let Some(bed) = planted() else { return };
    let folder = Folder::new("fixes-fail");
    let journal = folder.path("journal");
    // A setting that is read-only for all processes in this mount namespace, because it is bound over itself.
    let script = "mount --bind /proc/sys/net/ipv4/conf/two/rp_filter /proc/sys/net/ipv4/conf/two/rp_filter && \
                  mount -o remount,ro,bind /proc/sys/net/ipv4/conf/two/rp_filter && exec \"$0\" \"$@\"";
    let mut command = bed.dut.command("unshare");
    command.args(["-m", "sh", "-c", script, env!("CARGO_BIN_EXE_netmem"), "forward"]);
    command.args(["--port=packet:one", "--port=packet:two"]).args(options(&journal));
    let out = command.output().expect("unshare");
    let lines = said(&out);
    assert!(out.status.code() == Some(2) && lines.contains("rp_filter: Read-only file system"), "{lines}");
    assert_eq!((settings(&bed.dut), journal.exists()), (BEFORE.map(str::to_owned), false), "{lines}");
}

#[test]
fn a_bridge_that_forwards_beside_a_packet_port_is_reported_at_start_with_the_remedy() {
    let Some(bed) = Testbed::lay(Wiring::Routed, &["ping"]) else { return };
    if !bed.dut.makes("ip", "link add br0 type bridge") {
        return;
    }
    bed.dut.ip("link set two master br0");
    let pair = start(&bed, &routes());
    bed.wait_for_the_path();
    let out = pair.end();
    let wanted = "netmem: packet:two: it is a port of the bridge br0, which forwards its packets too: \
                  ip link set dev two nomaster\n";
    assert_eq!((out.status.success(), &said(&out)[..]), (true, wanted));
}
