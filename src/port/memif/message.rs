//! The messages that peers exchange on the socket before any packet: eight types of 128 bytes each.
//!
//! ```text
//!   client                                server
//!   (connects)                       ◄──  HELLO        versions, most regions, rings and ring size
//!   INIT         which interface     ──►  ACK
//!   ADD_REGION   with a descriptor   ──►  ACK          for each region
//!   ADD_RING     with a descriptor   ──►  ACK          for each ring
//!   CONNECT                          ──►  CONNECTED    packets flow
//!   DISCONNECT                       ◄─►               either side, any time, with the reason
//! ```
//! Fields are packed, in the byte order of the machine, which both peers run on. Nothing is trusted: a message is
//! parsed into plain values or refused, and the code that uses the values checks them.
//!
//! Source: memif protocol 2.0, drivers/net/memif/memif.h of DPDK 22.11.

use std::fmt;

/// Bytes of every message.
pub const MESSAGE_LEN: usize = 128;
/// Version 2.0.
pub const VERSION: u16 = 0x0200;
/// Bytes of a name.
pub const NAME_LEN: usize = 32;
/// Bytes of a secret.
pub const SECRET_LEN: usize = 24;
/// Bytes of a reason.
const REASON_LEN: usize = 96;
/// The only mode that is supported: whole Ethernet frames.
pub const MODE_ETHERNET: u8 = 0;
/// Flag of ADD_RING: packets go from the client to the server.
const TO_SERVER: u16 = 1;

const ACK: u16 = 1;
const HELLO: u16 = 2;
const INIT: u16 = 3;
const ADD_REGION: u16 = 4;
const ADD_RING: u16 = 5;
const CONNECT: u16 = 6;
const CONNECTED: u16 = 7;
const DISCONNECT: u16 = 8;

/// A text that ends at a zero byte, or after `N` bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Text<const N: usize>([u8; N]);

impl<const N: usize> Text<N> {
    /// Returns as much of `text` as fits, with a zero byte at its end.
    pub fn new(text: &str) -> Text<N> {
        let mut bytes = [0; N];
        let fits = |&n: &usize| text.is_char_boundary(n);
        let n = (0..=text.len().min(N - 1)).rev().find(fits).unwrap_or(0);
        bytes[..n].copy_from_slice(&text.as_bytes()[..n]);
        Text(bytes)
    }

    /// Whether both are the same. The comparison takes the same time for all texts, so a secret cannot be guessed byte
    /// by byte.
    pub fn is(&self, other: &Text<N>) -> bool {
        self.0.iter().zip(&other.0).fold(0, |differing, (a, b)| differing | (a ^ b)) == 0
    }

    /// The bytes up to the zero byte.
    pub fn as_bytes(&self) -> &[u8] {
        self.0.split(|&byte| byte == 0).next().unwrap_or_default()
    }
}

impl<const N: usize> Default for Text<N> {
    fn default() -> Self {
        Text([0; N])
    }
}

/// Prints a peer's text without its control characters, which could disturb a terminal.
impl<const N: usize> fmt::Display for Text<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = String::from_utf8_lossy(self.as_bytes());
        text.chars().try_for_each(|c| write!(f, "{}", if c.is_control() { '?' } else { c }))
    }
}

impl<const N: usize> fmt::Debug for Text<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.to_string())
    }
}

/// What a server offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Hello {
    /// The server's name.
    pub name: Text<NAME_LEN>,
    /// The oldest version that the server supports.
    pub min_version: u16,
    /// The newest version that the server supports.
    pub max_version: u16,
    /// The largest index of a region.
    pub max_region: u16,
    /// The largest index of a ring to the client.
    pub max_ring_to_client: u16,
    /// The largest index of a ring to the server.
    pub max_ring_to_server: u16,
    /// log2 of the slots of the largest ring.
    pub max_log2_ring_size: u8,
}

/// Which interface a client wants.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Init {
    /// The version of the protocol.
    pub version: u16,
    /// The interface, by the number that both were configured with.
    pub id: u32,
    /// The kind of packets; here [`MODE_ETHERNET`].
    pub mode: u8,
    /// Proof that the client is permitted; empty if the server asks for none.
    pub secret: Text<SECRET_LEN>,
    /// The client's name.
    pub name: Text<NAME_LEN>,
}

