//! A program of DPDK in which faults were planted: an mbuf that is freed twice, seven that are lost.

use crate::prefix::{Compiler, command, good, linked, output, said};
use crate::telemetry::{Telemetry, number, parts};
use crate::{Dpdk, dpdk};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Output, Stdio};

/// With names for the functions that reports are to name. DPDK's headers are not for -Wpedantic.
const COMPILER: Compiler = Compiler { program: "gcc", flags: &["-std=gnu11", "-O2", "-g", "-rdynamic"] };

/// A program of DPDK, compiled.
pub fn built(source: &str) -> PathBuf {
    let flags =
        good(command("pkg-config").args(["--cflags", "--libs", "libdpdk"])).replace("-I", "-isystem ");
    linked(source, &COMPILER, flags.split_whitespace())
}

/// What the program does with so many places in each lcore's cache; `how` it ends, and the policy of the environment.
fn ended(dpdk: &Dpdk, cache: &str, how: &str, policy: Option<&str>) -> Output {
    let (mut program, folder) = dpdk.program(built("tests/dpdk/planted.c"));
    program.args(["--", cache, how]).envs(policy.map(|policy| ("NETMEM_POLICY", policy)));
    let out = output(&mut program);
    let _ = fs::remove_dir_all(folder);
    out
}

/// What the program says, which must succeed.
fn run(dpdk: &Dpdk, cache: &str, how: &str) -> String {
    let out = ended(dpdk, cache, how, None);
    assert!(out.status.success(), "{}", said(&out));
    said(&out)
}

/// The lines that contain this.
pub fn lines<'a>(said: &'a str, what: &str) -> Vec<&'a str> {
    said.lines().filter(|line| line.contains(what)).collect()
}

#[test]
fn without_caches_a_double_free_and_a_leak_are_named_where_they_were_made() {
    let Some(dpdk) = dpdk("dpdk-test") else { return };
    for how in ["left", "freed"] {
        let said = run(&dpdk, "0", how);
        let [double] = lines(&said, ": freed_twice: ")[..] else { panic!("{said}") };
        let (call, before) = double.split_once("; last given back at ").unwrap_or_default();
        assert!(call.contains(" at ") && call.contains("+0x"), "{said}");
        assert!(call.contains("of planted") && before.contains("+0x"), "{said}");
        // The function that made the call, whether or not the compiler put DPDK's own into it.
        let (_, calls) = said.split_once("the calls on the way there").expect(&said);
        let calls: Vec<&str> = calls.lines().take(4).collect();
        assert!(calls.iter().any(|line| line.contains("(frees_it_again+0x")), "{said}");
        let [leak] = lines(&said, " objects are out ")[..] else { panic!("{said}") };
        assert!(leak.contains("planted: 7 objects") && leak.contains("(loses_some+0x"), "{said}");
    }
}

#[test]
fn with_caches_both_are_found_at_a_flush_without_a_place() {
    let Some(dpdk) = dpdk("dpdk-test") else { return };
    for how in ["left", "freed"] {
        let said = run(&dpdk, "256", how);
        let [double] = lines(&said, ": freed_twice: ")[..] else { panic!("{said}") };
        assert!(
            double.contains("netmem_stock_give: freed_twice: object") && !double.contains(" at "),
            "{said}"
        );
        let [leak] = lines(&said, " objects are out ")[..] else { panic!("{said}") };
        assert!(leak.contains("planted: 7 objects") && leak.contains("an unknown place"), "{said}");
    }
}

/// Seen: the program crashed at its end, since mincore(2) knows pages that cannot be read.
#[test]
fn caches_that_cannot_be_read_at_the_programs_end_are_said_to_be_so() {
    let Some(dpdk) = dpdk("dpdk-test") else { return };
    let said = run(&dpdk, "256", "unreadable");
    let [end] = lines(&said, "planted at the program's end")[..] else { panic!("{said}") };
    assert!(end.contains(" or in caches, which cannot be read;") && end.contains(" 0 in caches"), "{said}");
}

