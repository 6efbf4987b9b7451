//! The readable state of a running dataplane, and its keys.

use super::record::Record;
use crate::args::number;
use crate::log::{self, Level};
use netmem_ports::nearest;
use std::fmt::Display;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The maximum duration of a reading of several sections that counts as one moment, and the maximum number of
/// attempts.
const AT_ONCE: Duration = Duration::from_millis(1);
const READINGS: u32 = 3;

/// A key: a value that can be changed while the dataplane runs.
pub struct Key {
    /// Its name, such as `pool.rx.cache`.
    pub name: String,
    /// The valid values, in words.
    pub range: String,
    /// The unit of the value.
    pub unit: &'static str,
    /// The effect of a change.
    pub what: &'static str,
    read: Box<dyn Fn() -> String + Send>,
    #[allow(clippy::type_complexity, reason = "named by its field")]
    write: Box<dyn Fn(&str) -> Result<(), String> + Send>,
}

/// Returns all records of a section.
type ReadWhole = dyn Fn() -> Vec<Record> + Send;
/// Returns the next records of a section, behind the one of this name.
type ReadPage = dyn Fn(&str) -> Result<Vec<Record>, String> + Send;

/// A function that reads a section.
enum Read {
    /// All records at once.
    Whole(Box<ReadWhole>),
    /// The records behind the one of this name, or the first ones behind an empty name. None are left if it returns none.
    Pages(Box<ReadPage>),
}