/// Shows all fields except the secret.
impl fmt::Debug for Init {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Init { version, id, mode, secret: _, name } = self;
        f.debug_struct("Init")
            .field("version", version)
            .field("id", id)
            .field("mode", mode)
            .field("name", name)
            .finish_non_exhaustive()
    }
}

/// A region of the client's memory. Its descriptor comes with the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct AddRegion {
    /// Its number; the first region has the number 0.
    pub index: u16,
    /// Its size in bytes.
    pub size: u64,
}

/// A ring in the client's memory. The descriptor that wakes its reader comes with the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct AddRing {
    /// Whether packets go from the client to the server. Otherwise they go from the server to the client.
    pub to_server: bool,
    /// Its number among the rings of its direction; the first has the number 0.
    pub index: u16,
    /// The region that it lies in.
    pub region: u16,
    /// Its offset in the region, in bytes.
    pub offset: u32,
    /// log2 of its number of slots.
    pub log2_size: u8,
    /// Bytes before each packet whose meaning only the two peers know. There are none here: a server refuses any.
    pub private_header: u16,
}

/// One message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// The last message was accepted.
    Ack,
    /// The server's first message.
    Hello(Hello),
    /// The client's first message.
    Init(Init),
    /// A region that the server can map.
    AddRegion(AddRegion),
    /// A ring that the server can use.
    AddRing(AddRing),
    /// The client has offered everything; the name of its interface.
    Connect(Text<NAME_LEN>),
    /// The server is ready; the name of its interface.
    Connected(Text<NAME_LEN>),
    /// The sender ends the connection.
    Disconnect {
        /// A number whose meaning the protocol does not define.
        code: u32,
        /// The reason.
        reason: Text<REASON_LEN>,
    },
}

/// Why bytes are not a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MessageError {
    /// The length is not [`MESSAGE_LEN`] bytes.
    #[error("a message of {0} bytes where each has 128")]
    Length(usize),
    /// The protocol has no such type.
    #[error("a message of the unknown type {0}")]
    Type(u16),
}

/// Reads fields one after another, without gaps.
struct Reader<'a>(&'a [u8; MESSAGE_LEN], usize);

impl Reader<'_> {
    fn bytes<const N: usize>(&mut self) -> [u8; N] {
        let bytes = std::array::from_fn(|i| self.0[self.1 + i]);
        self.1 += N;
        bytes
    }

    fn u8(&mut self) -> u8 {
        u8::from_ne_bytes(self.bytes())
    }

    fn u16(&mut self) -> u16 {
        u16::from_ne_bytes(self.bytes())
    }

    fn u32(&mut self) -> u32 {
        u32::from_ne_bytes(self.bytes())
    }

    fn u64(&mut self) -> u64 {
        u64::from_ne_bytes(self.bytes())
    }

    fn text<const N: usize>(&mut self) -> Text<N> {
        Text(self.bytes())
    }
}

/// Writes fields one after another, without gaps.
struct Writer([u8; MESSAGE_LEN], usize);

impl Writer {
    fn of(kind: u16) -> Writer {
        Writer([0; MESSAGE_LEN], 0).put(&kind.to_ne_bytes())
    }

    fn put(mut self, bytes: &[u8]) -> Writer {
        self.0[self.1..self.1 + bytes.len()].copy_from_slice(bytes);
        self.1 += bytes.len();
        self
    }
}

impl Message {
    /// Parses the message in `bytes`.
    ///
    /// # Errors
    /// Returns [`MessageError`] if the length is not 128 bytes or the type is unknown.
    pub fn parse(bytes: &[u8]) -> Result<Message, MessageError> {
        let whole = bytes.try_into().map_err(|_| MessageError::Length(bytes.len()))?;
        let mut from = Reader(whole, 0);
        Ok(match from.u16() {
            ACK => Message::Ack,
            HELLO => Message::Hello(Hello::read(&mut from)),
            INIT => Message::Init(Init::read(&mut from)),
            ADD_REGION => Message::AddRegion(AddRegion { index: from.u16(), size: from.u64() }),
            ADD_RING => Message::AddRing(AddRing::read(&mut from)),
            CONNECT => Message::Connect(from.text()),
            CONNECTED => Message::Connected(from.text()),
            DISCONNECT => Message::Disconnect { code: from.u32(), reason: from.text() },
            unknown => return Err(MessageError::Type(unknown)),
        })
    }

