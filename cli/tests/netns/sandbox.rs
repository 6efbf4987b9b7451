//! Tests of what a run gives up once its ports are open (capabilities, system calls, root), and that it still
//! continues.

use crate::forwarder::{Forwarder, netmem, said};
use crate::running::wait_while_it_runs;
use crate::test_frames::Folder;
use crate::testbed::{Testbed, Wiring, host_mac, port_mac, scratch, wait_until};
use crate::traffic::assert_ping_both_ways;
use ::netmem::system::bpf::{RedirectProgram, SocketMap, XdpMode};
use ::netmem::system::netdev::Netdev;
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const NOBODY: u32 = 65534;
/// CAP_IPC_LOCK in a set.
const IPC_LOCK: u64 = 1 << 14;

/// A process's threads, or those of a child: each thread's status in /proc, by its names.
fn threads(pid: u32) -> Vec<BTreeMap<String, String>> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).expect("its threads");
    let status = |at: &Path| {
        // A thread that has ended meanwhile has none.
        let text = fs::read_to_string(at.join("status")).ok()?;
        let of = |line: &str| line.split_once(':').map(|(name, value)| (name.into(), value.trim().into()));
        Some(text.lines().filter_map(of).collect())
    };
    tasks.filter_map(|task| status(&task.expect("a thread").path())).collect()
}

/// The broker of a run.
pub fn broker_of(pid: u32) -> u32 {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).expect("its children");
    let mut children = children.split_whitespace().map(|child| child.parse::<u32>().expect("a number"));
    let is_broker = |child: &u32| {
        fs::read_to_string(format!("/proc/{child}/comm")).is_ok_and(|name| name.trim() == "netmem-broker")
    };
    children.find(is_broker).expect("a broker")
}

/// Whether all threads of a process have given up what they opened its ports with. The ports are open then.
pub fn is_confined(pid: u32) -> bool {
    threads(pid).iter().all(|status| status["Seccomp"] == "2")
}

fn capabilities(status: &BTreeMap<String, String>, set: &str) -> u64 {
    u64::from_str_radix(&status[set], 16).expect("a set of capabilities")
}

/// Nothing is left to a thread that it could take over the host with.
fn assert_given_up(status: &BTreeMap<String, String>) {
    for set in ["CapEff", "CapInh", "CapAmb", "CapBnd"] {
        assert_eq!(capabilities(status, set), 0, "{set} of {}", status["Name"]);
    }
    // If the limit on locked memory is low, it may be changed during a call.
    assert_eq!(capabilities(status, "CapPrm") & !IPC_LOCK, 0, "{}", status["Name"]);
    assert_eq!((&status["Seccomp"][..], &status["NoNewPrivs"][..]), ("2", "1"), "{}", status["Name"]);
}

#[test]
fn a_generator_and_a_sink_have_no_capability_either() {
    let Some(bed) = Testbed::lay(Wiring::Routed, &[]) else { return };
    // Of another user: root without a capability makes no file in it.
    let folder = Folder::new("sandbox-reports");
    chown(folder.path(""), Some(NOBODY), None).expect("chown");
    for words in [["sink", "--port=xdp:one", "--seconds=600"], ["gen", "--port=packet:two", "--rate=1000"]] {
        let report = folder.path(words[0]);
        let mut command = netmem(&bed);
        command.args(words).arg(format!("--json={}", report.display()));
        let mut run = command.stdout(Stdio::null()).spawn().expect("netmem runs");
        let pid = run.id();
        wait_while_it_runs(&mut run, "it is in its sandbox", || is_confined(pid));
        threads(run.id()).iter().for_each(assert_given_up);
        let broker = broker_of(run.id());
        kill_process(Pid::from_child(&run), Signal::INT).expect("kill(2)");
        assert!(run.wait().expect("it ends").success(), "{words:?}");
        assert!(!Path::new(&format!("/proc/{broker}")).exists(), "its broker has ended");
        assert!(fs::read(&report).expect("its report").starts_with(b"{"), "{words:?}");
    }
    bed.assert_nothing_left();
}

