//! Messages of the kernel: a corpus, and the same with changed bytes. `fuzz/` runs the same body with a fuzzer.

mod netlink;

use netmem_rtnetlink::Event;
use proptest::prelude::*;
use std::fs;
use std::path::Path;

/// Returns the files of the corpus by name: dumps and events of a kernel, and malformed messages.
fn corpus() -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus/netlink");
    let file = |entry: fs::DirEntry| {
        (entry.file_name().to_string_lossy().into_owned(), fs::read(entry.path()).expect("a file of it"))
    };
    let mut files: Vec<_> =
        fs::read_dir(folder).expect("a corpus").map(|entry| file(entry.expect("an entry"))).collect();
    files.sort();
    files
}

#[test]
fn the_corpus_of_netlink_messages_is_read_without_harm() {
    let corpus = corpus();
    assert!(corpus.len() >= 16, "{} files", corpus.len());
    for (name, bytes) in corpus {
        println!("{name}");
        netlink::run(&bytes);
    }
}

#[test]
fn recorded_messages_of_a_kernel_are_all_read() {
    let count = |name: &str, is: fn(&Event) -> bool| {
        let (_, bytes) = corpus().into_iter().find(|(its, _)| its == name).expect("a file of the corpus");
        let read = netlink::run(&bytes);
        assert_eq!(read.unread, 0, "{name}");
        read.events.iter().filter(|event| is(event)).count()
    };
    let route = |event: &Event| matches!(event, Event::Route(..));
    assert_eq!(count("told-routes", route), 12);
    assert_eq!(count("told-next-hops", |event| *event == Event::RoutesMayHaveChanged), 6);
    assert_eq!(count("told-neighbours", |event| matches!(event, Event::Neighbour { .. })), 6);
    assert_eq!(count("told-links-that-go", |event| matches!(event, Event::LinkGone(_))), 2);
    for list in ["routes-v4", "routes-v6", "links", "addresses", "neighbours"] {
        assert_eq!(count(&format!("list-{list}"), |event| *event == Event::Done), 1, "{list}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn recorded_messages_with_changed_bytes_are_read_without_harm(
        files in prop::collection::vec(any::<prop::sample::Index>(), 1..4),
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..12),
    ) {
        let corpus = corpus();
        let mut bytes: Vec<u8> = files.iter().flat_map(|file| file.get(&corpus).1.clone()).collect();
        for (at, byte) in edits {
            *at.get_mut(&mut bytes) = byte;
        }
        netlink::run(&bytes);
    }
}

/// `NETMEM_STEPS` sets the total number of bytes, about. A case has some two thousand.
fn cases() -> u32 {
    std::env::var("NETMEM_STEPS").map_or(256, |n| n.parse::<u32>().expect("a number of steps") / 2_000)
}
