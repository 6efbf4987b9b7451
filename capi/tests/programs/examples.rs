//! The examples do what they say.

use crate::capture;
use crate::prefix::{GCC, command, compiled, folder, good, output, prefix, said, scratch};
use crate::testbed::{self, PATIENCE, Testbed, Wiring, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStdout, Command, Stdio};

const REDIRECT: &str = "examples/redirect.c";
const HANDOFF: &str = "examples/handoff.c";

/// Seen: the guide named line 16 of its first program, where the library names line 19.
#[test]
fn the_first_program_of_the_guide_is_reported_at_the_line_that_the_guide_names() {
    let guide = fs::read_to_string(folder().join("../docs/guide/c.md")).unwrap();
    let block = |from: &str| guide.split_once(from).and_then(|(_, rest)| rest.split_once("```")).unwrap().0;
    let (program, line) = (scratch().join("x.c"), block("```text\nnetmem: "));
    fs::write(&program, block("```c\n")).unwrap();
    let out = output(&mut command(compiled(program.to_str().unwrap(), &GCC)));
    let (place, said) = (line.split(' ').nth(2).unwrap(), said(&out));
    assert!(
        out.status.success() && said.contains(&format!("/{place} freed_twice: frame ")),
        "{place} {said}"
    );
}

#[test]
fn the_python_example_counts_the_packets_of_a_capture_and_their_bytes() {
    let input = capture::write("count.pcap", 321);
    let said = good(command("python3").arg(folder().join("examples/count.py")).arg(input));
    assert_eq!(said, "321 packets, 19260 bytes\n");
}

#[test]
fn the_redirect_example_moves_a_capture_to_another() {
    let (input, output) = (capture::write("redirect.pcap", 1000), scratch().join("redirect-out.pcap"));
    let ports = [format!("pcap:in={}", input.display()), format!("pcap:out={}", output.display())];
    assert_eq!(good(command(compiled(REDIRECT, &GCC)).args(ports)), "1000 moved, 0 dropped\n");
    assert!(capture::packets(&output) == capture::packets(&input));
}

#[test]
fn the_handoff_example_moves_a_capture_by_two_threads_in_order() {
    let (input, output) = (capture::write("handoff.pcap", 1000), scratch().join("handoff-out.pcap"));
    let ports = [format!("pcap:in={}", input.display()), format!("pcap:out={}", output.display())];
    let said = good(command(compiled(HANDOFF, &GCC)).args(ports));
    assert_eq!(said, "1000 handed over and sent\n");
    assert!(capture::packets(&output) == capture::packets(&input));
}

#[test]
fn the_redirect_example_joins_two_hosts_by_af_xdp_and_leaves_nothing() {
    let Some(bed) = Testbed::lay(Wiring::Bridged, &["ping"]) else { return };
    let program = compiled(REDIRECT, &GCC);
    let mut redirect = bed.dut.command(program.to_str().unwrap());
    redirect.args(["xdp:one", "xdp:two"]).env("LD_LIBRARY_PATH", prefix().join("lib"));
    let mut redirect = redirect.stdout(Stdio::piped()).spawn().expect("the example");
    wait_until("both interfaces have their program", || bed.has_programs());
    bed.wait_for_the_path();
    bed.h1.ping(&bed.address(2), 5, "-i 0.1");
    bed.h2.ping(&bed.address(1), 5, "-i 0.1");
    kill_process(Pid::from_child(&redirect), Signal::TERM).expect("it runs");
    let mut said = String::new();
    redirect.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(redirect.wait().unwrap().success() && said.contains(" moved, 0 dropped"), "{said}");
    bed.assert_nothing_left();
}

/// What a command writes that must end with 1.
fn failed(command: &mut Command) -> String {
    let out = output(command);
    assert!(out.status.code() == Some(1), "{command:?}: {}\n{}", out.status, said(&out));
    said(&out)
}

