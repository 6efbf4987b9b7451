//! The server side of the control socket. A slow, silent or hostile client costs its thread's time and the memory
//! of a line, and does not affect others.

use super::registry::Registry;
use super::request::{Answer, answer};
use super::socket::Socket;
use crate::failure::Failure;
use crate::listening::{Server, Service, TICK};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Maximum bytes of a line: the numbers of 3,000 recorded rings.
const LINE: usize = 64 << 10;
/// The maximum time that a client may send nothing, or take to accept an answer.
const SILENCE: Duration = Duration::from_secs(60);
const DEAF: Duration = Duration::from_secs(2);

/// The control socket of this process, and the registry from which it answers.
struct Control {
    socket: Socket,
    registry: Mutex<Registry>,
}

/// Listens at `path`.
///
/// # Errors
/// [`Failure::Input`] with the remedy.
pub fn bind(path: &Path) -> Result<Socket, Failure> {
    Socket::bind(path, "control socket").map_err(Failure::Input)
}

/// Answers clients that connect to `socket` from `registry`.
///
/// # Errors
/// [`Failure::Input`] if no thread can be started.
pub fn start(socket: Socket, registry: Registry) -> Result<Server, Failure> {
    Server::start(Control { socket, registry: Mutex::new(registry) })
}

impl Service for Control {
    type Connection = UnixStream;
    const NAME: &'static str = "control socket";

    fn accept(&self) -> io::Result<UnixStream> {
        let (stream, _) = self.socket.listener.accept()?;
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(Some(TICK))?;
        stream.set_write_timeout(Some(DEAF))?;
        Ok(stream)
    }

    fn serve(&self, stream: &mut UnixStream, over: &AtomicBool) {
        serve(stream, &self.registry, over);
    }

    fn refuse(&self, stream: UnixStream, why: &str) {
        let _ = send(&stream, &Answer::Error(why.to_owned()), &AtomicBool::new(true));
    }
}

/// Answers a client's lines until it disconnects, is silent for too long, sends too long a line, or the run ends.
fn serve(stream: &UnixStream, registry: &Mutex<Registry>, over: &AtomicBool) {
    let (mut received, mut last_received) = (Vec::new(), Instant::now());
    let mut chunk = [0; 512];
    while !over.load(Relaxed) && last_received.elapsed() < SILENCE {
        match (&*stream).read(&mut chunk) {
            Ok(0) => return,
            Ok(n) => received.extend_from_slice(&chunk[..n]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => continue,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(_) => return,
        }
        last_received = Instant::now();
        while let Some(end) = received.iter().position(|&byte| byte == b'\n') {
            let line: Vec<u8> = received.drain(..=end).take(end).collect();
            let answer = answer(registry, &line);
            if send(stream, &answer, over).is_none() {
                return;
            }
        }
        if received.len() >= LINE {
            let _ = send(
                stream,
                &Answer::Error(format!("the line has more than {LINE} bytes: send a shorter one")),
                over,
            );
            return;
        }
    }
}

/// Sends an answer on one line. Returns None if the client did not accept it, or not within [`DEAF`] after the end
/// of the run.
fn send(mut stream: &UnixStream, answer: &Answer, over: &AtomicBool) -> Option<()> {
    let mut line = serde_json::to_vec(answer).ok()?;
    line.push(b'\n');
    let (mut rest, mut until) = (&line[..], None::<Instant>);
    while !rest.is_empty() {
        match stream.write(rest) {
            Ok(n) => rest = &rest[n..],
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return None,
        }
        let now = Instant::now();
        if over.load(Relaxed) && now >= *until.get_or_insert(now + DEAF) {
            return None;
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::client::ask;
    use crate::control::record::Record;
    use crate::control::registry::tests::registry;
    use crate::listening::CONNECTIONS;
    use std::env;
    use std::io::{BufRead, BufReader};
    use std::path::PathBuf;
    use std::sync::mpsc::channel;
    use std::thread;

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
            move || ask(&path, &serde_json::json!({"do": "reload"}))
        });
        // The closed connection counts as the other client's answer, whichever of the two comes first.
        assert_eq!(ask(&path, &serde_json::json!({"get": "keys"})).unwrap().len(), 3);
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
        let silent: Vec<_> = (0..CONNECTIONS).map(|_| UnixStream::connect(&path).unwrap()).collect();
        let refused = (0..200).find_map(|_| {
            thread::sleep(Duration::from_millis(20));
            ask(&path, &serde_json::json!({"get": "keys"}))
                .err()
                .filter(|why| why.contains("try again later"))
        });
        assert!(refused.is_some(), "eight silent clients are all there is room for");
        drop(silent);
        let again = (0..200).any(|_| {
            thread::sleep(Duration::from_millis(20));
            ask(&path, &serde_json::json!({"get": "keys"})).is_ok()
        });
        assert!(again, "their places are free again");
    }
}
