//! Programs in C, C++ and Python against the installed library, as users write them.

mod capture;
mod descriptors;
mod dropped;
mod ends;
mod examples;
mod installed;
mod limits;
mod offloads;
mod options;
mod places;
mod prefix;
mod remedies;
mod reports;
#[path = "../../../tests/testbed/mod.rs"]
#[allow(dead_code)]
mod testbed;
mod timestamps;
mod user;
mod xdp;

use prefix::{Compiler, GCC, STATIC, command, compiled, good, linked, output, prefix, said, scratch};
use std::os::unix::process::ExitStatusExt;
use std::{env, fs};

/// Runs a program of `tests/c`; what it said.
fn run(source: &str, words: &[&str]) -> String {
    good(command(compiled(source, &GCC)).args(words))
}

#[test]
fn every_call_works_from_c11_and_cpp17_by_gcc_and_clang() {
    for (program, flags) in [
        ("gcc", &["-std=c11", "-O2"][..]),
        ("clang", &["-std=c11", "-O2"]),
        ("g++", &["-std=c++17", "-O2"]),
        ("clang++", &["-std=c++17", "-x", "c++"]),
    ] {
        let flags = if program == "g++" { &["-std=c++17", "-x", "c++"] } else { flags };
        let said = good(&mut command(compiled("tests/c/uses.c", &Compiler { program, flags })));
        assert_eq!(said, "all as it should be\n", "{program}");
    }
}

#[test]
fn a_program_linked_against_the_archive_needs_no_libnetmem_so() {
    let flags = good(command("pkg-config").args(["--static", "--cflags", "--libs", "netmem"]));
    let archive = prefix().join("lib/libnetmem.a").display().to_string();
    let flags = flags.replace("-lnetmem", &archive);
    let program = linked("tests/c/uses.c", &GCC, flags.split_whitespace());
    let needs = good(command("readelf").arg("-d").arg(&program));
    assert!(needs.contains("libc.so") && !needs.contains("libnetmem"), "{needs}");
    assert_eq!(good(&mut command(program)), "all as it should be\n");
    // Seen: `cc -static` found no -lgcc_s.
    let program = linked("tests/c/uses.c", &STATIC, flags.split_whitespace());
    assert_eq!(good(&mut command(program)), "all as it should be\n");
}

#[test]
fn the_library_has_a_version_and_exports_nothing_but_its_own() {
    let so = prefix().join("lib/libnetmem.so");
    let names = good(command("readelf").arg("-d").arg(&so));
    assert!(names.contains("[libnetmem.so.0]"), "{names}");
    let symbols = good(command("nm").args(["-D", "--defined-only"]).arg(&so));
    let header = fs::read_to_string(prefix().join("include/netmem.h")).unwrap();
    for symbol in symbols.lines().filter_map(|line| line.rsplit(' ').next()) {
        let name = symbol.strip_suffix("@@NETMEM_0").unwrap_or(symbol);
        assert!(name == "NETMEM_0" || header.contains(&format!("{name}(")), "{symbol}");
    }
    assert!(symbols.lines().count() > 40, "{symbols}");
}

#[test]
fn every_kind_of_misuse_is_found_in_the_build_that_ships() {
    let said = run("tests/c/misuse.c", &[]);
    assert_eq!(said, "63 kinds of misuse, 0 not found\n");
}

#[test]
fn every_kind_of_misuse_of_objects_and_pages_is_found() {
    let said = run("tests/c/objects.c", &[]);
    assert_eq!(said, "38 kinds of misuse, 0 not found\n");
}

#[test]
fn packets_and_shared_frames_work_from_c11_and_cpp17_and_a_capture_passes_as_packets_whole() {
    let (input, output) = (capture::write("packets.pcap", 500), scratch().join("packets-out.pcap"));
    for compiler in [
        Compiler { program: "gcc", flags: &["-std=c11", "-O2"] },
        Compiler { program: "clang++", flags: &["-std=c++17", "-x", "c++"] },
    ] {
        let said = good(command(compiled("tests/c/packets.c", &compiler)).args([&input, &output]));
        assert_eq!(said, "500 received, 500 sent\n", "{}", compiler.program);
        assert!(capture::packets(&output) == capture::packets(&input), "{}", compiler.program);
    }
}

