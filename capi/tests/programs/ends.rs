//! Threads that end.

use super::run;
use crate::capture;

/// Seen: enter and close always returned -EPERM, and the next thread, which had the same control block, freed the frames
/// of the thread that had ended.
#[test]
fn a_thread_that_ends_leaves_its_worker_to_the_thread_that_enters_it() {
    assert_eq!(run("tests/c/ends.c", &["leaves"]), "leaves: as it should be\n");
}

/// Seen: "FATAL: exception not rethrown", and the process aborted.
#[test]
fn a_thread_that_is_cancelled_during_a_call_ends_after_the_call() {
    let input = capture::write("cancelled.pcap", 10);
    let said = run("tests/c/ends.c", &["cancelled", input.to_str().unwrap()]);
    assert!(said.starts_with("cancelled: as it should be\n") && said.contains("freed_twice"), "{said}");
}
