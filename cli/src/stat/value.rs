//! One value of a section, for scripts.

use super::Section;
use crate::control::Record;
use serde_json::Value;

/// The numbers of a port that the workers share. All other numbers of its workers add up.
const SHARED: [&str; 3] = ["number", "worker", "ring"];

/// Returns the value that `key` names: `NAME.VALUE`, or `VALUE` if there is one record. The value of a port is the sum
/// over its workers. `NAME#NUMBER` is one of several ports that share a name.
///
/// # Errors
/// One line with the valid names.
pub fn value((section, records): &Section, key: &str) -> Result<Value, String> {
    // A name may have dots in it.
    let named = key.rsplit_once('.').map(|(name, value)| (of_name(records, name), value));
    let (found, value) = match (named, &records[..]) {
        (Some((found, value)), _) if !found.is_empty() => (found, value),
        (_, [only]) => (vec![only], key),
        _ => {
            let all: Vec<_> = records.iter().collect();
            let names = names(records, &all).join(", ");
            return Err(format!("no record for {key:?}: give NAME.VALUE, with one of the names {names}"));
        }
    };
    let names = names(records, &found);
    if let [_, _, ..] = names[..] {
        let keys: Vec<_> = names.iter().map(|name| format!("{name}.{value}")).collect();
        return Err(format!("{key:?} is a value of several ports: give one of {}", keys.join(", ")));
    }
    let each = found.iter().map(|record| known(record, value)).collect::<Result<Vec<_>, _>>()?;
    let numbers: Option<Vec<u64>> = each.iter().map(|value| value.as_u64()).collect();
    match (numbers, &each[..]) {
        (_, [only]) => Ok((*only).clone()),
        (Some(numbers), _) if section == "ports" && !SHARED.contains(&value) => {
            Ok(numbers.into_iter().fold(0, u64::saturating_add).into())
        }
        (_, [first, others @ ..]) if others.iter().all(|other| other == first) => Ok((*first).clone()),
        _ => Err(format!("{key:?} differs between {} records: netmem stat {section} shows each", each.len())),
    }
}

/// Returns the records with this name. If there are none, and the name ends with `#` and a number, returns those of the
/// port with that number. The records of a port's other workers are included: those of an xdp port have other names, since
/// each has queues of its own.
fn of_name<'a>(records: &'a [Record], name: &str) -> Vec<&'a Record> {
    let numbered = |record: &Record| record.numbered_name().is_some_and(|full| full == name);
    let mut found: Vec<_> = records.iter().filter(|record| record.text("name") == name).collect();
    if found.is_empty() {
        found = records.iter().filter(|record| numbered(record)).collect();
    }
    let is_found = |record: &&Record| found.iter().any(|one| *one == *record || is_one_port(one, record));
    records.iter().filter(is_found).collect()
}

/// Returns true if both are records of workers for one port.
fn is_one_port(one: &Record, other: &Record) -> bool {
    one.get("number").is_some_and(|number| other.get("number") == Some(number))
}

/// Returns the name of each wanted record, or of a port the first of its names. Ports that share a name with another
/// one have their number too.
fn names(all: &[Record], wanted: &[&Record]) -> Vec<String> {
    let mut names = Vec::new();
    for (at, record) in wanted.iter().enumerate() {
        let name = record.unique_name(all);
        if !names.contains(&name) && !wanted[..at].iter().any(|before| is_one_port(before, record)) {
            names.push(name);
        }
    }
    names
}

