//! What a program of DPDK says by its telemetry.

use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, connect, socket};
use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use std::time::{Duration, Instant};
use std::{io, thread};

/// A connection.
pub struct Telemetry(File);

impl Telemetry {
    /// Waits until the program whose things lie in this folder answers.
    pub fn of(folder: &Path) -> Telemetry {
        let path = folder.join("dpdk/t/dpdk_telemetry.v2");
        let begun = Instant::now();
        loop {
            match dial(&path) {
                Ok(file) => {
                    let mut telemetry = Telemetry(file);
                    telemetry.hear();
                    return telemetry;
                }
                Err(error) => {
                    // It guards against a hang, nothing else.
                    assert!(begun.elapsed() < Duration::from_secs(120), "{}: {error}", path.display());
                    thread::sleep(Duration::from_millis(20));
                }
            }
        }
    }

    /// What it says to a command, as JSON in one line.
    pub fn ask(&mut self, command: &str) -> String {
        self.0.write_all(command.as_bytes()).expect("it listens");
        self.hear()
    }

    fn hear(&mut self) -> String {
        let mut bytes = vec![0; 1 << 16];
        let n = self.0.read(&mut bytes).expect("it answers");
        String::from_utf8_lossy(&bytes[..n]).into_owned()
    }
}

fn dial(path: &Path) -> io::Result<File> {
    let socket = socket(AddressFamily::UNIX, SocketType::SEQPACKET, None)?;
    connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(File::from(socket))
}

/// The parts of an answer in JSON, each as its text: {"/command":{"part":{…},"part":{…}}}.
pub fn parts(json: &str) -> Vec<&str> {
    json.split('{').skip(3).map(|one| one.split('}').next().unwrap_or_default()).collect()
}

/// A number of a part.
pub fn number(object: &str, name: &str) -> u64 {
    let (_, rest) =
        object.split_once(&format!("\"{name}\":")).unwrap_or_else(|| panic!("no {name} in {object}"));
    let digits: String = rest.trim_start().chars().take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap_or_else(|_| panic!("{name} in {object}"))
}

/// The strings in a list.
pub fn strings(json: &str) -> Vec<&str> {
    let (_, list) = json.split_once('[').unwrap_or_default();
    list.split('"').skip(1).step_by(2).collect()
}
