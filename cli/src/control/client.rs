//! Asking a running `netmem forward`.

use super::record::Record;
use super::request::Answer;
use serde_json::Value;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// Sends one request and waits for its answer.
///
/// # Errors
/// One line: what the other side said, or why there is none.
pub fn ask(path: &Path, request: &Value) -> Result<Vec<Record>, String> {
    let at = path.display();
    let stream = UnixStream::connect(path).map_err(|error| {
        format!("control socket {at}: {error}; is netmem forward --control {at} running, and by you?")
    })?;
    let said = exchange(&stream, request).map_err(|error| format!("control socket {at}: {error}"))?;
    match serde_json::from_str(&said) {
        Ok(Answer::Ok(records)) => Ok(records),
        Ok(Answer::Error(why)) => Err(why),
        Err(error) => Err(format!("control socket {at}: an answer that cannot be read: {error}")),
    }
}

fn exchange(mut stream: &UnixStream, request: &Value) -> io::Result<String> {
    stream.set_read_timeout(Some(PATIENCE))?;
    // One that is sent away unheard still has something to read.
    let _ = stream.write_all(format!("{request}\n").as_bytes());
    let mut said = String::new();
    BufReader::new(stream).read_line(&mut said)?;
    Ok(said)
}
