//! What hosts leave to their cards, from C: values, and packets of the kernel.

use crate::prefix::{Compiler, GCC, command, compiled, good, prefix, said};
use crate::testbed::{Namespace, PATIENCE, Testbed, Wiring, host_mac, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

#[test]
fn an_offload_is_read_as_it_was_set_and_work_is_done_that_a_port_does_not() {
    let checked = &["-std=gnu11", "-O1", "-g", "-fsanitize=address,undefined"];
    for compiler in [
        GCC,
        Compiler { program: "gcc", flags: checked },
        Compiler { program: "clang++", flags: &["-std=c++17", "-x", "c++"] },
    ] {
        let program = compiled("tests/c/offloads.c", &compiler);
        for case in ["wrong values", "kept", "finished", "cut", "not cut", "without", "refused"] {
            assert_eq!(good(command(&program).arg(case)), format!("{case}: as it should be\n"));
        }
    }
}

/// A program in the machine between the hosts, which is ended if it hangs.
fn between(bed: &Testbed, program: &str, words: &[&str]) -> Command {
    let mut command = bed.dut.command("timeout");
    command.arg("300").arg(compiled(program, &GCC)).args(words);
    command.env("LD_LIBRARY_PATH", prefix().join("lib")).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Number of datagrams that a host dropped because their checksum was wrong.
fn wrong_checksums(host: &Namespace) -> u64 {
    let table = host.run("cat", "/proc/net/snmp");
    let mut lines = table.lines().filter(|line| line.starts_with("Udp:")).map(str::split_whitespace);
    let (names, values) = (lines.next().expect("names"), lines.next().expect("values"));
    let (_, value) = names.zip(values).find(|(name, _)| *name == "InCsumErrors").expect("the counter");
    value.parse().expect("a number")
}

/// The kernel completes it, or hands it to the receiver as open. Without the offload the receiver drops the datagram.
#[test]
fn a_frame_that_is_sent_with_an_open_checksum_arrives_with_a_right_one() {
    let Some(bed) = Testbed::lay(Wiring::Bridged, &["ethtool"]) else { return };
    let socket = bed.h1.inside(|| UdpSocket::bind("10.77.0.1:4000").expect("a socket"));
    socket.set_read_timeout(Some(PATIENCE)).expect("a time");
    for (round, setting) in [(1, "on"), (2, "off")] {
        bed.dut.run("ethtool", &format!("-K one tx {setting}"));
        // The answer to an unknown neighbour is no part of this.
        assert_eq!(good(&mut between(&bed, "tests/c/checksums.c", &["send", "packet:one"])), "2 sent\n");
        let mut datagram = [0; 100];
        let len = socket.recv(&mut datagram).expect("a datagram");
        assert_eq!(datagram[..len], *b"with an offload", "tx {setting}");
        assert_eq!(wrong_checksums(&bed.h1), round, "tx {setting}");
    }
}

/// Waits for the end of a program. Returns what it said.
fn ended(child: Child) -> String {
    let out = child.wait_with_output().expect("it ends");
    assert!(out.status.success(), "{}", said(&out));
    said(&out)
}

#[test]
fn a_checksum_that_the_kernel_left_open_is_received_open_if_it_is_kept_and_otherwise_complete() {
    let Some(bed) = Testbed::lay(Wiring::Bridged, &[]) else { return };
    bed.h1.ip("neigh add 10.77.0.9 lladdr 02:00:00:00:09:09 dev eth0");
    let socket = bed.h1.inside(|| UdpSocket::bind("10.77.0.1:0").expect("a socket"));
    let mut program =
        between(&bed, "tests/c/checksums.c", &["receive", "packet:one"]).spawn().expect("the program");
    // What is sent before the port is there is lost.
    wait_until("both were received", || {
        socket.send_to(&[7; 99], "10.77.0.9:4000").expect("a datagram");
        thread::sleep(Duration::from_millis(20));
        program.try_wait().expect("its state").is_some()
    });
    assert_eq!(ended(program), "both received\n");
}

/// Bytes of a file.
const FILE: usize = 8 << 20;

/// Sends a file from one host to the other, and asserts that it arrives.
fn file_crosses(bed: &Testbed) {
    let file: Vec<u8> = (0..FILE).map(|at| (at * 31 / 7) as u8).collect();
    let listener = bed.h2.inside(|| TcpListener::bind("10.77.0.2:5000").expect("a listener"));
    let mut sender = bed.h1.inside(|| TcpStream::connect("10.77.0.2:5000").expect("a connection"));
    let (mut receiver, _) = listener.accept().expect("a connection");
    receiver.set_read_timeout(Some(PATIENCE)).expect("a time");
    sender.set_write_timeout(Some(PATIENCE)).expect("a time");
    let mut came = vec![0; FILE];
    thread::scope(|scope| {
        scope.spawn(|| sender.write_all(&file).expect("it is sent"));
        receiver.read_exact(&mut came).expect("it comes");
    });
    assert!(came == file);
}

/// Packets that have come to an interface of a host. The kernel counts one that stands for several once.
fn packets(host: &Namespace) -> u64 {
    let said = host.ip("-s link show dev eth0");
    let mut lines = said.lines().skip_while(|line| !line.trim_start().starts_with("RX:"));
    let counts = lines.nth(1).expect("the counts");
    counts.split_whitespace().nth(1).expect("packets").parse().expect("a number")
}

/// Sends a file through the relay. Returns the numbers that it prints: passed whole, cut, and finished; and the number of packets that came to
/// the receiver.
fn relayed(ports: [&str; 2]) -> Option<([u64; 3], u64)> {
    let bed = Testbed::lay(Wiring::Bridged, &[])?;
    for (host, other) in [(&bed.h1, 2), (&bed.h2, 1)] {
        host.ip(&format!("neigh replace 10.77.0.{other} lladdr {} dev eth0", host_mac(other)));
    }
    // By itself, since timeout(1) would be the one that is told to end.
    let mut relay = bed.dut.command(compiled("tests/c/relay.c", &GCC).to_str().expect("a path in UTF-8"));
    relay.args(ports).env("LD_LIBRARY_PATH", prefix().join("lib"));
    let mut relay = relay.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the relay");
    let mut out = BufReader::new(relay.stdout.take().expect("its output"));
    let mut line = String::new();
    out.read_line(&mut line).expect("a line");
    if line == "forwarding\n" {
        file_crosses(&bed);
    }
    let came = packets(&bed.h2);
    kill_process(Pid::from_child(&relay), Signal::TERM).expect("it runs");
    let mut numbers = String::new();
    out.read_to_string(&mut numbers).expect("its numbers");
    let end = ended(relay);
    assert_eq!((line.as_str(), end.as_str()), ("forwarding\n", ""), "{numbers}");
    let number = |what: &str| {
        let before = numbers.split(what).next().expect("a number");
        before.split_whitespace().next_back().expect("a number").parse().expect("a number")
    };
    Some(([number(" passed whole"), number(" cut"), number(" finished")], came))
}

#[test]
fn a_packet_of_many_segments_is_received_as_one_and_passes_on_as_one() {
    let Some(([whole, cut, finished], came)) = relayed(["packet:one", "packet:two"]) else { return };
    assert!(whole > 0 && (cut, finished) == (0, 0), "{whole} {cut} {finished}");
    // No segment has more.
    assert!(came < FILE as u64 / 1448, "{came} packets came, of {whole} that are several");
}

#[test]
fn a_packet_of_many_segments_is_cut_by_the_program_for_a_port_that_carries_no_offloads() {
    let Some(([_, cut, _], came)) = relayed(["packet:one", "xdp:two"]) else { return };
    assert!(cut > 0 && came >= FILE as u64 / 1460, "{cut} {came}");
}
