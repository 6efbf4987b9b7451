//! Tests of what is refused in place of a file.

use super::{Folder, PcapConfig, PcapError, PcapPort, input};
use std::path::Path;

#[test]
fn a_named_pipe_is_refused_before_it_is_opened() {
    let folder = Folder::new("pipe");
    let pipe = folder.0.join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let output = PcapConfig { output: Some(pipe.clone()), ..PcapConfig::default() };
    for config in [input(&pipe), output] {
        let error = PcapPort::open("0", &config).unwrap_err();
        assert!(matches!(error, PcapError::Pipe(_)) && error.to_string().contains("give a file"), "{error}");
    }
}

/// Seen: a terminal that nobody read held a worker, one at which nobody typed held the set-up, and SIGTERM ended neither.
#[test]
fn a_terminal_is_refused_without_waiting_for_whoever_sits_at_it_and_other_devices_are_not() {
    let folder = Folder::new("terminal");
    let (_end, terminal) = crate::sys::reopen::terminal();
    let link = folder.0.join("link");
    std::os::unix::fs::symlink(&terminal, &link).unwrap();
    let written = |path: &Path| PcapConfig { output: Some(path.to_owned()), ..PcapConfig::default() };
    for path in [&terminal, &link] {
        for config in [input(path), written(path)] {
            let error = PcapPort::open("0", &config).unwrap_err();
            let said = error.to_string();
            assert!(matches!(error, PcapError::TerminalFile(_)) && said.contains("give a file"), "{said}");
        }
    }
    for device in ["/dev/null", "/dev/full"] {
        assert!(PcapPort::open("0", &written(Path::new(device))).is_ok(), "{device}");
    }
}

#[test]
fn a_capture_of_another_link_type_is_refused_when_it_is_opened() {
    let folder = Folder::new("sll");
    // A section, an interface of "Linux cooked", a packet of 4 bytes.
    let words: [u32; 24] = [
        0x0a0d_0d0a,
        28,
        0x1a2b_3c4d,
        1,
        u32::MAX,
        u32::MAX,
        28,
        1,
        20,
        113,
        0,
        20,
        6,
        36,
        0,
        0,
        0,
        4,
        4,
        7,
        36,
        0x0bad,
        12,
        12,
    ];
    let path = folder.file("any.pcapng", words.map(u32::to_ne_bytes).as_flattened());
    let error = PcapPort::open("0", &input(&path)).unwrap_err().to_string();
    assert!(error.contains("any.pcapng") && error.contains("link type 113"), "{error}");
}