#[test]
fn in_steady_state_no_thread_has_a_capability_but_the_broker() {
    let Some(bed) = Testbed::lay(Wiring::Routed, &["ping"]) else { return };
    let control = scratch("sandbox-control");
    let options =
        [&format!("--control={}", control.display())[..], "--workers=1", "--metrics=127.0.0.1:19681"];
    let forwarder = Forwarder::start(&bed, &options);
    bed.wait_for_the_path();
    let threads_of = threads(forwarder.pid());
    // The main thread, the worker, and those that answer at the two sockets.
    assert!(threads_of.len() >= 4, "{threads_of:?}");
    threads_of.iter().for_each(assert_given_up);
    let filters =
        |status: &BTreeMap<String, String>| status["Seccomp_filters"].parse::<u32>().expect("a number");
    let most = threads_of.iter().map(filters).max();
    assert!(most > threads_of.iter().map(filters).min(), "a worker has fewer calls than the others");
    let [broker] = &threads(broker_of(forwarder.pid()))[..] else { panic!("a broker has one thread") };
    let kept = capabilities(broker, "CapEff");
    assert!(kept != 0 && kept.count_ones() <= 6, "{kept:x}");
    assert_eq!((&broker["Seccomp"][..], &broker["NoNewPrivs"][..]), ("2", "1"));
    assert_ping_both_ways(&bed);
    forwarder.interrupt().assert_adds_up();
    bed.assert_nothing_left();
}

