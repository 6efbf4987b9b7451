//! Tests that `netmem doctor` names planted faults, and reverts its changes.

use crate::forwarder::{Forwarder, netmem};
use crate::test_frames::Folder;
use crate::testbed::{Namespace, Testbed, Wiring, wait_until};
use rustix::thread::{CpuSet, sched_getaffinity};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// The program inside, under another program that takes something away from it.
fn under(dut: &Namespace, program: &str, words: &str) -> Command {
    let mut command = dut.command(program);
    command.args(words.split_whitespace()).arg(env!("CARGO_BIN_EXE_netmem"));
    command
}

/// The rules that a look finds broken, without those of the machine itself.
#[track_caller]
fn rules(command: &mut Command) -> BTreeSet<String> {
    let out = command.output().expect("netmem");
    let object: Value = serde_json::from_slice(&out.stdout)
        .unwrap_or_else(|_| panic!("{command:?}: {}", String::from_utf8_lossy(&out.stderr)));
    let findings = object["findings"].as_array().expect("findings").clone();
    let does_harm = findings.iter().any(|finding| finding["harm"] != "slow");
    assert_eq!((out.status.code(), &out.stderr[..]), (Some(i32::from(does_harm)), &b""[..]), "{object}");
    let names = findings.iter().map(|finding| finding["rule"].as_str().expect("a rule").to_owned());
    names.filter(|rule| !["governor", "huge-pages", "isolation"].contains(&rule.as_str())).collect()
}

fn look<'a>(command: &'a mut Command, words: &str) -> &'a mut Command {
    command.args(["doctor", "--json"]).args(words.split_whitespace())
}

fn set(dut: &Namespace, path: &str, value: &str) {
    dut.inside(|| fs::write(Path::new("/proc/sys/net").join(path), value)).expect("a setting");
}

fn names(rules: &[&str]) -> BTreeSet<String> {
    rules.iter().map(|rule| (*rule).to_owned()).collect()
}

/// Two interfaces that are joined, both up.
fn pair(dut: &Namespace, name: &str) {
    dut.ip(&format!("link add {name}0 type veth peer name {name}1"));
    dut.ip(&format!("link set {name}0 up"));
    dut.ip(&format!("link set {name}1 up"));
}

#[test]
fn a_host_with_two_interfaces_that_are_up_has_nothing_wrong() {
    let Some(bed) = Testbed::lay(Wiring::Bridged, &[]) else { return };
    for words in ["", "one two", "packet:one tap:t0 memif:/run/none.sock pcap:out=/tmp/x.pcap"] {
        assert_eq!(rules(look(&mut netmem(&bed), words)), names(&[]), "{words}");
    }
    let route = "--route=default,1,02:00:00:00:02:01";
    let mut command = netmem(&bed);
    let check = command.args(["forward", "--check", "--json", "--port=xdp:one", "--port=xdp:two", route]);
    assert_eq!(rules(check), names(&[]));
    bed.assert_nothing_left();
}

