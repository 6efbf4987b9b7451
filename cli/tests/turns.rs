//! Tests of runs of the lab whose turns are processes: the results of two turns, and the state after one is killed.
#![cfg(feature = "lab")]

mod netmem;

use netmem::{child_of, netmem, skip, stdout};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;
use std::{fs, io, thread};

/// Rounds as short as they go.
const SHORT: &str = "--quick --set windows=8 --set watch=1";

/// The number of rounds and of turns is so large that a test finds a later turn while it runs.
const ROUNDS: u64 = 4000;
const SETUPS: u64 = 20;

/// The settings of such a run.
fn many() -> String {
    format!("--set rounds={ROUNDS} --set rounds-max={ROUNDS} --set setups={SETUPS}")
}

/// A run that writes its report to its own file.
struct Run {
    child: Child,
    file: PathBuf,
}

/// What came of it.
struct Ended {
    out: Output,
    /// Returns an empty object if there is none.
    report: Value,
}

impl Run {
    fn start(name: &str, set: &str) -> Run {
        Run::of("page-fast-path", name, set)
    }

    fn of(experiment: &str, name: &str, set: &str) -> Run {
        let file = std::env::temp_dir().join(format!("netmem-turns-{}-{name}.json", std::process::id()));
        let program = netmem(&format!("lab run {experiment} {SHORT} {set} --json {}", file.display()));
        // The tests may run under nohup(1), by which a run ignores the end of its terminal.
        let mut command = Command::new("env");
        command.arg("--default-signal=HUP").arg(program.get_program()).args(program.get_args());
        child_of(&mut command);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("netmem starts");
        Run { child, file }
    }

