//! One request line, one answer line.

use super::record::Record;
use super::registry::Registry;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::{Mutex, PoisonError};

/// A request.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    get: Option<String>,
    of: Option<Of>,
    after: Option<String>,
    since: Option<Vec<u64>>,
    set: Option<Setting>,
    r#do: Option<String>,
}

/// A section, or several sections read at one moment.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Of {
    One(String),
    Several(Vec<String>),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Setting {
    key: String,
    value: Value,
}

/// An answer.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Answer {
    /// Records. None if something was set.
    Ok(Vec<Record>),
    /// One line.
    Error(String),
}

const FORMS: &str = r#"give {"get":"stat","of":SECTION}, {"get":"stat","of":[SECTION,…]}, {"get":"stat","of":SECTION,"after":NAME}, {"get":"keys"}, {"get":"recorded","since":[NUMBER,…]}, {"set":{"key":KEY,"value":VALUE}} or {"do":"reload"}"#;

/// Answers one line. The registry is locked only while something in it is read or set.
pub fn answer(registry: &Mutex<Registry>, line: &[u8]) -> Answer {
    let request = match serde_json::from_slice(line) {
        Ok(request) => request,
        Err(error) => return refused(&format!("not a request ({error}): {FORMS}")),
    };
    let registry = || registry.lock().unwrap_or_else(PoisonError::into_inner);
    let done = match request {
        Request { get: Some(what), of: Some(of), after, since: None, set: None, r#do: None }
            if what == "stat" =>
        {
            match (of, after) {
                (Of::One(section), None) => registry().read(&section),
                (Of::Several(sections), None) => registry().read_all(&sections),
                (Of::One(section), Some(after)) => registry().read_page(&section, &after),
                (Of::Several(_), Some(_)) => Err(format!("not a request: {FORMS}")),
            }
        }
        Request { get: Some(what), of: None, after: None, since: None, set: None, r#do: None }
            if what == "keys" =>
        {
            Ok(registry().keys())
        }
        Request { get: Some(what), of: None, after: None, since, set: None, r#do: None }
            if what == "recorded" =>
        {
            registry().recorded(&since.unwrap_or_default())
        }
        Request {
            get: None,
            of: None,
            after: None,
            since: None,
            set: Some(Setting { key, value }),
            r#do: None,
        } => registry().write(&key, &plain(&value)).map(|()| Vec::new()),
        Request { get: None, of: None, after: None, since: None, set: None, r#do: Some(what) }
            if what == "reload" =>
        {
            let reload = registry().reload();
            let overridden = |key| Record::default().with("overridden", key);
            reload.and_then(|reload| reload()).map(|keys| keys.into_iter().map(overridden).collect())
        }
        _ => Err(format!("not a request: {FORMS}")),
    };
    done.map_or_else(|why| refused(&why), Answer::Ok)
}

/// Returns one line with an error, which may quote the request. Characters that move a terminal's cursor are left
/// out.
fn refused(why: &str) -> Answer {
    let shown = |c: char| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c };
    Answer::Error(why.chars().map(shown).collect())
}

/// Returns a value as a person would type it.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::registry::tests::registry;

    #[test]
    fn requests_are_answered_and_everything_else_gets_one_line() {
        let registry = Mutex::new(registry());
        let ask = |line: &str| serde_json::to_string(&answer(&registry, line.as_bytes())).unwrap();
        assert_eq!(ask(r#"{"get":"stat","of":"things"}"#), r#"{"ok":[{"name":"one","count":7}]}"#);
        let several = ask(r#"{"get":"stat","of":["things"]}"#);
        assert!(several.starts_with(r#"{"ok":[{"section":"things","records":1,"at":"#), "{several}");
        assert!(several.ends_with(r#"},{"name":"one","count":7}]}"#), "{several}");
        let page = ask(r#"{"get":"stat","of":"things","after":"one"}"#);
        assert!(page.starts_with(r#"{"ok":[{"section":"things","records":0,"at":"#), "{page}");
        assert_eq!(ask(r#"{"set":{"key":"thing.size","value":4}}"#), r#"{"ok":[]}"#);
        assert_eq!(ask(r#"{"set":{"key":"thing.size","value":"5"}}"#), r#"{"ok":[]}"#);
        assert!(ask(r#"{"get":"keys"}"#).contains(r#""key":"thing.size","value":"5""#));
        for bad in [
            "",
            "get",
            "[]",
            "{}",
            r#"{"get":"stat"}"#,
            r#"{"get":"all","of":"things"}"#,
            r#"{"get":"keys","of":"things"}"#,
            r#"{"get":"stat","of":["things","others"]}"#,
            r#"{"get":"stat","of":7}"#,
            r#"{"get":"stat","of":["things"],"after":""}"#,
            r#"{"get":"keys","after":""}"#,
            r#"{"get":"keys","more":1}"#,
            r#"{"set":{"key":"thing.size"}}"#,
            r#"{"set":{"key":"thing.size","value":null}}"#,
            r#"{"set":{"key":"thing.size","value":[4]}}"#,
            r#"{"do":"all"}"#,
            r#"{"do":"reload","get":"keys"}"#,
            r#"{"do":"reload"}"#,
            "\u{0}\u{1}",
            "{\"\u{7f}\u{9b}31m\":1}",
        ] {
            let said = ask(bad);
            assert!(said.starts_with(r#"{"error":"#) && !said.contains(char::is_control), "{bad}: {said}");
        }
    }
}
