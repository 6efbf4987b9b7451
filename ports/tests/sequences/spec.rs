//! Parses any text as a port: it is parsed and printed the same, or refused in one line.

#![allow(missing_docs)]

use netmem_ports::{PortSpec, port_spec};

/// Parts of port strings. Bytes that are not text choose among them.
const PARTS: [&str; 48] = [
    "xdp:",
    "memif:",
    "packet:",
    "tap:",
    "pcap:",
    "fault:",
    "trace:",
    "/",
    ",",
    "=",
    ":",
    "+",
    "@",
    "eth0",
    "0",
    "1",
    "-1",
    "18446744073709551616",
    "take=",
    "udp",
    "tcp",
    "53",
    "192.0.2.0/24",
    "2001:db8::/32",
    "in=",
    "out=",
    "file=",
    "drop=",
    "1/100",
    "0.5",
    "1e9",
    "speed=full",
    "loop=",
    "mac=",
    "any",
    "02:00:00:00:00:01",
    "role=",
    "client",
    "ring=",
    "bytes=",
    "limit=",
    "seed=",
    "format=pcap",
    "queues=",
    " ",
    "\n",
    "\0",
    "é",
];

pub fn run(bytes: &[u8]) {
    let _ = read(bytes);
}

/// Parses the text, or one that the bytes choose.
pub fn read(bytes: &[u8]) -> Result<PortSpec, String> {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => bytes.iter().map(|byte| PARTS[usize::from(*byte) % PARTS.len()]).collect(),
    };
    let read = port_spec(&text);
    match &read {
        // Its secret is not printed.
        Ok(spec) if spec.to_string().contains("secret=…") => {}
        // A file's name may contain anything.
        Ok(spec) => assert_eq!(port_spec(&spec.to_string()).as_ref(), Ok(spec), "{text:?}"),
        Err(why) => {
            assert!(!why.is_empty() && (text.contains('\n') || !why.contains('\n')), "{text:?}: {why}")
        }
    }
    read
}
