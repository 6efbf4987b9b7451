//! `netmem forward` with memif ports whose other end is DPDK's testpmd, as server and as client.

#![allow(clippy::unwrap_used)]

mod dpdk;
mod netmem;
mod test_frames;

use dpdk::Testpmd;
use netmem::{PATIENCE, listens, number, skip, start};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{fs, thread};
use test_frames::{Folder, giants, packets, pcap, sendable};

/// One testpmd at a time: its threads poll, and several of them starve each other's handshakes on few CPUs.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    // A test that failed leaves nothing behind that the next could mind.
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Forwards between two memif interfaces in the folder, in that role. Returns None if testpmd is not installed.
fn testpmd(folder: &Folder, role: &str) -> Option<Testpmd> {
    testpmd_with(folder, role, ",socket-abstract=no")
}

fn testpmd_with(folder: &Folder, role: &str, options: &str) -> Option<Testpmd> {
    let device = |i| {
        let socket = folder.path(&format!("{i}.sock"));
        format!("net_memif{i},role={role},socket={}{options}", socket.display())
    };
    Testpmd::start(Command::new("dpdk-testpmd"), &[device(0), device(1)], folder.path("testpmd"))
}

/// As [`testpmd`], with one interface, whose packets go back to it, as a client that lends its memory.
fn lending_testpmd(folder: &Folder) -> Option<Testpmd> {
    let mut command = Command::new("dpdk-testpmd");
    command.arg("--single-file-segments");
    let socket = folder.path("0.sock");
    let device =
        format!("net_memif0,role=client,zero-copy=yes,socket={},socket-abstract=no", socket.display());
    Testpmd::start(command, &[device], folder.path("testpmd"))
}

fn wait_until(folder: &Folder, what: &str, done: impl Fn() -> bool) {
    let begun = Instant::now();
    while !done() {
        let said = || fs::read_to_string(folder.path("testpmd")).unwrap_or_default();
        assert!(begun.elapsed() < PATIENCE, "{what}; testpmd: {}", said());
        thread::sleep(Duration::from_millis(10));
    }
}

/// From a file through memif, testpmd and memif to a file.
fn forward(folder: &Folder, options: &str, input: &str, output: &Path) -> Child {
    forward_with("", folder, options, input, output)
}

/// As [`forward`], with options of the whole run.
fn forward_with(run: &str, folder: &Folder, options: &str, input: &str, output: &Path) -> Child {
    let memif = |i| format!("--port memif:{},{options}", folder.path(&format!("{i}.sock")).display());
    let files = [format!("--port pcap:in={input}"), format!("--port pcap:out={}", output.display())];
    start(&format!(
        "forward --mode cross-connect --json --ring 512 {run} {} {} {} {}",
        files[0],
        memif(0),
        memif(1),
        files[1]
    ))
}