/// Seen: telemetry counted what is in such caches as out, and listed it as held at an unknown place.
#[test]
fn caches_that_cannot_be_read_are_no_leak_in_telemetry() {
    let Some(dpdk) = dpdk("dpdk-test") else { return };
    let (mut program, folder) = dpdk.program(built("tests/dpdk/planted.c"));
    program.args(["--", "256", "asked"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut running = program.spawn().expect("the program");
    // Before that, the caches can be read.
    let mut said = BufReader::new(running.stdout.take().expect("a pipe")).lines().map_while(Result::ok);
    assert!(said.any(|line| line == "hidden"));
    let mut telemetry = Telemetry::of(&folder);
    let (mempools, holders) = (telemetry.ask("/netmem/mempools"), telemetry.ask("/netmem/holders"));
    drop(running.stdin.take());
    assert!(running.wait().expect("its end").success());
    let _ = fs::remove_dir_all(folder);
    let [planted] = parts(&mempools)[..] else { panic!("{mempools}") };
    assert_eq!((number(planted, "caches_known"), number(planted, "cached")), (0, 0), "{mempools}");
    assert!(parts(&holders).is_empty(), "{holders}");
}

/// Seen: the program never ended, since its end waited for the lock that the interrupted call held.
#[test]
fn a_program_may_end_in_a_signal_handler_that_interrupted_a_call() {
    let Some(dpdk) = dpdk("dpdk-test") else { return };
    let said = run(&dpdk, "0", "interrupted");
    let end = "mempool planted at the program's end: cannot be read: a call was interrupted";
    assert_eq!(lines(&said, end).len(), 1, "{said}");
}

/// Seen: 16 of 20 places, and nothing said that there were more.
#[test]
fn the_places_of_a_leak_that_are_not_listed_are_counted() {
    let Some(dpdk) = dpdk("dpdk-test") else { return };
    let said = run(&dpdk, "0", "places");
    // 16 places, and the line about the others: of those 20 and the one that loses seven.
    assert_eq!(lines(&said, " objects are out that were taken at ").len(), 16 + 1, "{said}");
    assert!(said.contains("planted: objects are out that were taken at 5 more places"), "{said}");
}

/// Seen: rte_pktmbuf_pool_create failed, and no line said why.
#[test]
fn a_mempool_may_have_a_name_that_is_not_utf_8() {
    let Some(dpdk) = dpdk("dpdk-test") else { return };
    let said = run(&dpdk, "0", "named");
    assert_eq!(lines(&said, "netmem: mempool planted? at the program's end").len(), 1, "{said}");
    assert_eq!(lines(&said, "netmem: mempool planted?: the calls on the way there").len(), 1, "{said}");
}

/// Seen: each of any number of misuses wrote a line and a backtrace.
#[test]
fn of_many_double_frees_some_are_reported_with_their_calls_and_all_are_counted() {
    let Some(dpdk) = dpdk("dpdk-test") else { return };
    let said = run(&dpdk, "0", "many");
    for what in [": freed_twice: ", "the calls on the way there"] {
        assert!((16..300).contains(&lines(&said, what).len()), "{said}");
    }
    assert!(said.contains("; further reports of freed_twice: one each second"), "{said}");
    assert!(lines(&said, "planted at the program's end")[0].contains(" 300 freed twice"), "{said}");
}

/// Seen: a program that was not compiled again could not choose the policy.
#[test]
fn the_policy_for_misuse_can_be_given_in_the_environment() {
    let Some(dpdk) = dpdk("dpdk-test") else { return };
    let with = |policy| ended(&dpdk, "0", "left", Some(policy));
    let counted = with("count");
    assert!(counted.status.success() && lines(&said(&counted), ": freed_twice: ").is_empty());
    assert!(said(&counted).contains(" 1 freed twice"), "{}", said(&counted));
    let aborted = with("abort");
    assert!(!aborted.status.success() && !said(&aborted).contains("done\n"), "{}", said(&aborted));
    assert_eq!(lines(&said(&aborted), ": freed_twice: ").len(), 1, "{}", said(&aborted));
    let unknown = with("silent");
    assert!(unknown.status.success() && said(&unknown).contains("NETMEM_POLICY=silent is no policy"));
    assert_eq!(lines(&said(&unknown), ": freed_twice: ").len(), 1, "{}", said(&unknown));
}
