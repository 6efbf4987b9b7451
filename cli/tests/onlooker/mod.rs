//! A memif server by hand, which looks at all of the memory that a client gives it.

use netmem::system::memif::{Hello, Message, Text, VERSION};
use netmem::system::seqpacket::{Connection, Listener, Received};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// The server, and the descriptors that a client has given it.
pub struct Onlooker {
    listener: Listener,
    /// There until it is dropped.
    connection: Option<Connection>,
    regions: Vec<(File, u64)>,
    events: Vec<OwnedFd>,
}

impl Onlooker {
    pub fn listen(socket: &Path) -> Onlooker {
        let listener = Listener::new(socket).expect("a socket");
        Onlooker { listener, connection: None, regions: Vec::new(), events: Vec::new() }
    }

    /// Takes the next client, and all that it gives.
    pub fn meet(&mut self, patience: Duration) {
        let until = Instant::now() + patience;
        let connection = loop {
            match self.listener.accept() {
                Some(connection) => break connection,
                None => thread::sleep(Duration::from_millis(1)),
            }
            assert!(Instant::now() < until, "no process connects");
        };
        let hello = Hello {
            name: Text::new("onlooker"),
            min_version: VERSION,
            max_version: VERSION,
            max_region: 7,
            max_ring_to_client: 0,
            max_ring_to_server: 0,
            max_log2_ring_size: 10,
        };
        let say = |message: Message| connection.send(&message.bytes(), None).expect("the client hears");
        say(Message::Hello(hello));
        while Instant::now() < until {
            let mut bytes = [0; 128];
            let Received::Message(_, descriptors) = connection.receive(&mut bytes) else {
                thread::sleep(Duration::from_millis(1));
                continue;
            };
            match Message::parse(&bytes).expect("a message") {
                Message::AddRegion(region) => {
                    self.regions.extend(descriptors.into_iter().map(|file| (file.into(), region.size)));
                }
                Message::Connect(_) => {
                    say(Message::Connected(Text::new("onlooker")));
                    self.connection = Some(connection);
                    return;
                }
                _ => self.events.extend(descriptors),
            }
            say(Message::Ack);
        }
        panic!("the client does not say all it has to");
    }

    /// Whether these bytes lie anywhere in the memory.
    pub fn sees(&self, bytes: &[u8]) -> bool {
        self.regions.iter().any(|(file, size)| {
            let mut all = vec![0; *size as usize];
            file.read_exact_at(&mut all, 0).expect("the region");
            all.windows(bytes.len()).any(|window| window == bytes)
        })
    }
}
