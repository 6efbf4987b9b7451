//! Tests of `netmem forward` with a hostile peer beside an honest pair of ports, on one worker. The peer gets frames,
//! and each attack lasts `NETMEM_HOSTILE_SECONDS` (default 1). The honest pair loses nothing, and one SIGINT ends the
//! run.

#![allow(clippy::unwrap_used)]

mod netmem;
mod test_frames;

use ::netmem::port::memif::Sealing;
use ::netmem::system::event::Event;
use ::netmem::system::memfd::SharedMemory;
use ::netmem::system::memif::{AddRegion, AddRing, Hello, Init, MODE_ETHERNET, Message, Text, VERSION};
use ::netmem::system::seqpacket::{Connection, Listener, Received};
use netmem::{PATIENCE, ended, listens, number, start, wait_until};
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::io::{read, write};
use rustix::net::sockopt::{set_socket_linger, set_socket_recv_buffer_size, set_socket_send_buffer_size};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs::File;
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::{Child, Output};
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{env, fs, thread};
use test_frames::{Folder, frames, packets, pcap_at_intervals};

/// Honest packets a second: in half a minute of each attack not more than the honest rings have room for, whichever
/// process gets a core.
const RATE: u64 = 100;
const RING: u32 = 16384;

fn attack_time() -> Duration {
    let seconds = env::var("NETMEM_HOSTILE_SECONDS").ok().and_then(|text| text.parse().ok());
    Duration::from_secs_f64(seconds.unwrap_or(1.0))
}

fn interrupt(child: &Child) {
    kill_process(Pid::from_child(child), Signal::INT).unwrap();
}

fn object(out: &Output) -> Value {
    serde_json::from_slice(&out.stdout).unwrap_or_else(|error| panic!("{error}: {out:?}"))
}

/// Starts a worker with a pair of honest ports, which also sends frames to a memif port with this `role`.
fn start_worker(folder: &Folder, role: &str) -> Child {
    let (honest, evil) = (folder.path("honest.sock"), folder.path("evil.sock"));
    let input = folder.write("in.pcap", &pcap_at_intervals(&frames(), 50));
    let worker = start(&format!(
        "forward --mode cross-connect --json --ring {RING} --port memif:{},role=server --port pcap:out={} --port \
         pcap:in={},speed=recorded,loop=0 --port memif:{},role={role}",
        honest.display(),
        folder.path("out.pcap").display(),
        input.display(),
        evil.display()
    ));
    wait_until("no process listens", || listens(&honest));
    worker
}

/// Starts a sender of numbered packets to the honest ports.
fn start_sender(folder: &Folder) -> Child {
    let honest = folder.path("honest.sock");
    start(&format!("gen --port memif:{} --rate {RATE} --ring {RING} --json -", honest.display()))
}

/// Number of packets that have come through the honest ports.
fn come(folder: &Folder) -> usize {
    fs::read(folder.path("out.pcap")).map_or(0, |bytes| packets(&bytes).len())
}

/// Ends the sender. Returns how many packets it has sent.
fn sent(sender: Child) -> usize {
    interrupt(&sender);
    number(&object(&ended("gen", sender)), "sent") as usize
}

/// Sends numbered packets through the honest ports of a worker that also sends frames to a memif port with this `role`.
/// The function `attack` plays the peer at that port's socket. Returns how often the peer was woken.
fn beside_an_honest_pair(name: &str, role: &str, attack: impl FnOnce(&Folder, &Path)) -> u64 {
    let folder = Folder::new(name);
    let worker = start_worker(&folder, role);
    let sender = start_sender(&folder);
    wait_until("no honest packet comes", || come(&folder) > 0);
    attack(&folder, &folder.path("evil.sock"));
    let sent = sent(sender);
    wait_until("honest packets are missing", || come(&folder) >= sent);
    interrupt(&worker);
    let report = ended("the run", worker);
    assert_eq!(come(&folder), sent);
    let report = object(&report);
    let pools = report["pools"].as_array().unwrap();
    assert!(pools.iter().all(|pool| pool["balanced"] == true), "{report}");
    number(&report["ports"][3], "kicks")
}

/// Random numbers (xorshift).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

/// Returns the next message, with its descriptors. Returns None if the other side has closed the connection or sends
/// nothing until then.
fn receive(connection: &Connection, until: Instant) -> Option<(Message, Vec<OwnedFd>)> {
    let mut bytes = [0; 128];
    loop {
        match connection.receive(&mut bytes) {
            Received::Message(_, descriptors) => return Some((Message::parse(&bytes).ok()?, descriptors)),
            Received::Nothing if Instant::now() < until => thread::sleep(Duration::from_micros(100)),
            Received::Nothing | Received::End | Received::UnknownDescriptor | Received::NoRoom => {
                return None;
            }
        }
    }
}

