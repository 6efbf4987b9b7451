//! The examples do what they say.

use crate::capture;
use crate::prefix::{GCC, command, compiled, folder, good, prefix, scratch};
use crate::testbed::{Testbed, Wiring};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Stdio;

const REDIRECT: &str = "examples/redirect.c";

#[test]
fn the_python_example_counts_the_packets_of_a_capture() {
    let input = capture::write("count.pcap", 321);
    let said = good(command("python3").arg(folder().join("examples/count.py")).arg(input));
    assert_eq!(said, "321 packets\n");
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
    let said = good(command(compiled("examples/handoff.c", &GCC)).args(ports));
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
    crate::testbed::wait_until("both interfaces have their program", || bed.has_programs());
    bed.h1.ping(&bed.address(2), 5, "-i 0.1");
    bed.h2.ping(&bed.address(1), 5, "-i 0.1");
    let id = rustix::process::Pid::from_child(&redirect);
    rustix::process::kill_process(id, rustix::process::Signal::TERM).expect("it runs");
    let mut said = String::new();
    redirect.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(redirect.wait().unwrap().success() && said.contains(" moved, 0 dropped"), "{said}");
    bed.assert_nothing_left();
}

#[test]
fn the_server_example_serves_clients_on_two_threads_and_keeps_no_session() {
    let mut server = command(compiled("examples/sessions.c", &GCC));
    let mut server = server.args(["0", "2"]).stdout(Stdio::piped()).spawn().expect("the example");
    let mut said = BufReader::new(server.stdout.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    let port: u16 = line.trim().strip_prefix("port ").and_then(|port| port.parse().ok()).expect(&line);
    let clients: Vec<TcpStream> =
        (0..20).map(|_| TcpStream::connect(("127.0.0.1", port)).expect("it listens")).collect();
    for number in 1..=3 {
        for mut client in &clients {
            writeln!(client, "hello").unwrap();
            let (mut answer, want) = ([0; 8], format!("{number} hello\n"));
            client.read_exact(&mut answer).unwrap();
            assert_eq!(String::from_utf8_lossy(&answer), want);
        }
    }
    drop(clients);
    let id = rustix::process::Pid::from_child(&server);
    // `timeout`, under which it runs, passes the signal on.
    rustix::process::kill_process(id, rustix::process::Signal::TERM).expect("it runs");
    let mut rest = String::new();
    said.read_to_string(&mut rest).unwrap();
    assert!(rest == "20 sessions, none left\n", "{rest}");
    server.wait().unwrap();
}

#[test]
fn the_examples_are_as_short_as_is_said() {
    for (example, lines) in [(REDIRECT, 90), ("examples/count.py", 20)] {
        let text = fs::read_to_string(folder().join(example)).unwrap();
        assert!(text.lines().count() <= lines, "{example}: {} lines", text.lines().count());
    }
}
