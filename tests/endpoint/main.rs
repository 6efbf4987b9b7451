//! Tests of servers beside the kernel on one interface: the examples `udp_echo` and `dns`, with requests from ordinary
//! programs of another host, and changes of the rules under load.

#![allow(clippy::unwrap_used)]

mod changes;
mod granted;
mod load;
#[allow(dead_code, reason = "shared with tests that use more of it")]
#[path = "../testbed/mod.rs"]
mod testbed;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::process::Child;
use std::time::Duration;
use std::{fs, thread};
use testbed::{PATIENCE, Testbed, Wiring, example, port_mac, scratch, wait_until};

/// The server's address, which is its kernel's.
const SERVER: &str = "10.77.0.254";
const SERVER_V6: &str = "fd77::254";

/// Returns a host at the far end of a link, and the server's address at this end. Returns None if that is not possible.
fn lay(programs: &[&str]) -> Option<Testbed> {
    let bed = Testbed::lay(Wiring::Bridged, programs)?;
    for namespace in [&bed.h1, &bed.dut] {
        namespace.set_ipv6(true);
    }
    bed.dut.ip(&format!("addr add {SERVER}/24 dev one"));
    bed.dut.ip(&format!("addr add {SERVER_V6}/64 dev one nodad"));
    bed.h1.ip("addr add fd77::1/64 dev eth0 nodad");
    Some(bed)
}

/// A program of this repository's examples on the interface `one`. It is killed when dropped.
struct Example(Child);

impl Example {
    fn start(bed: &Testbed, name: &str, word: &str) -> Example {
        let mut command = bed.dut.command(&example("netmem", name).display().to_string());
        let mut example = Example(command.args(["one", word]).spawn().expect("the example starts"));
        wait_until("the example has its interface", || {
            assert_eq!(example.0.try_wait().expect("wait"), None, "the example ended");
            bed.program("one").is_some() && bed.sockets() == 1
        });
        example
    }
}

impl Drop for Example {
    fn drop(&mut self) {
        self.0.kill().and_then(|()| self.0.wait()).map(drop).ok();
    }
}

/// Sends until there is an answer, because the kernel gets the packets while a port opens. Returns the answer.
fn ask(socket: &UdpSocket, to: (&str, u16), question: &[u8]) -> Vec<u8> {
    socket.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    let mut answer = vec![0; 2048];
    let mut length = None;
    wait_until("the server answers", || {
        socket.send_to(question, to).unwrap();
        length = socket.recv_from(&mut answer).ok().filter(|(_, from)| from.port() == to.1);
        length.is_some()
    });
    answer.truncate(length.unwrap().0);
    answer
}

#[test]
fn ping_tcp_and_arp_are_answered_by_the_kernel_while_an_echo_answers_its_port() {
    let Some(bed) = lay(&["ping"]) else { return };
    let listener = bed.dut.inside(|| TcpListener::bind((SERVER, 7)).unwrap());
    let _example = Example::start(&bed, "udp_echo", "7");
    for (any, server) in [("0.0.0.0", SERVER), ("::", SERVER_V6)] {
        for len in [0, 1, 18, 999, 1400] {
            // A question that was sent twice has two answers, and the second comes to this socket alone.
            let socket = bed.h1.inside(|| UdpSocket::bind((any, 0)).unwrap());
            let payload: Vec<u8> = (0..len).map(|i| i as u8).collect();
            assert_eq!(ask(&socket, (server, 7), &payload), payload);
        }
    }
    bed.h1.ip(&format!("neigh flush to {SERVER}"));
    bed.h1.ping(SERVER, 50, "-i 0.002");
    bed.h1.ping(SERVER_V6, 50, "-i 0.002");
    // Fragments, first ones too, are the kernel's.
    bed.h1.ping(SERVER, 3, "-i 0.1 -s 4000");
    assert!(bed.h1.ip(&format!("neigh show {SERVER}")).contains(&port_mac(1)), "found by ARP");
    thread::scope(|scope| {
        scope.spawn(|| listener.accept().unwrap().0.write_all(b"the kernel").unwrap());
        let mut stream = bed.h1.inside(|| TcpStream::connect((SERVER, 7)).unwrap());
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut said = String::new();
        stream.read_to_string(&mut said).unwrap();
        assert_eq!(said, "the kernel");
    });
    let refused = bed.h1.inside(|| {
        let socket = UdpSocket::bind(("0.0.0.0", 0)).unwrap();
        socket.connect((SERVER, 9)).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.send(b"nobody").unwrap();
        socket.recv(&mut [0; 9]).unwrap_err().kind()
    });
    assert_eq!(refused, std::io::ErrorKind::ConnectionRefused, "the kernel says that port 9 is closed");
}

