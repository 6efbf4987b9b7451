//! Standard output, where a closed pipe is an error and no panic.

use crate::failure::Failure;
use std::io::{self, Write};

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
