//! `netmem set` and `netmem reload`: change a running `netmem forward`.

use crate::args::{ReloadArgs, SetArgs};
use crate::control::{Record, client, path_of_run};
use crate::failure::Failure;
use crate::output;
use crate::top::columns;
use netmem_ports::nearest;
use serde_json::json;
use std::time::Duration;

/// Sets a key, reads one, or lists them.
///
/// # Errors
/// [`Failure::NotNow`] if no process answers, [`Failure::Input`] if there is no such key or value.
pub fn run(args: &SetArgs) -> Result<(), Failure> {
    let path = path_of_run(args.control.as_deref())?;
    let patience = Duration::from_secs_f64(args.timeout);
    let ask = |request| client::ask(&path, &request, patience);
    match (&args.key, &args.value) {
        (Some(key), Some(value)) => ask(json!({"set": {"key": key, "value": value}})).map(drop),
        (Some(key), None) => one(key, &ask(json!({"get": "keys"}))?, args.json),
        (None, _) => {
            let keys = ask(json!({"get": "keys"}))?;
            output::print(&if args.json { format!("{}\n", json!(keys)) } else { table(&keys, columns()) })
        }
    }
}

/// Asks a run to read its configuration again.
///
/// # Errors
/// [`Failure::NotNow`] if no process answers, [`Failure::Input`] with the reason why nothing has changed.
pub fn reload(args: &ReloadArgs) -> Result<(), Failure> {
    let path = path_of_run(args.control.as_deref())?;
    let patience = Duration::from_secs_f64(args.timeout);
    let overridden = client::ask(&path, &json!({"do": "reload"}), patience)?;
    let keys: Vec<_> = overridden.iter().map(|record| record.text("overridden")).collect();
    output::print(&match &keys[..] {
        [] => "configuration reloaded\n".to_owned(),
        keys => format!("configuration reloaded; overridden, after netmem set: {}\n", keys.join(", ")),
    })
}

/// Prints a key with its whole value.
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

/// Maximum characters of a value in the table on a terminal. Elsewhere the whole value is printed.
const VALUE_MAX: usize = 24;

/// Returns the keys sorted by name, each with its value, unit, range and effect. Each key takes a line, or several
/// on a narrow terminal.
fn table(keys: &[Record], columns: Option<usize>) -> String {
    let mut rows: Vec<[String; 4]> = keys.iter().map(row).collect();
    rows.sort();
    let lines = |value_max: usize| {
        let cut = |value: &str| cut(value, value_max);
        let width =
            |at: usize| rows.iter().map(|row| cut(&row[at]).chars().count().min(VALUE_MAX + 12)).max();
        let [key_width, value_width, range_width] = [0, 1, 2].map(|at| width(at).unwrap_or(0));
        let line = |[key, value, range, what]: &[String; 4]| {
            let value = cut(value);
            format!("{key:<key_width$}  {value:<value_width$}  {range:<range_width$}  {what}")
        };
        rows.iter().map(line).collect::<Vec<_>>()
    };
    let Some(columns) = columns else { return lines(usize::MAX).join("\n") + "\n" };
    let lines = lines(VALUE_MAX);
    if lines.iter().all(|line| line.chars().count() <= columns) {
        return lines.join("\n") + "\n";
    }
    let mut text = String::new();
    for [key, value, range, what] in &rows {
        fold(&mut text, columns, 0, &format!("{key} = {value}"));
        fold(&mut text, columns, 4, &format!("{range}: {what}"));
    }
    text
}

/// Appends a line that is indented by `spaces`. It is folded between words if it is wider than the terminal.
fn fold(text: &mut String, columns: usize, spaces: usize, line: &str) {
    text.push_str(&" ".repeat(spaces));
    let (mut taken, mut is_first) = (spaces, true);
    for word in line.split_whitespace() {
        let length = word.chars().count();
        if is_first {
            is_first = false;
        } else if taken + 1 + length > columns {
            text.push_str("\n    ");
            taken = 4;
        } else {
            text.push(' ');
            taken += 1;
        }
        text.push_str(word);
        taken += length;
    }
    text.push('\n');
}

/// Returns a text with at most this many characters. A longer text is truncated.
fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

fn row(key: &Record) -> [String; 4] {
    let [name, value, unit, range, what] =
        ["key", "value", "unit", "range", "what"].map(|column| key.text(column).to_owned());
    let is_number = value.parse::<u64>().is_ok() && !unit.is_empty();
    [name, if is_number { format!("{value} {unit}") } else { value }, range, what]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys() -> [Record; 3] {
        let key = |key: &str, value: &str, unit: &str| {
            let record = Record::default().with("key", key).with("value", value);
            record.with("unit", unit).with("range", "1 to 9").with("what", "how many there are at most")
        };
        [
            key("rules", "drop,sport=1 drop,sport=2 drop,sport=3 drop,sport=4", ""),
            key("pool.rx.cache", "7", "frames"),
            key("local_queue.milliseconds", "none", "ms"),
        ]
    }

    #[test]
    fn keys_stand_in_order_with_units_and_long_values_are_cut_on_a_terminal() {
        assert_eq!(
            table(&keys(), Some(200)),
            "local_queue.milliseconds  none                       1 to 9  how many there are at most\n\
             pool.rx.cache             7 frames                   1 to 9  how many there are at most\n\
             rules                     drop,sport=1 drop,sport=…  1 to 9  how many there are at most\n"
        );
    }

    /// Seen: on 120 columns the terminal folded every line, and on 50 into four.
    #[test]
    fn on_a_narrow_terminal_each_key_has_lines_of_its_own_and_no_line_is_longer_than_it_is() {
        assert_eq!(
            table(&keys(), Some(36)),
            "local_queue.milliseconds = none\n    1 to 9: how many there are at\n    most\n\
             pool.rx.cache = 7 frames\n    1 to 9: how many there are at\n    most\n\
             rules = drop,sport=1 drop,sport=2\n    drop,sport=3 drop,sport=4\n    1 to 9: how many there are at\n    most\n"
        );
    }

    /// Seen: in a pipe the rules ended with an ellipsis.
    #[test]
    fn in_a_pipe_every_value_is_whole() {
        let text = table(&keys(), None);
        assert!(text.contains(" drop,sport=3 drop,sport=4  1 to 9 "), "{text}");
    }
}