/// Ends the run. Returns its output.
fn end(child: Child) -> Value {
    kill_process(Pid::from_child(&child), Signal::INT).expect("it can be signalled");
    let out = child.wait_with_output().expect("it ends");
    let (said, complaint) = (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    serde_json::from_str(&said).unwrap_or_else(|error| panic!("{error}: {said}{complaint}"))
}

fn port(run: &Value, number: usize) -> &Value {
    &run["ports"][number]
}

/// The frames that testpmd accepts: none that is shorter than a header.
fn frames() -> Vec<Vec<u8>> {
    sendable(1514)
}

/// As a client of testpmd, lending frames or copying: all frames come back, byte for byte, in order.
fn as_client(test: &str, options: &str) {
    come_back(test, "", options, &frames());
}

/// As a client of testpmd with those options of the whole run and of its ports: these frames come back.
fn come_back(test: &str, whole: &str, options: &str, frames: &[Vec<u8>]) {
    let _alone = alone();
    let folder = Folder::new(test);
    let Some(testpmd) = testpmd(&folder, "server") else {
        return skip(test, "there is no dpdk-testpmd (apt-get install dpdk)");
    };
    wait_until(&folder, "testpmd does not listen", || listens(&folder.path("1.sock")));
    let (input, output) = (folder.write("in.pcap", &pcap(frames)), folder.path("out.pcap"));
    let run = forward_with(whole, &folder, options, &input.display().to_string(), &output);
    let filled = || fs::read(&output).is_ok_and(|bytes| packets(&bytes).len() >= frames.len());
    wait_until(&folder, "frames are missing", filled);
    // Read before its peer ends: the counters are lost with the connection.
    let counted = testpmd.end();
    let run = end(run);
    assert!(packets(&fs::read(&output).expect("the file that was seen")) == frames);
    let n = frames.len() as u64;
    assert_eq!(counted, [n, n], "received and sent, as testpmd counts");
    assert_eq!([number(port(&run, 1), "tx"), number(port(&run, 2), "rx")], [n, n]);
    // A peer that may run as another user is lent frames of a separate pool, and the packets for it are copied into
    // them.
    let copied = match (options.contains("lend=yes"), options.contains("peer=")) {
        (false, _) => [n, n],
        (true, false) => [0, 0],
        (true, true) => [n, 0],
    };
    assert_eq!([number(port(&run, 1), "copied"), number(port(&run, 2), "copied")], copied);
}

#[test]
fn a_client_that_lends_its_frames_gets_them_back_from_testpmd_byte_for_byte() {
    as_client("testpmd-lent", "role=client,lend=yes");
    as_client("testpmd-apart", "role=client,lend=yes,peer=any");
}

#[test]
fn a_client_that_copies_gets_its_frames_back_from_testpmd_byte_for_byte() {
    as_client("testpmd-copied", "role=client");
}

/// Its buffers have 2,048 bytes: a giant is in several of them there, and comes back in one frame.
#[test]
fn giants_come_back_from_testpmd_byte_for_byte() {
    let frames = [frames(), giants(9018)].concat();
    let large = "--frame-size 16384";
    come_back("testpmd-giants-lent", large, "role=client,lend=yes", &frames);
    come_back("testpmd-giants-copied", large, "role=client", &frames);
}

#[test]
fn a_server_serves_testpmd_and_the_next_one_when_that_is_gone() {
    const TEST: &str = "testpmd-server";
    let _alone = alone();
    let folder = Folder::new(TEST);
    let (input, output) = (folder.write("in.pcap", &pcap(&frames())), folder.path("out.pcap"));
    // Over and over: testpmd comes later.
    let run = forward(&folder, "role=server", &format!("{},loop=0", input.display()), &output);
    wait_until(&folder, "no process listens", || listens(&folder.path("1.sock")));
    let (mut seen, mut counted) = (0, [0, 0]);
    for _ in 0..2 {
        let Some(testpmd) = testpmd(&folder, "client") else {
            end(run);
            return skip(TEST, "there is no dpdk-testpmd (apt-get install dpdk)");
        };
        let arrived = || fs::metadata(&output).map_or(0, |file| file.len());
        wait_until(&folder, "no frames arrive", || arrived() > seen + (1 << 20));
        let counts = testpmd.end();
        counted = [0, 1].map(|i| counted[i] + counts[i]);
        thread::sleep(Duration::from_millis(100));
        seen = arrived();
    }
    let run = end(run);
    // The difference is the packets in flight when a testpmd ended.
    let on_the_way = [number(port(&run, 1), "tx"), counted[0], counted[1], number(port(&run, 2), "rx")];
    assert!(on_the_way.is_sorted_by(|before, behind| before >= behind), "{on_the_way:?}");
    let known = frames();
    assert!(
        packets(&fs::read(&output).expect("the file that was seen"))
            .iter()
            .all(|packet| known.contains(packet))
    );
    assert_eq!(number(port(&run, 1), "bad_descriptor") + number(port(&run, 2), "bad_descriptor"), 0);
    assert_eq!(number(port(&run, 2), "copied"), number(port(&run, 2), "rx"));
}

/// Seen: DPDK's default is an abstract socket, and both ends waited for each other without an error.
#[test]
fn testpmd_connects_at_its_default_socket_in_either_role() {
    const TEST: &str = "testpmd-abstract";
    let _alone = alone();
    for (ours, theirs) in [("server", "client"), ("client", "server")] {
        let folder = Folder::new(TEST);
        let (input, output) = (folder.write("in.pcap", &pcap(&frames())), folder.path("out.pcap"));
        let memif = |i| format!("--port memif:@{},role={ours}", folder.path(&format!("{i}.sock")).display());
        let run = start(&format!(
            "forward --mode cross-connect --json --ring 512 --port pcap:in={},loop=0 {} {} --port pcap:out={}",
            input.display(),
            memif(0),
            memif(1),
            output.display()
        ));
        let Some(testpmd) = testpmd_with(&folder, theirs, "") else {
            end(run);
            return skip(TEST, "there is no dpdk-testpmd (apt-get install dpdk)");
        };
        wait_until(&folder, "no frames arrive", || {
            fs::metadata(&output).is_ok_and(|file| file.len() > 1 << 20)
        });
        let no_file = |i| !folder.path(&format!("{i}.sock")).exists();
        assert!(no_file(0) && no_file(1));
        testpmd.end();
        end(run);
        let (known, come) = (frames(), packets(&fs::read(&output).expect("the file that was seen")));
        assert!(come.iter().all(|packet| known.contains(packet)));
    }
}

#[test]
fn a_server_that_trusts_it_serves_a_testpmd_that_lends_its_memory() {
    const TEST: &str = "testpmd-lends";
    let _alone = alone();
    let folder = Folder::new(TEST);
    let (input, output) = (folder.write("in.pcap", &pcap(&frames())), folder.path("out.pcap"));
    let socket = folder.path("0.sock");
    // Again and again, because testpmd starts later. It does not seal the memory that it lends.
    let run = start(&format!(
        "forward --mode cross-connect --json --ring 512 --port pcap:in={},out={},loop=0 \
         --port memif:{},role=server,unsealed=ok",
        input.display(),
        output.display(),
        socket.display()
    ));
    wait_until(&folder, "no process listens", || listens(&socket));
    let Some(testpmd) = lending_testpmd(&folder) else {
        end(run);
        return skip(TEST, "there is no dpdk-testpmd (apt-get install dpdk)");
    };
    let arrived = || fs::metadata(&output).map_or(0, |file| file.len());
    wait_until(&folder, "no frames arrive", || arrived() > 1 << 20);
    // Packets that testpmd had sent, and that were not read when it ended, are zeros: it gives the pages of its memory
    // back.
    let lived = arrived() as usize;
    drop(testpmd);
    let run = end(run);
    let known = frames();
    let come = packets(&fs::read(&output).expect("the file that was seen")[..lived]);
    let strange = come.iter().enumerate().find(|(_, packet)| !known.contains(packet));
    assert!(strange.is_none(), "of {} came {strange:?}", come.len());
    assert_eq!(number(port(&run, 1), "bad_descriptor"), 0);
}
