//! A memif client, and a server that sends and writes what the bytes say: into the client's rings, and into its buffers
//! or the frames that it lends.

#![allow(clippy::unwrap_used)]

use crate::end::{End, fresh_path, of_bytes};
use netmem::page::Memory;
use netmem::pool::PoolConfig;
use netmem::port::memif::{Lend, MemifConfig, Sealing};
use netmem::system::memfd::SharedMemory;
use netmem::system::memif::{Hello, Message, Text, VERSION};
use netmem::system::seqpacket::{Connection, Listener, Received};
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Slots of a ring.
const RING: u32 = 8;
/// Bytes of a ring: its head, and slots of 16 bytes.
const RING_BYTES: u64 = 128 + 16 * RING as u64;
/// Connections of one sequence at most: a client that lost its server waits some time.
const SERVED: usize = 4;
/// Messages of a whole conversation, and more than that.
const WORDS: usize = 16;

struct Bench {
    client: End,
    listener: Listener,
    server: Option<Server>,
    /// Connections so far.
    served: usize,
}

/// The server's side of one connection.
struct Server {
    connection: Connection,
    /// The client's memory: rings and buffers, and its frames if they are lent.
    regions: Vec<Arc<SharedMemory>>,
    /// The offset of the rings to the client.
    rings: Vec<u64>,
}

/// Runs the sequence in `bytes`. The first byte chooses the size of frames and whether they are lent, and each step
/// takes four. Whatever a server does, nothing crashes, no packet is longer than a frame, and every frame is in its
/// pool at the end.
pub fn run(bytes: &[u8]) {
    received(bytes);
}

/// Does the same as [`run`]. Returns how many packets were received, and how many of them were put together from
/// several parts.
pub fn received(bytes: &[u8]) -> (u64, u64) {
    let (&how, bytes) = bytes.split_first().unwrap_or((&0, &[]));
    let mut bench = Bench::new(how & 1 == 0, if how & 2 == 0 { 2048 } else { 8192 });
    bench.serve();
    for (i, step) in bytes.as_chunks::<4>().0.iter().enumerate() {
        let [op, high, low, value] = *step;
        let at = u64::from(u16::from_be_bytes([high, low]));
        match op % 8 {
            0..=2 => bench.write_ring(at % RING_BYTES, value),
            3 => bench.write(usize::from(op >> 3), at * 64, value),
            4 => bench.client.receive(),
            5 => bench.client.send(value),
            6 if value < 16 && bench.served < SERVED => bench.serve(),
            6 if value < 24 => bench.server = None,
            6 => {
                let word = bytes.iter().cycle().skip(4 * i).take(usize::from(value) + 1);
                bench.say(&word.copied().collect::<Vec<_>>());
            }
            _ => bench.client.rounds(64),
        }
    }
    bench.client.receive();
    let counters = bench.client.close();
    assert_eq!(counters.tx.get(), counters.completed.get());
    (counters.rx.get(), counters.copied.get())
}

impl Bench {
    /// Makes a client over frames of this number of bytes, and the listener for it.
    fn new(lends: bool, frame_size: usize) -> Bench {
        let path = fresh_path();
        // SAFETY: the server is on this thread, and reads and writes while nothing is borrowed from a frame.
        let frames = unsafe { Memory::shared(&of_bytes(768 << 10)) }.expect("the bench is set up");
        let pool = PoolConfig { frames: 48, ..PoolConfig::of_frames(frame_size) };
        let listener = Listener::new(&path).expect("the bench is set up");
        // SAFETY: the server is this thread too, and writes while no reference to a frame's bytes is alive.
        let lend = lends.then(|| unsafe { Lend::to_trusted_peers() });
        let config = MemifConfig { ring: RING, lend, frame_size, ..MemifConfig::default() };
        Bench { client: End::open(&path, frames, &pool, &config), listener, server: None, served: 0 }
    }

    /// Ends the connection, waits until the client has connected again, and completes the conversation.
    fn serve(&mut self) {
        self.server = None;
        self.served += 1;
        let connection = loop {
            self.client.receive();
            self.client.rounds(64);
            if let Some(connection) = self.listener.accept() {
                break connection;
            }
            // A client that was refused tries again a little later.
            std::thread::yield_now();
        };
        let mut server = Server { connection, regions: Vec::new(), rings: Vec::new() };
        server.greet();
        for _ in 0..WORDS {
            self.client.rounds(1);
            server.hear();
        }
        self.server = Some(server);
        self.client.rounds(64);
    }

    /// Sends a message of the server.
    fn say(&self, word: &[u8]) {
        if let Some(server) = &self.server {
            let _ = server.connection.send(word, None);
        }
    }

    /// The server writes a byte of the ring to the client.
    fn write_ring(&self, at: u64, value: u8) {
        let ring = self.server.as_ref().and_then(|server| server.rings.first());
        ring.into_iter().for_each(|ring| self.write(0, ring + at, value));
    }

    /// The server writes a byte of one of the client's regions.
    fn write(&self, region: usize, at: u64, value: u8) {
        let regions = self.server.as_ref().map_or(&[][..], |server| &server.regions);
        if let Some(memory) = regions.get(region % regions.len().max(1)) {
            memory.write(at % memory.len() as u64, &[value]);
        }
    }
}

impl Server {
    fn greet(&self) {
        let hello = Hello {
            min_version: VERSION,
            max_version: VERSION,
            max_region: 9,
            max_log2_ring_size: 10,
            ..Hello::default()
        };
        let _ = self.connection.send(&Message::Hello(hello).bytes(), None);
    }

    /// Receives a message, if there is one, and answers it as a correct server does.
    fn hear(&mut self) {
        let mut bytes = [0; 128];
        let Received::Message(_, descriptors) = self.connection.receive(&mut bytes) else { return };
        let Ok(message) = Message::parse(&bytes) else { return };
        match &message {
            Message::AddRegion(region) => self.map(descriptors, region.size),
            Message::AddRing(ring) if !ring.to_server => self.rings.push(ring.offset.into()),
            _ => {}
        }
        let answer = match message {
            Message::Connect(_) => Message::Connected(Text::new("lent")),
            _ => Message::Ack,
        };
        let _ = self.connection.send(&answer.bytes(), None);
    }

    /// Maps a region of the client's, which is always sealed.
    fn map(&mut self, descriptors: Vec<OwnedFd>, size: u64) {
        let file = descriptors.into_iter().next().expect("a region comes with its memory");
        self.regions.push(SharedMemory::map(file, size, Sealing::Required).expect("it is sealed"));
    }
}
