//! The server side of the control socket. A slow, silent or hostile client costs its thread's time and the memory
//! of a line, and does not affect others.

use super::registry::Registry;
use super::request::{Answer, answer};
use super::socket::Socket;
use crate::connections::{Connections, Slot};
use crate::delivery::{self, Patience, is_late};
use crate::failure::Failure;
use crate::listening::{LATER, Others, Server, Service, TICK};
use crate::stopwatch::Stopwatch;
use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Maximum bytes of a line: the numbers of 3,000 recorded rings.
const LINE: usize = 64 << 10;
/// The maximum time between a client's requests.
const SILENCE: Duration = Duration::from_secs(60);
/// The time that a client has for an answer.
const PATIENCE: Patience =
    Patience { whole: Duration::from_secs(60), unread: Duration::from_secs(2), over: Duration::from_secs(2) };

/// The control socket of this process, and the registry from which it answers.
struct Control {
    socket: Socket,
    registry: Mutex<Registry>,
    connections: Connections,
}

/// An accepted connection.
struct Client {
    stream: UnixStream,
    slot: Slot,
}

/// Listens at `path`.
///
/// # Errors
/// As [`Socket::bind`].
pub fn bind(path: &Path) -> Result<Socket, Failure> {
    Socket::bind(path, "control socket")
}

/// Answers clients that connect to `socket` from `registry`.
///
/// # Errors
/// [`Failure::Input`] if no thread can be started.
pub fn start(socket: Socket, registry: Registry) -> Result<Server, Failure> {
    Server::start(Control { socket, registry: Mutex::new(registry), connections: Connections::new(None) })
}

impl Service for Control {
    type Connection = Client;
    const NAME: &'static str = "control socket";

    fn accept(&self) -> io::Result<Client> {
        let (stream, _) = self.socket.listener.accept()?;
        set_up(&stream)?;
        Ok(Client { stream, slot: self.connections.add(None, Instant::now()) })
    }

    fn admits(&self, Client { slot, .. }: &Client, is_full: bool) -> Result<(), Others> {
        self.connections.admits(slot, is_full, Instant::now())
    }

    fn serve(&self, Client { stream, slot }: &mut Client, over: &AtomicBool) {
        serve((stream, slot), &self.registry, SILENCE, over);
    }

    fn refuse(&self, Client { stream, .. }: Client, why: &str) {
        let _ = send(&stream, &Answer::Error(why.to_owned()), PATIENCE, &AtomicBool::new(true));
    }
}

/// Lets reads and writes wait for no longer than it takes to notice the end of the run.
fn set_up(stream: &UnixStream) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(TICK))?;
    stream.set_write_timeout(Some(TICK))
}

/// Answers a client's lines until it disconnects, sends no whole line within `silence`, sends too long a line, does not read
/// an answer, another client needs its slot, or the run ends.
fn serve(
    (stream, slot): (&UnixStream, &Slot),
    registry: &Mutex<Registry>,
    silence: Duration,
    over: &AtomicBool,
) {
    // Without its end a line is no request: a client that sends byte by byte would keep its slot.
    let (mut received, mut silent) = (Vec::new(), Stopwatch::start());
    let mut chunk = [0; 512];
    while !over.load(Relaxed) && silent.look() < silence {
        match (&*stream).read(&mut chunk) {
            Ok(0) => return,
            Ok(n) => received.extend_from_slice(&chunk[..n]),
            Err(error) if is_late(&error) => {}
            Err(_) => return,
        }
        while let Some(end) = received.iter().position(|&byte| byte == b'\n') {
            let line: Vec<u8> = received.drain(..=end).take(end).collect();
            slot.has_asked(Instant::now());
            // Each answer may take some time, and a client may have sent many requests.
            if over.load(Relaxed) || send(stream, &answer(registry, &line), PATIENCE, over).is_none() {
                return;
            }
            silent = Stopwatch::start();
        }
        if received.len() >= LINE {
            let why = format!("the line has more than {LINE} bytes: send a shorter one");
            let _ = send(stream, &Answer::Error(why), PATIENCE, over);
            return;
        }
        if slot.is_given_up() {
            let why = format!("others are waiting, and no request has come: {LATER}");
            let _ = send(stream, &Answer::Error(why), PATIENCE, over);
            return;
        }
    }
}

