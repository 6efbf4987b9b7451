//! The client of a running `netmem forward`.

use super::record::Record;
use super::request::Answer;
use crate::log::{self, Level};
use netmem::system::errno::descriptor_remedy_or;
use netmem::system::stream::connect_at_once;
use serde_json::Value;
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

/// The time limit of a whole answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
/// The time limit of a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The interval at which a connection is tried again.
const TICK: Duration = Duration::from_millis(20);
/// The time after which a line says that the answer is late.
const PAUSE: Duration = Duration::from_secs(3);
/// Maximum bytes of an answer. All routes of the Internet take less.
const ANSWER_MAX: usize = 256 << 20;

/// A connection to a control socket.
#[derive(Debug)]
pub struct Client {
    path: PathBuf,
    stream: UnixStream,
}

impl Client {
    /// Connects to the control socket at `path`.
    ///
    /// # Errors
    /// One line with the remedy.
    pub fn connect(path: &Path) -> Result<Client, String> {
        Client::connect_within(path, CONNECT_TIMEOUT)
    }

    /// As [`Client::connect`], and waits for this time until a listener has room for one more.
    pub(super) fn connect_within(path: &Path, patience: Duration) -> Result<Client, String> {
        let at = path.display();
        let until = Instant::now() + patience;
        loop {
            match connect_at_once(path) {
                Ok(stream) => return Ok(Client { path: path.to_owned(), stream }),
                Err(error) if error.kind() != ErrorKind::WouldBlock => {
                    let otherwise =
                        format!("; check that netmem forward --control {at} is running as your user");
                    return Err(format!(
                        "control socket {at}: {error}{}",
                        descriptor_remedy_or(&error, &otherwise)
                    ));
                }
                Err(_) if Instant::now() >= until => {
                    return Err(format!(
                        "control socket {at}: too many programs wait there, and none was accepted within {patience:?}: end \
                         some of them, or the program that listens"
                    ));
                }
                Err(_) => thread::sleep(TICK),
            }
        }
    }

    /// Sends one request and waits for its answer.
    ///
    /// # Errors
    /// One line: the server's error, or the reason why there is no answer.
    pub fn ask(&self, request: &Value) -> Result<Vec<Record>, String> {
        let at = self.path.display();
        let said = exchange(&self.stream, request, (ANSWER_TIMEOUT, ANSWER_MAX));
        let said = said.map_err(|error| format!("control socket {at}: {error}"))?;
        match serde_json::from_slice(&said) {
            Ok(Answer::Ok(records)) => Ok(records.into_iter().map(printable_record).collect()),
            Ok(Answer::Error(why)) => Err(printable(&why)),
            Err(error) => Err(format!("control socket {at}: cannot read the answer: {error}")),
        }
    }
}

/// Sends one request to `path` and waits for its answer.
///
/// # Errors
/// Those of [`Client::connect`] and [`Client::ask`].
pub fn ask(path: &Path, request: &Value) -> Result<Vec<Record>, String> {
    Client::connect(path)?.ask(request)
}

/// Sends the request, and reads until the end of a line, or until the server closes the connection.
fn exchange(
    mut stream: &UnixStream,
    request: &Value,
    (patience, most): (Duration, usize),
) -> io::Result<Vec<u8>> {
    let until = Instant::now() + patience;
    stream.set_write_timeout(Some(patience))?;
    // If the server rejects the client without reading, there is still an answer to read.
    let _ = stream.write_all(format!("{request}\n").as_bytes());
    let (mut said, mut chunk) = (Vec::new(), vec![0; 64 << 10]);
    let mut late_at = Some(Instant::now() + PAUSE);
    while said.last() != Some(&b'\n') {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::Error::new(
                ErrorKind::TimedOut,
                format!("no complete answer within {patience:?}"),
            ));
        }
        if late_at.is_some_and(|until| Instant::now() >= until) {
            log::say(Level::Info, "netmem: still no answer; the run may be stopped or very busy");
            late_at = None;
        }
        stream.set_read_timeout(Some(left.min(PAUSE)))?;
        match stream.read(&mut chunk) {
            Ok(0) => break,
            Ok(n) => said.extend_from_slice(&chunk[..n]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(error) => return Err(error),
        }
        if said.len() > most {
            return Err(io::Error::new(
                ErrorKind::InvalidData,
                format!("the answer has more than {most} bytes"),
            ));
        }
    }
    Ok(said)
}

