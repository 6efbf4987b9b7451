//! The client of a running `netmem forward`.

use super::record::Record;
use super::request::Answer;
use crate::failure::Failure;
use crate::listening::LATER;
use crate::log::{self, Level};
use netmem::system::errno::{descriptor_remedy_of, descriptor_remedy_or};
use netmem::system::stream::connect_at_once;
use serde_json::Value;
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

/// The time limit of a whole answer, unless `--timeout` gives another one.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
/// The time limit of a connection, unless that of the answer is shorter.
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
    /// The time limit of an answer.
    patience: Duration,
}

impl Client {
    /// Connects to the control socket at `path`. Waits until a listener has room for one more, and then for each answer, for
    /// at most this time.
    ///
    /// # Errors
    /// One line with the remedy: [`Failure::NotNow`] if no process listens, or it has no room.
    pub fn connect(path: &Path, patience: Duration) -> Result<Client, Failure> {
        let at = path.display();
        let most = patience.min(CONNECT_TIMEOUT);
        let until = Instant::now() + most;
        loop {
            match connect_at_once(path) {
                Ok(stream) => return Ok(Client { path: path.to_owned(), stream, patience }),
                Err(error) if error.kind() != ErrorKind::WouldBlock => {
                    let otherwise =
                        format!("; check that netmem forward --control {at} is running as your user");
                    let line =
                        format!("control socket {at}: {error}{}", descriptor_remedy_or(&error, &otherwise));
                    return Err(unreached(&error, line));
                }
                Err(_) if Instant::now() >= until => {
                    return Err(Failure::NotNow(format!(
                        "control socket {at}: too many programs wait there, and none was accepted within {most:?}: end \
                         some of them, or the program that listens"
                    )));
                }
                Err(_) => thread::sleep(TICK),
            }
        }
    }

    /// Sends one request and waits for its answer.
    ///
    /// # Errors
    /// One line: the server's error, or the reason why there is no answer. [`Failure::NotNow`] if the run is too busy, or
    /// ends.
    pub fn ask(&self, request: &Value) -> Result<Vec<Record>, Failure> {
        self.ask_until(request, Instant::now() + self.patience)
    }

    fn ask_until(&self, request: &Value, until: Instant) -> Result<Vec<Record>, Failure> {
        let at = self.path.display();
        let said = exchange(&self.stream, request, (self.patience, until, ANSWER_MAX));
        let said = said.map_err(|error| unreached(&error, format!("control socket {at}: {error}")))?;
        match serde_json::from_slice(&said) {
            Ok(Answer::Ok(records)) => Ok(records.into_iter().map(printable_record).collect()),
            Ok(Answer::Error(why)) if why.ends_with(LATER) => Err(Failure::NotNow(printable(&why))),
            Ok(Answer::Error(why)) => Err(Failure::Input(printable(&why))),
            // The end of the run cuts off an answer.
            Err(_) if said.last() != Some(&b'\n') => Err(Failure::NotNow(format!(
                "control socket {at}: the connection was closed without a whole answer"
            ))),
            Err(error) => {
                Err(Failure::Input(format!("control socket {at}: cannot read the answer: {error}")))
            }
        }
    }
}

/// Sends one request to `path` and waits for its answer, for at most this time.
///
/// # Errors
/// Those of [`Client::connect`] and [`Client::ask`].
pub fn ask(path: &Path, request: &Value, patience: Duration) -> Result<Vec<Record>, Failure> {
    let until = Instant::now() + patience;
    Client::connect(path, patience)?.ask_until(request, until)
}

/// Returns the failure of a call on a socket: the run may be there later, unless the socket is of another kind or user.
fn unreached(error: &io::Error, line: String) -> Failure {
    let is_gone = matches!(
        error.kind(),
        ErrorKind::NotFound
            | ErrorKind::ConnectionRefused
            | ErrorKind::ConnectionReset
            | ErrorKind::BrokenPipe
            | ErrorKind::TimedOut
    );
    if is_gone || !descriptor_remedy_of(error).is_empty() {
        Failure::NotNow(line)
    } else {
        Failure::Input(line)
    }
}

