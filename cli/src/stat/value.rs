//! One value of a section, for scripts.

use crate::control::Record;
use serde_json::Value;

/// Returns the value that `key` names: `NAME.VALUE`, or `VALUE` if there is one record.
///
/// # Errors
/// One line with the valid names.
pub fn value<'a>(records: &'a [Record], key: &str) -> Result<&'a Value, String> {
    // A name may have dots in it.
    let named = key.rsplit_once('.').and_then(|(name, value)| {
        let record = records.iter().find(|record| record.text("name") == name)?;
        Some((record, value))
    });
    let (record, value) = match (named, records) {
        (Some(named), _) => named,
        (None, [only]) => (only, key),
        (None, _) => {
            let names: Vec<_> = records.iter().map(|record| record.text("name")).collect();
            return Err(format!(
                "no record for {key:?}: give NAME.VALUE, with one of the names {}",
                names.join(", ")
            ));
        }
    };
    record.get(value).ok_or_else(|| {
        let names: Vec<_> = record.0.iter().map(|(name, _)| name.as_str()).collect();
        format!("no value {value:?}: there are {}", names.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_found_by_its_records_name_or_alone_where_there_is_one() {
        let record = |name: &str, rx: u64| Record::default().with("name", name).with("rx", rx);
        let two = [record("eth0.100", 7), record("eth1", 8)];
        assert_eq!(value(&two, "eth0.100.rx").unwrap(), 7);
        assert_eq!(value(&two[1..], "rx").unwrap(), 8);
        assert_eq!(value(&two[1..], "eth1.rx").unwrap(), 8);
        assert!(
            value(&two, "rx").unwrap_err().ends_with("give NAME.VALUE, with one of the names eth0.100, eth1")
        );
        assert!(value(&two, "eth1.tx").unwrap_err().ends_with("no value \"tx\": there are name, rx"));
    }
}
