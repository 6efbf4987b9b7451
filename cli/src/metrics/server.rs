//! The answers to scrapers. A slow, silent or hostile scraper costs a thread's time and 8 KiB, and does not affect
//! others.

use super::address::Address;
use super::page::Format;
use super::request::{Request, TOO_LARGE};
use super::source::Source;
use crate::connections::{Connections, Slot};
use crate::control::Socket;
use crate::delivery::{self, Patience, is_late};
use crate::failure::Failure;
use crate::listening::{Others, Server, Service, TICK};
use netmem::system::errno::descriptor_remedy_of;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Maximum bytes of a request.
const REQUEST: usize = 8192;
/// The maximum time for a whole request to arrive, and for a whole answer to leave.
const ASKING: Duration = Duration::from_secs(2);
const TAKING: Duration = Duration::from_secs(5);
/// After this time, a connection whose answer is not read may be given up for another one.
const UNREAD: Duration = Duration::from_secs(1);
const PATIENCE: Patience = Patience { whole: TAKING, unread: TAKING, over: Duration::ZERO };

/// The statuses of a request that was not whole in time, and of a connection for which there is no slot.
const LATE: &str = "408 Request Timeout";
const BUSY: &str = "503 Service Unavailable";

/// A listening socket.
pub enum Listener {
    Tcp(TcpListener),
    Unix(Socket),
}

/// A scraper's connection.
trait Stream: Read + Write + Send + 'static {
    fn set_up(&self) -> io::Result<()>;
    fn patience(&self, read: Duration, write: Duration) -> io::Result<()>;
}

macro_rules! stream {
    ($kind:ty) => {
        impl Stream for $kind {
            fn set_up(&self) -> io::Result<()> {
                self.set_nonblocking(false)
            }

            fn patience(&self, read: Duration, write: Duration) -> io::Result<()> {
                self.set_read_timeout(Some(read)).and_then(|()| self.set_write_timeout(Some(write)))
            }
        }
    };
}

stream!(TcpStream);
stream!(UnixStream);

/// The listening socket for scrapers, and the source of its answers.
struct Metrics {
    listener: Listener,
    source: Source,
    connections: Connections,
}

/// An accepted connection.
struct Scraper {
    stream: Box<dyn Stream>,
    slot: Slot,
}

impl Listener {
    fn at(address: &Address) -> Result<Listener, Failure> {
        match address {
            Address::Unix(path) => Socket::bind(path, "metrics socket").map(Listener::Unix),
            Address::Tcp(address) => {
                let listener = TcpListener::bind(address)
                    .and_then(|listener| listener.set_nonblocking(true).map(|()| listener));
                listener.map(Listener::Tcp).map_err(|error| {
                    let remedy = match error.kind() {
                        ErrorKind::AddrInUse => ": another program listens there, give another port",
                        ErrorKind::AddrNotAvailable => ": give an address of this machine",
                        ErrorKind::PermissionDenied => ": give a port from 1024 on",
                        _ => descriptor_remedy_of(&error),
                    };
                    Failure::of_call(&error, format!("--metrics {address}: {error}{remedy}"))
                })
            }
        }
    }

    /// Returns its socket in the file system, if it has one.
    pub fn socket(&self) -> Option<&Socket> {
        match self {
            Listener::Unix(socket) => Some(socket),
            Listener::Tcp(_) => None,
        }
    }

    /// Returns a connection, and its address if it has one.
    fn accept(&self) -> io::Result<(Box<dyn Stream>, Option<IpAddr>)> {
        Ok(match self {
            Listener::Tcp(listener) => {
                let (stream, peer) = listener.accept()?;
                (Box::new(stream), Some(peer.ip()))
            }
            Listener::Unix(socket) => (Box::new(socket.listener.accept()?.0), None),
        })
    }
}

/// Listens at `address`.
///
/// # Errors
/// [`Failure::Input`] with the remedy, and [`Failure::NotNow`] if another program listens there or no descriptor is left.
pub fn bind(address: &Address) -> Result<Listener, Failure> {
    Listener::at(address)
}

/// Answers scrapers that connect, from `source`.
///
/// # Errors
/// [`Failure::Input`] if a thread cannot be started.
pub fn start(listener: Listener, source: Source) -> Result<Server, Failure> {
    Server::start(Metrics { listener, source, connections: Connections::new(Some(UNREAD)) })
}

