//! Sequences of operations, each a function over bytes: here over a corpus and over random bytes, in `fuzz/` over the
//! inputs of a fuzzer.
//!
//! `NETMEM_STEPS` is the total number of random bytes (an operation takes four).

#![allow(clippy::unwrap_used)]

mod broker;
mod capture;
mod corpus;
mod end;
mod lent;
mod memif;
mod packet;
mod program;
mod steer;
mod wire;

use corpus::{BYTES_EACH, folder, random, random_of, replay};
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::thread;

#[test]
fn the_corpus_of_packet_sequences_holds() {
    replay("packet", 8, packet::run);
}

#[test]
fn the_corpus_of_memif_sequences_holds() {
    replay("memif", 30, memif::run);
}

#[test]
fn the_corpus_of_sequences_of_memif_servers_holds() {
    replay("lent", 20, lent::run);
}

#[test]
fn the_corpus_of_steer_sequences_holds() {
    replay("steer", 8, steer::run);
}

#[test]
fn the_corpus_of_programs_of_the_public_interface_holds() {
    replay("program", 8, program::run);
}

#[test]
fn the_corpus_of_frames_for_header_views_holds() {
    replay("wire", 12, wire::run);
}

#[test]
fn the_corpus_of_requests_of_the_broker_holds() {
    replay("broker", 16, broker::run);
}

#[test]
fn requests_of_the_corpus_are_read_or_refused_as_their_names_say() {
    let corpus = folder("broker");
    let refused = ["cut", "long-length", "odd-address", "trailing"];
    for file in fs::read_dir(&corpus).expect("a corpus") {
        let name = file.unwrap().file_name().into_string().unwrap();
        let is_read = broker::read(&fs::read(corpus.join(&name)).unwrap());
        assert_eq!(is_read, !refused.contains(&&name[..]), "{name}");
    }
    assert!(refused.into_iter().chain(["xdp", "tap"]).all(|name| corpus.join(name).is_file()));
}

#[test]
fn options_of_the_corpus_of_frames_are_recorded_as_their_names_say() {
    let corpus = folder("wire");
    let is_recorded = |name: &str| wire::read(&fs::read(corpus.join(name)).unwrap());
    for name in ["record-route", "timestamps", "timestamp-overflow"] {
        assert!(is_recorded(name), "{name}");
    }
    for name in ["udp-v4", "record-route-almost-full", "option-past-the-end", "truncated-v4"] {
        assert!(!is_recorded(name), "{name}");
    }
}

#[test]
fn the_corpus_of_captures_holds() {
    replay("capture", 30, capture::run);
}

#[test]
fn captures_of_the_corpus_bring_the_packets_that_their_names_say() {
    let corpus = folder("capture");
    let packets = |name: &str| {
        let received = capture::received(&fs::read(corpus.join(name)).unwrap());
        received.map(|(packets, is_whole)| (packets.len(), is_whole))
    };
    let whole = ["two-packets", "the-other-byte-order", "nanoseconds", "gzip"];
    for name in whole.into_iter().chain([
        "ng-two-packets",
        "ng-the-other-byte-order",
        "ng-gzip",
        "ng-resolution-without-packets",
        "gzip-and-zeros",
    ]) {
        assert_eq!(packets(name), Some((2, true)), "{name}");
    }
    assert_eq!(packets("empty-packets-and-runts"), Some((7, true)));
    assert_eq!(packets("longer-than-a-frame"), Some((1, true)));
    assert_eq!(packets("ng-two-sections"), Some((3, true)));
    for name in ["absurd-length", "longest-length", "ends-within-a-header"] {
        assert_eq!(packets(name), Some((2, false)), "{name}");
    }
    for name in ["ng-lengths-differ", "ng-ends-within-a-length"] {
        assert_eq!(packets(name), Some((2, false)), "{name}");
    }
    assert_eq!(packets("ng-length-of-two-blocks"), Some((1, false)));
    assert_eq!(packets("ng-section-of-16"), Some((0, false)));
    assert_eq!(packets("ng-version-2"), None);
    assert_eq!(packets("gzip-zeros-and-more").map(|(_, is_whole)| is_whole), Some(false));
    assert_eq!([packets("no-bytes"), packets("another-link-type")], [None, None]);
}

