//! One request line, one answer line.

use super::record::Record;
use super::registry::Registry;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::{Mutex, PoisonError};

/// The fields of a request's line. Each request has some of them.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
struct Fields {
    get: Option<String>,
    of: Option<Of>,
    after: Option<String>,
    since: Option<Vec<u64>>,
    set: Option<Setting>,
    r#do: Option<String>,
}

/// A section, or several sections read at one moment.
#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "\"of\" is neither a name nor a list of names")]
enum Of {
    One(String),
    Several(Vec<String>),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object with key and value")]
struct Setting {
    key: String,
    value: Value,
}

/// A request.
#[derive(Debug)]
enum Request {
    /// All records of a section.
    Section(String),
    /// The records of several sections, read at one moment.
    Sections(Vec<String>),
    /// The records of a section behind the one with this name.
    Page(String, String),
    Keys,
    /// The recorded packets of each ring from these numbers on.
    Recorded(Vec<u64>),
    Set(Setting),
    Reload,
}

impl Request {
    /// Returns the request with these fields, or None if no request has just these.
    fn of(fields: Fields) -> Option<Request> {
        let Fields { get, of, after, since, set, r#do } = fields;
        match (get.as_deref(), of, after, since, set, r#do.as_deref()) {
            (Some("stat"), Some(Of::One(section)), None, None, None, None) => Some(Request::Section(section)),
            (Some("stat"), Some(Of::Several(all)), None, None, None, None) => Some(Request::Sections(all)),
            (Some("stat"), Some(Of::One(section)), Some(after), None, None, None) => {
                Some(Request::Page(section, after))
            }
            (Some("keys"), None, None, None, None, None) => Some(Request::Keys),
            (Some("recorded"), None, None, since, None, None) => {
                Some(Request::Recorded(since.unwrap_or_default()))
            }
            (None, None, None, None, Some(setting), None) => Some(Request::Set(setting)),
            (None, None, None, None, None, Some("reload")) => Some(Request::Reload),
            _ => None,
        }
    }
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

/// Parses a line. serde also takes an array of a struct's fields, in their order, which is no request.
fn fields(line: &[u8]) -> Result<Fields, String> {
    let text = |error: serde_json::Error| error.to_string();
    let value: Value = serde_json::from_slice(line).map_err(text)?;
    if !value.is_object() || value.get("set").is_some_and(|set| !set.is_object() && !set.is_null()) {
        return Err("it is not an object, or its \"set\" is not".to_owned());
    }
    serde_json::from_slice(line).map_err(text)
}

/// Answers one line. The registry is locked only while something in it is read or set.
pub fn answer(registry: &Mutex<Registry>, line: &[u8]) -> Answer {
    let fields = match fields(line) {
        Ok(fields) => fields,
        Err(error) => return refused(&format!("not a request ({error}): {FORMS}")),
    };
    let Some(request) = Request::of(fields) else { return refused(&format!("not a request: {FORMS}")) };
    let registry = || registry.lock().unwrap_or_else(PoisonError::into_inner);
    let done = match request {
        Request::Section(section) => registry().read(&section),
        Request::Sections(sections) => registry().read_all(&sections),
        Request::Page(section, after) => registry().read_page(&section, &after),
        Request::Keys => Ok(registry().keys()),
        Request::Recorded(since) => registry().recorded(&since),
        Request::Set(Setting { key, value }) => registry().write(&key, &plain(&value)).map(|()| Vec::new()),
        Request::Reload => {
            // The registry is not locked while the configuration is read.
            let reload = registry().reload();
            let overridden = |key| Record::default().with("overridden", key);
            reload.and_then(|reload| reload()).map(|keys| keys.into_iter().map(overridden).collect())
        }
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
            // Seen: these were answered.
            r#"["stat","things",null,null,null,null]"#,
            r#"{"set":["thing.size",4]}"#,
            r#"["stat",7,null,null,null,null]"#,
            "\u{0}\u{1}",
            "{\"\u{7f}\u{9b}31m\":1}",
        ] {
            let said = ask(bad);
            assert!(said.starts_with(r#"{"error":"#) && !said.contains(char::is_control), "{bad}: {said}");
            let is_of_rust = ["struct ", "enum ", "variant"].iter().any(|word| said.contains(word));
            assert!(!is_of_rust, "{bad}: {said}");
        }
    }
}
