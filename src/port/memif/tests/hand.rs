//! A client that the test plays: it sends and writes what the test asks for.

use super::message::{AddRegion, AddRing, Init, MESSAGE_LEN, MODE_ETHERNET, Message, Text, VERSION};
use super::ring::{Descriptor, Lending};
use super::*;
use crate::sys::event::Event;
use crate::sys::memfd::SharedMemory;
use crate::sys::seqpacket::{Connection, Received};
use std::fs::File;
use std::os::fd::OwnedFd;

/// Bytes of the client's memory.
pub(super) const REGION: u64 = 16 << 10;
/// log2 of the slots of its rings.
pub(super) const LOG2_SIZE: u8 = 3;
/// The offset of the ring to the client. The ring to the server is at 0.
pub(super) const TO_CLIENT: u64 = 4096;
/// The offset of its packets.
pub(super) const PACKETS: u32 = 8192;

/// A client that the test plays.
pub(super) struct Hand {
    pub(super) connection: Connection,
    pub(super) memory: Arc<SharedMemory>,
    pub(super) event: Event,
}

impl Hand {
    pub(super) fn new(path: &Path) -> Hand {
        let memory = SharedMemory::new("hand", REGION as usize).unwrap();
        Hand { connection: Connection::open(path).unwrap(), memory, event: Event::new().unwrap() }
    }

    /// Makes a client whose memory is a file that the test can truncate. Returns the client and the file.
    pub(super) fn with_scissors(path: &Path) -> (Hand, File) {
        let name = fresh_path();
        let file = File::options().read(true).write(true).create(true).truncate(true).open(&name).unwrap();
        std::fs::remove_file(&name).unwrap();
        file.set_len(REGION).unwrap();
        let memory =
            SharedMemory::map(OwnedFd::from(file.try_clone().unwrap()), REGION, Sealing::Trusted).unwrap();
        let connection = Connection::open(path).unwrap();
        (Hand { connection, memory, event: Event::new().unwrap() }, file)
    }

    pub(super) fn bell(&self) -> std::os::fd::BorrowedFd<'_> {
        self.event.as_fd()
    }

    pub(super) fn init() -> Message {
        let (secret, name) = (Text::default(), Text::new("hand"));
        Message::Init(Init { version: VERSION, id: 0, mode: MODE_ETHERNET, secret, name })
    }

    pub(super) fn region() -> Message {
        Message::AddRegion(AddRegion { index: 0, size: REGION })
    }

    pub(super) fn ring(to_server: bool) -> AddRing {
        let offset = if to_server { 0 } else { TO_CLIENT as u32 };
        AddRing { to_server, index: 0, region: 0, offset, log2_size: LOG2_SIZE, private_header: 0 }
    }

    /// Returns all messages of a correct client.
    pub(super) fn sane() -> Vec<Message> {
        let rings = [true, false].map(|to_server| Message::AddRing(Hand::ring(to_server)));
        let [to_server, to_client] = rings;
        vec![Hand::init(), Hand::region(), to_server, to_client, Message::Connect(Text::new("hand"))]
    }

    pub(super) fn say(&self, message: &Message) {
        let descriptor = match message {
            Message::AddRegion(_) => Some(self.memory.as_fd()),
            Message::AddRing(_) => Some(self.event.as_fd()),
            _ => None,
        };
        // The server may have hung up.
        let _ = self.connection.send(&message.bytes(), descriptor);
    }

    /// Makes the rings, with their cookies.
    pub(super) fn lay_rings(&self, log2_size: u8) -> (Lending, Lending) {
        let ring = |offset| Lending::new(&self.memory, offset, log2_size).unwrap();
        (ring(0), ring(TO_CLIENT))
    }

    /// Returns the server's next message. Returns None if the server has closed the connection.
    pub(super) fn hear(&self, server: &mut Side) -> Option<Message> {
        let end = Instant::now() + LONG;
        let mut bytes = [0; MESSAGE_LEN];
        loop {
            assert!(Instant::now() < end, "the server says nothing: {:?}", server.port);
            server.idle();
            match self.connection.receive(&mut bytes) {
                Received::Message(_, _) => return Some(Message::parse(&bytes).unwrap()),
                Received::Nothing => {}
                Received::End | Received::UnknownDescriptor | Received::NoRoom => return None,
            }
        }
    }

    /// Sends these messages one by one, and receives each answer, until the server closes the connection. Returns the
    /// last answer.
    pub(super) fn converse(&self, server: &mut Side, messages: &[Message]) -> Option<Message> {
        let mut answer = self.hear(server);
        for message in messages {
            self.say(message);
            answer = self.hear(server);
            if matches!(answer, None | Some(Message::Disconnect { .. })) {
                break;
            }
        }
        answer
    }

    /// Returns a connected client, and its ends of the rings.
    pub(super) fn connected(server: &mut Side, path: &Path) -> (Hand, Lending, Lending) {
        Hand::connected_by(server, path, LOG2_SIZE)
    }

    /// Does the same as [`Hand::connected`], with rings of this size.
    pub(super) fn connected_by(server: &mut Side, path: &Path, log2_size: u8) -> (Hand, Lending, Lending) {
        let hand = Hand::new(path);
        let (to_server, to_client) = hand.lay_rings(log2_size);
        let mut messages = Hand::sane();
        for message in &mut messages {
            if let Message::AddRing(ring) = message {
                ring.log2_size = log2_size;
            }
        }
        let answer = hand.converse(server, &messages);
        assert!(matches!(answer, Some(Message::Connected(_))), "{answer:?}");
        server.idle();
        (hand, to_server, to_client)
    }
}

/// Checks that the server still serves a correct client.
pub(super) fn serves(server: &mut Side, path: &Path) {
    let (hand, mut to_server, mut to_client) = Hand::connected(server, path);
    assert!(hand.memory.write(PACKETS.into(), b"a sane packet"));
    let packet = Descriptor { next: false, region: 0, len: 13, offset: PACKETS };
    to_server.write(to_server.next_at(0), packet);
    to_server.lend(1);
    assert_eq!(server.receive(), [b"a sane packet"]);
    assert_eq!(to_server.returned(), Ok(1));
    to_client.write(to_client.next_at(0), Descriptor { len: 100, ..packet });
    to_client.lend(1);
    assert_eq!(server.send(&[vec![7; 20]]), 1);
    assert_eq!((to_client.returned(), to_client.read(to_client.returned_at(0)).len), (Ok(1), 20));
    hand.say(&Message::disconnect("thank you"));
    let end = Instant::now() + LONG;
    while server.is_up() {
        assert!(Instant::now() < end);
        server.idle();
    }
    assert_eq!(server.reason(), "the peer ended it: thank you");
    server.complete();
}
