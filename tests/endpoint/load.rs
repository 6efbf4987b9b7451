//! Tests with many queries, at the rate that the machine can process: every query is answered correctly.
//! `NETMEM_QUERIES` is their number.

use super::{Example, PATIENCE, SERVER, Zone, ask, lay};
use std::collections::VecDeque;
use std::net::UdpSocket;
use std::{env, fs, thread};

/// Queries under way, which no ring and no socket buffer on the way is too short for.
const OUTSTANDING: usize = 64;

fn queries() -> u64 {
    env::var("NETMEM_QUERIES").map_or(20_000, |text| text.parse().expect("NETMEM_QUERIES is a number"))
}

/// Sends `count` queries, with `OUTSTANDING` queries in flight. Each answer must be that of the oldest query, in order.
fn exchange(
    socket: &UdpSocket,
    count: u64,
    question: impl Fn(u64) -> Vec<u8>,
    answer: impl Fn(u64) -> Vec<u8>,
) {
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let (mut asked, mut room, mut under_way) = (0, [0; 2048], VecDeque::new());
    for answered in 0..count {
        while asked < count && under_way.len() < OUTSTANDING {
            socket.send(&question(asked)).unwrap();
            under_way.push_back(asked);
            asked += 1;
        }
        let len =
            socket.recv(&mut room).unwrap_or_else(|error| panic!("{answered} of {count} answered: {error}"));
        let number = under_way.pop_front().unwrap();
        assert_eq!(room[..len], answer(number), "query {number}");
    }
}

#[test]
fn an_echo_answers_every_query_while_the_kernel_answers_ping() {
    let Some(bed) = lay(&["ping"]) else { return };
    let _example = Example::start(&bed, "udp_echo", "7");
    let socket = bed.h1.inside(|| UdpSocket::bind(("0.0.0.0", 0)).unwrap());
    ask(&socket, (SERVER, 7), b"begun");
    let socket = bed.h1.inside(|| UdpSocket::bind(("0.0.0.0", 0)).unwrap());
    socket.connect((SERVER, 7)).unwrap();
    let payload = |number: u64| number.to_be_bytes().repeat(1 + number as usize % 100);
    thread::scope(|scope| {
        scope.spawn(|| exchange(&socket, queries(), payload, payload));
        bed.h1.ping(SERVER, 50, "-i 0.02");
    });
}

/// The names that are asked for, and what becomes of each.
const NAMES: [(&str, &str); 4] = [
    ("www.example.test A", "NOERROR"),
    ("www.example.test AAAA", "NOERROR"),
    ("no.example.test A", "NXDOMAIN"),
    ("example.test NS", "NOERROR"),
];

#[test]
fn dnsperf_has_an_answer_to_every_query_while_the_kernel_answers_ping() {
    let Some(bed) = lay(&["dnsperf", "ping"]) else { return };
    let zone = Zone::new();
    let _example = Example::start(&bed, "dns", &zone.0.display().to_string());
    let socket = bed.h1.inside(|| UdpSocket::bind(("0.0.0.0", 0)).unwrap());
    ask(&socket, (SERVER, 53), b"\0\x07\x01\0\0\x01\0\0\0\0\0\0\x03www\x07example\x04test\0\0\x01\0\x01");
    let asked = zone.0.with_extension("queries");
    let times = queries().div_ceil(1000);
    fs::write(&asked, NAMES.map(|(name, _)| format!("{name}\n")).concat().repeat(250)).unwrap();
    let words =
        format!("-s {SERVER} -d {} -n {times} -q {OUTSTANDING} -t {}", asked.display(), PATIENCE.as_secs());
    let said = thread::scope(|scope| {
        let said = scope.spawn(|| bed.h1.run("dnsperf", &words));
        bed.h1.ping(SERVER, 50, "-i 0.02");
        said.join().unwrap()
    });
    fs::remove_file(&asked).unwrap();
    let sent = times * 1000;
    for line in [
        format!("Queries sent: {sent}"),
        format!("Queries completed: {sent} (100.00%)"),
        "Queries lost: 0 (0.00%)".to_owned(),
        format!("Response codes: NOERROR {} (75.00%), NXDOMAIN {} (25.00%)", sent / 4 * 3, sent / 4),
    ] {
        let squeezed = said.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(squeezed.contains(&line), "{line}: {said}");
    }
    println!("{said}");
}
