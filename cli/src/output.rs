//! Standard output, where a closed pipe is an error and no panic.

use crate::failure::Failure;
use std::env;
use std::io::{self, IsTerminal, Write};

/// Writes `text` to standard output, all of it.
///
/// # Errors
/// [`Failure::Run`] when nobody takes it.
pub fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .map_err(|error| Failure::run(format!("cannot write to standard output: {error}")))
}

/// Whether standard output wants colours: a terminal that knows them, and nobody said NO_COLOR.
pub fn is_coloured() -> bool {
    let is_set = |name| env::var_os(name).is_some_and(|value| !value.is_empty());
    io::stdout().is_terminal() && !is_set("NO_COLOR") && env::var_os("TERM").is_none_or(|term| term != "dumb")
}
