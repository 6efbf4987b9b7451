//! What can be seen of a running dataplane, and its keys.

use super::record::Record;
use crate::args::number;
use netmem_ports::nearest;
use std::fmt::Display;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a reading of several sections takes at most that counts as one moment, and how often it is tried.
const AT_ONCE: Duration = Duration::from_millis(1);
const READINGS: u32 = 3;

/// Something that can be turned while it runs.
pub struct Key {
    /// Its name, as in `pool.rx.cache`.
    pub name: String,
    /// What may be given, in words.
    pub range: String,
    /// What a value counts.
    pub unit: &'static str,
    /// What it does.
    pub what: &'static str,
    read: Box<dyn Fn() -> String + Send>,
    #[allow(clippy::type_complexity, reason = "named by its field")]
    write: Box<dyn Fn(&str) -> Result<(), String> + Send>,
}

/// A section's name, and what reads it.
type Section = (&'static str, Box<dyn Fn() -> Vec<Record> + Send>);

/// Has the configuration read again and waits for what comes of it: nothing, or one line.
pub type Reload = Arc<dyn Fn() -> Result<(), String> + Send + Sync>;

/// What is recorded, from a number on for each ring.
type ReadRecorded = Box<dyn Fn(&[u64]) -> Vec<Record> + Send>;

/// What can be asked of a dataplane: sections of records, and keys. Belongs to the server's thread.
pub struct Registry {
    /// Where the clock of readings begins.
    since: Instant,
    sections: Vec<Section>,
    keys: Vec<Key>,
    recorded: Option<ReadRecorded>,
    reload: Option<Reload>,
}

impl Registry {
    /// A registry without sections and keys.
    pub fn new() -> Registry {
        Registry {
            since: Instant::now(),
            sections: Vec::new(),
            keys: Vec::new(),
            recorded: None,
            reload: None,
        }
    }

    /// Adds a section.
    pub fn section(&mut self, name: &'static str, read: impl Fn() -> Vec<Record> + Send + 'static) {
        self.sections.push((name, Box::new(read)));
    }

    /// Says how what is recorded is read.
    pub fn set_recorded(&mut self, read: impl Fn(&[u64]) -> Vec<Record> + Send + 'static) {
        self.recorded = Some(Box::new(read));
    }

    /// What is recorded, of each ring from this number on.
    ///
    /// # Errors
    /// One line, where nothing is.
    pub fn recorded(&self, since: &[u64]) -> Result<Vec<Record>, String> {
        let none = || "this run records nothing: it was started without --record".to_owned();
        self.recorded.as_ref().map(|read| read(since)).ok_or_else(none)
    }

    /// Says how the configuration is read again.
    pub fn set_reload(&mut self, reload: impl Fn() -> Result<(), String> + Send + Sync + 'static) {
        self.reload = Some(Arc::new(reload));
    }

    /// What has the configuration read again. It may take seconds: it is not called while others wait for the registry.
    ///
    /// # Errors
    /// One line, where there is no configuration.
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

    /// The records of a section.
    ///
    /// # Errors
    /// One line with the sections there are.
    pub fn read(&self, section: &str) -> Result<Vec<Record>, String> {
        let found = self.sections.iter().find(|(name, _)| *name == section);
        let names = || self.sections.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
        found
            .map(|(_, read)| read())
            .ok_or_else(|| format!("nothing called {section:?}: there are {}", names()))
    }

    /// The records of several sections, read at one moment: before those of each a record of the section's name, how many there are, and
    /// the moment, in seconds of a clock that only runs forward. A reading that took longer than a millisecond, as where the thread had to
    /// wait for a processor, is made again, twice at most.
    ///
    /// # Errors
    /// As of [`Registry::read`].
    pub fn read_all(&self, sections: &[String]) -> Result<Vec<Record>, String> {
        let mut tries = 0;
        loop {
            let (at, began) = (self.since.elapsed(), Instant::now());
            let all: Vec<_> = sections.iter().map(|name| self.read(name)).collect::<Result<_, _>>()?;
            tries += 1;
            if tries == READINGS || began.elapsed() <= AT_ONCE {
                let head = |(name, records): (&String, &Vec<Record>)| {
                    Record::default()
                        .with("section", name.as_str())
                        .with("records", records.len())
                        .with("at", at.as_secs_f64())
                };
                let with_head = sections.iter().zip(all).flat_map(|(name, records)| {
                    let head = head((name, &records));
                    [head].into_iter().chain(records)
                });
                return Ok(with_head.collect());
            }
        }
    }

    /// Every key with its value.
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

    /// Turns a key.
    ///
    /// # Errors
    /// One line: where there is no key of that name the nearest, or all if none is near; the range where the value is not in it.
    /// Nothing has changed then.
    pub fn write(&self, name: &str, value: &str) -> Result<(), String> {
        let Some(key) = self.keys.iter().find(|key| key.name == name) else {
            return Err(format!("no key {name:?}: {}", self.instead_of(name)));
        };
        (key.write)(value).map_err(|why| match why.contains(&key.range) {
            true => format!("{}: {why} ({})", key.name, key.what),
            false => format!("{}: {why}; give {} ({})", key.name, key.range, key.what),
        })
    }

    fn instead_of(&self, name: &str) -> String {
        let names = || self.keys.iter().map(|key| key.name.as_str());
        match nearest(names(), name) {
            Some(key) => format!("did you mean {key}?"),
            None => format!("there are {}", names().collect::<Vec<_>>().join(", ")),
        }
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use netmem::page::{Memory, MemoryConfig};
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    /// A registry with one section and three keys.
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
        let registry = registry();
        let names = ["things".to_owned(), "things".to_owned()];
        let all = registry.read_all(&names).unwrap();
        let count = |record: &Record| (record.text("section").to_owned(), record.get("records").cloned());
        let head = ("things".to_owned(), Some(1.into()));
        assert_eq!((all.len(), count(&all[0]), count(&all[2])), (4, head.clone(), head));
        assert_eq!((all[0].get("at"), all[1].text("name"), &all[1]), (all[2].get("at"), "one", &all[3]));
        let later = registry.read_all(&names).unwrap();
        let at = |all: &[Record]| all[0].get("at").and_then(serde_json::Value::as_f64).unwrap();
        assert!(at(&later) > at(&all));
        assert!(
            registry.read_all(&["thing".to_owned()]).unwrap_err().starts_with("nothing called \"thing\"")
        );
    }

    #[test]
    fn a_section_that_is_not_there_names_those_that_are() {
        let registry = registry();
        assert_eq!(registry.read("things").unwrap().len(), 1);
        assert_eq!(registry.read("thing").unwrap_err(), "nothing called \"thing\": there are things");
    }
}
