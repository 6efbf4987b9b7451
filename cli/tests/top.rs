//! Tests of `netmem top` on a terminal: the shown values, the keys, and the terminal at the end.

mod netmem;

use netmem::{Run, netmem, output, stderr, stdout, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{self, OpenptFlags};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::process::{Child, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

/// A terminal with `netmem top` on it.
struct Terminal {
    child: Child,
    /// The end that a person sits at.
    keyboard: File,
    /// The program's end.
    its_end: File,
    before: Settings,
    said: Arc<Mutex<String>>,
}

impl Terminal {
    fn start(run: &Run) -> Terminal {
        let (keyboard, its_end) = ends();
        let before = settings(&its_end);
        let clone = || Stdio::from(its_end.try_clone().expect("another"));
        let mut command = netmem(&format!("top --interval 0.1 --control {}", run.path.display()));
        command.env("TERM", "xterm").env_remove("NO_COLOR").stderr(Stdio::piped());
        let child = command.stdin(clone()).stdout(clone()).spawn().expect("netmem starts");
        let said = Arc::new(Mutex::new(String::new()));
        let (mut screen, to) = (keyboard.try_clone().expect("another"), Arc::clone(&said));
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(n) = screen.read(&mut bytes) {
                to.lock().expect("the text").push_str(&String::from_utf8_lossy(&bytes[..n]));
            }
        });
        Terminal { child, keyboard, its_end, before, said }
    }

    /// Presses keys, and waits for a text on the screen that has not been there since.
    #[track_caller]
    fn press(&mut self, keys: &str, says: &str) {
        self.said.lock().expect("the text").clear();
        self.keyboard.write_all(keys.as_bytes()).expect("keys");
        self.sees(says);
    }

    #[track_caller]
    fn sees(&self, text: &str) {
        wait_until(text, || self.said.lock().expect("the text").contains(text));
    }

    /// Waits for the end, and asserts that the terminal is as it was. Returns the standard error.
    #[track_caller]
    fn ends(mut self) -> (ExitStatus, String) {
        let mut ended = None;
        wait_until("the end", || {
            ended = self.child.try_wait().expect("its state");
            ended.is_some()
        });
        // The cursor, lines that are broken, and the screen that was there.
        self.sees("\x1b[?7h\x1b[?25h\x1b[?1049l");
        assert_eq!(settings(&self.its_end), self.before);
        let mut text = String::new();
        self.child.stderr.take().expect("a pipe").read_to_string(&mut text).expect("text");
        (ended.expect("it has ended"), text)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn size(terminal: &File, columns: u16, rows: u16) {
    let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(terminal, size).expect("a size");
}

/// A terminal's settings, as text that can be compared.
type Settings = String;

fn settings(terminal: &File) -> Settings {
    format!("{:?}", tcgetattr(terminal).expect("settings"))
}

fn is_raw(terminal: &File) -> bool {
    !tcgetattr(terminal).expect("settings").local_modes.contains(LocalModes::ICANON)
}

/// Both ends of a new terminal: the person's, and the program's.
fn ends() -> (File, File) {
    let keyboard = pty::openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
    pty::unlockpt(&keyboard).expect("a terminal");
    let name = pty::ptsname(&keyboard, Vec::new()).expect("its other end").into_string().expect("a path");
    let its_end = File::options().read(true).write(true).open(name).expect("it opens");
    size(&its_end, 80, 24);
    (File::from(keyboard), its_end)
}

#[test]
fn a_run_is_watched_filtered_sorted_paused_and_left_with_the_terminal_as_it_was() {
    let run = Run::start("watch");
    let mut top = Terminal::start(&run);
    top.sees("\x1b[?1049h");
    for text in ["mem:0", "mem:1", "WORKERS", "POOLS"] {
        top.sees(text);
    }
    assert!(is_raw(&top.its_end), "keys come as they are pressed");
    top.press("/", "filter: _");
    top.press("MEM:1", "filter: mem:1_");
    top.press("\r", "filter: mem:1  ");
    top.press("s", "sort: name  filter: mem:1  ");
    top.press("\x1b", "sort: name  1-");
    top.press(" ", "PAUSED  sort: name  ");
    top.press("a", "PAUSED  sort: name  all rows  1-");
    top.press("\x1b[B", "all rows  2-");
    top.press("?", "q quit");
    top.press("?", "all rows  2-");
    top.said.lock().expect("the text").clear();
    size(&top.its_end, 100, 70);
    top.sees("\x1b[70;1H");
    top.keyboard.write_all(b"q").expect("a key");
    let (status, said) = top.ends();
    assert_eq!((status.code(), said.as_str()), (Some(0), ""));
    run.end();
}

#[test]
fn ctrl_c_and_a_signal_leave_the_terminal_as_it_was() {
    let run = Run::start("signal");
    let mut top = Terminal::start(&run);
    top.press("", "mem:0");
    top.keyboard.write_all(b"\x03").expect("a key");
    assert_eq!(top.ends().0.code(), Some(0));
    let top = Terminal::start(&run);
    top.sees("mem:0");
    kill_process(Pid::from_child(&top.child), Signal::TERM).expect("it can be signalled");
    assert_eq!(top.ends().0.code(), Some(0));
    run.end();
}

#[test]
fn a_screen_that_watches_a_run_shows_that_it_has_ended() {
    let run = Run::start("ends");
    let top = Terminal::start(&run);
    top.sees("mem:0");
    let path = run.path.clone();
    run.end();
    let (status, said) = top.ends();
    assert_eq!(said, format!("the run at {} has ended\n", path.display()));
    assert_eq!(status.code(), Some(0));
}

#[test]
fn without_a_terminal_or_a_run_one_line_says_what_to_do() {
    let out = output("top --control /nonexistent.sock");
    let said = "error: netmem top: standard output is not a terminal: use netmem stat --interval 1\n";
    assert_eq!((stderr(&out).as_str(), stdout(&out).as_str(), out.status.code()), (said, "", Some(2)));
    let run = Run::start("nobody");
    let path = run.path.clone();
    run.end();
    assert!(!fs::exists(&path).expect("it can be looked for"));
    let (_keyboard, its_end) = ends();
    let before = settings(&its_end);
    let mut command = netmem(&format!("top --control {}", path.display()));
    let clone = || Stdio::from(its_end.try_clone().expect("another"));
    let out = command.env("TERM", "xterm").stdin(clone()).stdout(clone()).stderr(Stdio::piped()).output();
    let out = out.expect("netmem starts");
    let said = stderr(&out);
    assert!(said.contains("check that netmem forward --control") && said.lines().count() == 1, "{said}");
    assert_eq!((out.status.code(), settings(&its_end)), (Some(3), before));
}
