//! `netmem doctor --qualify` over two interfaces that are joined: what holds, what does not, and that all is as it was.

use crate::forwarder::{bound_packet_sockets, netmem};
use crate::links::Pair;
use crate::test_frames::Folder;
use crate::testbed::{Testbed, Wiring, wait_until};
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// The modes that every interface has.
const MODES: [&str; 3] = ["xdp native, copies", "xdp generic", "packet"];
const LOADS: [&str; 5] =
    ["64 bytes", "64 to 1,514 bytes", "jumbo", "link down and up", "closed in mid-traffic"];

/// `netmem doctor --qualify` for these interfaces, with its report and journal in the folder.
fn qualify(bed: &Testbed, folder: &Folder, words: &str) -> Command {
    let mut command = netmem(bed);
    command.args(["doctor", "--qualify"]).args(words.split(' '));
    command.arg("--journal").arg(folder.path("journal")).arg("--report").arg(folder.path("report.md"));
    command
}

fn said(out: &Output) -> String {
    String::from_utf8_lossy(&out.stderr).into_owned()
}

/// The state that a run may change.
fn state(bed: &Testbed) -> String {
    let setting = |end: &str| {
        let file = format!("/proc/sys/net/ipv4/conf/{end}/forwarding");
        bed.dut.inside(|| fs::read_to_string(file)).expect("a setting")
    };
    let link = |end: &str| {
        let shown = bed.dut.ip(&format!("-o link show dev {end}"));
        let mtu = shown.split_whitespace().skip_while(|word| *word != "mtu").nth(1).map(str::to_owned);
        (shown.contains(",UP"), mtu)
    };
    let ends = ["x0", "x1"];
    format!("{:?} {:?}", ends.map(setting), ends.map(link))
}

/// Two joined interfaces. One of them is down, and the kernel forwards between them.
fn lay() -> Option<Testbed> {
    let bed = Testbed::lay(Wiring::Bridged, &["ethtool"])?;
    bed.dut.ip("link add x0 mtu 1600 type veth peer name x1");
    bed.dut.ip("link set x1 up");
    bed.dut.inside(|| fs::write("/proc/sys/net/ipv4/conf/x0/forwarding", "1")).expect("a setting");
    Some(bed)
}

/// The row of a mode and load.
#[track_caller]
fn row<'a>(report: &'a str, mode: &str, load: &str) -> Vec<&'a str> {
    let begins = format!("| {mode} | {load} | ");
    let line =
        report.lines().find(|line| line.starts_with(&begins)).unwrap_or_else(|| panic!("{begins}\n{report}"));
    line.split('|').map(str::trim).collect()
}

#[test]
fn two_joined_veths_pass_in_every_mode_that_they_have_and_are_unchanged_afterwards() {
    let Some(bed) = lay() else { return };
    let (folder, before) = (Folder::new("qualify"), state(&bed));
    let out = qualify(&bed, &folder, "x0 x1 --seconds 8").output().expect("netmem");
    let report = fs::read_to_string(folder.path("report.md")).expect("a report");
    assert!(out.status.success(), "{}\n{report}", said(&out));
    assert_eq!((state(&bed), folder.path("journal").exists()), (before, false), "{}", said(&out));
    assert!(report.starts_with("## veth, Linux ") && report.contains("\nNothing failed.\n"), "{report}");
    // A veth has no zero copy, which is not a failure. No other load is tried in that mode.
    let without = row(&report, "xdp native, zero copy", "64 bytes");
    assert!(without[3] == "not offered" && without[8].contains("x0"), "{report}");
    assert_eq!(report.matches("| xdp native, zero copy |").count(), 1, "{report}");
    for mode in MODES {
        for load in LOADS {
            let row = row(&report, mode, load);
            let forwarded: u64 = row[4].parse().unwrap_or_else(|_| panic!("{row:?}"));
            assert!(row[3] == "holds" && forwarded > 0 && row[7] == "0", "{row:?}");
        }
        assert!(row(&report, mode, "64 bytes")[6].starts_with("0 of "), "{report}");
    }
    bed.assert_nothing_left();
}

/// A cable that corrupts one packet in twenty, and a missing cable.
#[test]
fn packets_that_a_cable_corrupts_are_a_failure_with_its_mode_and_exit_code_1() {
    let Some(bed) = lay() else { return };
    let folder = Folder::new("qualify-fault");
    bed.dut.ip("link add y0 type veth peer name y1");
    ["x0", "y0", "y1"].iter().for_each(|end| drop(bed.dut.ip(&format!("link set {end} up"))));
    let apart = qualify(&bed, &folder, "x0 y0 --seconds 2").output().expect("netmem");
    let line = said(&apart);
    assert_eq!(apart.status.code(), Some(2), "{line}");
    assert!(
        line.contains("no packet sent by x0 arrived at y0") && line.contains("put a cable between them"),
        "{line}"
    );
    let mut cable = Pair::start_with(&bed.dut, ["packet:x1", "fault:seed=1,corrupt=1/20/packet:y1"], &[]);
    cable.wait_until("the cable takes packets", || bound_packet_sockets(&bed.dut) == 2);
    let out = qualify(&bed, &folder, "x0 y0 --seconds 6").output().expect("netmem");
    drop(cable);
    let report = fs::read_to_string(folder.path("report.md")).expect("a report");
    assert_eq!(out.status.code(), Some(1), "{}\n{report}", said(&out));
    let corrupted = row(&report, "packet", "64 bytes");
    assert!(corrupted[3] == "FAILED" && report.contains("\n- packet, 64 bytes: "), "{report}");
    assert!(said(&out).contains("error: packet, 64 bytes: "), "{}", said(&out));
}