/// A client by hand: two rings of eight slots in memory that is sealed, and packets behind.
struct Hand {
    connection: Connection,
    memory: Arc<SharedMemory>,
    event: Event,
}

const BYTES: u64 = 16 << 10;
const PACKETS: u32 = 4096;
/// The offset of the ring to the client.
const TO_CLIENT: u64 = 1024;

impl Hand {
    fn new(socket: &Path) -> Option<Hand> {
        let memory = SharedMemory::new("hostile", BYTES as usize).unwrap();
        let event = Event::new().unwrap();
        Some(Hand { connection: Connection::open(socket).ok()?, memory, event })
    }

    /// Returns all messages of a correct client.
    fn words() -> Vec<Message> {
        let name = Text::new("hostile");
        let ring = |to_server, offset| {
            let (log2_size, private_header) = (3, 0);
            Message::AddRing(AddRing { to_server, index: 0, region: 0, offset, log2_size, private_header })
        };
        let init = Init { version: VERSION, id: 0, mode: MODE_ETHERNET, secret: Text::default(), name };
        let region = AddRegion { index: 0, size: BYTES };
        let rings = [ring(true, 0), ring(false, TO_CLIENT as u32)];
        let [to_server, to_client] = rings;
        vec![Message::Init(init), Message::AddRegion(region), to_server, to_client, Message::Connect(name)]
    }

    fn at(&self, at: u64, bytes: &[u8]) {
        assert!(self.memory.write(at, bytes));
    }

    /// Sends the first `n` messages, each when the one before has been answered. Returns false if it was refused.
    fn say(&self, n: usize, until: Instant) -> bool {
        for ring in [0, TO_CLIENT] {
            self.at(ring, &0x3e3_1f20_u32.to_ne_bytes());
        }
        (0..8).for_each(|slot| {
            let bytes = [[0; 4], 2048_u32.to_ne_bytes(), PACKETS.to_ne_bytes(), [0; 4]].concat();
            self.at(TO_CLIENT + 128 + 16 * slot, &bytes);
        });
        Hand::words().iter().take(n).all(|message| {
            let descriptor = match message {
                Message::AddRegion(_) => Some(self.memory.as_fd()),
                Message::AddRing(_) => Some(self.event.as_fd()),
                _ => None,
            };
            let received = receive(&self.connection, until);
            received.is_some() && self.connection.send(&message.bytes(), descriptor).is_ok()
        })
    }

    /// One with whom packets flow.
    fn connected(socket: &Path, until: Instant) -> Option<Hand> {
        let hand = Hand::new(socket)?;
        let said = hand.say(5, until) && matches!(receive(&hand.connection, until)?.0, Message::Connected(_));
        said.then_some(hand)
    }

    /// Takes what came, and wants to be woken by the next.
    fn make_room(&self) {
        let mut tail = [0; 2];
        assert!(self.memory.read(TO_CLIENT + 64, &mut tail));
        self.at(TO_CLIENT + 4, &[0; 2]);
        self.at(TO_CLIENT + 6, &u16::from_ne_bytes(tail).wrapping_add(8).to_ne_bytes());
    }
}

/// The count of a full eventfd. One that was rung meanwhile has another.
const FULL: u64 = u64::MAX - 1;

/// Returns the count of an eventfd, which is 0 then.
fn drain(event: &impl AsFd) -> u64 {
    fcntl_setfl(event, OFlags::NONBLOCK).unwrap();
    let mut count = [0_u8; 8];
    let _ = read(event, &mut count);
    u64::from_ne_bytes(count)
}

/// Again and again fills an eventfd, makes it a blocking one, and drains it, until it was rung too. It stays full at the
/// end.
fn toggle(event: &impl AsFd, until: Instant, mut make_room: impl FnMut()) {
    let mut is_rung = false;
    while Instant::now() < until || !is_rung {
        assert!(Instant::now() < until + PATIENCE, "it was never rung");
        let mut look = |count: u64| is_rung |= count != 0 && count != FULL;
        look(drain(event));
        make_room();
        while write(event, &FULL.to_ne_bytes()).is_err() {
            look(drain(event));
        }
        fcntl_setfl(event, OFlags::empty()).unwrap();
        make_room();
    }
}

