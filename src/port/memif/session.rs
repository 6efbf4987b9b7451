//! One connection, by messages. COLD.

use super::Sealing;
use super::error::Fault;
use super::message::{MESSAGE_LEN, Message};
use super::pair::Rings;
use crate::sys::seqpacket::{Connection, PeerDescriptor, Received};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

/// How long a peer may take until packets flow.
const PEER_TIMEOUT: Duration = Duration::from_secs(5);

/// The result of one step of the conversation.
#[derive(Debug)]
pub(super) enum Step {
    /// Nothing: the peer has to send the next message.
    Wait,
    /// Another step may be possible at once.
    Again,
    /// Packets flow from now on, over these rings. The name is that of the peer's interface.
    Up(Vec<Rings>, String),
    /// The connection has ended.
    Down(Fault),
}

/// A connection and when it began.
#[derive(Debug)]
pub(super) struct Session {
    connection: Connection,
    began: Instant,
    /// The peer's files are mapped whatever they are ([`Sealing::Trusted`]).
    trusting: bool,
}

impl Session {
    pub(super) fn new(connection: Connection, sealing: Sealing) -> Session {
        Session { connection, began: Instant::now(), trusting: sealing == Sealing::Trusted }
    }

    pub(super) fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Returns the next message and the first descriptor that came with it. The others are closed.
    ///
    /// # Errors
    /// Returns [`Fault`] for bytes that are not a message, for a peer that is gone, and, unless we are `patient`, for a
    /// peer that has sent nothing for too long.
    pub(super) fn receive(&self, patient: bool) -> Result<Option<(Message, Option<PeerDescriptor>)>, Fault> {
        let mut room = [0; MESSAGE_LEN + 1];
        let received = if self.trusting {
            self.connection.receive_trusting(&mut room)
        } else {
            self.connection.receive(&mut room)
        };
        match received {
            Received::UnknownDescriptor => Err(Fault::UnknownDescriptor),
            Received::NoRoom => Err(Fault::NoRoomForDescriptor),
            Received::Message(len, descriptors) => {
                let of_peer = |descriptor| self.connection.peer_descriptor(descriptor);
                // Each of them, also those that are not returned, is closed on another thread.
                let descriptors: Vec<PeerDescriptor> = descriptors.into_iter().map(of_peer).collect();
                let message = Message::parse(&room[..len.min(room.len())])?;
                Ok(Some((message, descriptors.into_iter().next())))
            }
            Received::Nothing if !patient && self.began.elapsed() > PEER_TIMEOUT => Err(Fault::Silent),
            Received::Nothing => Ok(None),
            Received::End => Err(Fault::Gone),
        }
    }

    /// Sends a message.
    ///
    /// # Errors
    /// Returns [`Fault::Send`].
    pub(super) fn send(&self, message: &Message, descriptor: Option<&OwnedFd>) -> Result<(), Fault> {
        self.connection.send(&message.bytes(), descriptor.map(AsFd::as_fd)).map_err(Fault::Send)
    }

    /// Ends the conversation, and sends the reason if the peer can use it.
    pub(super) fn end(&self, fault: &Fault) {
        if fault.is_told() {
            // The connection ends in either case.
            let _ = self.send(&Message::disconnect(&fault.to_string()), None);
        }
    }
}