    /// Returns the message as it is sent.
    pub fn bytes(&self) -> [u8; MESSAGE_LEN] {
        match self {
            Message::Ack => Writer::of(ACK),
            Message::Hello(hello) => hello.write(Writer::of(HELLO)),
            Message::Init(init) => init.write(Writer::of(INIT)),
            Message::AddRegion(AddRegion { index, size }) => {
                Writer::of(ADD_REGION).put(&index.to_ne_bytes()).put(&size.to_ne_bytes())
            }
            Message::AddRing(ring) => ring.write(Writer::of(ADD_RING)),
            Message::Connect(name) => Writer::of(CONNECT).put(&name.0),
            Message::Connected(name) => Writer::of(CONNECTED).put(&name.0),
            Message::Disconnect { code, reason } => {
                Writer::of(DISCONNECT).put(&code.to_ne_bytes()).put(&reason.0)
            }
        }
        .0
    }

    /// Returns a DISCONNECT with this `reason`.
    pub fn disconnect(reason: &str) -> Message {
        Message::Disconnect { code: 0, reason: Text::new(reason) }
    }

    /// Returns the name of the message's type in the protocol.
    pub fn name(&self) -> &'static str {
        match self {
            Message::Ack => "ACK",
            Message::Hello(_) => "HELLO",
            Message::Init(_) => "INIT",
            Message::AddRegion(_) => "ADD_REGION",
            Message::AddRing(_) => "ADD_RING",
            Message::Connect(_) => "CONNECT",
            Message::Connected(_) => "CONNECTED",
            Message::Disconnect { .. } => "DISCONNECT",
        }
    }
}

impl Hello {
    fn read(from: &mut Reader<'_>) -> Hello {
        Hello {
            name: from.text(),
            min_version: from.u16(),
            max_version: from.u16(),
            max_region: from.u16(),
            max_ring_to_client: from.u16(),
            max_ring_to_server: from.u16(),
            max_log2_ring_size: from.u8(),
        }
    }

    fn write(&self, to: Writer) -> Writer {
        let numbers = [
            self.min_version,
            self.max_version,
            self.max_region,
            self.max_ring_to_client,
            self.max_ring_to_server,
        ];
        let to = numbers.iter().fold(to.put(&self.name.0), |to, number| to.put(&number.to_ne_bytes()));
        to.put(&[self.max_log2_ring_size])
    }
}

impl Init {
    fn read(from: &mut Reader<'_>) -> Init {
        Init { version: from.u16(), id: from.u32(), mode: from.u8(), secret: from.text(), name: from.text() }
    }

    fn write(&self, to: Writer) -> Writer {
        let to = to.put(&self.version.to_ne_bytes()).put(&self.id.to_ne_bytes());
        to.put(&[self.mode]).put(&self.secret.0).put(&self.name.0)
    }
}

impl AddRing {
    fn read(from: &mut Reader<'_>) -> AddRing {
        AddRing {
            to_server: from.u16() & TO_SERVER != 0,
            index: from.u16(),
            region: from.u16(),
            offset: from.u32(),
            log2_size: from.u8(),
            private_header: from.u16(),
        }
    }

    fn write(&self, to: Writer) -> Writer {
        let flags = if self.to_server { TO_SERVER } else { 0 };
        let to = [flags, self.index, self.region].iter().fold(to, |to, n| to.put(&n.to_ne_bytes()));
        let to = to.put(&self.offset.to_ne_bytes()).put(&[self.log2_size]);
        to.put(&self.private_header.to_ne_bytes())
    }
}

#[cfg(test)]
mod tests;
