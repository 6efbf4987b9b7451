//! A memif server, and a client that sends and writes what the bytes say, and truncates its memory.

#![allow(clippy::unwrap_used)]

use crate::end::{End, fresh_path, of_bytes};
use netmem::page::Memory;
use netmem::pool::PoolConfig;
use netmem::port::memif::{MemifConfig, Role, Sealing};
use netmem::port::{Port, PortState};
use netmem::system::errno::Errno;
use netmem::system::event::Event;
use netmem::system::memif::{AddRegion, AddRing, Init, MODE_ETHERNET, Message, Text, VERSION};
use netmem::system::seqpacket::{Connection, Received};
use std::fs::{File, remove_file};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

/// Bytes of the client's memory: a page of two rings of eight slots with packets behind, and one of packets alone.
const REGION: u64 = 8192;
/// The offsets of the two rings.
const RINGS: [u32; 2] = [0, 1024];
const LOG2_SIZE: u8 = 3;
const COOKIE: u32 = 0x3E31F20;

struct Bench {
    server: End,
    path: PathBuf,
    /// Of the client: a file that it can cut, and how long it is.
    memory: File,
    memory_len: u64,
    event: Event,
    /// Looks at a port that was down because memory was gone.
    lost: u64,
}

/// Runs the sequence in `bytes`. Each step takes four. Whatever a client does, nothing crashes, no packet is longer
/// than a frame, and every frame is in its pool at the end.
pub fn run(bytes: &[u8]) {
    received(bytes);
}

/// Does the same as [`run`]. Returns how many packets were received, and how often the port was down because memory was
/// gone.
pub fn received(bytes: &[u8]) -> (u64, u64) {
    messages(bytes);
    let mut bench = bench();
    let mut client = Some(bench.client());
    for (i, step) in bytes.as_chunks::<4>().0.iter().enumerate() {
        let [op, high, low, value] = *step;
        let at = u64::from(u16::from_be_bytes([high, low]));
        match op % 8 {
            // Mostly the words and the descriptors of the rings.
            0..=2 => bench.write(at % 256 + 1024 * (u64::from(op) >> 3 & 1), &[value]),
            3 => bench.write(at % REGION, &[value; 4]),
            4 => bench.server.receive(),
            5 => bench.server.send(value),
            6 if value < 16 => client = Some(bench.client()),
            6 if value < 24 => client = None,
            6 if value < 32 => bench.cut(at % (REGION + 1)),
            6 => {
                let whole = bytes.iter().cycle().skip(4 * i).take(usize::from(value) + 1);
                if let Some(client) = &client {
                    let _ = client.send(&whole.copied().collect::<Vec<_>>(), Some(bench.event.as_fd()));
                }
            }
            _ => bench.rounds(64),
        }
    }
    bench.server.receive();
    (bench.server.close().rx.get(), bench.lost)
}

/// A message that was read has the same meaning when it is sent again.
fn messages(bytes: &[u8]) {
    for chunk in bytes.chunks(128) {
        if let Ok(message) = Message::parse(chunk) {
            // Compared as bytes: the bytes after a field are not sent again, and neither is an unknown flag.
            assert_eq!(Message::parse(&message.bytes()).map(|again| again.bytes()), Ok(message.bytes()));
        }
    }
}

fn bench() -> Bench {
    let path = fresh_path();
    let frames = Memory::new(&of_bytes(768 << 10)).expect("the bench is set up");
    let pool = PoolConfig { frames: 128, ..PoolConfig::default() };
    let config =
        MemifConfig { role: Role::Server, ring: 16, sealing: Sealing::Trusted, ..MemifConfig::default() };
    let server = End::open(&path, frames, &pool, &config);
    let file = path.with_extension("memory");
    let memory = File::options().read(true).write(true).create_new(true).open(&file);
    let memory = memory.and_then(|memory| remove_file(&file).map(|()| memory)).expect("the bench is set up");
    Bench { server, path, memory, memory_len: 0, event: Event::new().expect("the bench is set up"), lost: 0 }
}

impl Bench {
    /// Sends the messages of a correct client, once there is no other client.
    fn client(&mut self) -> Connection {
        // The server's queue of clients may be full of those that came before.
        let client = loop {
            match Connection::open(&self.path) {
                Err(Errno::AGAIN) => self.rounds(64),
                opened => break opened.expect("the bench is set up"),
            }
        };
        let ring = |to_server, offset| {
            Message::AddRing(AddRing {
                to_server,
                index: 0,
                region: 0,
                offset,
                log2_size: LOG2_SIZE,
                private_header: 0,
            })
        };
        let (secret, name) = (Text::default(), Text::new("sequence"));
        let said = [
            Message::Init(Init { version: VERSION, id: 0, mode: MODE_ETHERNET, secret, name }),
            Message::AddRegion(AddRegion { index: 0, size: REGION }),
            ring(true, RINGS[0]),
            ring(false, RINGS[1]),
            Message::Connect(Text::new("sequence")),
        ];
        self.cut(REGION);
        for offset in RINGS {
            self.write(offset.into(), &COOKIE.to_ne_bytes());
        }
        for message in said {
            let descriptor = match message {
                Message::AddRegion(_) => Some(self.memory.as_fd()),
                Message::AddRing(_) => Some(self.event.as_fd()),
                _ => None,
            };
            let _ = client.send(&message.bytes(), descriptor);
            self.rounds(1);
            let _: Received = client.receive(&mut [0; 128]);
        }
        client
    }

    /// The client makes its memory this long.
    fn cut(&mut self, len: u64) {
        self.memory.set_len(len).unwrap();
        self.memory_len = len;
    }

    /// The client writes into its memory, which becomes no longer by that.
    fn write(&self, at: u64, bytes: &[u8]) {
        let left = self.memory_len.saturating_sub(at);
        let n = bytes.len().min(usize::try_from(left).unwrap());
        self.memory.write_all_at(&bytes[..n], at).unwrap();
    }

    fn rounds(&mut self, n: usize) {
        self.server.rounds(n);
        let gone = |reason: &str| reason.contains("took pages of the memory away");
        self.lost += u64::from(matches!(self.server.port.state(), PortState::Down(reason) if gone(&reason)));
    }
}
