//! Tests of `netmem grant`: a server that runs as a user without any privilege has a part of an interface.

use crate::running::wait_while_it_runs;
use crate::testbed::{Namespace, Testbed, Wiring, example, host_mac, listens, scratch};
use std::io::Read;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{env, fs, process};

const SERVER: &str = "10.77.0.254";

/// The number of a user, and of a group, that processes of other tests do not have: the memory that a user may lock is
/// that of all processes of that user.
fn nobody() -> String {
    (1_000_000 + process::id()).to_string()
}

/// A process. It is killed when dropped.
pub struct Process(Child);

impl Process {
    pub fn id(&self) -> u32 {
        self.0.id()
    }

    pub fn start(at: &Namespace, program: &str, words: &str) -> Process {
        let mut command = at.command(program);
        command.args(words.split_whitespace()).stderr(Stdio::piped());
        Process(command.spawn().expect("it starts"))
    }

    fn kill(mut self) -> String {
        self.0.kill().expect("kill");
        self.said()
    }

    /// Returns its standard error until its end.
    fn said(&mut self) -> String {
        let mut said = String::new();
        self.0.stderr.take().expect("piped").read_to_string(&mut said).expect("what it said");
        self.0.wait().expect("wait");
        said
    }

    /// A line of its status in /proc.
    fn status(&self, name: &str) -> String {
        let text = fs::read_to_string(format!("/proc/{}/status", self.0.id())).expect("its status");
        let line = text.lines().find_map(|line| line.strip_prefix(name)).expect("the line");
        line.trim_start_matches(':').trim().to_owned()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.0.kill().and_then(|()| self.0.wait()).map(drop).ok();
    }
}

/// A program, in a place where any user can run it, and a socket. Both are removed when this is dropped.
struct Files {
    program: PathBuf,
    socket: PathBuf,
}

impl Files {
    /// Of the example `udp_echo`.
    fn new(name: &str) -> Files {
        Files::of(&example("netmem", "udp_echo"), name)
    }

    fn of(built: &Path, name: &str) -> Files {
        let at = |end: &str| scratch(&format!("{name}-{end}"));
        let files = Files { program: at("program"), socket: at("socket") };
        // By cp: the kernel runs no file that a child of another test thread may still have open for writing.
        let copied = Command::new("cp").arg(built).arg(&files.program).status();
        assert!(copied.expect("cp").success());
        files
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        fs::remove_file(&self.program).ok();
        fs::remove_file(&self.socket).ok();
    }
}

/// Starts the echo server without privileges.
fn serve(bed: &Testbed, files: &Files) -> Process {
    unprivileged(bed, files, &format!("{} 7", files.socket.display()))
}

/// Starts the program as the user without privileges, who may lock as much memory as any user.
fn unprivileged(bed: &Testbed, files: &Files, words: &str) -> Process {
    let (program, nobody) = (files.program.display(), nobody());
    let without = "--clear-groups --inh-caps=-all --bounding-set=-all";
    let words = format!("--reuid={nobody} --regid={nobody} {without} {program} {words}");
    Process::start(&bed.dut, "setpriv", &words)
}

fn grant(bed: &Testbed, files: &Files) -> Process {
    grant_port(bed, files, "xdp:one,take=udp:7")
}

fn grant_port(bed: &Testbed, files: &Files, port: &str) -> Process {
    let words =
        format!("grant --port {port} --to {} --mode 660 --group {}", files.socket.display(), nobody());
    let mut process = Process::start(&bed.dut, env!("CARGO_BIN_EXE_netmem"), &words);
    wait_while_it_runs(&mut process.0, "it listens", || bed.dut.inside(|| listens(&files.socket)));
    process
}

/// Asks the echo until it answers.
fn ask(bed: &Testbed, server: &mut Process, question: &[u8]) {
    let socket = bed.h1.inside(|| UdpSocket::bind(("0.0.0.0", 0)).expect("a socket"));
    socket.set_read_timeout(Some(Duration::from_millis(200))).expect("set");
    wait_while_it_runs(&mut server.0, "the echo answers", || {
        socket.send_to(question, (SERVER, 7)).expect("sent");
        let mut answer = [0; 64];
        socket.recv(&mut answer).is_ok_and(|len| answer[..len] == *question)
    });
}

/// One test at a time: all their servers run as one user, who may lock 8 MiB, the memory of one server.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn lay() -> Option<Testbed> {
    lay_with_queues(1)
}

fn lay_with_queues(queues: u32) -> Option<Testbed> {
    let bed = Testbed::lay_with_queues(Wiring::Bridged, queues, &["ping", "setpriv"])?;
    bed.dut.ip(&format!("addr add {SERVER}/24 dev one"));
    Some(bed)
}

