//! `netmem set` and `netmem reload`: change a running `netmem forward`.

use crate::args::{ReloadArgs, SetArgs};
use crate::control::{Record, client, default_path};
use crate::failure::Failure;
use crate::output;
use netmem_ports::nearest;
use serde_json::json;
use std::fmt::Write;

/// Turns a key, reads one, or lists them.
///
/// # Errors
/// [`Failure::Input`]: nobody answers, no such key, no such value.
pub fn run(args: &SetArgs) -> Result<(), Failure> {
    let path = args.control.clone().unwrap_or_else(default_path);
    let ask = |request| client::ask(&path, &request).map_err(Failure::Input);
    match (&args.key, &args.value) {
        (Some(key), Some(value)) => ask(json!({"set": {"key": key, "value": value}})).map(drop),
        (Some(key), None) => one(key, &ask(json!({"get": "keys"}))?, args.json),
        (None, _) => {
            let keys = ask(json!({"get": "keys"}))?;
            output::print(&if args.json { format!("{}\n", json!(keys)) } else { table(&keys) })
        }
    }
}

/// Has the configuration of a run read again.
///
/// # Errors
/// [`Failure::Input`]: nobody answers, or why nothing has changed.
pub fn reload(args: &ReloadArgs) -> Result<(), Failure> {
    let path = args.control.clone().unwrap_or_else(default_path);
    client::ask(&path, &json!({"do": "reload"})).map_err(Failure::Input)?;
    output::print("configuration reloaded\n")
}

/// Prints a key with the whole of its value.
fn one(key: &str, keys: &[Record], as_json: bool) -> Result<(), Failure> {
    let names = || keys.iter().map(|record| record.text("key"));
    let Some(found) = keys.iter().find(|record| record.text("key") == key) else {
        let instead = match nearest(names(), key) {
            Some(near) => format!("did you mean {near}?"),
            None => "netmem set lists them".to_owned(),
        };
        return Err(Failure::Input(format!("no key {key:?}: {instead}")));
    };
    output::print(&if as_json {
        format!("{}\n", json!(found))
    } else {
        format!("{key} = {}\n", found.text("value"))
    })
}

/// Characters of a value in the table at most; `--json` has all of it.
const VALUE_MAX: usize = 24;

/// A line a key, in the order of their names: its value with its unit, what may be given, and what it does.
fn table(keys: &[Record]) -> String {
    let mut rows: Vec<[String; 4]> = keys.iter().map(row).collect();
    rows.sort();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let (key_width, value_width, range_width) = (width(0), width(1), width(2));
    let mut text = String::new();
    for [key, value, range, what] in &rows {
        // Writing into a String cannot fail.
        let _ = writeln!(text, "{key:<key_width$}  {value:<value_width$}  {range:<range_width$}  {what}");
    }
    text
}

fn row(key: &Record) -> [String; 4] {
    let [name, value, unit, range, what] =
        ["key", "value", "unit", "range", "what"].map(|column| key.text(column));
    let mut value = value.to_owned();
    if let Some((end, _)) = value.char_indices().nth(VALUE_MAX) {
        value.truncate(end);
        value.push('…');
    }
    if value.parse::<u64>().is_ok() && !unit.is_empty() {
        value = format!("{value} {unit}");
    }
    [name.to_owned(), value, range.to_owned(), what.to_owned()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_stand_in_order_with_units_and_long_values_are_cut() {
        let key = |key: &str, value: &str, unit: &str| {
            let record = Record::default().with("key", key).with("value", value);
            record.with("unit", unit).with("range", "1 to 9").with("what", "how many")
        };
        let keys = [
            key("rules", "drop,sport=1 drop,sport=2 drop,sport=3", ""),
            key("pool.rx.cache", "7", "frames"),
            key("local_queue.milliseconds", "none", "ms"),
        ];
        assert_eq!(
            table(&keys),
            "local_queue.milliseconds  none                       1 to 9  how many\n\
             pool.rx.cache             7 frames                   1 to 9  how many\n\
             rules                     drop,sport=1 drop,sport=…  1 to 9  how many\n"
        );
    }
}