/// Seen: the exit code was 0, no metric told of it, and the answer to a reload was "Broken pipe".
#[test]
fn a_killed_broker_is_reported_by_a_line_a_metric_and_the_exit_code_and_traffic_goes_on() {
    let Some(bed) = Testbed::lay(Wiring::Routed, &["ping"]) else { return };
    let folder = Folder::new("sandbox-killed");
    let (config, control, metrics) = (folder.path("config"), folder.path("control"), folder.path("metrics"));
    fs::write(&config, "icmp-rate = 100\n").expect("a configuration");
    let of = |option: &str, path: &Path| format!("--{option}={}", path.display());
    let control = of("control", &control);
    let options = [&of("config", &config)[..], &control, &of("metrics", &metrics)];
    let mut forwarder = Forwarder::start(&bed, &options);
    let mut lines = forwarder.lines();
    bed.wait_for_the_path();
    let has_ended = || {
        let mut scrape = UnixStream::connect(&metrics).expect("a scrape");
        scrape
            .write_all(b"GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            .expect("a request");
        let mut page = String::new();
        scrape.read_to_string(&mut page).expect("a page");
        let line = page.lines().find(|line| line.starts_with("netmem_broker_ended ")).expect("the metric");
        line.ends_with(" 1")
    };
    assert!(!has_ended());
    let broker = broker_of(forwarder.pid());
    let pid = Pid::from_raw(broker.cast_signed()).expect("a number");
    kill_process(pid, Signal::KILL).expect("kill(2)");
    // It is a child that has not been waited for yet.
    wait_until("the broker has ended", || {
        fs::read_to_string(format!("/proc/{broker}/status")).is_ok_and(|status| status.contains("Z (zombie)"))
    });
    let line = lines.next().expect("a line about the broker");
    assert!(line.contains("the broker (netmem-broker) has ended") && line.contains("no neighbour"), "{line}");
    assert!(has_ended());
    let out = netmem(&bed).args(["reload", &control]).output().expect("netmem runs");
    let refusal = String::from_utf8_lossy(&out.stderr);
    assert!(refusal.contains("the broker (netmem-broker) has ended: restart netmem"), "{refusal}");
    assert_ping_both_ways(&bed);
    let out = forwarder.end(Signal::INT);
    assert_eq!(out.status.code(), Some(1));
    assert!(out.stdout.starts_with(b"{"), "its results are printed");
    let lines: Vec<_> = lines.collect();
    let [reload, end] = &lines[..] else { panic!("{lines:?}") };
    assert!(reload.contains("stays as it was") && end.contains(" ended during the run: "), "{lines:?}");
    bed.assert_nothing_left();
}

/// Seen: such a router reached no host that the kernel did not know already, and did not say why.
#[test]
fn a_router_that_lacks_cap_net_admin_says_that_the_kernel_resolves_no_neighbour_for_it() {
    let Some(bed) = Testbed::lay(Wiring::Routed, &["setpriv"]) else { return };
    for more in [None, Some("--no-sandbox")] {
        let mut command = bed.dut.command("setpriv");
        command.args(["--inh-caps=-all,+net_raw", "--bounding-set=-all,+net_raw"]);
        command.arg(env!("CARGO_BIN_EXE_netmem")).args(["forward", "--port=packet:one", "--port=packet:two"]);
        command.args(["--routes=kernel", "--kernel-copies=keep", "--seconds=0.2"]).args(more);
        let said = said(&command.output().expect("setpriv runs"));
        assert!(said.contains("CAP_NET_ADMIN is missing") && said.contains("neigh_refused"), "{said}");
    }
    bed.assert_nothing_left();
}

/// Seen in a review: the error message about the program would have opened a socket and files of /proc on the worker's
/// thread.
#[test]
fn an_interface_that_comes_back_with_a_program_of_another_is_waited_for_until_that_is_gone() {
    let Some(bed) = Testbed::lay(Wiring::Routed, &["ping"]) else { return };
    let control = format!("--control={}", scratch("sandbox-program").display());
    let forwarder = Forwarder::start(&bed, &[&control]);
    bed.wait_for_the_path();
    bed.h1.ip("link del eth0");
    let (mac, port_mac, dut) = (host_mac(1), port_mac(1), bed.dut.name());
    bed.h1.ip(&format!("link add eth0 address {mac} type veth peer name one address {port_mac} netns {dut}"));
    let theirs = bed.dut.inside(|| {
        let map = SocketMap::new(1).expect("a map");
        let index = Netdev::open("one").expect("the interface").index();
        let program = RedirectProgram::load(&map, None, false).expect("a program");
        program.attach(index, XdpMode::Native).expect("a link")
    });
    bed.dut.ip("link set dev one up");
    bed.h1.ip("link set dev eth0 up");
    bed.h1.ip("addr add 10.77.1.1/24 dev eth0");
    bed.h1.ip(&format!("neigh add 10.77.1.254 lladdr {port_mac} dev eth0"));
    bed.h1.ip("route add default via 10.77.1.254");
    let said = || {
        let out = netmem(&bed).args(["stat", "ports", "--json", &control]).output().expect("netmem runs");
        String::from_utf8_lossy(&out.stdout).into_owned()
    };
    wait_until("it says what is in the way", || said().contains("has an XDP program attached"));
    drop(theirs);
    bed.wait_for_the_path();
    assert_ping_both_ways(&bed);
    let out = forwarder.end(Signal::INT);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    bed.assert_nothing_left();
}

#[test]
fn without_a_sandbox_a_run_reports_it_and_keeps_its_capabilities() {
    let Some(bed) = Testbed::lay(Wiring::Routed, &["ping"]) else { return };
    let forwarder = Forwarder::start(&bed, &["--no-sandbox"]);
    bed.wait_for_the_path();
    for status in threads(forwarder.pid()) {
        assert_ne!(capabilities(&status, "CapEff"), 0);
        assert_eq!((&status["Seccomp"][..], &status["NoNewPrivs"][..]), ("0", "0"));
    }
    let out = forwarder.end(Signal::INT);
    let said = said(&out);
    assert!(out.status.success() && said.lines().count() == 1, "{said}");
    assert!(said.contains("--no-sandbox: every thread keeps all capabilities"), "{said}");
}

/// A folder in which any user finds its files, and root alone makes some.
fn open_folder(name: &str) -> Folder {
    let folder = Folder::new(name);
    fs::set_permissions(folder.path(""), Permissions::from_mode(0o755)).expect("chmod");
    folder
}

/// The program, in a place where any user can run it.
fn program_in(folder: &Folder) -> PathBuf {
    let program = folder.path("netmem");
    // By cp: the kernel runs no file that a child of another test thread may still have open for writing.
    let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_netmem")).arg(&program).status();
    assert!(copied.expect("cp").success());
    fs::set_permissions(&program, Permissions::from_mode(0o755)).expect("chmod");
    program
}

/// A configuration that root alone may read, and a control socket in a folder that root alone may write to.
#[test]
fn a_run_as_the_user_nobody_forwards_reloads_and_reopens_an_interface_that_is_made_again() {
    let Some(bed) = Testbed::lay(Wiring::Routed, &["ping"]) else { return };
    let folder = open_folder("sandbox-nobody");
    let (config, control) = (folder.path("config"), folder.path("control"));
    let of = |rate: u32| fs::write(&config, format!("icmp-rate = {rate}\n")).expect("a configuration");
    of(100);
    fs::set_permissions(&config, Permissions::from_mode(0o600)).expect("chmod");
    let options = [
        "--user=nobody",
        &format!("--config={}", config.display()),
        &format!("--control={}", control.display()),
    ];
    let forwarder = Forwarder::start(&bed, &options);
    bed.wait_for_the_path();
    for status in threads(forwarder.pid()) {
        assert_eq!(status["Uid"].split_whitespace().collect::<Vec<_>>(), ["65534"; 4]);
        assert_eq!((&status["Groups"][..], capabilities(&status, "CapEff")), ("", 0));
    }
    let socket = fs::metadata(&control).expect("a control socket");
    assert_eq!((socket.uid(), socket.mode() & 0o777), (NOBODY, 0o600));
    of(7);
    let at = format!("--control={}", control.display());
    let said = |words: &[&str]| {
        let out = netmem(&bed).args(words).arg(&at).output().expect("netmem runs");
        assert!(out.status.success(), "{words:?}: {}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8_lossy(&out.stdout).into_owned()
    };
    said(&["reload"]);
    assert!(said(&["set"]).contains("icmp.rate"), "the keys are listed");
    assert!(said(&["set", "icmp.rate"]).contains('7'), "the configuration was read again");
    bed.h1.ip("link del eth0");
    bed.wire(1, 1);
    wait_until("the programs are there again", || bed.has_programs());
    let link = bed.dut.ip("-d link show dev one");
    assert!(link.contains(" promiscuity 1 "), "{link}");
    bed.wait_for_the_path();
    assert_ping_both_ways(&bed);
    let out = forwarder.end(Signal::INT);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    assert!(!control.exists(), "the broker removes what the user nobody may not");
    bed.assert_nothing_left();
}

/// As an ordinary user, from a file with capabilities (setcap(8)): no root anywhere.
#[test]
fn with_capabilities_of_its_file_a_user_forwards_and_takes_up_an_interface_that_is_made_again() {
    let Some(bed) = Testbed::lay(Wiring::Bridged, &["ping", "setcap", "setpriv"]) else { return };
    let folder = open_folder("sandbox-netmem");
    let program = program_in(&folder);
    let granted = "cap_net_admin,cap_net_raw,cap_bpf,cap_ipc_lock=ep";
    let out = Command::new("setcap").arg(granted).arg(&program).output().expect("setcap runs");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let mut command = bed.dut.command("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&program).arg("forward");
    command.args(["--port=xdp:one", "--port=xdp:two", "--mode=cross-connect", "--json"]);
    let forwarder = Forwarder::spawn(&bed, &mut command, 1);
    // Its ports are open a moment before it gives up what opened them.
    wait_until("it is in its sandbox", || is_confined(forwarder.pid()));
    for status in threads(forwarder.pid()) {
        assert_eq!((capabilities(&status, "CapEff"), &status["Seccomp"][..]), (0, "2"));
        assert!(status["Uid"].starts_with("65534"), "{}", status["Uid"]);
    }
    bed.h2.ip("link del eth0");
    bed.wire(2, 1);
    wait_until("the programs are there again", || bed.has_programs());
    bed.wait_for_the_path();
    assert_ping_both_ways(&bed);
    let out = forwarder.end(Signal::INT);
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{said}");
    bed.assert_nothing_left();
}

#[test]
fn an_unknown_user_and_one_that_the_process_may_not_become_are_refused_in_one_line() {
    let Some(bed) = Testbed::lay(Wiring::Routed, &["setpriv"]) else { return };
    let folder = open_folder("sandbox-refused");
    let program = program_in(&folder);
    let refused = |user: &str, remedy: &str| {
        let mut command = bed.dut.command("setpriv");
        command.args(["--reuid=65534", "--clear-groups"]).arg(&program);
        let out = command.args(["forward", "--seconds=1", "--user", user]).output().expect("it runs");
        let said = String::from_utf8_lossy(&out.stderr);
        assert_eq!((out.status.code(), said.lines().count()), (Some(2), 1), "{said}");
        assert!(said.contains(remedy), "{said}");
    };
    refused("no-such-user", "is not a user: give one of /etc/passwd");
    refused("0:0", "can change to another user: start netmem as root");
}
