//! testpmd, forwarding.

use crate::prefix::scratch;
use crate::telemetry::{Telemetry, number, parts, strings};
use crate::{Dpdk, dpdk};
use std::env;
use std::fs::{self, File};
use std::io::Write;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

/// Devices by which packets go round, and how many are on their way in them when forwarding stops: of rings the first bursts, since what arrives
/// there is sent; the others have any number to receive, and keep none.
const DEVICES: [(&str, u64); 2] = [("net_ring", 64), ("net_null", 0)];

/// Seconds of each run, unless `NETMEM_TESTPMD_SECONDS` says how many.
const SECONDS: u64 = 2;

/// Some seconds from one port to another and back, by two kinds of devices.
fn forward(dpdk: &Dpdk, cache: &[&str]) {
    let seconds = env::var("NETMEM_TESTPMD_SECONDS").map_or(SECONDS, |text| text.parse().expect("seconds"));
    for (device, on_their_way) in DEVICES {
        let (mut program, folder) = dpdk.program("dpdk-testpmd");
        let log = scratch().join(format!("testpmd-{device}{}.log", cache.concat()));
        let to = File::create(&log).expect("a log");
        program.arg(format!("--vdev={device}0")).arg(format!("--vdev={device}1"));
        program.args(["--", "-i", "--total-num-mbufs=8192", "--no-lsc-interrupt"]).args(cache);
        program.stdin(Stdio::piped()).stderr(to.try_clone().expect("a descriptor")).stdout(to);
        let mut testpmd = program.spawn().expect("testpmd");
        let mut telemetry = Telemetry::of(&folder);
        let mut tell = testpmd.stdin.take().expect("a pipe");
        let log = || fs::read_to_string(&log).unwrap_or_default();
        let heard = |what: &str| {
            // It guards against a hang, nothing else.
            (0..6000).any(|_| {
                log().contains(what) || {
                    thread::sleep(Duration::from_millis(20));
                    false
                }
            })
        };
        assert!(heard("testpmd>"), "{}", log());
        tell.write_all(b"start tx_first\n").expect("it listens");
        thread::sleep(Duration::from_secs(seconds));
        // testpmd may have stood still meanwhile.
        let has_received =
            |telemetry: &mut Telemetry| number(&telemetry.ask("/ethdev/stats,0"), "ipackets") > 1000;
        let mut looks = 0..6000;
        while !has_received(&mut telemetry) {
            assert!(looks.next().is_some(), "{}", log());
            thread::sleep(Duration::from_millis(20));
        }
        tell.write_all(b"stop\n").expect("it listens");
        assert!(heard("Accumulated forward statistics for all ports") && heard("Done."), "{}", log());
        let (all, ours) = (telemetry.ask("/mempool/list"), telemetry.ask("/netmem/mempools"));
        let holders = telemetry.ask("/netmem/holders");
        tell.write_all(b"quit\n").expect("it listens");
        let status = testpmd.wait().expect("it ends");
        let _ = fs::remove_dir_all(folder);
        assert!(status.success(), "{status}\n{}", log());
        check_ledgers(&all, &ours, on_their_way);
        let held: u64 = parts(&holders).iter().map(|holder| number(holder, "objects")).sum();
        assert_eq!(held, on_their_way, "{holders}");
        check_statistics(&log());
    }
}

/// All mempools are netmem's, and have their objects; those that are out are in the devices.
fn check_ledgers(all: &str, ours: &str, on_their_way: u64) {
    let ledgers = parts(ours);
    assert!(!ledgers.is_empty() && ledgers.len() == strings(all).len(), "{all}\n{ours}");
    for ledger in &ledgers {
        let of = |name| number(ledger, name);
        assert!(of("adds_up") == 1 && of("total") == of("free") + of("cached") + of("out"), "{ours}");
        assert!(of("taken") > 0 && of("returned") >= of("total"), "{ours}");
        assert!(of("freed_twice") == 0 && of("made_up") == 0, "{ours}");
    }
    let out: u64 = ledgers.iter().map(|ledger| number(ledger, "out")).sum();
    assert_eq!(out, on_their_way, "{ours}");
}

/// What was received was sent, beside a first burst of 32 by each port.
fn check_statistics(log: &str) {
    let (_, all) = log.split_once("Accumulated forward statistics for all ports").unwrap_or_default();
    let of = |name: &str| {
        let (_, rest) = all.split_once(name).unwrap_or_else(|| panic!("no {name}: {log}"));
        rest.split_whitespace().next().and_then(|word| word.parse::<u64>().ok()).unwrap_or(u64::MAX)
    };
    assert!(of("RX-packets:") > 1000, "{log}");
    assert_eq!(of("RX-packets:") + 64, of("TX-packets:"), "{log}");
    assert_eq!((of("RX-dropped:"), of("TX-dropped:")), (0, 0), "{log}");
    assert!(!log.contains("freed_twice") && !log.contains("made_up"), "{log}");
}

#[test]
fn testpmd_with_a_cache_for_each_lcore_forwards_and_loses_nothing() {
    dpdk("dpdk-testpmd").iter().for_each(|dpdk| forward(dpdk, &[]));
}

#[test]
fn testpmd_without_caches_forwards_and_loses_nothing() {
    dpdk("dpdk-testpmd").iter().for_each(|dpdk| forward(dpdk, &["--mbcache=0"]));
}