/// The commands of ip(8) that plant a fault beside a pair of interfaces x0 and x1 and remove it, the checked
/// interfaces, and the rules that the fault breaks.
type Fault = (&'static [&'static str], &'static [&'static str], &'static str, &'static [&'static str]);

const FAULTS: [Fault; 19] = [
    (&[], &[], "nosuch", &["missing"]),
    (&["link property add dev x0 altname other0"], &[], "other0", &["renamed"]),
    (&["link set x0 down"], &[], "x0", &["down"]),
    (&["link set x1 down"], &[], "packet:x0", &["carrier"]),
    (&["link set x0 mtu 3000"], &[], "x0", &["frame-size"]),
    (&[], &[], "xdp:x0:1", &["queues", "other-queues"]),
    (
        &[
            "link add y0 numrxqueues 2 numtxqueues 2 type veth peer y1 numrxqueues 2 numtxqueues 2",
            "link set y0 up",
            "link set y1 up",
        ],
        &["link del y0"],
        "y0",
        &["other-queues"],
    ),
    (&["link add br0 type bridge", "link set x0 master br0"], &["link del br0"], "x0", &["bridge"]),
    (&["link add br0 type bridge", "link set x0 master br0"], &["link del br0"], "packet:x0", &["bridge"]),
    (&["link add m0 link x0 type macvlan"], &[], "x0", &["on-top"]),
    (&[], &[], "memif:/nonexistent/m.sock,role=server", &["socket-folder"]),
    (&[], &[], "pcap:in=/nonexistent.pcap,out=/nonexistent/o.pcap", &["input", "output"]),
    (&[], &[], "pcap:in=/tmp,out=/tmp", &["input", "output"]),
    (&[], &[], "trace:file=/nonexistent/t.json/packet:x0", &["output"]),
    (&[], &[], "memif:/etc/passwd,role=server", &["socket"]),
    (&[], &[], "memif:/etc/passwd", &["socket"]),
    (&[], &[], "tap:x0", &["tap-name"]),
    (&["tuntap add dev tap0 mode tap"], &["link del tap0"], "tap:tap0", &["down"]),
    (
        &["tuntap add dev tun0 mode tun", "link set tun0 up"],
        &["link del tun0"],
        "tun0 packet:tun0",
        &["not-ethernet"],
    ),
];

#[test]
fn each_fault_that_is_planted_is_named_and_nothing_else() {
    let Some(bed) = Testbed::lay(Wiring::Bridged, &[]) else { return };
    let dut = &bed.dut;
    for (planted, taken, words, broken) in FAULTS {
        pair(dut, "x");
        // Without a kind of interface the other faults are planted nevertheless.
        if planted.iter().all(|words| dut.makes("ip", words)) {
            assert_eq!(rules(look(&mut netmem(&bed), words)), names(broken), "{planted:?} {words}");
            taken.iter().for_each(|words| drop(dut.ip(words)));
        }
        dut.ip("link del x0");
    }
}

#[test]
fn settings_capabilities_limits_cores_and_peers_that_stand_in_the_way_are_named() {
    let Some(bed) = Testbed::lay(Wiring::Bridged, &["setpriv", "prlimit", "taskset"]) else { return };
    let dut = &bed.dut;
    let without_bpf = "--bounding-set -bpf,-sys_admin";
    assert_eq!(rules(look(&mut under(dut, "setpriv", without_bpf), "one two")), names(&["capabilities"]));
    let little = "--memlock=65536 setpriv --bounding-set -ipc_lock";
    assert_eq!(rules(look(&mut under(dut, "prlimit", little), "one two")), names(&["locked-memory"]));
    let allowed = sched_getaffinity(None).expect("the CPUs of this thread");
    let cpu = (0..CpuSet::MAX_CPU).find(|cpu| allowed.is_set(*cpu)).expect("a CPU");
    let mut command = under(dut, "taskset", &format!("-c {cpu}"));
    let routed = ["--port=xdp:one,queues=1", "--port=xdp:two", "--route=default,1,02:00:00:00:02:01"];
    let check = command.args(["forward", "--check", "--json", "--workers=1"]).args(routed);
    assert_eq!(rules(check), names(&[]));
    set(dut, "ipv4/conf/one/forwarding", "1");
    set(dut, "ipv4/conf/two/rp_filter", "1");
    // A user that may not load programs cannot prevent the kernel's copies.
    let beside = rules(look(&mut under(dut, "setpriv", without_bpf), "packet:one packet:two"));
    assert_eq!(beside, names(&["forwarding", "rp-filter"]));
    let name = format!("/tmp/netmem-doctor-{}.sock", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).expect("a name");
    let _peer = dut.inside(|| UnixListener::bind_addr(&address).expect("an abstract socket"));
    assert_eq!(rules(look(&mut netmem(&bed), &format!("memif:{name}"))), names(&["abstract-socket"]));
    assert_eq!(rules(look(&mut netmem(&bed), &format!("memif:@{name}"))), names(&[]));
    pair(dut, "x");
    let mut command = netmem(&bed);
    let generic = ["--port=xdp:x0", "--port=xdp:two", "--xdp-mode=generic", "--mode=cross-connect"];
    assert_eq!(rules(command.args(["forward", "--check", "--json"]).args(generic)), names(&["udp-segments"]));
}

#[test]
fn all_faults_together_and_a_program_of_another_process_are_each_named() {
    let Some(bed) = Testbed::lay(Wiring::Bridged, &["setpriv"]) else { return };
    let first = Forwarder::start(&bed, &[]);
    let dut = &bed.dut;
    for words in [
        "link add br0 type bridge",
        "link set two master br0",
        "link add m0 link one type macvlan",
        "link property add dev two altname other0",
        "link set one mtu 1600",
    ] {
        if !dut.makes("ip", words) {
            return;
        }
    }
    pair(dut, "x");
    pair(dut, "y");
    ["x0", "y1"].iter().for_each(|end| drop(dut.ip(&format!("link set {end} down"))));
    set(dut, "ipv4/conf/y0/forwarding", "1");
    set(dut, "ipv4/conf/x0/rp_filter", "1");
    let ports = "one other0 x0 packet:y0 nosuch xdp:x1:3 memif:/nonexistent/m.sock,role=server pcap:in=/nonexistent.pcap \
                 pcap:out=/nonexistent/o.pcap";
    let found = rules(look(&mut under(dut, "setpriv", "--bounding-set -bpf,-sys_admin"), ports));
    let planted = [
        "capabilities",
        "program",
        "on-top",
        "frame-size",
        "renamed",
        "bridge",
        "down",
        "carrier",
        "forwarding",
        "rp-filter",
        "missing",
        "queues",
        "other-queues",
        "socket-folder",
        "input",
        "output",
    ];
    assert!(found.is_superset(&names(&planted)), "{found:?}");
    // If the kernel reports AF_XDP sockets, those of the first run are found too.
    let beside: Vec<_> = found.difference(&names(&planted)).cloned().collect();
    assert!(beside.is_empty() || beside == ["bound"], "{beside:?}");
    let mut command = netmem(&bed);
    let said = command.args(["doctor", "one"]).output().expect("netmem");
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    assert!(said.contains("held by netmem (process "), "{said}");
    dut.ip("link set one mtu 1500");
    first.interrupt();
}

/// Seen: `conf/IF/forwarding` was read and set, by which IPv6 is not forwarded.
#[test]
fn the_kernel_forwards_ipv6_by_the_setting_of_all_interfaces_or_by_that_of_one_since_linux_6_17() {
    const FORCE: &str = "ipv6/conf/y0/force_forwarding";
    let Some(bed) = Testbed::lay(Wiring::Bridged, &["setpriv"]) else { return };
    let dut = &bed.dut;
    pair(dut, "y");
    dut.set_ipv6(true);
    let found = || rules(look(&mut under(dut, "setpriv", "--bounding-set -bpf,-sys_admin"), "packet:y0"));
    set(dut, "ipv6/conf/y0/forwarding", "1");
    assert_eq!(found(), names(&[]), "that makes it a router, and forwards nothing");
    set(dut, "ipv6/conf/all/forwarding", "1");
    assert_eq!(found(), names(&["forwarding"]));
    set(dut, "ipv6/conf/y0/disable_ipv6", "1");
    assert_eq!(found(), names(&[]), "it receives no IPv6");
    set(dut, "ipv6/conf/y0/disable_ipv6", "0");
    set(dut, "ipv6/conf/all/forwarding", "0");
    assert_eq!(found(), names(&["router-advertisements"]), "that made it a host on every interface");
    set(dut, "ipv6/conf/y0/forwarding", "1");
    assert_eq!(found(), names(&[]));
    let has_force = dut.inside(|| Path::new("/proc/sys/net").join(FORCE).exists());
    if has_force {
        set(dut, FORCE, "1");
        assert_eq!(found(), names(&["forwarding"]));
    }
}

/// Seen: nothing was found, and the run ended because the address was in use.
#[test]
fn a_socket_on_which_another_process_listens_is_named() {
    let Some(bed) = Testbed::lay(Wiring::Bridged, &[]) else { return };
    let folder = Folder::new("doctor-listener");
    let socket = folder.path("socket");
    let port = format!("memif:{},role=server", socket.display());
    let listener = bed.dut.inside(|| UnixListener::bind(&socket).expect("a socket"));
    assert_eq!(rules(look(&mut netmem(&bed), &port)), names(&["socket"]));
    assert_eq!(rules(look(&mut netmem(&bed), &format!("memif:{}", socket.display()))), names(&[]));
    drop(listener);
    assert_eq!(
        rules(look(&mut netmem(&bed), &port)),
        names(&[]),
        "a run removes a socket without a listener"
    );
}

/// What `--fix` may change on x0 and packet port y0.
fn state(dut: &Namespace) -> String {
    let settings = [
        "ipv4/conf/y0/forwarding",
        "ipv4/conf/x0/forwarding",
        "ipv4/conf/x0/rp_filter",
        "ipv4/conf/y0/rp_filter",
    ];
    let read = |path: &str| {
        dut.inside(|| fs::read_to_string(Path::new("/proc/sys/net").join(path))).expect("a setting")
    };
    let up = |end: &str| dut.ip(&format!("link show dev {end}")).contains(",UP");
    format!("{:?} {:?}", settings.map(read), ["x0", "x1", "y0", "y1"].map(up))
}

/// Plants five faults that `--fix` repairs. Returns the state that they cause.
fn faults_to_fix(dut: &Namespace) -> String {
    pair(dut, "x");
    pair(dut, "y");
    dut.ip("link set x0 down");
    dut.ip("link set y1 down");
    set(dut, "ipv4/conf/y0/forwarding", "1");
    set(dut, "ipv4/conf/x0/rp_filter", "1");
    set(dut, "ipv4/conf/y0/rp_filter", "1");
    state(dut)
}

fn doctor(command: &mut Command, journal: &Path, words: &str) -> Output {
    let command = command.args(["doctor", "--journal"]).arg(journal).args(words.split_whitespace());
    command.output().expect("netmem")
}

#[test]
fn undo_reverts_what_fix_changed() {
    let Some(bed) = Testbed::lay(Wiring::Bridged, &["setpriv"]) else { return };
    let (before, folder) = (faults_to_fix(&bed.dut), Folder::new("doctor-fix"));
    let journal = folder.path("journal");
    let without_bpf = "--bounding-set -bpf,-sys_admin";
    let fixed = doctor(&mut under(&bed.dut, "setpriv", without_bpf), &journal, "--fix packet:x0 packet:y0");
    let said = String::from_utf8_lossy(&fixed.stdout);
    assert_eq!(
        (fixed.status.code(), said.lines().filter(|line| line.starts_with("changed: ")).count()),
        (Some(0), 5),
        "{said}"
    );
    assert!(said.contains("changed: ip link set dev x0 up\n") && said.ends_with("nothing found\n"), "{said}");
    assert_ne!(state(&bed.dut), before);
    let undone = doctor(&mut netmem(&bed), &journal, "--undo");
    assert_eq!(undone.status.code(), Some(0), "{}", String::from_utf8_lossy(&undone.stderr));
    assert_eq!(state(&bed.dut), before);
    assert!(!journal.exists());
    let again = doctor(&mut netmem(&bed), &journal, "--undo");
    assert_eq!(String::from_utf8_lossy(&again.stdout), "nothing to undo\n");
}

/// Found in a review: `--undo` wrote the value of before over one that an administrator had set since.
#[test]
fn undo_leaves_a_setting_alone_that_someone_else_has_set_since_and_names_it() {
    let Some(bed) = Testbed::lay(Wiring::Bridged, &["setpriv"]) else { return };
    let (_, folder) = (faults_to_fix(&bed.dut), Folder::new("doctor-since"));
    let journal = folder.path("journal");
    let without_bpf = "--bounding-set -bpf,-sys_admin";
    let fixed = doctor(&mut under(&bed.dut, "setpriv", without_bpf), &journal, "--fix packet:x0 packet:y0");
    assert_eq!(fixed.status.code(), Some(0), "{}", String::from_utf8_lossy(&fixed.stderr));
    set(&bed.dut, "ipv4/conf/x0/rp_filter", "0");
    let undone = doctor(&mut netmem(&bed), &journal, "--undo");
    let said = String::from_utf8_lossy(&undone.stdout);
    let line =
        "not undone, because someone else has set it to 0 since: sysctl -w net.ipv4.conf.x0.rp_filter=1\n";
    assert_eq!((undone.status.code(), journal.exists()), (Some(0), false), "{said}");
    assert!(
        said.contains(line) && said.contains("undone: sysctl -w net.ipv4.conf.y0.rp_filter=1\n"),
        "{said}"
    );
    let file = "/proc/sys/net/ipv4/conf/x0/rp_filter";
    assert_eq!(bed.dut.inside(|| fs::read_to_string(file)).expect("a setting"), "0\n");
}

/// Found in a review: the check after the changes reported that the interface had no carrier, because it looked at once.
#[test]
fn a_fix_waits_for_the_carrier_of_an_interface_that_it_has_set_up() {
    let Some(bed) = Testbed::lay(Wiring::Bridged, &[]) else { return };
    let (far, folder) = (Namespace::new("far").expect("a namespace"), Folder::new("doctor-carrier"));
    bed.dut.ip("link add x0 type veth peer name x1");
    bed.dut.ip(&format!("link set x1 netns {}", far.name()));
    let mut command = netmem(&bed);
    command.args(["doctor", "--fix", "packet:x0", "--journal"]).arg(folder.path("journal"));
    let fixing = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("netmem");
    wait_until("it is set up", || bed.dut.ip("link show dev x0").contains(",UP"));
    // As a card that negotiates.
    far.ip("link set x1 up");
    let out = fixing.wait_with_output().expect("its end");
    let said = String::from_utf8_lossy(&out.stdout);
    assert_eq!((out.status.code(), said.ends_with("\nnothing found\n")), (Some(0), true), "{said}");
}

/// Found in a review: only one of two joined interfaces was set up.
#[test]
fn a_fix_also_makes_the_changes_that_its_changes_uncover() {
    let Some(bed) = Testbed::lay(Wiring::Bridged, &[]) else { return };
    let folder = Folder::new("doctor-uncovered");
    let journal = folder.path("journal");
    bed.dut.ip("link add x0 type veth peer name x1");
    let are_up = || ["x0", "x1"].map(|end| bed.dut.ip(&format!("link show dev {end}")).contains(",UP"));
    let fixed = doctor(&mut netmem(&bed), &journal, "--fix packet:x0");
    let said = String::from_utf8_lossy(&fixed.stdout);
    let lines = "changed: ip link set dev x0 up\nchanged: ip link set dev x1 up\n";
    assert!(said.starts_with(lines) && said.ends_with("\nnothing found\n"), "{said}");
    assert_eq!((fixed.status.code(), are_up()), (Some(0), [true; 2]));
    assert!(doctor(&mut netmem(&bed), &journal, "--undo").status.success());
    assert_eq!((are_up(), journal.exists()), ([false; 2], false));
}

/// Found in a review: `--undo`, which the unit runs as root after each stop, ran whatever a process of the same user had
/// written into the journal.
#[test]
fn undo_refuses_a_journal_with_a_line_that_netmem_does_not_write_and_changes_nothing() {
    let Some(bed) = Testbed::lay(Wiring::Bridged, &[]) else { return };
    let folder = Folder::new("doctor-planted");
    let (journal, evil) = (folder.path("journal"), folder.path("evil"));
    let setting = r#"{"setting":{"key":"net.ipv4.conf.one.forwarding","from":"1","to":"0"}}"#;
    let touch = format!("\"touch\",\"{}\"", evil.display());
    let inside = format!("\"ip\",\"netns\",\"exec\",\"{}\",{touch}", bed.dut.name());
    set(&bed.dut, "ipv4/conf/one/forwarding", "0");
    for undo in [&touch, &inside] {
        let planted = format!("{{\"run\":{{\"command\":[\"true\"],\"undo\":[{undo}]}}}}");
        fs::write(&journal, format!("{planted}\n{setting}\n")).expect("a journal");
        fs::set_permissions(&journal, fs::Permissions::from_mode(0o600)).expect("its mode");
        let refused = doctor(&mut netmem(&bed), &journal, "--undo");
        let said = String::from_utf8_lossy(&refused.stderr);
        assert_eq!((refused.status.code(), said.lines().count()), (Some(2), 1), "{said}");
        let wanted = format!("journal {}: line 1 is no change that netmem makes", journal.display());
        assert!(said.contains(&wanted) && !evil.exists(), "{said}");
        let file = "/proc/sys/net/ipv4/conf/one/forwarding";
        let forwarding = bed.dut.inside(|| fs::read_to_string(file)).expect("a setting");
        assert_eq!(forwarding.trim(), "0", "the other line is not undone either");
    }
}

/// Seen: the same line was printed once for each change, with exit code 1.
#[test]
fn a_fix_whose_journal_cannot_be_used_ends_at_once_with_one_line() {
    let Some(bed) = Testbed::lay(Wiring::Bridged, &[]) else { return };
    let (before, folder) = (faults_to_fix(&bed.dut), Folder::new("doctor-no-journal"));
    let file = folder.path("file");
    fs::write(&file, "").expect("a file");
    // A file is no folder.
    let refused = doctor(&mut netmem(&bed), &file.join("journal"), "--fix x0 packet:y0");
    let said = String::from_utf8_lossy(&refused.stderr);
    assert_eq!((refused.status.code(), said.lines().count()), (Some(2), 1), "{said}");
    assert!(said.ends_with(": give another file\n"), "{said}");
    assert_eq!(state(&bed.dut), before);
}

/// The kill comes from the program that makes the first, and then the second, change, before it and behind it.
#[test]
fn undo_reverts_a_fix_that_was_killed_in_the_middle() {
    let Some(bed) = Testbed::lay(Wiring::Bridged, &["ps"]) else { return };
    for kill in [
        "kill -9 $PPID; exec REAL \"$@\"",
        "REAL \"$@\"; kill -9 $PPID",
        "test -e ONCE && kill -9 $PPID; : > ONCE; exec REAL \"$@\"",
    ] {
        let (before, folder) = (faults_to_fix(&bed.dut), Folder::new("doctor-kill"));
        let (journal, once) = (folder.path("journal"), folder.path("once"));
        let real =
            ["/usr/sbin/ip", "/sbin/ip", "/usr/bin/ip"].into_iter().find(|path| Path::new(path).exists());
        let script = kill.replace("REAL", real.expect("ip(8)")).replace("ONCE", &once.display().to_string());
        let wrapper = folder.path("ip");
        fs::write(&wrapper, format!("#!/bin/sh\n{script}\n")).expect("a script");
        fs::set_permissions(&wrapper, fs::Permissions::from_mode(0o755)).expect("its mode");
        let own = wrapper.parent().expect("its folder").display();
        let path = format!("PATH={own}:{}", std::env::var("PATH").expect("a path"));
        let killed = doctor(&mut under(&bed.dut, "env", &path), &journal, "--fix x0 packet:y0");
        assert_eq!(killed.status.code(), None, "{}", String::from_utf8_lossy(&killed.stdout));
        // The script may live longer than the process that it killed.
        wait_until("the script has ended", || {
            !bed.dut.run("ps", "-eo args").contains(&wrapper.display().to_string())
        });
        let undone = doctor(&mut netmem(&bed), &journal, "--undo");
        assert_eq!(undone.status.code(), Some(0), "{}", String::from_utf8_lossy(&undone.stderr));
        assert_eq!(state(&bed.dut), before, "{kill}");
        assert!(!journal.exists());
        ["x0", "y0"].iter().for_each(|end| drop(bed.dut.ip(&format!("link del {end}"))));
    }
}