/// Returns a text without control characters, which could disturb a terminal.
pub fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

fn printable_record(Record(values): Record) -> Record {
    let clean = |(name, value): (String, Value)| (printable(&name), printable_value(value));
    Record(values.into_iter().map(clean).collect())
}

fn printable_value(value: Value) -> Value {
    match value {
        Value::String(text) => printable(&text).into(),
        Value::Array(values) => values.into_iter().map(printable_value).collect(),
        Value::Object(values) => {
            values.into_iter().map(|(name, value)| (printable(&name), printable_value(value))).collect()
        }
        plain => plain,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::socket::tests::full_listener;
    use serde_json::json;
    use std::os::unix::net::UnixListener;

    /// Returns the result of `ask` for a server's answer.
    fn answered(name: &str, answer: &'static [u8]) -> Result<Vec<Record>, String> {
        let path = std::env::temp_dir().join(format!("netmem-client-{}-{name}", std::process::id()));
        let listener = UnixListener::bind(&path).unwrap();
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.write_all(answer).unwrap();
            stream
        });
        let asked = ask(&path, &json!({"get": "keys"}));
        std::fs::remove_file(&path).unwrap();
        server.join().unwrap();
        asked
    }

    /// Seen: ESC sequences of an error were written to the terminal.
    #[test]
    fn an_answers_control_characters_are_not_written_to_the_terminal() {
        let refused = answered("error", b"{\"error\":\"a\\u001b[31mb\\u009bc\\u0007\"}\n");
        assert_eq!(refused, Err("a?[31mb?c?".into()));
        let records = answered("records", b"{\"ok\":[{\"na\\u001bme\":\"a\\nb\",\"n\":[7,\"\\u001b\"]}]}\n");
        assert_eq!(records, Ok(vec![Record::default().with("na?me", "a?b").with("n", json!([7, "?"]))]));
        let odd = answered("odd", b"\x1b[2J\n").unwrap_err();
        assert!(odd.contains("cannot read the answer") && !odd.contains('\x1b'), "{odd}");
    }

    /// Seen: an endless answer was read without a limit, 2 GB of it.
    #[test]
    fn an_answer_is_read_up_to_a_bound() {
        let (here, mut there) = UnixStream::pair().unwrap();
        let flood = thread::spawn(move || while there.write_all(&[b'x'; 1 << 16]).is_ok() {});
        let error = exchange(&here, &json!({}), (ANSWER_TIMEOUT, 1 << 20)).unwrap_err();
        assert!(error.to_string().contains("more than 1048576 bytes"), "{error}");
        drop(here);
        flood.join().unwrap();
    }

    /// Seen: each byte of a slow server extended the limit by thirty seconds.
    #[test]
    fn a_server_that_drips_is_given_up_when_all_the_time_is_over() {
        let (here, mut there) = UnixStream::pair().unwrap();
        let drip = thread::spawn(move || {
            while there.write_all(b"x").is_ok() {
                thread::sleep(Duration::from_millis(5));
            }
        });
        let error = exchange(&here, &json!({}), (Duration::from_millis(200), ANSWER_MAX)).unwrap_err();
        assert!(error.to_string().contains("no complete answer"), "{error}");
        drop(here);
        drip.join().unwrap();
    }

    /// Seen: `netmem stat` waited without end for a listener that accepts nobody.
    #[test]
    fn a_listener_that_accepts_nobody_is_waited_for_no_longer_than_the_limit() {
        let path = std::env::temp_dir().join(format!("netmem-client-full-{}", std::process::id()));
        let _full = full_listener(&path);
        let refused = Client::connect_within(&path, Duration::from_millis(1)).unwrap_err();
        assert!(refused.contains("too many programs wait there"), "{refused}");
        std::fs::remove_file(path).unwrap();
    }
}
