//! pcapng: a section, its interfaces, and packets with their verdicts (draft-ietf-opsawg-pcapng).
//!
//! Written here because the type for unknown options is private in pcap-file 2, so that crate cannot write a
//! verdict.

use std::io::{self, Write};

/// Types of blocks.
const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const PACKET: u32 = 6;
/// Gives the byte order.
const MAGIC: u32 = 0x1a2b_3c4d;
const ETHERNET: u16 = 1;

/// Options: of every block, of a section, of an interface, of a packet.
const COMMENT: u16 = 1;
const PROGRAM: u16 = 4;
const NAME: u16 = 2;
const RESOLUTION: u16 = 9;
const MISSING: u16 = 4;
const ID: u16 = 5;
const QUEUE: u16 = 6;
const VERDICT: u16 = 7;

/// Time stamps in units of 10^-9 s.
const NANOSECONDS: u8 = 9;
/// The verdict's number is that of an XDP program.
const OF_XDP: u8 = 2;

/// A packet of a file.
#[derive(Debug, Default)]
pub struct Packet<'a> {
    /// The interface that it came in on, by its position in the file.
    pub interface: u32,
    /// Nanoseconds since 1970.
    pub time_ns: u64,
    /// Its original length.
    pub len: u32,
    /// Its first bytes.
    pub bytes: &'a [u8],
    /// The comment.
    pub comment: &'a str,
    /// Packets of the interface that are missing before it.
    pub missing: u64,
    /// A number that is different for each packet.
    pub id: u64,
    /// The queue that it came in on.
    pub queue: u32,
    /// The value that an XDP program would have returned (enum xdp_action).
    pub action: Option<u64>,
}

/// Writes the beginning of a file.
///
/// # Errors
/// The error of `to`.
pub fn section(to: &mut impl Write) -> io::Result<()> {
    let mut block = Block::new(SECTION);
    block.put(&MAGIC.to_ne_bytes());
    // Version 1.0, with an unknown length.
    block.put(&1_u16.to_ne_bytes());
    block.put(&0_u16.to_ne_bytes());
    block.put(&u64::MAX.to_ne_bytes());
    block.option(PROGRAM, concat!("netmem ", env!("CARGO_PKG_VERSION")).as_bytes());
    block.write(to)
}

/// Writes an Ethernet interface of this name. Interfaces are numbered in order.
///
/// # Errors
/// The error of `to`.
pub fn interface(to: &mut impl Write, name: &str) -> io::Result<()> {
    let mut block = Block::new(INTERFACE);
    block.put(&ETHERNET.to_ne_bytes());
    // Reserved, and no limit of a packet's length.
    block.put(&[0; 6]);
    block.option(NAME, name.as_bytes());
    block.option(RESOLUTION, &[NANOSECONDS]);
    block.write(to)
}

impl Packet<'_> {
    /// Writes the packet.
    ///
    /// # Errors
    /// The error of `to`.
    pub fn write(&self, to: &mut impl Write) -> io::Result<()> {
        let mut block = Block::new(PACKET);
        let [high, low] = [(self.time_ns >> 32) as u32, self.time_ns as u32];
        for word in [self.interface, high, low, self.bytes.len() as u32, self.len] {
            block.put(&word.to_ne_bytes());
        }
        block.put_padded(self.bytes);
        block.option(COMMENT, self.comment.as_bytes());
        if self.missing > 0 {
            block.option(MISSING, &self.missing.to_ne_bytes());
        }
        block.option(ID, &self.id.to_ne_bytes());
        block.option(QUEUE, &self.queue.to_ne_bytes());
        if let Some(action) = self.action {
            block.option(VERDICT, &[&[OF_XDP], &action.to_ne_bytes()[..]].concat());
        }
        block.write(to)
    }
}

/// A block that is being built: its type, room for its length, its body.
struct Block(Vec<u8>);

impl Block {
    fn new(kind: u32) -> Block {
        let mut block = Block(Vec::new());
        block.put(&kind.to_ne_bytes());
        block.put(&[0; 4]);
        block
    }

    fn put(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// Appends bytes, padded with zeros to a multiple of four.
    fn put_padded(&mut self, bytes: &[u8]) {
        self.put(bytes);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
    }

    /// Appends an option. A value that is too long for the length field is truncated.
    fn option(&mut self, code: u16, value: &[u8]) {
        let len = u16::try_from(value.len()).unwrap_or(u16::MAX);
        self.put(&code.to_ne_bytes());
        self.put(&len.to_ne_bytes());
        self.put_padded(&value[..usize::from(len)]);
    }

    /// Ends the options and writes the block.
    fn write(mut self, to: &mut impl Write) -> io::Result<()> {
        self.put(&[0; 4]);
        let len = self.0.len() as u32 + 4;
        self.0[4..8].copy_from_slice(&len.to_ne_bytes());
        self.put(&len.to_ne_bytes());
        to.write_all(&self.0)
    }
}