/// The name of a section, and the function that reads it.
type Section = (&'static str, Read);

/// Reads the configuration again and waits for the result: the keys whose changed values are overridden, or one line with
/// the error.
pub type Reload = Arc<dyn Fn() -> Result<Vec<&'static str>, String> + Send + Sync>;

/// Returns the recorded packets, of each ring from a number on.
type ReadRecorded = Box<dyn Fn(&[u64]) -> Vec<Record> + Send>;

/// Locked while a key or a reload changes something of all workers, so that one change is complete before the next.
pub type Changes = Arc<Mutex<()>>;

/// The sections and keys of a dataplane. Belongs to the server's thread.
pub struct Registry {
    /// The origin of the readings' clock.
    since: Instant,
    sections: Vec<Section>,
    keys: Vec<Key>,
    recorded: Option<ReadRecorded>,
    reload: Option<Reload>,
    changes: Changes,
}

impl Registry {
    /// Makes a registry without sections and keys.
    pub fn new() -> Registry {
        Registry {
            since: Instant::now(),
            sections: Vec::new(),
            keys: Vec::new(),
            recorded: None,
            reload: None,
            changes: Changes::default(),
        }
    }

    /// Adds a section.
    pub fn section(&mut self, name: &'static str, read: impl Fn() -> Vec<Record> + Send + 'static) {
        self.sections.push((name, Read::Whole(Box::new(read))));
    }

    /// Adds a section that may have a million records. `read` returns the next of them behind the one of that name.
    pub fn table(
        &mut self,
        name: &'static str,
        read: impl Fn(&str) -> Result<Vec<Record>, String> + Send + 'static,
    ) {
        self.sections.push((name, Read::Pages(Box::new(read))));
    }

    /// Sets the function that reads the recorded packets.
    pub fn set_recorded(&mut self, read: impl Fn(&[u64]) -> Vec<Record> + Send + 'static) {
        self.recorded = Some(Box::new(read));
    }

    /// Returns the recorded packets, of each ring from the given number on.
    ///
    /// # Errors
    /// One line, if nothing is recorded.
    pub fn recorded(&self, since: &[u64]) -> Result<Vec<Record>, String> {
        let none = || "this run records nothing: it was started without --record".to_owned();
        self.recorded.as_ref().map(|read| read(since)).ok_or_else(none)
    }

    /// Sets the function that reads the configuration again.
    pub fn set_reload(
        &mut self,
        reload: impl Fn() -> Result<Vec<&'static str>, String> + Send + Sync + 'static,
    ) {
        self.reload = Some(Arc::new(reload));
    }

    /// Sets the lock that is shared with the code which changes the same values without this registry.
    pub fn set_changes(&mut self, changes: Changes) {
        self.changes = changes;
    }

    /// Returns the function that reads the configuration again. It may take seconds, so do not call it while the
    /// registry is locked.
    ///
    /// # Errors
    /// One line, if there is no configuration file.
    pub fn reload(&self) -> Result<Reload, String> {
        let none = || "this run has no configuration: it was started without --config".to_owned();
        self.reload.clone().ok_or_else(none)
    }

    /// Adds a key that is a number.
    pub fn number<E: Display>(
        &mut self,
        name: impl Into<String>,
        (range, unit, what): (impl Into<String>, &'static str, &'static str),
        read: impl Fn() -> usize + Send + 'static,
        write: impl Fn(usize) -> Result<(), E> + Send + 'static,
    ) {
        let write = move |text: &str| {
            let value = number(text).ok_or_else(|| format!("{text:?} is not a whole number"))?;
            write(value).map_err(|error| error.to_string())
        };
        self.key(name.into(), (range.into(), unit, what), move || read().to_string(), write);
    }

    /// Adds a key that is on or off.
    pub fn switch(
        &mut self,
        name: impl Into<String>,
        what: &'static str,
        read: impl Fn() -> bool + Send + 'static,
        write: impl Fn(bool) + Send + 'static,
    ) {
        let read = move || if read() { "on".to_owned() } else { "off".to_owned() };
        let write = move |text: &str| {
            let states = [("on", true), ("off", false)];
            let state = states.into_iter().find(|(name, _)| *name == text);
            let (_, on) = state.ok_or_else(|| format!("{text:?} is neither on nor off"))?;
            write(on);
            Ok(())
        };
        self.key(name.into(), ("on or off".into(), "", what), read, write);
    }

    /// Adds a key that is a text.
    pub fn text(
        &mut self,
        name: impl Into<String>,
        (range, unit, what): (impl Into<String>, &'static str, &'static str),
        read: impl Fn() -> String + Send + 'static,
        write: impl Fn(&str) -> Result<(), String> + Send + 'static,
    ) {
        self.key(name.into(), (range.into(), unit, what), read, write);
    }

    fn key(
        &mut self,
        name: String,
        (range, unit, what): (String, &'static str, &'static str),
        read: impl Fn() -> String + Send + 'static,
        write: impl Fn(&str) -> Result<(), String> + Send + 'static,
    ) {
        self.keys.push(Key { name, range, unit, what, read: Box::new(read), write: Box::new(write) });
    }

    /// Returns the records of a section.
    ///
    /// # Errors
    /// One line with the names of all sections.
    pub fn read(&self, section: &str) -> Result<Vec<Record>, String> {
        match self.reader(section)? {
            Read::Whole(read) => Ok(read()),
            Read::Pages(read) => {
                let mut all = read("")?;
                while let Some(last) = all.last() {
                    let next = read(last.text("name"))?;
                    if next.is_empty() {
                        break;
                    }
                    all.extend(next);
                }
                Ok(all)
            }
        }
    }

    /// Returns the next records of a section behind the one of this name, after a record as in
    /// [`read_all`](Self::read_all). A section that has only some records returns them all behind an empty name.
    ///
    /// # Errors
    /// One line: there is no such section, or no record can have this name.
    pub fn read_page(&self, section: &str, after: &str) -> Result<Vec<Record>, String> {
        let at = self.since.elapsed();
        let records = match self.reader(section)? {
            Read::Pages(read) => read(after)?,
            Read::Whole(read) if after.is_empty() => read(),
            Read::Whole(_) => Vec::new(),
        };
        Ok([head(section, &records, at)].into_iter().chain(records).collect())
    }

    fn reader(&self, section: &str) -> Result<&Read, String> {
        let found = self.sections.iter().find(|(name, _)| *name == section);
        let names = || self.sections.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
        found
            .map(|(_, read)| read)
            .ok_or_else(|| format!("nothing called {section:?}: there are {}", names()))
    }

    /// Returns the records of several sections, read at one moment. The records of each section follow a record
    /// with the section's name, the number of its records, and the moment in seconds of a monotonic clock. A
    /// reading that took longer than a millisecond, as when the thread had to wait for a processor, is repeated at
    /// most twice.
    ///
    /// # Errors
    /// As [`Registry::read`]. One line about a section that is given twice, and about a [`table`](Self::table), which takes too
    /// long to be read at one moment.
    pub fn read_all(&self, sections: &[String]) -> Result<Vec<Record>, String> {
        let readers = self.readers_of_several(sections)?;
        let mut tries = 0;
        loop {
            let (at, began) = (self.since.elapsed(), Instant::now());
            let all: Vec<_> = readers.iter().map(|read| read()).collect();
            tries += 1;
            if tries == READINGS || began.elapsed() <= AT_ONCE {
                let with_head = sections
                    .iter()
                    .zip(all)
                    .flat_map(|(name, records)| [head(name, &records, at)].into_iter().chain(records));
                return Ok(with_head.collect());
            }
        }
    }

    /// Returns what reads these sections, each of which is given once and is not a table.
    fn readers_of_several(&self, sections: &[String]) -> Result<Vec<&ReadWhole>, String> {
        let mut readers = Vec::new();
        for (at, name) in sections.iter().enumerate() {
            match self.reader(name)? {
                _ if sections[..at].contains(name) => {
                    return Err(format!("{name:?} is given twice: give each section once"));
                }
                Read::Whole(read) => readers.push(read.as_ref()),
                Read::Pages(_) => {
                    let pages = format!(r#"{{"get":"stat","of":{name:?},"after":""}}"#);
                    return Err(format!(
                        "{name:?} is a table, which is read alone and in pages: give {pages}"
                    ));
                }
            }
        }
        Ok(readers)
    }

    /// Returns the keys with their values.
    pub fn keys(&self) -> Vec<Record> {
        let record = |key: &Key| {
            Record::default()
                .with("key", key.name.as_str())
                .with("value", (key.read)())
                .with("range", key.range.as_str())
                .with("unit", key.unit)
                .with("what", key.what)
        };
        self.keys.iter().map(record).collect()
    }

    /// Sets a key, and logs that.
    ///
    /// # Errors
    /// One line. If there is no key of this name, the line has the most similar name, or all names if none is
    /// similar. If the value is out of range, the line has the range. Nothing has changed then.
    pub fn write(&self, name: &str, value: &str) -> Result<(), String> {
        let Some(key) = self.keys.iter().find(|key| key.name == name) else {
            return Err(format!("no key {name:?}: {}", self.instead_of(name)));
        };
        let alone = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        let before = (key.read)();
        (key.write)(value).map_err(|why| match why.contains(&key.range) {
            true => format!("{}: {why} ({})", key.name, key.what),
            false => format!("{}: {why}; give {} ({})", key.name, key.range, key.what),
        })?;
        // As the key writes its value, whatever the client sent.
        let now = (key.read)();
        drop(alone);
        log::say(Level::Info, format_args!("netmem: set {} to {now:?}, was {before:?}", key.name));
        Ok(())
    }

    fn instead_of(&self, name: &str) -> String {
        let names = || self.keys.iter().map(|key| key.name.as_str());
        match nearest(names(), name) {
            Some(key) => format!("did you mean {key}?"),
            None => format!("there are {}", names().collect::<Vec<_>>().join(", ")),
        }
    }
}

/// Returns the record before the records of a section, which were read at this moment.
fn head(section: &str, records: &[Record], at: Duration) -> Record {
    Record::default().with("section", section).with("records", records.len()).with("at", at.as_secs_f64())
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use netmem::page::{Memory, MemoryConfig};
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    /// Makes a registry with one section and three keys.
    pub fn registry() -> Registry {
        let memory = Memory::new(&MemoryConfig { bytes: 4 << 20, ..MemoryConfig::default() }).unwrap();
        let mut registry = Registry::new();
        registry.section("things", || vec![Record::default().with("name", "one").with("count", 7)]);
        let (size, read) = (Arc::new(AtomicUsize::new(3)), memory);
        let written = Arc::clone(&size);
        registry.number(
            "thing.size",
            ("1 to 9", "entries", "how large"),
            move || size.load(Relaxed),
            move |value| {
                (1..=9).contains(&value).then(|| written.store(value, Relaxed)).ok_or("out of range")
            },
        );
        let wide = |value: usize| -> Result<(), String> { Err(format!("width {value}: give 1 to 9")) };
        registry.number("thing.width", ("1 to 9", "entries", "how wide"), || 1, wide);
        registry.switch(
            "thing.statistics",
            "whether it counts",
            {
                let memory = read.clone();
                move || memory.statistics()
            },
            move |on| read.set_statistics(on),
        );
        registry
    }

    #[test]
    fn keys_are_turned_and_what_is_wrong_is_said_with_what_would_be_right() {
        let registry = registry();
        assert_eq!(registry.write("thing.size", "9"), Ok(()));
        assert_eq!(registry.keys()[0].text("value"), "9");
        for (key, value, said) in [
            ("thing.size", "10", "thing.size: out of range; give 1 to 9 (how large)"),
            ("thing.size", "-1", "thing.size: \"-1\" is not a whole number; give 1 to 9 (how large)"),
            ("thing.width", "10", "thing.width: width 10: give 1 to 9 (how wide)"),
            ("thing.sise", "1", "no key \"thing.sise\": did you mean thing.size?"),
            ("icmp.rate", "1", "no key \"icmp.rate\": there are thing.size, thing.width, thing.statistics"),
            (
                "thing.statistics",
                "yes",
                "thing.statistics: \"yes\" is neither on nor off; give on or off (whether it counts)",
            ),
        ] {
            assert_eq!(registry.write(key, value).unwrap_err(), said);
        }
        assert_eq!(registry.keys()[0].text("value"), "9");
        assert_eq!(registry.write("thing.statistics", "off"), Ok(()));
        assert_eq!(registry.keys()[2].text("value"), "off");
    }

    #[test]
    fn several_sections_are_read_at_one_moment_and_told_apart_by_their_heads() {
        let mut registry = registry();
        registry.section("others", || vec![Record::default().with("name", "one").with("count", 7)]);
        let names = ["things".to_owned(), "others".to_owned()];
        let all = registry.read_all(&names).unwrap();
        let count = |record: &Record| (record.text("section").to_owned(), record.get("records").cloned());
        let head = |name: &str| (name.to_owned(), Some(1.into()));
        assert_eq!((all.len(), count(&all[0]), count(&all[2])), (4, head("things"), head("others")));
        assert_eq!((all[0].get("at"), all[1].text("name"), &all[1]), (all[2].get("at"), "one", &all[3]));
        let later = registry.read_all(&names).unwrap();
        let at = |all: &[Record]| all[0].get("at").and_then(serde_json::Value::as_f64).unwrap();
        assert!(at(&later) > at(&all));
        assert!(
            registry.read_all(&["thing".to_owned()]).unwrap_err().starts_with("nothing called \"thing\"")
        );
    }

    /// Found in a review: a line of 64 KiB named a section some thousand times, and the answer had its records as often.
    #[test]
    fn a_section_that_is_given_twice_is_refused_with_one_line_and_not_read() {
        let (mut registry, reads) = (registry(), Arc::new(AtomicUsize::new(0)));
        let counted = Arc::clone(&reads);
        registry.section("counted", move || {
            counted.fetch_add(1, Relaxed);
            Vec::new()
        });
        for names in [vec!["counted"; 8000], vec!["counted", "things", "counted"]] {
            let names: Vec<String> = names.into_iter().map(str::to_owned).collect();
            let line = registry.read_all(&names).unwrap_err();
            assert_eq!(line, "\"counted\" is given twice: give each section once");
        }
        assert_eq!(reads.load(Relaxed), 0);
    }

    /// Seen: a reading of all routes, which takes longer than a millisecond, was made three times, and each held a million
    /// records.
    #[test]
    fn a_table_is_read_alone_and_page_by_page() {
        let (mut registry, reads) = (registry(), Arc::new(AtomicUsize::new(0)));
        let counted = Arc::clone(&reads);
        registry.table("numbers", move |after| {
            counted.fetch_add(1, Relaxed);
            std::thread::sleep(2 * AT_ONCE);
            let first = if after.is_empty() { 0 } else { after.parse::<u32>().map_err(|_| "no number")? + 1 };
            Ok((first..5.min(first + 2)).map(|n| Record::default().with("name", n.to_string())).collect())
        });
        let names =
            |records: &[Record]| records.iter().map(|its| its.text("name").to_owned()).collect::<Vec<_>>();
        for list in [&["things", "numbers"][..], &["numbers"]] {
            let list: Vec<String> = list.iter().map(|name| (*name).to_owned()).collect();
            let line = registry.read_all(&list).unwrap_err();
            assert!(line.ends_with(r#"give {"get":"stat","of":"numbers","after":""}"#), "{line}");
        }
        assert_eq!(reads.load(Relaxed), 0);
        let all = registry.read("numbers").unwrap();
        assert_eq!(names(&all), ["0", "1", "2", "3", "4"]);
        assert_eq!(reads.load(Relaxed), 4, "three pages, and one that is empty");
        let page = registry.read_page("numbers", "1").unwrap();
        assert_eq!(
            (page[0].get("records"), names(&page[1..])),
            (Some(&2.into()), vec!["2".to_owned(), "3".into()])
        );
        assert_eq!(registry.read_page("numbers", "4").unwrap().len(), 1);
        assert_eq!(registry.read_page("numbers", "x"), Err("no number".to_owned()));
        assert_eq!(registry.read_page("things", "").unwrap().len(), 2);
        assert_eq!(registry.read_page("things", "one").unwrap().len(), 1);
    }

    #[test]
    fn a_section_that_is_not_there_names_those_that_are() {
        let registry = registry();
        assert_eq!(registry.read("things").unwrap().len(), 1);
        assert_eq!(registry.read("thing").unwrap_err(), "nothing called \"thing\": there are things");
    }
}
