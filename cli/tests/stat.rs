//! What `netmem stat` prints of a run: lines, values, zeros, and names in bold.

mod netmem;

use netmem::{Run, netmem, output, start, stderr, stdout, wait_until};
use rustix::pty::{self, OpenptFlags};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::net::UnixListener;

#[test]
fn a_line_an_interval_shows_rates_and_json_has_the_time_and_rates() {
    let run = Run::start("lines");
    let watch = |words: &str, lines: usize| {
        let mut watching = start(&format!("stat {words} --interval 0.05 --control {}", run.path.display()));
        let said = BufReader::new(watching.stdout.take().unwrap()).lines();
        let said: Vec<_> = said.take(lines).map(Result::unwrap).collect();
        watching.kill().unwrap();
        watching.wait().unwrap();
        said
    };
    let lines = watch("", 24);
    for header in [0, 22] {
        assert!(lines[header].contains(" Mbit/s ") && lines[header + 1].contains(" drop/s "), "{lines:?}");
    }
    assert_eq!(lines.iter().filter(|line| line.contains("rx/s")).count(), 2, "{lines:?}");
    let rates = lines[2..22].iter().map(|line| line.split_whitespace().next().unwrap());
    assert!(rates.clone().any(|rate| rate != "0"), "{lines:?}");
    let lines = watch("ports --json", 20);
    let lines: Vec<Value> = lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(lines[0]["ports"][0]["rates"].is_null(), "{}", lines[0]);
    let times: Vec<_> = lines.iter().map(|line| line["time"].as_f64().unwrap()).collect();
    assert!(times.iter().all(|time| *time > 1.7e9), "{times:?}");
    let grown = |line: &Value| line["ports"][0]["rates"]["rx"].as_f64().unwrap() > 0.0;
    assert!(lines[1..].iter().any(grown), "{lines:?}");
    run.end();
}

#[test]
fn one_value_can_be_read_and_zeros_are_shown_on_request() {
    let run = Run::start("value");
    let received = |words: &str| {
        let out = run.ask(words);
        assert_eq!((stderr(&out).as_str(), out.status.code()), ("", Some(0)), "{words}");
        stdout(&out).trim_end().parse::<u64>().unwrap()
    };
    assert!(received("stat forward received") <= received("stat forward forward.received"));
    assert!(received("stat pools rx.total") > 0);
    wait_until("nothing is received", || received("stat ports mem:0.rx") > 0);
    assert_eq!(stdout(&run.ask("stat ports mem:1.kind")), "mem\n");
    let value = run.json("stat pools total --json");
    assert!(value["value"].as_u64() > Some(0) && value["time"].as_f64() > Some(1.7e9), "{value}");
    for (words, said) in [
        ("stat ports rx", "no record for \"rx\": give NAME.VALUE, with one of the names mem:0, mem:1"),
        ("stat ports mem:0.speed", "no value \"speed\": there are name, kind, number, worker, state, ring, "),
    ] {
        let out = run.ask(words);
        assert!(stderr(&out).contains(said), "{}", stderr(&out));
        assert_eq!((stdout(&out).as_str(), out.status.code()), ("", Some(2)), "{words}");
    }
    let (brief, all) = (stdout(&run.ask("stat ports")), stdout(&run.ask("stat ports --all")));
    assert!(!brief.contains("bad_descriptor") && all.contains("bad_descriptor"), "{brief}{all}");
    run.end();
}

/// Returns the output of the program on a terminal.
fn on_terminal(words: &str, environment: (&str, &str)) -> String {
    let terminal = pty::openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
    pty::unlockpt(&terminal).expect("a terminal");
    let its_end = pty::ptsname(&terminal, Vec::new()).expect("its other end").into_string().expect("a path");
    let its_end = fs::OpenOptions::new().read(true).write(true).open(its_end).expect("it opens");
    let mut command = netmem(words);
    command.env_remove("NO_COLOR").env("TERM", "xterm").env(environment.0, environment.1).stdout(its_end);
    let mut child = command.spawn().expect("netmem starts");
    drop(command);
    let mut said = Vec::new();
    // A read from a terminal that no process writes to any more is an error.
    let _ = fs::File::from(terminal).read_to_end(&mut said);
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
    String::from_utf8(said).expect("text")
}

#[test]
fn names_are_bold_on_a_terminal_unless_no_color_is_set_and_plain_in_a_pipe() {
    let run = Run::start("colours");
    let words = format!("stat forward --all --control {}", run.path.display());
    let bold = "\x1b[1mforward\x1b[0m\r\n  received";
    assert!(on_terminal(&words, ("NO_COLOR", "")).starts_with(bold), "an empty one says nothing");
    for (name, value) in [("NO_COLOR", "1"), ("TERM", "dumb")] {
        assert!(on_terminal(&words, (name, value)).starts_with("forward\r\n  received"), "{name}={value}");
    }
    assert!(!stdout(&run.ask("stat")).contains('\x1b'));
    run.end();
}

/// Seen: `netmem stat` waited for a minute for a run that was stopped, and ended with the code of a wrong argument.
#[test]
fn a_run_that_does_not_answer_within_the_timeout_may_be_asked_later() {
    let path = std::env::temp_dir().join(format!("netmem-stat-{}-stopped", std::process::id()));
    // As a stopped process: the kernel connects clients to it, and nobody answers.
    let stopped = UnixListener::bind(&path).expect("a socket");
    for words in ["stat", "stat routes", "set pool.rx.cache", "set pool.rx.cache 7", "reload"] {
        let out = output(&format!("{words} --timeout 0.1 --control {}", path.display()));
        assert!(stderr(&out).contains("no complete answer within 100ms"), "{words}: {}", stderr(&out));
        assert_eq!((stdout(&out).as_str(), out.status.code()), ("", Some(3)), "{words}");
    }
    drop(stopped);
    let out = output(&format!("stat --control {}", path.display()));
    assert_eq!(out.status.code(), Some(3), "{}", stderr(&out));
    std::fs::remove_file(&path).expect("the socket");
    let out = output("stat --timeout 0");
    assert_eq!(out.status.code(), Some(2), "{}", stderr(&out));
}