#[test]
fn a_client_whose_eventfd_waits_does_not_affect_an_honest_pair() {
    let rung = beside_an_honest_pair("evil-client", "server", |_, socket| {
        let hand = Hand::connected(socket, Instant::now() + PATIENCE).expect("the server takes it");
        toggle(&hand.event, Instant::now() + attack_time(), || hand.make_room());
    });
    assert!(rung > 0, "it was never rung");
}

#[test]
fn a_server_that_makes_the_eventfd_wait_does_not_affect_an_honest_pair() {
    let rung = beside_an_honest_pair("evil-server", "client", |_, socket| {
        let listener = Listener::new(socket).unwrap();
        let patience = Instant::now() + PATIENCE;
        let connection = loop {
            assert!(Instant::now() < patience, "no process connects");
            match listener.accept() {
                Some(connection) => break connection,
                None => thread::sleep(Duration::from_millis(1)),
            }
        };
        let say = |message: Message| connection.send(&message.bytes(), None).unwrap();
        let (min_version, max_version) = (VERSION, VERSION);
        let hello =
            Hello { min_version, max_version, max_region: 9, max_log2_ring_size: 14, ..Hello::default() };
        say(Message::Hello(hello));
        let (mut memory, mut bell, mut at) = (None, None, 0);
        loop {
            let (message, descriptors) = receive(&connection, patience).expect("the client goes on");
            let descriptor = descriptors.into_iter().next();
            match message {
                Message::AddRegion(region) if region.index == 0 => {
                    let map = |file| SharedMemory::map(file, region.size, Sealing::Required).unwrap();
                    memory = descriptor.map(map);
                }
                Message::AddRing(ring) if ring.to_server => (bell, at) = (descriptor, u64::from(ring.offset)),
                Message::Connect(_) => break,
                _ => {}
            }
            say(Message::Ack);
        }
        say(Message::Connected(Text::new("hostile")));
        let (memory, bell) = (memory.unwrap(), bell.unwrap());
        // All is read at once, and it wants to be woken by the next.
        let make_room = || {
            let mut head = [0; 2];
            assert!(memory.read(at + 6, &mut head));
            assert!(memory.write(at + 4, &[0; 2]) && memory.write(at + 64, &head));
        };
        toggle(&bell, Instant::now() + attack_time(), make_room);
    });
    assert!(rung > 0, "it was never rung");
}

#[test]
fn clients_that_write_random_bytes_do_not_affect_an_honest_pair() {
    beside_an_honest_pair("evil-bytes", "server", |_, socket| {
        let (mut random, until) = (Random(0x9e37_79b9_7f4a_7c15), Instant::now() + attack_time());
        while Instant::now() < until {
            let Some(hand) = Hand::connected(socket, until) else { continue };
            // In rings and behind them, until the server has enough.
            while Instant::now() < until
                && matches!(hand.connection.receive(&mut [0; 128]), Received::Nothing)
            {
                let number = random.next();
                hand.at(number % (2 * TO_CLIENT), &random.next().to_ne_bytes()[..1 + number as usize % 8]);
                if number.is_multiple_of(16) {
                    hand.make_room();
                }
            }
        }
    });
}

#[test]
fn clients_that_send_random_messages_and_leave_at_any_of_them_do_not_affect_an_honest_pair() {
    beside_an_honest_pair("evil-words", "server", |folder, socket| {
        let (mut random, until) = (Random(0x2545_f491_4f6c_dd1d), Instant::now() + attack_time());
        let file = File::create(folder.path("file")).unwrap();
        let (pipe, _other) = std::io::pipe().unwrap();
        while Instant::now() < until {
            let Some(hand) = Hand::new(socket) else { continue };
            if !hand.say(random.next() as usize % 6, until) {
                continue;
            }
            let mut bytes = [0; 128];
            bytes.chunks_mut(8).for_each(|chunk| chunk.copy_from_slice(&random.next().to_ne_bytes()));
            bytes[..2].copy_from_slice(&(random.next() as u16 % 10).to_ne_bytes());
            let all = [None, Some(file.as_fd()), Some(pipe.as_fd()), Some(hand.event.as_fd())];
            let descriptor = all[random.next() as usize % 4];
            let _ = hand.connection.send(&bytes[..random.next() as usize % 129], descriptor);
        }
    });
}

/// Returns one end of a connection whose last close waits for an hour, because the other end reads nothing, and that
/// other end.
fn lingering() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    set_socket_recv_buffer_size(&listener, 4096).unwrap();
    let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    set_socket_send_buffer_size(&stream, 4096).unwrap();
    let (other, _) = listener.accept().unwrap();
    set_socket_linger(&stream, Some(Duration::from_secs(3600))).unwrap();
    stream.set_nonblocking(true).unwrap();
    while (&stream).write(&[0; 65536]).is_ok() {}
    (stream, other)
}

