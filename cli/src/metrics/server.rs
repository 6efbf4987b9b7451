//! Who listens and answers, on threads of its own. A scraper that is slow, silent or hostile costs a thread's time and 8 KiB, and
//! nobody else anything.

use super::address::Address;
use super::request::{Request, TOO_LARGE};
use super::source::Source;
use crate::control::Socket;
use crate::failure::Failure;
use crate::threads;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Scrapers at once; one more is told so and sent away.
const SCRAPERS: usize = 8;
/// Bytes of a request at most.
const REQUEST: usize = 8192;
/// How often it is looked who has come, and workers are asked for a sample.
const TICK: Duration = Duration::from_millis(20);
/// How long all of a request may take to come, and all of an answer to go.
const ASKING: Duration = Duration::from_secs(2);
const TAKING: Duration = Duration::from_secs(5);

/// Who answers scrapers; dropped, nobody does.
pub struct Server {
    over: Arc<AtomicBool>,
    listening: Option<JoinHandle<()>>,
}

/// What listens.
enum Listener {
    Tcp(TcpListener),
    Unix(Socket),
}

/// A scraper's connection.
trait Stream: Read + Write + Send + 'static {
    fn set_up(&self) -> io::Result<()>;
    fn patience(&self, read: Duration, write: Duration) -> io::Result<()>;
    fn end(&self);
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

            fn end(&self) {
                // One that is gone has ended.
                let _ = self.shutdown(Shutdown::Write);
            }
        }
    };
}

stream!(TcpStream);
stream!(UnixStream);

/// What all threads share.
struct Shared {
    source: Source,
    scrapers: AtomicUsize,
    over: Arc<AtomicBool>,
}

impl Listener {
    fn bind(address: &Address) -> Result<Listener, String> {
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
                        _ => "",
                    };
                    format!("--metrics {address}: {error}{remedy}")
                })
            }
        }
    }

    fn accept(&self) -> io::Result<Box<dyn Stream>> {
        Ok(match self {
            Listener::Tcp(listener) => Box::new(listener.accept()?.0),
            Listener::Unix(socket) => Box::new(socket.listener.accept()?.0),
        })
    }
}

impl Server {
    /// Listens at `address` and answers from `source`.
    ///
    /// # Errors
    /// [`Failure::Input`] with the remedy.
    pub fn start(address: &Address, source: Source) -> Result<Server, Failure> {
        let listener = Listener::bind(address).map_err(Failure::Input)?;
        let over = Arc::new(AtomicBool::new(false));
        let shared = Arc::new(Shared { source, scrapers: AtomicUsize::new(0), over: Arc::clone(&over) });
        let listening =
            thread::Builder::new().name("metrics".into()).spawn(move || listen(&listener, &shared));
        let listening = listening.map_err(|error| threads::none("the metrics", &error))?;
        Ok(Server { over, listening: Some(listening) })
    }
}

impl Drop for Server {
    /// Waits for the threads, and with them for the handles of what they read.
    fn drop(&mut self) {
        // Relaxed: the joins order everything else.
        self.over.store(true, Relaxed);
        if let Some(listening) = self.listening.take() {
            let _ = listening.join();
        }
    }
}

/// Takes scrapers until it is over, then waits for those that are there.
fn listen(listener: &Listener, shared: &Arc<Shared>) {
    let (mut serving, mut sampled): (Vec<JoinHandle<()>>, _) = (Vec::new(), Instant::now());
    while !shared.over.load(Relaxed) {
        serving.retain(|one| !one.is_finished());
        if sampled.elapsed() >= TICK {
            shared.source.sample();
            sampled = Instant::now();
        }
        match listener.accept() {
            Ok(stream) => serving.extend(take(stream, shared)),
            // Nobody there, or one that has gone again; out of descriptors is over when one goes.
            Err(_) => thread::sleep(TICK),
        }
    }
    serving.into_iter().for_each(|one| drop(one.join()));
}

/// A thread for one scraper, if there is room.
fn take(mut stream: Box<dyn Stream>, shared: &Arc<Shared>) -> Option<JoinHandle<()>> {
    // What a socket accepted is as its listener on some systems: a short answer fits into its buffer all the same.
    if shared.scrapers.load(Relaxed) >= SCRAPERS {
        let _ = stream.patience(TICK, TICK);
        let _ = refuse(&mut *stream, "503 Service Unavailable");
        return None;
    }
    stream.set_up().ok()?;
    // Only this thread adds.
    shared.scrapers.fetch_add(1, Relaxed);
    let its = Arc::clone(shared);
    let thread = thread::Builder::new().name("metrics scraper".into()).spawn(move || {
        // One that went away need not be told.
        let _ = serve(&mut *stream, &its);
        its.scrapers.fetch_sub(1, Relaxed);
    });
    if thread.is_err() {
        shared.scrapers.fetch_sub(1, Relaxed);
    }
    thread.ok()
}

/// Reads one request and answers it.
fn serve(stream: &mut dyn Stream, shared: &Shared) -> io::Result<()> {
    let (until, mut said, mut chunk) = (Instant::now() + ASKING, Vec::with_capacity(1024), [0; 1024]);
    let request = loop {
        match Request::of(&said) {
            Request::Unfinished if said.len() >= REQUEST => break Request::Refused(TOO_LARGE),
            Request::Unfinished => {}
            request => break request,
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || shared.over.load(Relaxed) {
            break Request::Refused("408 Request Timeout");
        }
        stream.patience(left.min(TICK), TICK)?;
        match stream.read(&mut chunk) {
            Ok(0) => return Ok(()),
            Ok(n) => said.extend_from_slice(&chunk[..n]),
            Err(error) if is_late(&error) => {}
            Err(error) => return Err(error),
        }
    };
    drop(said);
    match request {
        Request::Scrape(format) => {
            let page = shared.source.page(format);
            let head = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                format.content_type(),
                page.len()
            );
            send(stream, &[head, page].concat(), &shared.over)?;
            stream.end();
            Ok(())
        }
        Request::Refused(why) => refuse(stream, why),
        Request::Unfinished => Ok(()),
    }
}

fn is_late(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

/// Sends all of a text to one that takes it.
fn send(stream: &mut dyn Stream, text: &str, over: &AtomicBool) -> io::Result<()> {
    let (until, mut rest) = (Instant::now() + TAKING, text.as_bytes());
    stream.patience(TICK, TICK)?;
    while !rest.is_empty() && Instant::now() < until && !over.load(Relaxed) {
        match stream.write(rest) {
            Ok(n) => rest = &rest[n..],
            Err(error) if is_late(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Says why there are no metrics.
fn refuse(stream: &mut dyn Stream, why: &str) -> io::Result<()> {
    let body = format!("{why}: GET /metrics has the metrics\n");
    let head = format!(
        "HTTP/1.1 {why}\r\nContent-Type: text/plain\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all([head, body].concat().as_bytes())?;
    stream.end();
    Ok(())
}