/// Sends the request, and reads until the end of a line, or until the server closes the connection.
fn exchange(
    mut stream: &UnixStream,
    request: &Value,
    (patience, until, most): (Duration, Instant, usize),
) -> io::Result<Vec<u8>> {
    // No time at all is refused.
    stream.set_write_timeout(Some(patience.max(Duration::from_millis(1))))?;
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
    fn answered(name: &str, answer: &'static [u8]) -> Result<Vec<Record>, Failure> {
        let path = std::env::temp_dir().join(format!("netmem-client-{}-{name}", std::process::id()));
        let listener = UnixListener::bind(&path).unwrap();
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.write_all(answer).unwrap();
            (!answer.is_empty()).then_some(stream)
        });
        let asked = ask(&path, &json!({"get": "keys"}), ANSWER_TIMEOUT);
        std::fs::remove_file(&path).unwrap();
        server.join().unwrap();
        asked
    }

    /// Seen: ESC sequences of an error were written to the terminal.
    #[test]
    fn an_answers_control_characters_are_not_written_to_the_terminal() {
        let refused = answered("error", b"{\"error\":\"a\\u001b[31mb\\u009bc\\u0007\"}\n");
        assert_eq!(refused, Err(Failure::input("a?[31mb?c?")));
        let records = answered("records", b"{\"ok\":[{\"na\\u001bme\":\"a\\nb\",\"n\":[7,\"\\u001b\"]}]}\n");
        assert_eq!(records, Ok(vec![Record::default().with("na?me", "a?b").with("n", json!([7, "?"]))]));
        let Err(Failure::Input(odd)) = answered("odd", b"\x1b[2J\n") else { panic!("it was read") };
        assert!(odd.contains("cannot read the answer") && !odd.contains('\x1b'), "{odd}");
    }

    /// Seen: a check could not tell a run that was not there, or busy, from a wrong argument: all ended with code 2.
    #[test]
    fn a_run_that_is_not_there_or_busy_may_be_asked_later() {
        let later = [
            answered("none", b""),
            answered("full", b"{\"error\":\"8 clients are connected already: try again later\"}\n"),
            ask(Path::new("/nonexistent/netmem.sock"), &json!({}), ANSWER_TIMEOUT),
        ];
        assert!(later.iter().all(|answer| matches!(answer, Err(Failure::NotNow(_)))), "{later:?}");
        let refused = answered("refused", b"{\"error\":\"no key \\\"a\\\"\"}\n");
        assert!(matches!(refused, Err(Failure::Input(_))), "{refused:?}");
    }

    /// Seen: an endless answer was read without a limit, 2 GB of it.
    #[test]
    fn an_answer_is_read_up_to_a_bound() {
        let (here, mut there) = UnixStream::pair().unwrap();
        let flood = thread::spawn(move || while there.write_all(&[b'x'; 1 << 16]).is_ok() {});
        let error = exchange(&here, &json!({}), (ANSWER_TIMEOUT, Instant::now() + ANSWER_TIMEOUT, 1 << 20))
            .unwrap_err();
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
        let patience = Duration::from_millis(200);
        let limits = (patience, Instant::now() + patience, ANSWER_MAX);
        let error = exchange(&here, &json!({}), limits).unwrap_err();
        assert!(error.to_string().contains("no complete answer"), "{error}");
        drop(here);
        drip.join().unwrap();
    }

    /// Seen: `netmem stat` waited without end for a listener that accepts nobody.
    #[test]
    fn a_listener_that_accepts_nobody_is_waited_for_no_longer_than_the_limit() {
        let path = std::env::temp_dir().join(format!("netmem-client-full-{}", std::process::id()));
        let _full = full_listener(&path);
        let refused = Client::connect(&path, Duration::from_millis(1)).unwrap_err();
        let Failure::NotNow(why) = &refused else { panic!("{refused:?}") };
        assert!(why.contains("too many programs wait there"), "{why}");
        std::fs::remove_file(path).unwrap();
    }
}
