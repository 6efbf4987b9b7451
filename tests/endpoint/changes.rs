//! Changes the packets that a port takes a thousand times while requests and answers pass. The kernel and netmem listen
//! at the same two ports, and each request must be answered once, by the side that the rules name.

use crate::lay;
use crate::testbed::{PATIENCE, Testbed, is_silence};
use netmem::port::xdp::{TakeControl, Umem, XdpConfig, XdpPort};
use netmem::wire::Datagram;
use netmem::{Batch, Complete, Fill, Memory, MemoryConfig, Pool, PoolConfig, Port, Rx, Tx, Wake, Worker};
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

const PORTS: [u16; 2] = [7001, 7002];
const CHANGES: u32 = 1000;
/// Requests that wait for their answers.
const OUTSTANDING: usize = 8;

/// The state that all threads share.
#[derive(Default)]
struct Shared {
    /// Odd while the rules are changed. Half of it is the number of changes.
    epoch: AtomicU32,
    answers: AtomicU64,
    /// No request begins any more.
    is_asked: AtomicBool,
    /// Every request was answered.
    is_over: AtomicBool,
}

/// The port that netmem takes after this number of changes.
fn taken(changes: u32) -> usize {
    (changes % 2) as usize
}

/// Answers the requests on the port, marked with an N, until the test is over. Returns their number.
fn serve_by_netmem(port: &mut XdpPort, w: &mut Worker, pool: &Pool, shared: &Shared) -> u64 {
    let (mut frames, mut sent, mut answered) = (Batch::new(), Batch::new(), 0);
    while !shared.is_over.load(SeqCst) || !frames.is_empty() || port.tx_posted() > 0 {
        port.refill(w, pool);
        if frames.is_empty() && port.rx(w, &mut frames) == 0 {
            thread::yield_now();
        } else {
            for frame in frames.iter_mut().filter(|frame| frame.data()[frame.len() - 1] == b'?') {
                let (question, _) = Datagram::parse(frame.data()).expect("only what is taken comes");
                let answer = question.answer().expect("it is one host's");
                *frame.data_mut().last_mut().expect("a payload") = b'N';
                answer.write(frame.data_mut()).expect("there is room");
                answered += 1;
            }
            port.tx(w, &mut frames);
        }
        port.kick();
        port.complete(w, &mut sent);
        sent.free(w);
    }
    answered
}

/// The same by a socket of the kernel's, marked with a K.
fn serve_by_kernel(socket: &UdpSocket, shared: &Shared) -> u64 {
    let (mut room, mut answered) = ([0; 64], 0);
    socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    while !shared.is_over.load(SeqCst) {
        match socket.recv_from(&mut room) {
            Ok((len, from)) => {
                room[len - 1] = b'K';
                socket.send_to(&room[..len], from).unwrap();
                answered += 1;
            }
            Err(error) => assert!(is_silence(&error), "{error}"),
        }
    }
    answered
}

/// Answers by netmem and by the kernel, and of them those to requests in whose time no rule changed.
#[derive(Debug, Default)]
struct Answers {
    netmem: u64,
    kernel: u64,
    settled: u64,
}

/// Sends requests to both ports, a few at a time, and checks which side answers.
fn request(sockets: &[UdpSocket; 2], shared: &Shared) -> Answers {
    let (mut answers, mut number) = (Answers::default(), 0_u64);
    sockets.iter().for_each(|socket| socket.set_read_timeout(Some(PATIENCE)).unwrap());
    while !shared.is_asked.load(SeqCst) {
        let mut begun = Vec::new();
        for _ in 0..OUTSTANDING {
            begun.push((number, shared.epoch.load(SeqCst)));
            let request = [&number.to_be_bytes()[..], b"0123456789?"].concat();
            sockets[to(number)].send(&request).unwrap();
            number += 1;
        }
        for i in 0..OUTSTANDING {
            let mut answer = [0; 64];
            let len = sockets[i % 2].recv(&mut answer).expect("every request is answered");
            let answered = u64::from_be_bytes(answer[..8].try_into().unwrap());
            let found = begun.iter().position(|(number, _)| *number == answered);
            let (_, epoch) = begun.swap_remove(found.expect("a request is answered once"));
            answers.judge(answered, char::from(answer[len - 1]), epoch, shared);
        }
    }
    answers
}