impl Service for Metrics {
    type Connection = Scraper;
    const NAME: &'static str = "metrics";

    fn accept(&self) -> io::Result<Scraper> {
        let (stream, peer) = self.listener.accept()?;
        stream.set_up()?;
        Ok(Scraper { stream, slot: self.connections.add(peer, Instant::now()) })
    }

    fn admits(&self, Scraper { slot, .. }: &Scraper, is_full: bool) -> Result<(), Others> {
        self.connections.admits(slot, is_full, Instant::now())
    }

    fn serve(&self, Scraper { stream, slot }: &mut Scraper, over: &AtomicBool) {
        // A client that is gone needs no answer.
        let _ = serve(&mut **stream, &self.source, slot, over);
    }

    fn refuse(&self, Scraper { mut stream, .. }: Scraper, why: &str) {
        let _ = stream.patience(TICK, TICK);
        let _ = decline(&mut *stream, BUSY, why);
    }

    fn tick(&self) {
        self.source.sample();
    }
}

/// Reads one request and answers it.
fn serve(stream: &mut dyn Stream, source: &Source, slot: &Slot, over: &AtomicBool) -> io::Result<()> {
    let is_over = || over.load(Relaxed) || slot.is_given_up();
    let asked = request(stream, Instant::now() + ASKING, is_over)?;
    if !matches!(asked, Request::Refused(LATE)) {
        slot.has_asked(Instant::now());
    }
    match asked {
        Request::Scrape(format) => send(stream, &answer(source, format).concat(), is_over),
        Request::Headers(format) => send(stream, &answer(source, format)[0], is_over),
        Request::Refused(LATE) if slot.is_given_up() => {
            decline(stream, BUSY, "others are waiting, and no request has come: try again later")
        }
        Request::Refused(status) => decline(stream, status, "GET /metrics has the metrics"),
        Request::Unfinished => Ok(()),
    }
}

/// Returns the headers and the page of an answer.
fn answer(source: &Source, format: Format) -> [String; 2] {
    let page = source.page(format);
    let headers = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        format.content_type(),
        page.len()
    );
    [headers, page]
}

/// Reads a request that arrives before `until`. Returns `Unfinished` if the client is gone.
fn request(stream: &mut dyn Stream, until: Instant, is_over: impl Fn() -> bool) -> io::Result<Request> {
    let (mut said, mut chunk) = (Vec::with_capacity(1024), [0; 1024]);
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let is_over = left.is_zero() || is_over();
        // Bytes that have arrived are read, even if this thread stood still for longer than that.
        stream.patience(left.clamp(Duration::from_millis(1), TICK), TICK)?;
        match stream.read(&mut chunk) {
            Ok(0) => return Ok(Request::Unfinished),
            Ok(n) => said.extend_from_slice(&chunk[..n]),
            Err(error) if is_late(&error) => {}
            Err(error) => return Err(error),
        }
        match Request::of(&said) {
            Request::Unfinished if said.len() >= REQUEST => return Ok(Request::Refused(TOO_LARGE)),
            Request::Unfinished if is_over => return Ok(Request::Refused(LATE)),
            Request::Unfinished => {}
            request => return Ok(request),
        }
    }
}

/// Sends the whole text to a client that accepts it.
fn send(stream: &mut dyn Stream, text: &str, is_over: impl Fn() -> bool) -> io::Result<()> {
    stream.patience(TICK, TICK)?;
    delivery::send(stream, text.as_bytes(), PATIENCE, is_over)
}

/// Sends the reason why there are no metrics.
fn decline(stream: &mut dyn Stream, status: &str, why: &str) -> io::Result<()> {
    let body = format!("{status}: {why}\n");
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all([head, body].concat().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Found by reading: on a machine that stood still, a request that had arrived was answered by 408 and a reset.
    #[test]
    fn a_request_that_is_here_is_read_though_its_time_is_over() {
        let (mut asker, mut stream) = UnixStream::pair().expect("sockets");
        asker.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").expect("room");
        let asked = request(&mut stream, Instant::now(), || false).expect("it is read");
        assert_eq!(asked, Request::Scrape(Format::Classic));
        asker.write_all(b"GET /met").expect("room");
        let asked = request(&mut stream, Instant::now(), || false).expect("it is read");
        assert_eq!(asked, Request::Refused(LATE));
    }
}
