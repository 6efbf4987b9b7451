//! Input from untrusted sources: the text of a configuration, and the lines of the control socket. The fuzz targets
//! find the program's own parsers here.

use crate::args;
use crate::control::registry::Registry;
use crate::control::{Record, answer};
use crate::failure::Failure;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

/// Parses `text` as the configuration of a `netmem forward` with these further arguments.
///
/// # Errors
/// The lines of the error for the user.
pub fn configuration(text: &str, typed: &[&str]) -> Result<(), Vec<String>> {
    args::forward_of(text, typed).map(drop).map_err(|failure: Failure| failure.lines().to_vec())
}

/// The server side of a control socket, for a run with two sections, a table, and a key of each kind.
pub struct Control(Mutex<Registry>);

impl Default for Control {
    fn default() -> Control {
        let mut registry = Registry::new();
        let record = || Record::default().with("name", "one").with("count", 7);
        registry.section("things", move || vec![record()]);
        registry.section("others", Vec::new);
        registry.table("rows", move |after| Ok(if after.is_empty() { vec![record()] } else { Vec::new() }));
        registry.set_recorded(|since| since.iter().map(|from| Record::default().with("at", *from)).collect());
        registry.set_reload(|| Err("the configuration stays as it was".to_owned()));
        static SIZE: AtomicUsize = AtomicUsize::new(3);
        static IS_ON: AtomicBool = AtomicBool::new(false);
        registry.number(
            "thing.size",
            ("1 to 9", "entries", "how large"),
            || SIZE.load(Relaxed),
            |size| (1..=9).contains(&size).then(|| SIZE.store(size, Relaxed)).ok_or("out of range"),
        );
        registry.switch(
            "thing.counts",
            "whether it counts",
            || IS_ON.load(Relaxed),
            |on| IS_ON.store(on, Relaxed),
        );
        registry.text(
            "thing.name",
            ("a name", "", "what it is called"),
            || "one".to_owned(),
            |name| {
                if name.is_empty() { Err("it is empty".to_owned()) } else { Ok(()) }
            },
        );
        Control(Mutex::new(registry))
    }
}

impl Control {
    /// Returns the answer to one line as JSON, and true if the request was carried out.
    pub fn answer(&self, line: &[u8]) -> (String, bool) {
        let answer = answer(&self.0, line);
        let is_done = matches!(answer, crate::control::Answer::Ok(_));
        (serde_json::to_string(&answer).unwrap_or_default(), is_done)
    }
}
