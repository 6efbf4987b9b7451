//! Any bytes as lines of the control socket: each gets one line.

#![allow(missing_docs)]

use netmem_cli::untrusted::Control;

pub fn run(bytes: &[u8]) {
    done(bytes);
}

/// How many of the lines were done.
pub fn done(bytes: &[u8]) -> usize {
    let control = Control::default();
    let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines.filter(|line| one(&control, line)).count()
}

fn one(control: &Control, line: &[u8]) -> bool {
    let (answer, is_done) = control.answer(line);
    let begin = if is_done { "{\"ok\":[" } else { "{\"error\":\"" };
    assert!(answer.starts_with(begin) && !answer.contains(char::is_control), "{line:?}: {answer:?}");
    is_done
}
