//! What a client offers a server: memory with rings, and buffers or its own frames. COLD.

use super::buffers::{Buffers, Copying};
use super::error::Fault;
use super::message::{AddRegion, AddRing, Message};
use super::pair::{End, FRAMES, Rings};
use super::ring::{Lending, ring_bytes};
use crate::limits::{CACHE_LINE, PAGE_SIZE};
use crate::sys::errno::descriptor_remedy_of;
use crate::sys::memfd::SharedMemory;
use crate::sys::region::Region;
use crate::sys::shared_event::SharedEvent;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// Rings and memory for one connection. They are new for each connection, so that no former peer can reach them.
#[derive(Debug)]
pub(super) struct Offer {
    /// The messages to the server in order, each with its descriptor.
    pub(super) messages: Vec<(Message, OwnedFd)>,
    /// Our ends.
    pub(super) rings: Vec<Rings>,
}

#[cfg(test)]
thread_local! {
    /// Number of offers that this thread has made.
    pub(super) static MADE: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
}

/// Bytes of shared memory for this number of queues, with buffers of `buffer` bytes; 0 if there are none.
pub(super) fn bytes(queues: u16, log2_size: u8, buffer: usize) -> usize {
    let rings = 2 * usize::from(queues);
    (rings * stride(log2_size)).next_multiple_of(PAGE_SIZE) + rings * (buffer << log2_size)
}

/// What keeps this process from making the memory and its events.
fn lacks(error: io::Error) -> Fault {
    Fault::Memory(format!("{error}{}", descriptor_remedy_of(&error)))
}

/// Bytes from one ring to the next.
fn stride(log2_size: u8) -> usize {
    ring_bytes(log2_size).next_multiple_of(CACHE_LINE)
}

impl Offer {
    /// Makes rings for `queues` queues. If `lent` is Some, its frames are lent. Otherwise bytes are copied through
    /// buffers of `frame_size`.
    pub(super) fn new(
        queues: u16,
        log2_size: u8,
        lent: Option<&Region>,
        frame_size: usize,
    ) -> Result<Offer, Fault> {
        #[cfg(test)]
        MADE.set(MADE.get() + 1);
        let buffer = if lent.is_none() { frame_size } else { 0 };
        let len = bytes(queues, log2_size, buffer);
        let memory = SharedMemory::new("netmem-memif", len).map_err(|errno| lacks(errno.into()))?;
        let mut offer = Offer { messages: Vec::new(), rings: Vec::new() };
        offer.say(Message::AddRegion(AddRegion { index: 0, size: len as u64 }), memory.as_fd())?;
        if let Some((region, file)) = lent.and_then(|region| Some((region, region.file()?))) {
            let said = AddRegion { index: FRAMES, size: region.len() as u64 };
            offer.say(Message::AddRegion(said), file)?;
        }
        let place = Place { memory, queues, log2_size, buffer };
        for queue in 0..queues {
            offer.rings.push(place.rings(queue)?);
        }
        for to_server in [true, false] {
            for queue in 0..queues {
                offer.say_ring(&place, queue, to_server)?;
            }
        }
        Ok(offer)
    }

    fn say(&mut self, message: Message, descriptor: BorrowedFd<'_>) -> Result<(), Fault> {
        let copy = descriptor.try_clone_to_owned().map_err(lacks)?;
        self.messages.push((message, copy));
        Ok(())
    }

    fn say_ring(&mut self, place: &Place, queue: u16, to_server: bool) -> Result<(), Fault> {
        let rings = &self.rings[usize::from(queue)];
        let event = if to_server { &rings.peers_bell } else { &rings.bell };
        let descriptor = event.as_fd().try_clone_to_owned().map_err(lacks)?;
        let offset = place.ring_at(queue, to_server) as u32;
        let log2_size = place.log2_size;
        let ring = AddRing { to_server, index: queue, region: 0, offset, log2_size, private_header: 0 };
        self.messages.push((Message::AddRing(ring), descriptor));
        Ok(())
    }
}

/// Where rings and buffers lie in the memory.
struct Place {
    memory: Arc<SharedMemory>,
    queues: u16,
    log2_size: u8,
    /// Bytes of a buffer; 0 if frames are lent.
    buffer: usize,
}

impl Place {
    /// Returns the number of a ring among all. Those to the server come first.
    fn number(&self, queue: u16, to_server: bool) -> usize {
        usize::from(queue) + if to_server { 0 } else { usize::from(self.queues) }
    }

    fn ring_at(&self, queue: u16, to_server: bool) -> usize {
        self.number(queue, to_server) * stride(self.log2_size)
    }

    fn end(&self, queue: u16, to_server: bool) -> Result<End, Fault> {
        let offset = self.ring_at(queue, to_server);
        let log2_size = self.log2_size;
        let no_ring = Fault::NoRing { region: 0, offset: offset as u32, log2_size };
        let ring = Lending::new(&self.memory, offset as u64, log2_size).ok_or(no_ring)?;
        if self.buffer == 0 {
            return Ok(End::Lent(ring));
        }
        let rings = (2 * usize::from(self.queues) * stride(log2_size)).next_multiple_of(PAGE_SIZE);
        let first = rings + self.number(queue, to_server) * (self.buffer << log2_size);
        let buffers = Buffers { first: first as u32, size: self.buffer as u32 };
        Ok(End::Copied(Copying::Own { ring, memory: Arc::clone(&self.memory), buffers }))
    }

    fn rings(&self, queue: u16) -> Result<Rings, Fault> {
        let event = || SharedEvent::new().map_err(lacks);
        Ok(Rings {
            rx: self.end(queue, false)?,
            tx: self.end(queue, true)?,
            peers_bell: event()?,
            bell: event()?,
            unannounced: false,
        })
    }
}
