//! What the calls say and leave behind at their limits. Each case was met in a review of the library.

use super::{capture, run};

fn holds(what: &str) {
    assert_eq!(run("tests/c/limits.c", &[what]), format!("{what}: as it should be\n"));
}

/// Seen: "memory allocation of 67108928 bytes failed", and the process aborted.
#[test]
fn a_lane_or_a_pool_for_which_there_is_no_memory_is_an_error_and_the_program_goes_on() {
    holds("memory");
}

/// Seen: "mapping 2097152 bytes failed", where 2 GiB more are asked for.
#[test]
fn a_memory_for_which_there_is_no_address_space_names_the_bytes_that_it_takes() {
    holds("address space");
}

/// Seen: 1023 memories, where the header said 4096; and -ENOMEM.
#[test]
fn a_process_has_1023_memories_and_the_next_is_one_too_many() {
    holds("memories");
}

/// Seen: the 257th DPDK mempool failed with -ENFILE.
#[test]
fn a_process_has_4096_stocks() {
    holds("stocks");
}

/// Seen: netmem_spans with a bad worker returned -ESTALE and left `data` as it was.
#[test]
fn a_burst_that_is_refused_as_a_whole_leaves_nothing_old_in_the_array_for_its_results() {
    holds("bursts");
}

/// Seen: options with any reserved fields were accepted, so that no later version could have used them.
#[test]
fn a_reserved_field_that_is_not_0_is_refused_by_name() {
    holds("reserved");
}

/// Seen: netmem_cache_close returned 0, but 1095 of 16384 pages stayed taken until each worker looked up something new.
#[test]
fn a_cache_heads_and_a_ready_pool_that_are_closed_give_back_all_pages_at_once() {
    holds("closed");
}

/// Seen: NULL and errno 0 for every error; an empty pool gave 0 and no text, and order 11 too; 65 workers gave -ENOMEM.
#[test]
fn calls_that_return_null_or_less_than_asked_for_say_why() {
    holds("errno");
}

/// Seen: objects, pages and packets were fewer than asked for, and no line said why.
#[test]
fn a_memory_that_is_used_up_says_so_for_objects_and_pages() {
    holds("used up");
}

/// Seen: a cache had the counts of another.
#[test]
fn caches_with_no_merge_have_counters_of_their_own() {
    holds("merge");
}

/// Seen: 64 detached pages whose handles were lost stayed out, and netmem_memory_close always returned -ETIMEDOUT.
#[test]
fn what_was_detached_and_lost_can_be_reclaimed() {
    holds("detached");
}

/// Seen: "frames of the memory are still out", of pages that were detached.
#[test]
fn a_memory_that_cannot_be_closed_names_what_is_out_of_it_and_the_remedy() {
    holds("still out");
}

/// Seen: the header named no maximum, "maximum number of frames" was 2 where 1 was given, and of a memif ring "a power of two".
#[test]
fn options_have_the_ranges_that_the_header_states() {
    holds("ranges");
}

/// Seen: "the call may be repeated to wait again", but netmem_pool_close returned -ESTALE.
#[test]
fn a_closed_pool_can_be_waited_for_until_its_memory_was() {
    holds("waited for");
}

/// Seen: netmem_port_rx_packets received no packet and reported no error, while frames waited in the port.
#[test]
fn received_packets_for_which_there_is_no_head_are_reported_as_no_memory() {
    let file = capture::write("no-head.pcap", 3);
    let file = file.to_str().expect("a path in UTF-8");
    assert_eq!(run("tests/c/limits.c", &["no head", file]), "no head: as it should be\n");
}

/// Seen: netmem_share and netmem_lane_receive_packets returned 0 with the errno of an earlier call; netmem_port_rx_packets
/// freed what it had received; and the first call after a handle was free again failed.
#[test]
fn calls_without_memory_for_handles_say_so_and_lose_nothing() {
    let file = capture::write("no-handle.pcap", 3);
    let file = file.to_str().expect("a path in UTF-8");
    assert_eq!(run("tests/c/limits.c", &["handles", file]), "handles: as it should be\n");
}

/// Seen: netmem_memory_open was content with `ulimit -v 4000000`, and "mapping the table of chunks failed" in
/// netmem_pool_open, where the header said that 2 GiB more than the memory suffice.
#[test]
fn a_first_pool_without_address_space_names_the_8_gib_that_it_takes() {
    holds("first pool");
}

/// Seen: a thread with PTHREAD_STACK_MIN ended with SIGSEGV at its first misuse, and nothing said how much stack a call takes.
#[test]
fn a_thread_with_a_stack_of_64_kib_makes_every_call() {
    holds("stack");
}

/// Seen: the frame was neither found in its own memory, which could never be closed, nor left alone by the other one.
#[test]
fn a_frame_that_a_worker_of_another_memory_shared_and_lost_is_reclaimed_for_its_own_memory() {
    holds("shared elsewhere");
}

/// Seen: the table of the other memory's worker kept the cache, and netmem_memory_close always returned -ETIMEDOUT.
#[test]
fn a_memory_is_closed_though_a_worker_of_another_freed_an_object_and_packets_of_it() {
    holds("freed elsewhere");
}

/// Seen: the number of values, as if they had been written.
#[test]
fn a_list_that_is_null_and_has_room_is_an_error() {
    holds("NULL");
}

/// Seen: a stock had its whole table in memory before it had an object, and a large one was killed for it.
#[test]
fn a_large_stock_takes_memory_as_it_gets_objects() {
    holds("large stock");
}