    /// The turn that it waits for, once that is another one than `before`.
    fn turn_after(&mut self, before: Option<Pid>) -> Pid {
        loop {
            if let Some(turn) =
                turns_of(Pid::from_child(&self.child)).into_iter().find(|turn| Some(*turn) != before)
            {
                return turn;
            }
            assert_eq!(self.child.try_wait().expect("wait"), None, "it ended by itself");
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// A turn behind the first, stopped while the run waits for it. One that ends before it is stopped is left for the
    /// next.
    fn stopped_turn(&mut self) -> Pid {
        let mut turn = self.turn_after(None);
        loop {
            turn = self.turn_after(Some(turn));
            if kill_process(turn, Signal::STOP).is_ok() && has_stopped(turn) {
                return turn;
            }
        }
    }

    fn end(self) -> Ended {
        let out = self.child.wait_with_output().expect("wait");
        let text = fs::read_to_string(&self.file).unwrap_or_default();
        // A run that was killed wrote none.
        let _ = fs::remove_file(&self.file);
        Ended { out, report: serde_json::from_str(&text).unwrap_or_default() }
    }
}

impl Ended {
    /// Windows of the first row, those that were dropped too.
    fn windows(&self) -> u64 {
        let count = |key: &str| self.report["rows"][0][key].as_u64().unwrap_or_default();
        count("windows") + count("windows_dropped")
    }

    /// Returns the number of set-ups of [`many`] whose windows these are. Asserts that they are whole ones, and not all.
    fn whole_setups(&self) -> u64 {
        let (windows, each) = (self.windows(), ROUNDS / SETUPS * 8);
        assert!(windows.is_multiple_of(each) && (1..SETUPS).contains(&(windows / each)), "{windows} windows");
        windows / each
    }

    fn failed_checks(&self) -> Vec<&str> {
        let checks = self.report["checks"].as_array().expect("checks");
        checks
            .iter()
            .filter(|check| check["ok"] == false)
            .filter_map(|check| check["detail"].as_str())
            .collect()
    }
}

/// The children of a process whose words, each with a 0 behind it, are such.
fn children_of(parent: Pid, is_such: impl Fn(&str) -> bool) -> Vec<Pid> {
    let threads = fs::read_dir(format!("/proc/{parent}/task")).into_iter().flatten().flatten();
    let lists = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    let pids = lists.collect::<Vec<_>>().concat();
    let words = |pid: &str| fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let such = pids.split_whitespace().filter(|pid| is_such(&words(pid)));
    such.filter_map(|pid| Pid::from_raw(pid.parse().ok()?)).collect()
}

/// The processes that take a turn for this one.
fn turns_of(run: Pid) -> Vec<Pid> {
    children_of(run, |words| words == "netmem\0lab\0turn\0")
}

fn kill(pid: Pid, signal: Signal) {
    kill_process(pid, signal).expect("kill(2)");
}

/// Whether a process to which SIGSTOP was sent has stopped, and not ended before.
fn has_stopped(pid: Pid) -> bool {
    loop {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // Behind the name in parentheses.
        match stat.rsplit_once(") ").and_then(|(_, behind)| behind.chars().next()) {
            Some('T') => return true,
            None | Some('Z' | 'X') => return false,
            Some(_) => thread::sleep(Duration::from_millis(1)),
        }
    }
}

/// Waits until the process is gone.
fn await_end(pid: Pid) {
    while fs::metadata(format!("/proc/{pid}")).is_ok() {
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn two_turns_give_twice_the_windows_of_one() {
    let windows = |name, setups| {
        let set = format!("--set rounds={setups} --set rounds-max={setups} --set setups={setups}");
        let run = Run::start(name, &set).end();
        run.windows()
    };
    assert_eq!([windows("one", 1), windows("two", 2)], [8, 16]);
}

#[test]
fn ctrl_c_in_a_later_turn_keeps_those_before_and_leaves_no_process() {
    let mut run = Run::start("interrupted", &many());
    let turn = run.stopped_turn();
    kill(Pid::from_child(&run.child), Signal::INT);
    kill(turn, Signal::CONT);
    let ended = run.end();
    assert_eq!(ended.out.status.code(), Some(130), "{}", stdout(&ended.out));
    assert_eq!(ended.report["interrupted"], true);
    assert!(fs::metadata(format!("/proc/{turn}")).is_err(), "the turn is still there");
    let notes = ended.report["notes"].as_array().expect("notes");
    let note = format!("stopped: the rows are of {} set-ups", ended.whole_setups());
    assert!(notes.contains(&note.as_str().into()), "{notes:?}");
}

/// Seen: the end of the terminal lost all finished set-ups, and nothing said what a second Ctrl-C does.
#[test]
fn the_end_of_the_terminal_keeps_the_finished_turns_and_the_run_says_that_it_ends() {
    let mut run = Run::start("hung-up", &many());
    let turn = run.stopped_turn();
    kill(Pid::from_child(&run.child), Signal::HUP);
    kill(turn, Signal::CONT);
    let ended = run.end();
    let said = String::from_utf8_lossy(&ended.out.stderr).into_owned();
    assert_eq!(ended.out.status.code(), Some(130), "{said}");
    assert!(said.contains("a second Ctrl-C ends it at once, and what was measured is lost"), "{said}");
    ended.whole_setups();
}

#[test]
fn a_run_that_is_killed_leaves_no_turn() {
    let mut run = Run::start("killed", "--set rounds=10000 --set rounds-max=10000 --set setups=1");
    let turn = run.turn_after(None);
    kill(Pid::from_child(&run.child), Signal::KILL);
    await_end(turn);
    assert_eq!(run.end().report, Value::Null);
}

#[test]
fn a_turn_that_is_killed_fails_the_run_which_keeps_the_turns_before() {
    let mut run = Run::start("dead", &many());
    kill(run.stopped_turn(), Signal::KILL);
    let ended = run.end();
    assert_eq!(ended.out.status.code(), Some(1), "{}", stdout(&ended.out));
    let failed = ended.failed_checks();
    // It may have reported its result just before it was stopped.
    let texts = ["ended without a result", "reported its result, then"]
        .map(|how| format!("the process of the set-up {how}: signal: 9 (SIGKILL)"));
    let [failed] = failed[..] else { panic!("{failed:?}") };
    assert!(texts.iter().any(|text| failed.starts_with(text)), "{failed}");
    ended.whole_setups();
}

#[test]
fn ctrl_c_and_the_end_of_its_turn_end_a_simulator_too() {
    let test = "turns::ctrl_c_and_the_end_of_its_turn_end_a_simulator_too";
    if Command::new("valgrind").arg("--version").output().is_err() {
        return skip(test, "there is no valgrind (apt-get install valgrind)");
    }
    for (name, interrupts) in [("simulated", true), ("simulated-dead", false)] {
        let mut run = Run::of("forward-bulk-free", name, "--set rounds=1 --set rounds-max=1 --set setups=1");
        let turn = run.turn_after(None);
        let simulator = loop {
            let found = children_of(turn, |words| words.contains("callgrind-out-file="));
            if let Some(simulator) = found.first() {
                break *simulator;
            }
            if run.child.try_wait().expect("wait").is_some() {
                return skip(test, "forwarding is not measured here");
            }
            thread::sleep(Duration::from_millis(1));
        };
        if interrupts {
            kill(Pid::from_child(&run.child), Signal::INT);
        } else {
            kill(turn, Signal::KILL);
        }
        await_end(simulator);
        let ended = run.end();
        if interrupts {
            let notes = ended.report["notes"].as_array().expect("notes");
            assert!(
                notes.contains(&"no share of the slow paths of netmem/base: stopped".into()),
                "{notes:?}"
            );
        } else {
            assert_eq!(ended.out.status.code(), Some(1), "{}", stdout(&ended.out));
        }
    }
}

#[test]
fn an_interrupted_run_is_resumed_experiment_by_experiment() {
    let file = std::env::temp_dir().join(format!("netmem-turns-{}-resumed.json", std::process::id()));
    let _ = fs::remove_file(&file);
    let run = |names: &str, set: &str| {
        let mut command =
            netmem(&format!("lab run {names} {SHORT} {set} --resume --json {}", file.display()));
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("netmem starts")
    };
    let reports = || -> Vec<Value> {
        serde_json::from_str(&fs::read_to_string(&file).unwrap_or_default()).unwrap_or_default()
    };
    let named = |reports: &[Value]| -> Vec<(String, bool)> {
        let one = |report: &Value| {
            (report["experiment"].as_str().unwrap_or_default().to_owned(), report["interrupted"] == true)
        };
        reports.iter().map(one).collect()
    };
    let small = "--set rounds=5 --set rounds-max=5 --set setups=1";
    let first = run("page-fast-path", small).wait_with_output().expect("wait");
    assert_eq!(first.status.code(), Some(0), "{}", stdout(&first));
    // Another experiment is begun and not ended.
    let endless = "--set rounds=10000 --set rounds-max=10000 --set setups=1";
    let mut child = run("page-order", endless);
    while turns_of(Pid::from_child(&child)).is_empty() {
        assert_eq!(child.try_wait().expect("wait"), None, "it ended by itself");
        thread::sleep(Duration::from_millis(1));
    }
    kill(Pid::from_child(&child), Signal::INT);
    assert_eq!(child.wait_with_output().expect("wait").status.code(), Some(130));
    let (order, fast) = ("page-order".to_owned(), "page-fast-path".to_owned());
    assert_eq!(named(&reports()), [(fast.clone(), false), (order.clone(), true)]);
    let kept = reports().remove(0);
    // The first is not run again, and the interrupted one is replaced, though its settings were others.
    let last = run("page-fast-path page-order", small).wait_with_output().expect("wait");
    let whole = reports();
    fs::remove_file(&file).expect("it was there");
    assert_eq!(last.status.code(), Some(0), "{}", stdout(&last));
    assert_eq!(named(&whole), [(fast, false), (order, false)]);
    assert_eq!(whole[0], kept);
}

#[test]
fn a_quick_run_of_all_says_how_long_it_takes_at_most() {
    let mut child = netmem("lab run all --quick")
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("netmem starts");
    let mut line = String::new();
    let mut said = io::BufReader::new(child.stderr.take().expect("standard error"));
    io::BufRead::read_line(&mut said, &mut line).expect("a line");
    kill(Pid::from_child(&child), Signal::INT);
    assert_eq!(child.wait().expect("wait").code(), Some(130));
    assert!(line.starts_with("self-check: set-up 1, ") && line.ends_with(", at most 10 min\n"), "{line}");
}