/// Returns a value of a record.
///
/// # Errors
/// One line with the names of its values.
fn known<'a>(record: &'a Record, value: &str) -> Result<&'a Value, String> {
    record.get(value).ok_or_else(|| {
        let names: Vec<_> = record.0.iter().map(|(name, _)| name.as_str()).collect();
        format!("no value {value:?}: there are {}", names.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn ports(records: &[Record]) -> Section {
        ("ports".to_owned(), records.to_vec())
    }

    #[test]
    fn a_value_is_found_by_its_records_name_or_alone_where_there_is_one() {
        let record = |name: &str, rx: u64| Record::default().with("name", name).with("rx", rx);
        let two = [record("eth0.100", 7), record("eth1", 8)];
        let (two, one) = (ports(&two), ports(&two[1..]));
        assert_eq!(value(&two, "eth0.100.rx").unwrap(), 7);
        assert_eq!(value(&one, "rx").unwrap(), 8);
        assert_eq!(value(&one, "eth1.rx").unwrap(), 8);
        assert!(
            value(&two, "rx").unwrap_err().ends_with("give NAME.VALUE, with one of the names eth0.100, eth1")
        );
        assert!(value(&two, "eth1.tx").unwrap_err().ends_with("no value \"tx\": there are name, rx"));
    }

    /// Seen: `netmem stat ports tap:t0.rx` printed the count of worker 0 only.
    #[test]
    fn the_value_of_a_port_is_the_sum_over_its_workers_and_one_that_differs_is_refused() {
        let port = |worker: u64, state: &str, rx: u64| {
            let named = Record::default().with("name", "tap:t0").with("kind", "tap").with("number", 1);
            named.with("worker", worker).with("state", state).with("ring", 512).with("rx", rx)
        };
        let section = ports(&[port(0, "up", 7), port(1, "down: no", 7)]);
        for (key, wanted) in
            [("rx", json!(14)), ("ring", json!(512)), ("number", json!(1)), ("kind", json!("tap"))]
        {
            assert_eq!(value(&section, &format!("tap:t0.{key}")), Ok(wanted), "{key}");
        }
        for key in ["worker", "state"] {
            let refused = value(&section, &format!("tap:t0.{key}")).unwrap_err();
            assert!(
                refused.ends_with("differs between 2 records: netmem stat ports shows each"),
                "{refused}"
            );
        }
        let unknown = value(&section, "rx").unwrap_err();
        assert!(unknown.ends_with("with one of the names tap:t0"), "{unknown}");
    }

    /// Seen: with two workers, `netmem stat ports xdp:ra.rx` printed the count of worker 0 only, since the port of
    /// worker 1 has the name `xdp:ra:1`.
    #[test]
    fn the_value_of_an_xdp_port_is_the_sum_over_its_workers_although_each_has_a_name_of_its_own() {
        let port = |name: &str, number: u64, worker: u64, rx: u64| {
            let named = Record::default().with("name", name).with("number", number);
            named.with("worker", worker).with("rx", rx)
        };
        let of_ra = [port("xdp:ra", 0, 0, 1978), port("xdp:ra:1", 0, 1, 2223)];
        let section = ports(&[&of_ra[..], &[port("xdp:rb", 1, 0, 5)]].concat());
        for name in ["xdp:ra", "xdp:ra:1", "xdp:ra#0"] {
            assert_eq!(value(&section, &format!("{name}.rx")), Ok(json!(4201)), "{name}");
        }
        assert_eq!(value(&section, "xdp:rb.rx"), Ok(json!(5)));
        let unknown = value(&section, "xdp:rc.rx").unwrap_err();
        assert!(unknown.ends_with("with one of the names xdp:ra, xdp:rb"), "{unknown}");
    }

    /// Seen: the second memif port of a socket could not be asked for: its name is that of the first.
    #[test]
    fn one_of_several_ports_with_a_name_is_found_by_its_number() {
        let port = |number: u64, worker: u64, rx: u64| {
            let named = Record::default().with("name", "memif:/a.sock").with("number", number);
            named.with("worker", worker).with("rx", rx)
        };
        let section = ports(&[port(0, 0, 1), port(1, 0, 20), port(0, 1, 300), port(1, 1, 4000)]);
        assert_eq!(value(&section, "memif:/a.sock#0.rx"), Ok(json!(301)));
        assert_eq!(value(&section, "memif:/a.sock#1.rx"), Ok(json!(4020)));
        let refused = value(&section, "memif:/a.sock.rx").unwrap_err();
        assert!(refused.ends_with("give one of memif:/a.sock#0.rx, memif:/a.sock#1.rx"), "{refused}");
        let unknown = value(&section, "memif:/a.sock#2.rx").unwrap_err();
        assert!(unknown.ends_with("with one of the names memif:/a.sock#0, memif:/a.sock#1"), "{unknown}");
    }
}
