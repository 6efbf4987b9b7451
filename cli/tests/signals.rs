//! Ctrl-C and SIGTERM in the middle of a run.

mod netmem;
mod terminal;
mod test_frames;

use netmem::{
    PATIENCE, assert_adds_up, ended, is_stall, netmem, number, object, start, stderr, stdout,
    wait_while_it_runs,
};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use terminal::terminal;
use test_frames::Folder;

/// Waits until the program has its three threads: itself, the forwarder, the network.
fn wait_until_it_forwards(child: &mut Child) {
    let threads = format!("/proc/{}/task", child.id());
    let threads = || fs::read_dir(&threads).map_or(0, Iterator::count);
    wait_while_it_runs(child, "it has three threads", || threads() >= 3);
}

/// Sends the signal once the program forwards.
fn signal_in_mid_run(mut child: Child, signal: Signal) -> Output {
    wait_until_it_forwards(&mut child);
    kill_process(Pid::from_child(&child), signal).expect("kill(2)");
    child.wait_with_output().expect("wait")
}

#[test]
fn a_run_ends_with_the_thread_that_started_it_so_that_no_test_leaves_one_behind() {
    let child = thread::spawn(|| start("forward --seconds 600")).join().expect("a thread");
    let out = child.wait_with_output().expect("wait");
    assert_eq!(out.status.signal(), Some(Signal::KILL.as_raw()), "{}", stdout(&out));
}

#[test]
fn sigint_ends_a_run_with_its_summary() {
    let out = signal_in_mid_run(start("forward --seconds 600"), Signal::INT);
    let text = stdout(&out);
    assert_eq!(out.status.code(), Some(0), "{text}");
    assert!(text.contains("= transmitted + dropped + held") && text.contains("balanced"), "{text}");
}

#[test]
fn sigterm_ends_a_run_with_an_object_that_adds_up() {
    let run = object(&signal_in_mid_run(start("forward --packets 1000000000000 --json"), Signal::TERM));
    assert_adds_up(&run);
    assert!(number(&run, "generator.sent") < 1_000_000_000_000);
}

/// Seen in CI as a reset scrape: the socket existed before the handlers, and the signal ended the run.
#[test]
fn a_client_may_request_a_reload_and_the_recording_as_soon_as_the_socket_exists() {
    let folder = Folder::new("early");
    let (file, recorded) = (folder.write("netmem.toml", b"icmp-rate = 5\n"), folder.path("recorded.pcapng"));
    for round in 0..5 {
        let socket = folder.path(&format!("metrics-{round}"));
        let options =
            format!("--flows 1 --config {} --record 64 --record-to {}", file.display(), recorded.display());
        let mut child = start(&format!("forward --seconds 600 {options} --metrics {}", socket.display()));
        let begun = Instant::now();
        while UnixStream::connect(&socket).is_err() {
            assert!(begun.elapsed() < PATIENCE, "it does not listen");
            assert_eq!(child.try_wait().expect("wait"), None, "it ended by itself");
        }
        let pid = Pid::from_child(&child);
        let ask = |signal| kill_process(pid, signal).expect("kill(2)");
        ask(Signal::HUP);
        // The second is written in a later round than the reload.
        for _ in 0..2 {
            ask(Signal::USR1);
            while !recorded.exists() {
                assert!(begun.elapsed() < PATIENCE, "nothing is written");
                assert_eq!(child.try_wait().expect("wait"), None, "the signal ended it");
                thread::sleep(Duration::from_millis(1));
            }
            fs::remove_file(&recorded).expect("the recording");
        }
        let out = interrupted(child);
        assert_eq!(out.status.code(), Some(0), "{}", stderr(&out));
        assert!(stderr(&out).contains("configuration reloaded"), "{}", stderr(&out));
    }
}

/// Returns the signals that each thread of the process blocks, as bits, the first thread first.
fn blocked(process: u32) -> Vec<(String, u64)> {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).expect("it runs");
    let mut tasks: Vec<_> = tasks.map(|task| task.expect("a thread").path()).collect();
    tasks.sort_by_key(|task| !task.ends_with(process.to_string()));
    // One that has just ended is left out.
    let statuses = tasks.iter().filter_map(|task| fs::read_to_string(task.join("status")).ok());
    let line = |status: &str, name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("a line of it");
        line.trim().to_owned()
    };
    let bits = |status: &str| u64::from_str_radix(&line(status, "SigBlk:"), 16).expect("bits");
    statuses.map(|status| (line(&status, "Name:"), bits(&status))).collect()
}

