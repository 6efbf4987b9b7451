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

/// A whole number with its thousands apart: `12,345,678`.
pub fn thousands(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (place, digit) in digits.char_indices() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::thousands;

    #[test]
    fn thousands_stand_apart() {
        let numbers = [0, 999, 1_000, 123_456, 12_345_678, u64::MAX];
        let texts = ["0", "999", "1,000", "123,456", "12,345,678", "18,446,744,073,709,551,615"];
        assert_eq!(numbers.map(thousands), texts);
    }
}
