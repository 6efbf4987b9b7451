//! `netmem set`: tunes a running `netmem forward`.

use crate::args::SetArgs;
use crate::control::{Record, client, default_path};
use crate::failure::Failure;
use crate::output;
use serde_json::json;
use std::fmt::Write;

/// Turns a key, or lists them.
///
/// # Errors
/// [`Failure::Input`]: nobody answers, no such key, no such value.
pub fn run(args: &SetArgs) -> Result<(), Failure> {
    let path = args.control.clone().unwrap_or_else(default_path);
    let ask = |request| client::ask(&path, &request).map_err(Failure::Input);
    match (&args.key, &args.value) {
        (Some(key), Some(value)) => ask(json!({"set": {"key": key, "value": value}})).map(drop),
        (Some(key), None) => Err(Failure::Input(format!("{key}: give a value, or no key to list them"))),
        (None, _) => {
            let keys = ask(json!({"get": "keys"}))?;
            output::print(&if args.json { format!("{}\n", json!(keys)) } else { table(&keys) })
        }
    }
}

/// A line a key.
fn table(keys: &[Record]) -> String {
    let width = |name| keys.iter().map(|key| key.text(name).len()).max().unwrap_or(0);
    let (key_width, value_width, range_width) = (width("key"), width("value"), width("range"));
    let mut text = String::new();
    for key in keys {
        let [name, value, range, what] = ["key", "value", "range", "what"].map(|column| key.text(column));
        // Writing into a String cannot fail.
        let _ = writeln!(text, "{name:<key_width$}  {value:>value_width$}  {range:<range_width$}  {what}");
    }
    text
}