/// Seen: SIGUSR1 was given to a worker, and the SIGTERM after it to another thread. The worker got no core, and the run ended
/// without the recording.
#[test]
fn only_the_main_thread_gets_signals_so_that_their_order_is_kept() {
    let folder = Folder::new("whose");
    let [control, metrics, to] = ["control", "metrics", "to"].map(|name| folder.path(name));
    let mut child = start(&format!(
        "forward --seconds 600 --workers 2 --mode pass --local-queue 10 --record 64 --record-to {} --control {} --metrics {}",
        to.display(),
        control.display(),
        metrics.display()
    ));
    wait_while_it_runs(&mut child, "it listens", || {
        UnixStream::connect(&control).is_ok() && UnixStream::connect(&metrics).is_ok()
    });
    let _client = UnixStream::connect(&control).expect("it listens");
    // A recording to a pipe without a reader takes until the end.
    assert!(Command::new("mkfifo").arg(&to).status().is_ok_and(|made| made.success()));
    kill_process(Pid::from_child(&child), Signal::USR1).expect("kill(2)");
    let (process, mut threads) = (child.id(), Vec::new());
    // The main thread, two workers, the generator, the local queue, two sockets, a client, a recording.
    wait_while_it_runs(&mut child, "there are all kinds of threads", || {
        threads = blocked(process);
        threads.len() >= 9 && threads.iter().any(|(name, _)| name == "recorder")
    });
    let requests = [Signal::HUP, Signal::INT, Signal::TERM, Signal::USR1, Signal::USR2];
    let requests: u64 = requests.iter().map(|signal| 1 << (signal.as_raw() - 1)).sum();
    for (number, (_, blocked)) in threads.iter().enumerate() {
        let wanted = if number == 0 { 0 } else { requests };
        assert_eq!(blocked & requests, wanted, "{threads:x?}");
    }
    child.kill().and_then(|()| child.wait()).expect("it ends");
}

/// Seen: SIGHUP without `--config` and SIGUSR1 without `--record-to` ended the router at once (exit codes 129 and 138), and
/// SIGUSR2 always (140).
#[test]
fn a_signal_that_asks_for_what_a_run_does_not_have_is_a_line_and_not_its_end() {
    for options in ["", "--record 64"] {
        let mut child = start(&format!("forward --seconds 600 {options}"));
        let said = BufReader::new(child.stderr.take().expect("it is piped")).lines().map_while(Result::ok);
        let mut said = said.filter(|line| !is_stall(line));
        for (signal, line) in [
            (
                Signal::HUP,
                "netmem: SIGHUP: there is no configuration to read again: start netmem with --config FILE",
            ),
            (
                Signal::USR1,
                "netmem: SIGUSR1: there is no file for a recording: start netmem with --record 1024 --record-to FILE",
            ),
            (
                Signal::USR2,
                "netmem: SIGUSR2 asks for nothing: SIGUSR1 writes the recording, and SIGHUP reads the configuration again",
            ),
        ] {
            wait_until_handled(&mut child, signal);
            kill_process(Pid::from_child(&child), signal).expect("kill(2)");
            assert_eq!(said.next().as_deref(), Some(line), "{options}");
        }
        assert_eq!(interrupted(child).status.code(), Some(0), "{options}");
    }
}

/// Seen: the handlers were only there after the wait.
#[test]
fn a_run_that_waits_for_an_interface_is_ended_by_sigterm_and_by_no_other_signal() {
    let ports = "--port packet:nosuch0 --port packet:nosuch1";
    let mut child = start(&format!("forward --mode cross-connect --wait 600 {ports}"));
    let mut said = BufReader::new(child.stderr.take().expect("it is piped")).lines();
    let line = said.next().and_then(Result::ok).expect("a line");
    assert!(line.starts_with("netmem: waits for interface nosuch0"), "{line}");
    // They come in the order of their numbers, if they come together.
    for signal in [Signal::HUP, Signal::USR1, Signal::USR2, Signal::TERM] {
        kill_process(Pid::from_child(&child), signal).expect("kill(2)");
    }
    let out = ended("a run that got SIGTERM", child);
    assert_eq!(out.status.signal(), Some(Signal::TERM.as_raw()));
}

#[test]
fn a_run_without_a_configuration_ends_with_its_terminal_and_prints_its_summary() {
    let (_reader, name) = terminal();
    let mut command = netmem("forward --seconds 600");
    command.stdin(File::open(name).expect("a terminal")).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("netmem starts");
    wait_until_handled(&mut child, Signal::HUP);
    kill_process(Pid::from_child(&child), Signal::HUP).expect("kill(2)");
    let out = ended("a run whose terminal is gone", child);
    assert_eq!((out.status.code(), stderr(&out).as_str()), (Some(0), ""));
    assert!(stdout(&out).contains("balanced"), "{}", stdout(&out));
}

/// Seen with timeout(1), which sends SIGTERM to the process and to its group: a quarter of the runs ended without their summary.
#[test]
fn two_sigterms_one_behind_the_other_end_a_run_with_its_summary() {
    for _ in 0..8 {
        let mut child = start("forward --seconds 600");
        let pid = Pid::from_child(&child);
        wait_until_it_forwards(&mut child);
        for _ in 0..2 {
            kill_process(pid, Signal::TERM).expect("kill(2)");
        }
        let out = child.wait_with_output().expect("wait");
        assert!(out.status.code() == Some(0) && stdout(&out).contains("balanced"), "{}", out.status);
    }
}