/// Seen: the end of a damaged capture was reported as the end of the capture.
#[test]
fn a_capture_that_is_damaged_is_an_error_of_each_example() {
    let (input, out) = (capture::write("damaged.pcap", 1000), scratch().join("damaged-out.pcap"));
    let whole = fs::read(&input).unwrap();
    fs::write(&input, &whole[..whole.len() - 10]).unwrap();
    let ports = [format!("pcap:in={}", input.display()), format!("pcap:out={}", out.display())];
    for (command, counts) in [
        (
            command("python3").arg(folder().join("examples/count.py")).arg(&input),
            "999 packets, 59940 bytes\n",
        ),
        (command(compiled(REDIRECT, &GCC)).args(&ports), "999 moved, 0 dropped\n"),
        (command(compiled(HANDOFF, &GCC)).args(&ports), "999 handed over and sent\n"),
    ] {
        let said = failed(command);
        assert!(said.starts_with(counts) && said.contains("ends within a packet"), "{said}");
    }
}

/// Seen: one example went round without end, the other ended as if all were well.
#[test]
fn a_full_disk_is_an_error_of_each_example() {
    let ports =
        [format!("pcap:in={}", capture::write("full.pcap", 1000).display()), "pcap:out=/dev/full".into()];
    for (example, counts) in [(REDIRECT, " dropped\n"), (HANDOFF, "0 handed over and sent\n")] {
        let said = failed(command(compiled(example, &GCC)).args(&ports));
        assert!(said.contains(counts) && said.contains("write /dev/full: "), "{said}");
    }
}

/// Seen: "3 handed over and sent" of 2 frames that were sent and one that the interface had refused.
#[test]
fn the_handoff_example_does_not_report_a_frame_as_sent_that_the_interface_refused() {
    let Some(bed) = Testbed::lay(Wiring::Bridged, &["ping"]) else { return };
    let input = capture::write("refused.pcap", 2);
    let mut bytes = fs::read(&input).unwrap();
    // One packet that is shorter than an Ethernet header.
    bytes.extend([0, 0, 0, 0, 0, 0, 0, 0, 10, 0, 0, 0, 10, 0, 0, 0]);
    bytes.extend([2; 10]);
    fs::write(&input, bytes).unwrap();
    let mut handoff = bed.dut.command(compiled(HANDOFF, &GCC).to_str().unwrap());
    handoff.arg(format!("pcap:in={}", input.display())).arg("packet:one");
    let said = failed(handoff.env("LD_LIBRARY_PATH", prefix().join("lib")));
    assert!(said.contains("2 handed over and sent\n") && said.contains("1 not sent: "), "{said}");
}

/// Seen: both threads went round without end, and Ctrl-C did nothing.
#[test]
fn the_handoff_example_ends_by_ctrl_c_while_its_output_has_no_peer() {
    // More packets than the lane has room for.
    let (input, socket) = (capture::write("handoff-alone.pcap", 5000), testbed::scratch("handoff"));
    let ports = [format!("pcap:in={}", input.display()), format!("memif:{},role=server", socket.display())];
    let mut handoff = command(compiled(HANDOFF, &GCC));
    let handoff =
        handoff.args(ports).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    wait_until("it listens", || socket.exists());
    kill_process(Pid::from_child(&handoff), Signal::INT).expect("it runs");
    let out = handoff.wait_with_output().unwrap();
    let said = said(&out);
    assert!(out.status.code() == Some(1) && said.contains(" not sent: no peer has connected"), "{said}");
    fs::remove_file(socket).ok();
}

/// The server example.
struct Server {
    program: Child,
    said: BufReader<ChildStdout>,
    port: u16,
}

impl Server {
    fn start(threads: &str) -> Server {
        let mut server = command(compiled("examples/sessions.c", &GCC));
        Server::of(server.args(["0", threads]))
    }

    /// Starts it by this command.
    fn of(command: &mut Command) -> Server {
        let mut program = command.stdout(Stdio::piped()).spawn().expect("the example");
        let mut said = BufReader::new(program.stdout.take().expect("a pipe"));
        let mut line = String::new();
        said.read_line(&mut line).expect("a line");
        let port = line.trim().strip_prefix("port ").and_then(|port| port.parse().ok()).expect(&line);
        Server { program, said, port }
    }