#[test]
fn undo_reverts_a_run_that_was_killed_with_the_link_down_and_ctrl_c_leaves_nothing() {
    let Some(bed) = lay() else { return };
    let (folder, before) = (Folder::new("qualify-kill"), state(&bed));
    let journal = folder.path("journal");
    let is_down = |journal: &Path| fs::read_to_string(journal).is_ok_and(|text| text.contains("x1\",\"down"));
    let start = || {
        let mut command = qualify(&bed, &folder, "x0 x1 --seconds 4");
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("netmem")
    };
    let mut run = start();
    wait_until("the second interface is set down", || is_down(&journal));
    run.kill().and_then(|()| run.wait()).expect("a kill");
    assert_ne!(state(&bed), before);
    let refused = qualify(&bed, &folder, "x0 x1").output().expect("netmem");
    assert!(
        refused.status.code() == Some(2) && said(&refused).contains("--undo --journal"),
        "{}",
        said(&refused)
    );
    let undone = netmem(&bed).args(["doctor", "--undo", "--journal"]).arg(&journal).output().expect("netmem");
    assert!(undone.status.success(), "{}", said(&undone));
    assert_eq!((state(&bed), journal.exists()), (before.clone(), false));
    let mut command = qualify(&bed, &folder, "x0 x1 --seconds 4");
    let run = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("netmem");
    wait_until("something is changed", || journal.exists());
    bed.dut.run("kill", &format!("-INT {}", run.id()));
    let out = run.wait_with_output().expect("its end");
    assert_eq!(out.status.code(), Some(130), "{}", said(&out));
    // Seen: the trial that Ctrl-C cut short was judged, and what was on its way was lost.
    assert!(!String::from_utf8_lossy(&out.stdout).contains("FAILED"), "{out:?}");
    assert_eq!((state(&bed), journal.exists()), (before, false));
}

#[test]
fn interfaces_that_are_missing_the_same_or_in_use_are_refused_in_one_line() {
    let Some(bed) = lay() else { return };
    let (folder, before) = (Folder::new("qualify-bad"), state(&bed));
    bed.dut.ip("link add z0 type veth peer name z1");
    bed.dut.ip("addr add 192.0.2.1/24 dev z0");
    bed.dut.ip("link add v0 type veth peer name v1");
    for words in ["link add br0 type bridge", "link add m0 link v0 type macvlan"] {
        if !bed.dut.makes("ip", words) {
            return;
        }
    }
    bed.dut.ip("link set z1 master br0");
    bed.dut.ip("link add w0 type veth peer name w1");
    ["w0", "w1"].iter().for_each(|end| drop(bed.dut.ip(&format!("link set {end} up"))));
    let mut forwarder = Pair::start_with(&bed.dut, ["xdp:w0", "packet:w1"], &[]);
    forwarder.wait_until("the program is attached", || bed.dut.ip("link show dev w0").contains(" xdp"));
    for (words, line) in [
        ("x0 nosuch", "there is no interface nosuch"),
        ("x0 x0", "give two interfaces"),
        ("x0 z0", "z0 has the address 192.0.2.1/24"),
        ("z1 x0", "z1 is a member of br0"),
        ("x0 v0", "v0 has the interface m0 on top of it"),
        ("x0 w0", "w0 has an XDP program ("),
    ] {
        let out = qualify(&bed, &folder, words).output().expect("netmem");
        let said = said(&out);
        assert_eq!((out.status.code(), said.lines().count()), (Some(2), 1), "{words}: {said}");
        assert!(said.contains(line) && !folder.path("report.md").exists(), "{words}: {said}");
    }
    // Seen: an empty file of the user was removed.
    fs::write(folder.path("report.md"), "").expect("a file");
    assert_eq!(qualify(&bed, &folder, "x0 nosuch").output().expect("netmem").status.code(), Some(2));
    assert!(folder.path("report.md").exists());
    assert!(forwarder.end().status.success());
    let mut unwritable = netmem(&bed);
    let out = unwritable.args(["doctor", "--qualify", "x0", "x1", "--report", "/nonexistent/r.md"]).output();
    let out = out.expect("netmem");
    assert!(
        out.status.code() == Some(2) && said(&out).contains("--report /nonexistent/r.md: "),
        "{}",
        said(&out)
    );
    assert_eq!(state(&bed), before);
}
