//! One connection, message by message. COLD.

use super::Sealing;
use super::error::Fault;
use super::message::{MESSAGE_LEN, Message};
use super::pair::Rings;
use crate::sys::seqpacket::{Connection, Received};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

/// How long a peer may take until packets flow.
const PATIENCE: Duration = Duration::from_secs(5);

/// What came of a look at the conversation.
#[derive(Debug)]
pub(super) enum Step {
    /// Nothing: it is the peer's turn.
    Wait,
    /// There may be more at once.
    Again,
    /// Packets flow from now on, over these rings, with the peer's interface of this name.
    Up(Vec<Rings>, String),
    /// It is over.
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

    /// The next message and the first descriptor that came with it; the others are closed.
    ///
    /// # Errors
    /// [`Fault`] for what is no message, a peer that is gone, and one that, unless we are `patient`, says nothing for long.
    pub(super) fn receive(&self, patient: bool) -> Result<Option<(Message, Option<OwnedFd>)>, Fault> {
        let mut room = [0; MESSAGE_LEN + 1];
        let received = if self.trusting {
            self.connection.receive_trusting(&mut room)
        } else {
            self.connection.receive(&mut room)
        };
        match received {
            Received::Stranger => Err(Fault::Stranger),
            Received::Message(len, descriptors) => {
                let message = Message::parse(&room[..len.min(room.len())])?;
                Ok(Some((message, descriptors.into_iter().next())))
            }
            Received::Nothing if !patient && self.began.elapsed() > PATIENCE => Err(Fault::Silent),
            Received::Nothing => Ok(None),
            Received::End => Err(Fault::Gone),
        }
    }

    /// Says something.
    ///
    /// # Errors
    /// [`Fault::Send`].
    pub(super) fn send(&self, message: &Message, descriptor: Option<&OwnedFd>) -> Result<(), Fault> {
        self.connection.send(&message.bytes(), descriptor.map(AsFd::as_fd)).map_err(Fault::Send)
    }

    /// Says that it is over, if that is of use.
    pub(super) fn end(&self, fault: &Fault) {
        if fault.is_told() {
            // It is over either way.
            let _ = self.send(&Message::disconnect(&fault.to_string()), None);
        }
    }
}
