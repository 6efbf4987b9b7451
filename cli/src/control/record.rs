//! A list of named values that keeps its order, like the JSON objects received here.

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use std::fmt;

/// The `state` of a port that is up while its interface has no carrier.
pub const NO_CARRIER: &str = "up, no carrier";

/// Names and values in order: a JSON object.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Record(pub Vec<(String, Value)>);

impl Record {
    /// Adds a value at the end.
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Record {
        self.0.push((name.to_owned(), value.into()));
        self
    }

    /// Adds counters at the end.
    pub fn with_all<'a>(mut self, counters: impl IntoIterator<Item = (&'a str, u64)>) -> Record {
        self.0.extend(counters.into_iter().map(|(name, count)| (name.to_owned(), count.into())));
        self
    }

    /// Returns the value of a name.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }

    /// Returns the text of a name, or an empty text if there is none.
    pub fn text(&self, name: &str) -> &str {
        self.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    /// Returns a port's name with its number, `NAME#NUMBER`. None if the record has no number.
    pub fn numbered_name(&self) -> Option<String> {
        let number = self.get("number")?.as_u64()?;
        Some(format!("{}#{number}", self.text("name")))
    }

    /// Returns the port's name, with its number if another port among `all` shares the name.
    pub fn unique_name(&self, all: &[Record]) -> String {
        let numbered = self.numbered_name().filter(|_| self.shares_name(all));
        numbered.unwrap_or_else(|| self.text("name").to_owned())
    }

    /// Returns whether another port among `all` has this port's name, as memif ports of one socket do. The ports of
    /// several workers have one number and are one port.
    pub fn shares_name(&self, all: &[Record]) -> bool {
        let is_other = |other: &Record| {
            other.text("name") == self.text("name") && other.get("number") != self.get("number")
        };
        all.iter().any(is_other)
    }
}

impl Serialize for Record {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

impl<'de> Deserialize<'de> for Record {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Record, D::Error> {
        deserializer.deserialize_map(InOrder)
    }
}

struct InOrder;

impl<'de> Visitor<'de> for InOrder {
    type Value = Record;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Record, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = map.next_entry()? {
            entries.push(entry);
        }
        Ok(Record(entries))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_keeps_the_order_of_its_fields_in_json() {
        let record = Record::default().with("zebra", 1).with("ant", "two").with_all([("m", 3)]);
        let text = serde_json::to_string(&record).unwrap();
        assert_eq!(text, r#"{"zebra":1,"ant":"two","m":3}"#);
        assert_eq!(serde_json::from_str::<Record>(&text).unwrap(), record);
        assert_eq!((record.text("ant"), record.text("zebra"), record.get("none")), ("two", "", None));
    }
}