#[test]
fn clients_that_send_sockets_whose_close_waits_do_not_affect_an_honest_pair() {
    let (mut others, mut closing) = (Vec::new(), Vec::new());
    beside_an_honest_pair("evil-sockets", "server", |_, socket| {
        let (mut random, until) = (Random(0xd1b5_4a32_d192_ed03), Instant::now() + attack_time());
        while Instant::now() < until || others.is_empty() {
            let Some(hand) = Hand::new(socket) else { continue };
            // In the place of any word, or before the first.
            if hand.say(random.next() as usize % 5, Instant::now() + Duration::from_millis(100)) {
                let (stream, other) = lingering();
                let _ = hand.connection.send(&Hand::words()[2].bytes(), Some(stream.as_fd()));
                others.push(other);
                // Seen: the server had closed its own first, so that this close waited, and the test for it.
                closing.push(thread::spawn(move || drop(stream)));
            }
        }
    });
    drop(others);
    closing.into_iter().for_each(|thread| thread.join().unwrap());
}

/// Returns for each thread of a process its name, its capabilities in force, and how system calls are filtered.
fn privileges(process: u32) -> Vec<[String; 3]> {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let of = |status: String| {
        ["Name", "CapEff", "Seccomp"].map(|key| {
            let line = status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
            line.unwrap_or_default().trim().to_owned()
        })
    };
    // A thread may end meanwhile.
    tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("status")).ok()).map(of).collect()
}

/// Number of threads of a process that close a descriptor of a peer.
fn closing_threads(process: u32) -> usize {
    privileges(process).iter().filter(|[name, ..]| name == "close").count()
}

#[test]
fn a_client_that_sent_64_such_sockets_kept_the_clients_of_all_other_ports_out() {
    let folder = Folder::new("evil-hour");
    let (worker, evil) = (start_worker(&folder, "server"), folder.path("evil.sock"));
    let sender = start_sender(&folder);
    wait_until("no honest packet comes", || come(&folder) > 0);
    let (mut others, mut closing) = (Vec::new(), Vec::new());
    wait_until("64 closes do not wait at once", || {
        if closing_threads(worker.id()) >= 64 {
            return true;
        }
        let soon = Instant::now() + Duration::from_millis(100);
        if let Some(hand) = Hand::new(&evil)
            && receive(&hand.connection, soon).is_some()
        {
            let (stream, other) = lingering();
            let _ = hand.connection.send(&Hand::words()[0].bytes(), Some(stream.as_fd()));
            others.push(other);
            closing.push(thread::spawn(move || drop(stream)));
        }
        false
    });
    let first = sent(sender);
    wait_until("honest packets are missing", || come(&folder) >= first);
    let sender = start_sender(&folder);
    wait_until("the client of the other port is kept out", || come(&folder) > first);
    let second = sent(sender);
    wait_until("honest packets are missing", || come(&folder) >= first + second);
    interrupt(&worker);
    object(&ended("the run", worker));
    drop(others);
    closing.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn a_server_that_sent_such_a_socket_during_the_set_up_had_a_thread_that_kept_all_capabilities() {
    let folder = Folder::new("evil-set-up");
    let (socket, out) = (folder.path("evil.sock"), folder.path("out.pcap"));
    let listener = Listener::new(&socket).unwrap();
    let run = start(&format!(
        "forward --mode cross-connect --json --port memif:{},role=client --port pcap:out={}",
        socket.display(),
        out.display()
    ));
    let mut connection = None;
    wait_until("no process connects", || {
        connection = listener.accept();
        connection.is_some()
    });
    let (stream, _other) = lingering();
    let hello = Hello { min_version: VERSION, max_version: VERSION, ..Hello::default() };
    // Stopped, the client cannot close the socket before this process does, whose close would wait then.
    kill_process(Pid::from_child(&run), Signal::STOP).unwrap();
    connection.unwrap().send(&Message::Hello(hello).bytes(), Some(stream.as_fd())).unwrap();
    // Only the client has it now, and the client finds no server any more.
    drop((stream, listener));
    kill_process(Pid::from_child(&run), Signal::CONT).unwrap();
    wait_until("no thread closes the socket", || closing_threads(run.id()) > 0);
    let without = |[_, capabilities, filtered]: &[String; 3]| {
        u64::from_str_radix(capabilities, 16) == Ok(0) && filtered == "2"
    };
    let threads = privileges(run.id());
    assert!(threads.iter().all(without), "{threads:?}");
    interrupt(&run);
    object(&ended("the run", run));
}