const ZONE: &str = "\
example.test. SOA ns1.example.test. admin.example.test. 7 3600 600 86400 300
example.test. NS ns1.example.test.
example.test. NS ns2.example.test.
ns1.example.test. A 192.0.2.53
www.example.test. A 192.0.2.80
www.example.test. A 192.0.2.81
www.example.test. AAAA 2001:db8::80
deep.down.example.test. A 192.0.2.99
";

/// The zone's file. It is removed when dropped.
struct Zone(PathBuf);

impl Zone {
    fn new() -> Zone {
        let file = scratch("zone");
        fs::write(&file, ZONE).unwrap();
        Zone(file)
    }
}

impl Drop for Zone {
    fn drop(&mut self) {
        fs::remove_file(&self.0).ok();
    }
}

#[test]
fn dig_gets_the_records_of_a_zone_and_an_answer_for_a_missing_name() {
    let Some(bed) = lay(&["dig"]) else { return };
    let zone = Zone::new();
    let _example = Example::start(&bed, "dns", &zone.0.display().to_string());
    let dig = |server: &str, name: &str, kind: &str| {
        bed.h1.run(
            "dig",
            &format!("@{server} {name} {kind} +tries=60 +timeout=2 +noall +comments +answer +authority"),
        )
    };
    let soa = "ns1.example.test. admin.example.test. 7 3600 600 86400 300";
    for server in [SERVER, SERVER_V6] {
        for (name, kind, status, counts, said) in [
            (
                "www.example.test",
                "A",
                "NOERROR",
                "ANSWER: 2, AUTHORITY: 0",
                &["192.0.2.80", "192.0.2.81"][..],
            ),
            ("WwW.eXample.test", "AAAA", "NOERROR", "ANSWER: 1, AUTHORITY: 0", &["2001:db8::80"]),
            (
                "example.test",
                "NS",
                "NOERROR",
                "ANSWER: 2, AUTHORITY: 0",
                &["ns1.example.test.", "ns2.example.test."],
            ),
            ("example.test", "SOA", "NOERROR", "ANSWER: 1, AUTHORITY: 0", &[soa]),
            ("www.example.test", "NS", "NOERROR", "ANSWER: 0, AUTHORITY: 1", &[soa]),
            ("down.example.test", "A", "NOERROR", "ANSWER: 0, AUTHORITY: 1", &[soa]),
            ("no.example.test", "A", "NXDOMAIN", "ANSWER: 0, AUTHORITY: 1", &[soa]),
            ("example.org", "A", "REFUSED", "ANSWER: 0, AUTHORITY: 0", &[]),
        ] {
            let out = dig(server, name, kind);
            assert!(
                out.contains(&format!("status: {status},")) && out.contains(counts),
                "{name} {kind}: {out}"
            );
            let is_authority = out.contains("flags: qr aa rd");
            assert_eq!(is_authority, status != "REFUSED", "{out}");
            assert!(said.iter().all(|said| out.contains(said)), "{name} {kind}: {out}");
            assert!(!out.contains("WARNING: Message") && !out.contains("malformed"), "{out}");
        }
    }
}