#[test]
fn every_kind_of_misuse_of_packets_and_shared_frames_is_found() {
    let said = run("tests/c/packet_misuse.c", &[]);
    assert_eq!(said, "54 kinds of misuse, 0 not found\n");
}

#[test]
fn a_ready_pool_gives_what_was_freed_to_it_and_every_kind_of_misuse_of_one_is_found() {
    for compiler in [GCC, Compiler { program: "clang++", flags: &["-std=c++17", "-x", "c++"] }] {
        let said = good(&mut command(compiled("tests/c/ready.c", &compiler)));
        assert_eq!(said, "13 kinds of misuse, 0 not found\n", "{}", compiler.program);
    }
}

#[test]
fn a_lane_hands_frames_from_one_worker_to_another_in_order_and_every_kind_of_misuse_of_one_is_found() {
    for compiler in [GCC, Compiler { program: "clang++", flags: &["-std=c++17", "-x", "c++"] }] {
        let said = good(&mut command(compiled("tests/c/lane.c", &compiler)));
        assert_eq!(said, "16 kinds of misuse, 0 not found\n", "{}", compiler.program);
    }
}

#[test]
fn a_lane_hands_packets_over_whole_and_in_order_and_every_kind_of_misuse_of_one_in_it_is_found() {
    for compiler in [GCC, Compiler { program: "clang++", flags: &["-std=c++17", "-x", "c++"] }] {
        let said = good(&mut command(compiled("tests/c/packet_lane.c", &compiler)));
        assert_eq!(said, "all as it should be\n", "{}", compiler.program);
        let said = good(&mut command(compiled("tests/c/packet_lane_misuse.c", &compiler)));
        assert_eq!(said, "20 kinds of misuse, 0 not found\n", "{}", compiler.program);
    }
}

/// Its numbers are for people, who run it with more windows. Here it must compile, and measure every kind.
#[test]
fn the_program_that_measures_what_handles_cost_runs() {
    let said = run("tests/c/speed.c", &["3"]);
    assert_eq!(said.lines().filter(|line| line.ends_with(" ns each")).count(), 3 * 5, "{said}");
}

/// Seen: the refusal took the lock of Rust's standard error, which the interrupted report held, and the process aborted.
#[test]
fn a_signal_handler_that_interrupts_a_report_is_refused_and_waits_for_no_lock() {
    assert_eq!(run("tests/c/signal.c", &[]), "all as it should be\n");
}

/// Seen: the handler waited for the lock of the stock, which the interrupted call held, and the program never ended.
#[test]
fn a_signal_handler_that_interrupts_a_call_with_a_stock_waits_for_no_lock_and_may_end_the_program() {
    assert_eq!(run("tests/c/stock_signal.c", &[]), "all as it should be\n");
}

/// Seen: each take of an empty stock made a string, while a driver asks millions of times a second.
#[test]
fn calls_that_fail_again_and_again_take_no_memory() {
    assert_eq!(run("tests/c/no_malloc.c", &[]), "as it should be\n");
}

/// Seen: the first handle of every process was the same. So one that lay in the memory that DPDK's processes share named
/// another mempool in the second of them.
#[test]
fn the_first_handles_of_two_processes_are_different_words() {
    let program = compiled("tests/c/words.c", &GCC);
    assert_ne!(good(&mut command(&program)), good(&mut command(&program)));
}

#[test]
fn a_stock_finds_what_is_given_back_twice_from_any_thread() {
    assert_eq!(run("tests/c/stock.c", &[]), "all as it should be\n");
}

/// NETMEM_MUTATIONS=10000000: so many.
#[test]
fn a_stale_word_and_mutations_of_good_ones_are_never_accepted() {
    let number = env::var("NETMEM_MUTATIONS").unwrap_or_else(|_| "200000".into());
    let said = run("tests/c/reuse.c", &[&number]);
    assert!(said.contains("accepted 0 times in 2^20 reuses"), "{said}");
    assert!(said.contains("a stale word of an object was accepted 0 times"), "{said}");
    assert!(said.contains(&format!("0 of {number} mutations were")), "{said}");
    assert!(said.contains("a stale word of a packet was accepted 0 times"), "{said}");
    assert!(said.contains(&format!("0 of {number} mutations of objects and pages were")), "{said}");
    assert!(said.contains(&format!("0 of {number} mutations of packets and shared frames were")), "{said}");
}