#[test]
fn a_server_of_a_user_without_privileges_answers_its_port_and_leaves_nothing_when_it_is_killed() {
    let _alone = alone();
    let Some(bed) = lay() else { return };
    let files = Files::new("granted");
    let granter = grant(&bed, &files);
    assert_eq!((bed.program("one"), bed.sockets()), (None, 0), "no process has asked yet");
    for round in 0..2 {
        let mut server = serve(&bed, &files);
        ask(&bed, &mut server, format!("round {round}").as_bytes());
        assert_eq!(server.status("Uid").split_whitespace().collect::<Vec<_>>(), [&nobody(); 4]);
        for set in ["CapEff", "CapPrm", "CapInh", "CapBnd"] {
            assert_eq!(server.status(set), "0000000000000000", "{set}");
        }
        bed.h1.ping(SERVER, 20, "-i 0.01");
        server.kill();
        bed.assert_nothing_left();
    }
    // The granting process keeps nothing: a server continues without it.
    let mut server = serve(&bed, &files);
    ask(&bed, &mut server, b"with it");
    let said = granter.kill();
    assert!(said.contains(&format!("user {} has xdp:one", nobody())), "{said}");
    ask(&bed, &mut server, b"without it");
    assert!(bed.program("one").is_some() && bed.sockets() == 1);
    server.kill();
    bed.assert_nothing_left();
}

#[test]
fn a_second_server_is_refused_by_name_while_the_first_has_the_interface() {
    let _alone = alone();
    let Some(bed) = lay() else { return };
    let files = Files::new("granted-once");
    let _granter = grant(&bed, &files);
    let mut first = serve(&bed, &files);
    ask(&bed, &mut first, b"first");
    let mut second = serve(&bed, &files);
    assert_eq!(second.0.wait().expect("it ends").code(), Some(2));
    let said = second.said();
    assert!(said.contains("interface one has an XDP program attached already"), "{said}");
    // The queues may be free later: the exit code says that it is worth another try.
    let words = format!("grant --port xdp:one,take=udp:7 --to {}2", files.socket.display());
    let mut other = Process::start(&bed.dut, env!("CARGO_BIN_EXE_netmem"), &words);
    assert_eq!(other.0.wait().expect("it ends").code(), Some(3));
    ask(&bed, &mut first, b"still the first");
    drop(first);
}

/// Seen: one of three was refused, because the memory that the one before had locked still counted for their user.
#[test]
fn a_server_that_is_killed_and_started_again_at_once_is_not_refused_its_memory() {
    let _alone = alone();
    let Some(bed) = lay() else { return };
    let files = Files::new("granted-again");
    let _granter = grant(&bed, &files);
    for round in 0..20 {
        let mut server = serve(&bed, &files);
        ask(&bed, &mut server, format!("round {round}").as_bytes());
        server.kill();
    }
    bed.assert_nothing_left();
}

/// Wanted: a grant had one queue, so a card had to be reduced to one first.
#[test]
fn a_server_without_privileges_has_all_queues_of_an_interface() {
    let _alone = alone();
    let Some(bed) = lay_with_queues(4) else { return };
    let files = Files::new("granted-queues");
    let _granter = grant_port(&bed, &files, "xdp:one,queues=all,take=udp:7");
    for _ in 0..2 {
        let mut server = serve(&bed, &files);
        // Each client's flow comes by the queue of its hash.
        (0..16).for_each(|client| ask(&bed, &mut server, format!("client {client}").as_bytes()));
        assert_eq!(bed.sockets(), 4);
        server.kill();
        bed.assert_nothing_left();
    }
}

/// Wanted: `netmem forward`, and every program that opens ports by their strings, without privileges.
#[test]
fn two_workers_without_privileges_forward_by_the_queues_that_they_were_granted() {
    let _alone = alone();
    let Some(bed) = Testbed::lay_with_queues(Wiring::Routed, 2, &["ping", "setpriv"]) else { return };
    let netmem = Path::new(env!("CARGO_BIN_EXE_netmem"));
    let (one, two) = (Files::of(netmem, "granted-one"), Files::of(netmem, "granted-two"));
    let _granters = (
        grant_port(&bed, &one, "xdp:one,queues=all,take=icmp"),
        grant_port(&bed, &two, "xdp:two,queues=all,take=icmp"),
    );
    let words = format!(
        "forward --port xdp:one,grant={} --port xdp:two,queues=all,grant={} --mode ip --route 10.77.1.0/24,one,{} --route \
         10.77.2.0/24,two,{} --workers 2 --frames 1024 --ring 256",
        one.socket.display(),
        two.socket.display(),
        host_mac(1),
        host_mac(2),
    );
    let mut forwarder = unprivileged(&bed, &one, &words);
    wait_while_it_runs(&mut forwarder.0, "it has all queues", || bed.sockets() == 4);
    wait_while_it_runs(&mut forwarder.0, "it forwards", || {
        let ping = bed.h1.command("ping").args(["-c", "1", "-W", "1", &bed.address(2)]).output();
        ping.expect("ping").status.success()
    });
    bed.h1.ping(&bed.address(2), 20, "-i 0.01");
    forwarder.kill();
    bed.assert_nothing_left();
}