/// Which of the two ports a request is for.
fn to(number: u64) -> usize {
    (number % 2) as usize
}

impl Answers {
    /// Counts the answer. If no rule has changed since the request began, at `epoch`, it must be from the side that the
    /// rules name.
    fn judge(&mut self, number: u64, who: char, epoch: u32, shared: &Shared) {
        match who {
            'N' => self.netmem += 1,
            'K' => self.kernel += 1,
            other => panic!("{other} answered"),
        }
        if epoch.is_multiple_of(2) && shared.epoch.load(SeqCst) == epoch {
            let expected = if taken(epoch / 2) == to(number) { 'N' } else { 'K' };
            assert_eq!(who, expected, "request {number} after {} changes", epoch / 2);
            self.settled += 1;
        }
        shared.answers.fetch_add(1, SeqCst);
    }
}

/// Changes the rules, and waits after each time until requests that began after it were answered.
fn change(control: &TakeControl, shared: &Shared) {
    for changes in 1..=CHANGES {
        shared.epoch.fetch_add(1, SeqCst);
        let rules = format!("udp:{}", PORTS[taken(changes)]);
        control.set(&rules.parse().unwrap()).unwrap();
        shared.epoch.fetch_add(1, SeqCst);
        let (answers, begun) = (shared.answers.load(SeqCst), Instant::now());
        while shared.answers.load(SeqCst) < answers + 2 * OUTSTANDING as u64 {
            assert!(begun.elapsed() < PATIENCE, "no answers after {changes} changes");
            thread::sleep(Duration::from_micros(50));
        }
    }
    shared.is_asked.store(true, SeqCst);
}

fn changed_under_load(bed: &Testbed, any: &str, server: &str) {
    let memory =
        Memory::new(&MemoryConfig { bytes: 8 << 20, workers: 1, ..MemoryConfig::default() }).unwrap();
    let mut w = memory.worker().unwrap();
    let pool = Pool::new(&memory, &mut w, &PoolConfig { frames: 1024, ..PoolConfig::default() }).unwrap();
    let bound = |port| bed.dut.inside(|| UdpSocket::bind((server, port)).unwrap());
    let kernel = PORTS.map(bound);
    let asking = PORTS.map(|port| {
        bed.h1.inside(|| {
            let socket = UdpSocket::bind((any, 0)).unwrap();
            socket.connect((server, port)).unwrap();
            socket
        })
    });
    let config =
        XdpConfig { take: Some(format!("udp:{}", PORTS[0]).parse().unwrap()), ..XdpConfig::default() };
    let umem = Umem::new(&memory);
    let mut port = bed.dut.inside(|| XdpPort::open(&umem, &mut w, &pool, "one", 0, &config).unwrap());
    let (control, counters) = (port.take_control().unwrap(), port.counters());
    let shared = Shared::default();
    let (asked, by_netmem, by_kernel) = thread::scope(|scope| {
        let netmem = scope.spawn(|| {
            let answered = serve_by_netmem(&mut port, &mut w, &pool, &shared);
            port.counters();
            answered
        });
        let kernels = kernel.each_ref().map(|socket| scope.spawn(|| serve_by_kernel(socket, &shared)));
        let asked = scope.spawn(|| request(&asking, &shared));
        change(&control, &shared);
        let asked = asked.join().unwrap();
        shared.is_over.store(true, SeqCst);
        let answered: u64 = kernels.into_iter().map(|kernel| kernel.join().unwrap()).sum();
        (asked, netmem.join().unwrap(), answered)
    });
    println!("{asked:?}");
    assert_eq!((asked.netmem, asked.kernel), (by_netmem, by_kernel));
    assert_eq!((counters.rx.get(), counters.tx.get(), counters.rx_drops()), (by_netmem, by_netmem, 0));
    assert!(counters.rx_kernel.get() >= by_kernel);
    assert!(
        by_netmem > u64::from(CHANGES)
            && by_kernel > u64::from(CHANGES)
            && asked.settled > u64::from(CHANGES)
    );
    drop(port);
    assert!(pool.ledger().all_freed(), "{:?}", pool.ledger());
}

#[test]
fn rules_that_change_a_thousand_times_decide_which_side_answers_and_no_request_is_lost() {
    let Some(bed) = lay(&[]) else { return };
    changed_under_load(&bed, "0.0.0.0", crate::SERVER);
    bed.assert_nothing_left();
}