#[test]
fn of_two_threads_that_misuse_the_same_words_one_gets_each_frame_and_each_packet() {
    let said = run("tests/c/race.c", &["2000"]);
    assert!(said.contains("by the other thread"), "{said}");
}

#[test]
fn a_full_port_gives_back_the_words_that_it_has_no_room_for() {
    assert_eq!(run("tests/c/full.c", &[]), "16 of 200 taken\n");
}

/// Seen: 100 packets that a peer had not read when it was killed counted as completed, and as nothing else.
#[test]
fn packets_that_a_memif_peer_left_unread_are_counted_from_c() {
    assert_eq!(run("tests/c/ports.c", &["peer"]), "as it should be\n");
}

/// Seen: each handle that netmem_port_rx wrote was 0, the frames were lost, and the worker could never be closed.
#[test]
fn frames_of_a_memory_of_the_ports_own_have_handles() {
    assert_eq!(run("tests/c/ports.c", &["own"]), "as it should be\n");
}

/// Seen: each call that closes something returned 0, and the lost frames kept the port's memory for good.
#[test]
fn lost_frames_of_a_memory_of_the_ports_own_are_named_when_the_memory_is_closed() {
    assert_eq!(run("tests/c/ports.c", &["lost"]), "as it should be\n");
}

#[test]
fn a_capture_passes_a_port_from_c_whole_with_handles_and_raw() {
    let input = capture::write("ports.pcap", 500);
    for (kind, output) in [(&[][..], "ports-out.pcap"), (&["raw"], "ports-raw-out.pcap")] {
        let output = scratch().join(output);
        let said =
            run("tests/c/ports.c", &[&[input.to_str().unwrap(), output.to_str().unwrap()], kind].concat());
        assert_eq!(said, "500 received, 500 sent\n");
        assert!(capture::packets(&output) == capture::packets(&input));
    }
}

#[test]
fn a_report_names_the_call_and_where_the_frame_was_freed_before() {
    let program = compiled("tests/c/report.c", &GCC);
    let out = output(&mut command(&program));
    let said_now = said(&out);
    let line = |text: &str| {
        let source = fs::read_to_string(prefix::folder().join("tests/c/report.c")).unwrap();
        let at = source.lines().position(|line| line.contains(text)).unwrap();
        format!("report.c:{}", at + 1)
    };
    assert!(out.status.success(), "{said_now}");
    let (first, again) = (line("given back here"), line("and here again"));
    let (before, after) = said_now.split_once("; last given back at ").expect("where it was freed before");
    assert!(
        before.contains(&format!("{again}: freed_twice")) && after.trim_end().ends_with(&first),
        "{said_now}"
    );
    let aborted = output(command(program).arg("abort"));
    assert!(
        aborted.status.signal() == Some(6) && said(&aborted).contains("freed_twice"),
        "{}",
        said(&aborted)
    );
}

#[test]
fn valgrind_and_the_address_sanitizer_find_nothing() {
    // Few: to valgrind the library's tables, of which next to nothing is ever touched, cost fifteen seconds a process.
    for source in ["tests/c/uses.c", "tests/c/packets.c"] {
        let mut valgrind = command("valgrind");
        valgrind.args([
            "--quiet",
            "--error-exitcode=9",
            "--leak-check=full",
            "--errors-for-leak-kinds=definite",
        ]);
        good(valgrind.arg(compiled(source, &GCC)));
    }
    for source in [
        "tests/c/uses.c",
        "tests/c/full.c",
        "tests/c/misuse.c",
        "tests/c/objects.c",
        "tests/c/packets.c",
        "tests/c/packet_misuse.c",
        "tests/c/ready.c",
        "tests/c/lane.c",
        "tests/c/packet_lane.c",
        "tests/c/packet_lane_misuse.c",
        "tests/c/stock.c",
    ] {
        let asan =
            Compiler { program: "gcc", flags: &["-std=gnu11", "-O1", "-g", "-fsanitize=address,undefined"] };
        good(&mut command(compiled(source, &asan)));
    }
}