/// Random bytes behind headers that are right, since few others get past those.
#[test]
fn random_captures_hold() {
    let corpus = folder("capture");
    let headers = ["header-alone", "ng-two-packets"].map(|name| fs::read(corpus.join(name)).unwrap());
    random(40_000, |bytes| {
        let Some((first, rest)) = bytes.split_first() else { return };
        let header = &headers[usize::from(first & 1)];
        let mut file = [header, rest].concat();
        for (at, &byte) in rest.iter().take(usize::from(first >> 4)).enumerate() {
            let place = (at * 31 + usize::from(byte)) % file.len();
            file[place] ^= byte | 1;
        }
        capture::run(&file);
    });
}

#[test]
fn random_frames_for_header_views_hold() {
    random(400_000, wire::run);
}

#[test]
fn frames_of_a_steer_sequence_are_forwarded() {
    let sequence = folder("steer").join("to-one-and-back");
    assert_eq!(steer::forwarded(&fs::read(sequence).unwrap()), 60);
}

#[test]
fn random_steer_sequences_hold() {
    random(60_000, steer::run);
}

#[test]
fn sane_steps_of_a_memif_sequence_bring_packets() {
    let corpus = folder("memif");
    let received = |name| memif::received(&fs::read(corpus.join(name)).unwrap());
    assert_eq!([received("a-sane-packet"), received("chain-of-three")], [(1, 0), (1, 0)]);
    // Zeros may be received from memory that is gone. Then the next client's packet is received.
    for cut in ["cut-to-nothing", "cut-packets-alone", "cut-buffers-while-sending"] {
        let (packets, lost) = received(cut);
        assert!((1..=2).contains(&packets) && lost > 0, "{cut}: {packets} packets, lost {lost} times");
    }
    assert_eq!([received("cut-within-a-page"), received("cut-between-clients")], [(2, 0), (1, 0)]);
}

#[test]
fn sane_steps_of_a_memif_server_bring_packets() {
    let corpus = folder("lent");
    let received = |name| lent::received(&fs::read(corpus.join(name)).unwrap());
    assert_eq!([received("a-sane-packet"), received("a-sane-packet-copied")], [(1, 0), (1, 1)]);
    assert_eq!([received("chain-of-three"), received("chain-of-three-copied")], [(1, 1), (1, 1)]);
    assert_eq!(received("chain-too-long-for-a-frame"), (1, 0), "the next one comes");
}

#[test]
fn random_sequences_of_memif_servers_hold() {
    random(4_000, lent::run);
}

#[test]
fn random_memif_sequences_hold() {
    random(20_000, memif::run);
}

#[test]
fn random_packet_sequences_hold() {
    random(100_000, packet::run);
}

#[test]
fn programs_of_the_corpus_do_what_they_are_named_after() {
    let corpus = folder("program");
    let done = |name: &str| program::done_by(&fs::read(corpus.join(name)).unwrap());
    for name in [
        "a-value-panics-when-it-is-freed",
        "a-value-of-a-bulk-panics",
        "a-maker-of-a-bulk-panics",
        "a-constructor-panics",
        "constructed-values-panic-with-their-slab",
        "the-owner-of-a-packets-memory-panics",
        "a-ring-whose-iterator-panics",
        "a-device-that-lies-and-panics",
    ] {
        assert!(done(name).panics > 0, "{name}");
    }
    assert_eq!(done("another-thread-frees").threads, 1);
    assert!(done("a-guard-is-forgotten").lost > 0);
}

/// Writes a program to a file if something panics while it runs. The next program on this thread replaces it.
struct KeepIfItFails<'a>(&'a Path, &'a [u8]);

impl Drop for KeepIfItFails<'_> {
    fn drop(&mut self) {
        static FAILED: AtomicU32 = AtomicU32::new(0);
        if thread::panicking() {
            let nth = FAILED.fetch_add(1, Relaxed);
            fs::write(self.0.join(format!("program-that-failed-{nth}")), self.1).unwrap();
        }
    }
}

/// `NETMEM_PROGRAM` names a file with the one program to be run. A program at work is in the file `program-at-work`, with how
/// many operations were run before it: what ends the process leaves it there. Programs that fail are kept as
/// `program-that-failed-0` (as it was found), `-1` (made shorter) and so on.
#[test]
fn random_programs_of_the_public_interface_hold() {
    if let Some(file) = std::env::var_os("NETMEM_PROGRAM") {
        return program::run(&fs::read(file).unwrap());
    }
    // Longer ones, since memories are dear to make.
    random_of(3 * BYTES_EACH, 200_000, |bytes| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
        fs::write(folder.join("program-at-work.operations"), program::operations().to_string()).unwrap();
        fs::write(folder.join("program-at-work"), bytes).unwrap();
        let _keep = KeepIfItFails(folder, bytes);
        program::run(bytes);
    });
    println!("{} operations of programs were run", program::operations());
}