/// Sends an answer on one line. Returns None if the client did not read it in time.
fn send(mut stream: &UnixStream, answer: &Answer, patience: Patience, over: &AtomicBool) -> Option<()> {
    let mut line = serde_json::to_vec(answer).ok()?;
    line.push(b'\n');
    delivery::send(&mut stream, &line, patience, || over.load(Relaxed)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::client;
    use crate::control::record::Record;
    use crate::control::registry::tests::registry;
    use crate::listening::CONNECTIONS;
    use serde_json::{Value, json};
    use std::env;
    use std::io::{BufRead, BufReader, Write};
    use std::path::PathBuf;
    use std::sync::mpsc::channel;
    use std::thread;

    fn ask(path: &Path, request: &Value) -> Result<Vec<Record>, Failure> {
        client::ask(path, request, client::ANSWER_TIMEOUT)
    }

    fn served(name: &str) -> (Server, PathBuf) {
        let path = env::temp_dir().join(format!("netmem-server-{}-{name}", std::process::id()));
        (start(bind(&path).unwrap(), registry()).unwrap(), path)
    }

    #[test]
    fn clients_are_answered_line_by_line_and_the_socket_goes_with_the_server() {
        let (server, path) = served("lines");
        let stream = UnixStream::connect(&path).unwrap();
        (&stream).write_all(b"{\"get\":\"stat\",\"of\":\"things\"}\nnonsense\n{\"get\":").unwrap();
        let mut lines = BufReader::new(&stream).lines();
        assert_eq!(lines.next().unwrap().unwrap(), r#"{"ok":[{"name":"one","count":7}]}"#);
        assert!(lines.next().unwrap().unwrap().contains("not a request"));
        (&stream).write_all(b"\"keys\"}\n").unwrap();
        assert!(lines.next().unwrap().unwrap().contains("thing.size"));
        drop(server);
        assert!(lines.next().is_none_or(|line| line.is_err()), "the server is gone");
        assert!(!path.exists());
    }

    #[test]
    fn a_client_that_waits_for_a_reload_delays_no_other_client() {
        let path = env::temp_dir().join(format!("netmem-server-{}-reload", std::process::id()));
        let (answered, wait) = channel();
        let (mut registry, wait) = (registry(), Mutex::new(wait));
        registry.set_reload(move || {
            wait.lock().unwrap().recv().map(|()| vec!["rules"]).map_err(|error| error.to_string())
        });
        let _server = start(bind(&path).unwrap(), registry).unwrap();
        let reload = thread::spawn({
            let path = path.clone();
            move || ask(&path, &json!({"do": "reload"}))
        });
        // The closed connection counts as the other client's answer, whichever of the two comes first.
        assert_eq!(ask(&path, &json!({"get": "keys"})).unwrap().len(), 3);
        answered.send(()).unwrap();
        let overridden = Record::default().with("overridden", "rules");
        assert_eq!(reload.join().unwrap(), Ok(vec![overridden]));
    }

    #[test]
    fn a_line_without_an_end_is_cut_off_and_one_client_too_many_is_refused() {
        let (_server, path) = served("flood");
        let stream = UnixStream::connect(&path).unwrap();
        // No more, since bytes that the server does not read reset the connection, and the answer may be lost then.
        (&stream).write_all(&[b'x'; LINE]).unwrap();
        let mut said = String::new();
        BufReader::new(&stream).read_line(&mut said).unwrap();
        assert!(said.contains(&format!("more than {LINE} bytes")), "{said}");
        let asked: Vec<_> = (0..CONNECTIONS).map(|_| asking(&path)).collect();
        let refused = (0..200).any(|_| {
            thread::sleep(Duration::from_millis(20));
            matches!(ask(&path, &json!({"get": "keys"})), Err(Failure::NotNow(why)) if why.ends_with(LATER))
        });
        assert!(refused, "eight clients are all there is room for");
        drop(asked);
        assert!(is_answered(&path), "their places are free again");
    }

    /// A client that has got an answer.
    fn asking(path: &Path) -> UnixStream {
        loop {
            let stream = UnixStream::connect(path).unwrap();
            (&stream).write_all(b"{\"get\":\"keys\"}\n").unwrap();
            let mut said = String::new();
            BufReader::new(&stream).read_line(&mut said).unwrap();
            if said.starts_with("{\"ok\"") {
                return stream;
            }
        }
    }

    /// Returns whether a client is answered, sooner or later.
    fn is_answered(path: &Path) -> bool {
        (0..200).any(|_| {
            thread::sleep(Duration::from_millis(20));
            ask(path, &json!({"get": "keys"})).is_ok()
        })
    }

    /// Seen: eight connections that sent nothing kept `netmem stat` out for a minute.
    #[test]
    fn a_client_is_answered_in_the_place_of_the_one_that_has_been_silent_for_longest() {
        let (_server, path) = served("silent");
        let asked = asking(&path);
        let silent: Vec<_> = (1..CONNECTIONS).map(|_| UnixStream::connect(&path).unwrap()).collect();
        assert!(is_answered(&path), "one of them has left");
        let mut said = String::new();
        BufReader::new(&silent[0]).read_to_string(&mut said).unwrap();
        assert!(said.contains("no request has come: try again later"), "{said}");
        (&asked).write_all(b"{\"get\":\"keys\"}\n").unwrap();
        BufReader::new(&asked).read_line(&mut said).unwrap();
        assert!(said.contains("thing.size"), "a client that has asked stays: {said}");
    }

    /// Found in a review: the run waited at its end for a client that read slowly. The kernel began the
    /// time limit of the write again whenever the client read some bytes, and the server did not notice the end of the run.
    #[test]
    fn a_client_that_reads_slowly_delays_the_end_of_the_run_only_for_a_while() {
        let reads = |patience: Patience, is_over: bool| {
            let (stream, mut client) = UnixStream::pair().unwrap();
            set_up(&stream).unwrap();
            // More than a minute of this client.
            let answer = Answer::Error("x".repeat(32 << 20));
            let reader = thread::spawn(move || {
                let mut part = [0; 4096];
                while client.read(&mut part).is_ok_and(|n| n > 0) {
                    thread::sleep(Duration::from_millis(10));
                }
            });
            let sent = send(&stream, &answer, patience, &AtomicBool::new(is_over));
            drop(stream);
            reader.join().unwrap();
            sent
        };
        let short = Duration::from_millis(300);
        assert_eq!(reads(Patience { over: short, ..PATIENCE }, true), None);
        assert_eq!(reads(Patience { whole: short, ..PATIENCE }, false), None);
    }

    /// Found in a review: each byte began a new minute, so that eight such clients kept all slots.
    #[test]
    fn a_client_that_drips_a_line_without_end_loses_its_slot() {
        let (stream, mut client) = UnixStream::pair().unwrap();
        set_up(&stream).unwrap();
        let drip = thread::spawn(move || {
            (0..4000).any(|_| {
                thread::sleep(Duration::from_millis(5));
                client.write_all(b"x").is_err()
            })
        });
        let slot = Connections::new(None).add(None, Instant::now());
        let over = AtomicBool::new(false);
        serve((&stream, &slot), &Mutex::new(registry()), Duration::from_millis(300), &over);
        drop(stream);
        assert!(drip.join().unwrap(), "it was served until it ended");
    }

    #[test]
    fn a_client_that_reads_nothing_is_given_up() {
        let (stream, _client) = UnixStream::pair().unwrap();
        set_up(&stream).unwrap();
        let patience = Patience { unread: Duration::from_millis(300), ..PATIENCE };
        let answer = Answer::Error("x".repeat(4 << 20));
        assert_eq!(send(&stream, &answer, patience, &AtomicBool::new(false)), None);
    }
}