/// Seen: a start with 2 GiB of memory took SIGTERM only once all pages were prepared, seconds later, and ran.
#[test]
fn sigterm_ends_a_start_whose_memory_is_large_before_it_is_ready() {
    let folder = Folder::new("large");
    let control = folder.path("control");
    // A machine that stood still may have prepared all pages before the signal.
    let is_ended_early = (0..20).any(|_| {
        let options = format!("--frames 262144 --seconds 600 --control {}", control.display());
        let mut child = start(&format!("forward {options}"));
        wait_until_handled(&mut child, Signal::TERM);
        kill_process(Pid::from_child(&child), Signal::TERM).expect("kill(2)");
        let out = ended("a start that got SIGTERM", child);
        assert!(!control.exists(), "the socket is left behind");
        let is_ended_early = out.status.signal() == Some(Signal::TERM.as_raw());
        assert_eq!(is_ended_early, stdout(&out).is_empty(), "{}", out.status);
        is_ended_early
    });
    assert!(is_ended_early, "it ran each time");
}

/// Waits until the program has a handler for the signal.
fn wait_until_handled(child: &mut Child, signal: Signal) {
    let status = format!("/proc/{}/status", child.id());
    let handled = || {
        let status = fs::read_to_string(&status).unwrap_or_default();
        let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:"))?;
        Some(u64::from_str_radix(mask.trim(), 16).ok()? >> (signal.as_raw() - 1) & 1 == 1)
    };
    wait_while_it_runs(child, "it handles the signal", || handled() == Some(true));
}

/// Sends SIGINT once the program has a handler for it. Returns its exit status.
fn interrupted(mut child: Child) -> Output {
    wait_until_handled(&mut child, Signal::INT);
    kill_process(Pid::from_child(&child), Signal::INT).expect("kill(2)");
    ended("a run that got one SIGINT", child)
}

#[test]
fn one_sigint_ends_a_run_that_waits_for_an_absent_peer_with_its_summary() {
    let folder = Folder::new("no-peer");
    let (one, two) = (folder.path("one.sock"), folder.path("two.sock"));
    let ports = format!("--port memif:{} --port memif:{},role=server", one.display(), two.display());
    for idle in ["spin", "sleep"] {
        let out = interrupted(start(&format!("forward --mode cross-connect --idle {idle} {ports}")));
        let (text, complaint) = (stdout(&out), stderr(&out));
        // Seen: each stop without a peer was a failed unit under systemd.
        assert_eq!(out.status.code(), Some(0), "{complaint}");
        let named = ["no process listens at", "no peer has connected to"].map(|why| complaint.contains(why));
        assert!(
            text.contains("balanced") && named == [true; 2] && !complaint.contains("error"),
            "{text}{complaint}"
        );
        assert!(!two.exists(), "the socket is left behind");
    }
    let sender = interrupted(start(&format!("gen --port memif:{} --wait 600", one.display())));
    assert_eq!((sender.status.code(), stderr(&sender).as_str()), (Some(0), ""), "{}", stdout(&sender));
    assert!(stdout(&sender).contains("sent"), "{}", stdout(&sender));
    let sink = interrupted(start(&format!("sink --port memif:{}", one.display())));
    assert_eq!((sink.status.code(), stderr(&sink).as_str()), (Some(0), ""), "{}", stdout(&sink));
    assert!(stdout(&sink).contains("received"), "{}", stdout(&sink));
}

#[test]
fn one_sigint_ends_a_run_that_waits_for_a_silent_peer() {
    let folder = Folder::new("silent");
    let path = folder.path("silent.sock");
    let listener = ::netmem::system::seqpacket::Listener::new(&path).expect("a socket");
    let sender = start(&format!("gen --port memif:{} --wait 600", path.display()));
    let begun = Instant::now();
    let _silent = loop {
        assert!(begun.elapsed() < PATIENCE, "no process connects");
        match listener.accept() {
            Some(connection) => break connection,
            None => thread::sleep(Duration::from_millis(1)),
        }
    };
    let sender = interrupted(sender);
    assert_eq!((sender.status.code(), stderr(&sender).as_str()), (Some(0), ""), "{}", stdout(&sender));
}

#[test]
fn one_sigint_ends_stat_that_gets_no_answer() {
    let folder = Folder::new("unanswered");
    let path = folder.path("control");
    let _silent = UnixListener::bind(&path).expect("a socket");
    let stat = interrupted(start(&format!("stat --control {}", path.display())));
    assert_eq!((stat.status.signal(), stdout(&stat).as_str()), (Some(Signal::INT.as_raw()), ""));
}
