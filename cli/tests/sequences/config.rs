//! Any text as a configuration, with and without words behind it: it is read, or refused in one line.

#![allow(missing_docs)]

use netmem_cli::untrusted::configuration;

/// The first byte of command lines, with which no configuration begins.
const TYPED: [&[&str]; 4] = [
    &[],
    &["--workers=2", "--seconds=1"],
    &["--mode=ip", "--route=10.0.0.0/8,1,02:00:00:00:00:01"],
    &["--port=pcap:in=a", "--port=tap:tap0", "--ring=64"],
];

/// The words of configurations. Bytes that are not text choose among these.
const PARTS: [&str; 64] = [
    "port",
    "mode",
    "route",
    "routes",
    "workers",
    "idle",
    "frames",
    "frame-size",
    "ring",
    "rule",
    "path",
    "steer",
    "metrics",
    "control",
    "seconds",
    "packets",
    "address",
    "generators",
    "reverse-path",
    "icmp-rate",
    "config",
    "json",
    "help",
    " = ",
    "=",
    "\n",
    "\n",
    "\n",
    "[",
    "]",
    "[\"",
    "\"]",
    "\", \"",
    "\"",
    "'",
    "#",
    "{",
    "}",
    ".",
    ",",
    "xdp:eth0",
    "packet:eth0",
    "pcap:in=a",
    "tap:tap0",
    "memif:/run/a",
    "ip",
    "cross-connect",
    "kernel",
    "static",
    "sleep",
    "hash=1,2",
    "full",
    "drop,proto=udp,dport=53",
    "10.0.0.0/8,1,02:00:00:00:00:01",
    "default",
    "127.0.0.1:19681",
    "0",
    "1",
    "2048",
    "-1",
    "1.5",
    "1e9",
    "18446744073709551616",
    "\u{1b}[31m",
];

pub fn run(bytes: &[u8]) {
    let _ = read(bytes);
}

/// Reads the text behind the first byte, or one that those behind it choose.
///
/// # Errors
/// The one line.
pub fn read(bytes: &[u8]) -> Result<(), String> {
    let (typed, bytes) = match bytes.split_first() {
        Some((first, rest)) if usize::from(*first) < TYPED.len() => (TYPED[usize::from(*first)], rest),
        _ => (TYPED[0], bytes),
    };
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => bytes.iter().map(|byte| PARTS[usize::from(*byte) % PARTS.len()]).collect(),
    };
    let Err(lines) = configuration(&text, typed) else { return Ok(()) };
    let [line] = &lines[..] else { panic!("{text:?}: {lines:?}") };
    let shown: String = line.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(!shown.is_empty() && !shown.contains(char::is_control), "{text:?}: {shown:?}");
    Err(shown)
}
