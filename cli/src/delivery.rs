//! Sends answers to clients that may read slowly, or not at all.

use crate::stopwatch::Stopwatch;
use std::io::{self, ErrorKind, Write};
use std::time::Duration;

/// The maximum bytes of one write. The kernel takes more in pieces, and waits for the room of each by the timeout of its
/// own: a client that reads slowly would keep the call for as long as it likes.
const PART: usize = 16 << 10;

/// The time that a client has for an answer. Time in which the process stands still does not count.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// For the whole answer.
    pub whole: Duration,
    /// While it reads nothing.
    pub unread: Duration,
    /// For the rest, once the answer has lost its purpose.
    pub over: Duration,
}

/// Sends the whole answer. Writes to this stream must wait for [`TICK`](crate::listening::TICK) at most. `is_over` says whether the run is over, or
/// the connection is to end for another reason.
///
/// # Errors
/// [`TimedOut`](ErrorKind::TimedOut) if the client does not read it in time; the system's error.
pub fn send(
    stream: &mut (impl Write + ?Sized),
    answer: &[u8],
    patience: Patience,
    is_over: impl Fn() -> bool,
) -> io::Result<()> {
    let (mut whole, mut unread, mut over) = (Stopwatch::start(), Stopwatch::start(), None::<Stopwatch>);
    let mut rest = answer;
    while !rest.is_empty() {
        match stream.write(&rest[..rest.len().min(PART)]) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(n) => (rest, unread) = (&rest[n..], Stopwatch::start()),
            Err(error) if is_late(&error) => {}
            Err(error) => return Err(error),
        }
        let ending = is_over().then(|| over.get_or_insert_with(Stopwatch::start).look());
        let is_late = whole.look() >= patience.whole || unread.look() >= patience.unread;
        if !rest.is_empty() && (is_late || ending.is_some_and(|ending| ending >= patience.over)) {
            return Err(ErrorKind::TimedOut.into());
        }
    }
    Ok(())
}

/// Returns true if a call ended without a result, so that it is to be repeated.
pub fn is_late(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}