    fn connect(&self) -> TcpStream {
        let client = TcpStream::connect(("127.0.0.1", self.port)).expect("it listens");
        client.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        client.set_write_timeout(Some(PATIENCE)).expect("a timeout");
        client
    }

    /// Ends it by SIGTERM, which `timeout` passes on, and checks what it says.
    fn end(mut self, sessions: usize) {
        kill_process(Pid::from_child(&self.program), Signal::TERM).expect("it runs");
        let mut rest = String::new();
        self.said.read_to_string(&mut rest).expect("text");
        assert_eq!(rest, format!("{sessions} sessions, none left\n"));
        assert!(self.program.wait().expect("its end").success());
    }
}

/// Sends bytes, and checks the answer.
fn ask(mut client: &TcpStream, bytes: &str, want: &str) {
    client.write_all(bytes.as_bytes()).expect("the server reads");
    let mut answer = vec![0; want.len()];
    client.read_exact(&mut answer).expect("an answer");
    assert_eq!(String::from_utf8_lossy(&answer), want);
}

#[test]
fn the_server_example_serves_clients_on_two_threads_and_keeps_no_session() {
    let server = Server::start("2");
    let clients: Vec<TcpStream> = (0..20).map(|_| server.connect()).collect();
    for number in 1..=3 {
        clients.iter().for_each(|client| ask(client, "hello\n", &format!("{number} hello\n")));
    }
    drop(clients);
    server.end(20);
}

/// Seen: the line's first part was lost.
#[test]
fn a_line_that_the_server_example_gets_in_two_parts_is_one_line() {
    let server = Server::start("1");
    let client = server.connect();
    // The answer to the first line says that the start of the second one was received.
    ask(&client, "one\nhel", "1 one\n");
    ask(&client, "lo\n", "2 hello\n");
    ask(&client, &format!("{}\n", "x".repeat(511)), &format!("3 {}\n", "x".repeat(511)));
    drop(client);
    server.end(1);
}

/// Seen: a thread that waited for one client served no other one.
#[test]
fn a_client_that_reads_nothing_or_sends_a_line_without_an_end_loses_its_session_only() {
    let server = Server::start("1");
    let (mut deaf, mut endless, other) = (server.connect(), server.connect(), server.connect());
    while deaf.write_all(b"hello\n").is_ok() {}
    ask(&other, "hello\n", "1 hello\n");
    while endless.write_all(&[b'x'; 400]).is_ok() {}
    ask(&other, "hello\n", "2 hello\n");
    drop(other);
    server.end(3);
}

/// Seen: the program waited for its clients without end.
#[test]
fn the_server_example_ends_while_a_client_is_idle() {
    let server = Server::start("2");
    let mut client = server.connect();
    ask(&client, "hello\n", "1 hello\n");
    server.end(1);
    assert_eq!(client.read(&mut [0; 9]).unwrap(), 0);
}

/// Seen: accept(2) failed again and again, as fast as it could, without a word.
#[test]
fn the_server_example_says_that_its_descriptors_are_used_up_and_goes_on_when_clients_are_gone() {
    let mut few = command("sh");
    few.args(["-c", "ulimit -n 16; exec \"$0\" 0 1"]).arg(compiled("examples/sessions.c", &GCC));
    let mut server = Server::of(few.stderr(Stdio::piped()));
    let clients: Vec<TcpStream> = (0..20).map(|_| server.connect()).collect();
    let mut line = String::new();
    BufReader::new(server.program.stderr.take().expect("a pipe")).read_line(&mut line).expect("a line");
    assert_eq!(line, "sessions: no more clients for now: Too many open files\n");
    drop(clients);
    let client = server.connect();
    ask(&client, "hello\n", "1 hello\n");
    drop(client);
    server.end(21);
}

#[test]
fn the_examples_are_as_short_as_is_said() {
    for (example, lines) in [(REDIRECT, 90), ("examples/count.py", 20)] {
        let text = fs::read_to_string(folder().join(example)).unwrap();
        assert!(text.lines().count() <= lines, "{example}: {} lines", text.lines().count());
    }
}
