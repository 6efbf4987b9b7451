//! The times at which packets were recorded, from C.

use super::run;
use crate::capture;
use crate::prefix::{Compiler, GCC, command, compiled, good, scratch};
use std::fs;

/// Seen: bit 47 of a raw frame said that it has a time, and no call read it.
#[test]
fn a_time_is_read_as_it_was_set_and_goes_with_its_frame() {
    let checked = &["-std=gnu11", "-O1", "-g", "-fsanitize=address,undefined"];
    for compiler in [
        GCC,
        Compiler { program: "gcc", flags: checked },
        Compiler { program: "clang++", flags: &["-std=c++17", "-x", "c++"] },
    ] {
        let program = compiled("tests/c/timestamps.c", &compiler);
        for case in ["kept", "refused", "no room"] {
            assert_eq!(good(command(&program).arg(case)), format!("{case}: as it should be\n"));
        }
    }
}

#[test]
fn packets_of_a_capture_have_its_times_and_are_written_with_those_that_they_get() {
    let (input, output) = (capture::write("timestamps.pcap", 100), scratch().join("timestamps-out.pcap"));
    let words = ["capture", input.to_str().unwrap(), output.to_str().unwrap()];
    assert_eq!(run("tests/c/timestamps.c", &words), "100 packets\n");
    assert!(capture::packets(&output) == capture::packets(&input));
    let bytes = fs::read(&output).unwrap();
    let records = bytes[24..].chunks_exact(16 + 60);
    let seconds = records.map(|record| u32::from_le_bytes(record[..4].try_into().unwrap()));
    assert!(seconds.eq(1000..1100));
}
