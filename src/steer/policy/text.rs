//! Policies as they are written on the command line and through the control socket.

use super::{Policy, PolicyError, QueueMap, Targets};
use std::fmt;
use std::str::FromStr;

impl FromStr for Policy {
    type Err = PolicyError;

    /// Parses the text forms that [`Policy`] documents.
    ///
    /// # Errors
    /// Returns [`PolicyError`], which names the mistake and the correct form.
    fn from_str(text: &str) -> Result<Policy, PolicyError> {
        let (name, list) = match text.split_once('=') {
            Some((name, list)) => (name, Some(list)),
            None => (text, None),
        };
        match (name, list) {
            ("none", None) => Ok(Policy::None),
            ("map", Some(list)) => list.parse().map(Policy::Map),
            ("map", None) => Err(PolicyError::EmptyMap),
            ("round-robin", list) => targets(list).map(Policy::RoundRobin),
            ("hash", list) => targets(list).map(Policy::Hash),
            ("flow", list) => targets(list).map(Policy::Flow),
            _ => Err(PolicyError::Unknown { seen: text.to_owned() }),
        }
    }
}

fn targets(list: Option<&str>) -> Result<Targets, PolicyError> {
    let workers: Result<Vec<usize>, PolicyError> =
        list.into_iter().flat_map(|list| list.split(',')).map(worker).collect();
    Targets::new(&workers?)
}

fn worker(text: &str) -> Result<usize, PolicyError> {
    number(text).ok_or_else(|| PolicyError::Worker { seen: text.to_owned() })
}

/// Parses decimal digits only: no sign, no blank.
fn number<N: FromStr>(text: &str) -> Option<N> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

impl FromStr for QueueMap {
    type Err = PolicyError;

    /// Parses `rx0:1,rx1:2,3`: a queue's list of workers ends at the next queue.
    ///
    /// # Errors
    /// Returns [`PolicyError`], which names the mistake and the correct form.
    fn from_str(text: &str) -> Result<QueueMap, PolicyError> {
        let mut map = QueueMap::default();
        let mut open: Option<(u16, Vec<usize>)> = None;
        for part in text.split(',') {
            match (part.split_once(':'), &mut open) {
                (Some((queue, first)), _) => {
                    let queue = queue.strip_prefix("rx").and_then(number);
                    let queue = queue.ok_or_else(|| PolicyError::Entry { seen: part.to_owned() })?;
                    map.close(open.replace((queue, vec![worker(first)?])))?;
                }
                (None, Some((_, workers))) => workers.push(worker(part)?),
                (None, None) => return Err(PolicyError::Entry { seen: part.to_owned() }),
            }
        }
        map.close(open)?;
        Ok(map)
    }
}

impl QueueMap {
    /// Adds an entry that was read to its end.
    fn close(&mut self, entry: Option<(u16, Vec<usize>)>) -> Result<(), PolicyError> {
        let Some((queue, workers)) = entry else { return Ok(()) };
        if !self.of(queue).is_empty() {
            return Err(PolicyError::QueueTwice { queue });
        }
        self.set(queue, Targets::new(&workers)?)
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, targets) = match self {
            Policy::None => return f.write_str("none"),
            Policy::Map(map) => return write!(f, "map={map}"),
            Policy::RoundRobin(targets) => ("round-robin", targets),
            Policy::Hash(targets) => ("hash", targets),
            Policy::Flow(targets) => ("flow", targets),
        };
        if targets.0.is_empty() { f.write_str(name) } else { write!(f, "{name}={targets}") }
    }
}

impl fmt::Display for QueueMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, (queue, targets)) in self.entries().enumerate() {
            let comma = if place == 0 { "" } else { "," };
            write!(f, "{comma}rx{queue}:{targets}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Targets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, worker) in self.0.iter().enumerate() {
            let comma = if place == 0 { "" } else { "," };
            write!(f, "{comma}{worker}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_is_written_as_it_is_read() {
        for text in [
            "none",
            "map=rx0:1,rx1:2,3",
            "map=rx7:0",
            "round-robin",
            "round-robin=1,2",
            "hash",
            "hash=3",
            "flow=2,1",
        ] {
            let policy: Policy = text.parse().unwrap();
            assert_eq!(policy.to_string(), text);
            assert_eq!(policy.check(4), Ok(()), "{text}");
        }
        let map: Policy = "map=rx0:1,rx1:2,3".parse().unwrap();
        let targets = [0, 1, 2].map(|queue| map.targets(queue));
        assert_eq!(targets, [&[1][..], &[2, 3], &[]]);
        assert_eq!("flow".parse::<Policy>().unwrap().resolved(3).targets(9), [0, 1, 2]);
    }

    #[test]
    fn other_texts_are_refused_with_what_would_be_right() {
        for (text, said) in [
            ("", "unknown policy"),
            ("None", "unknown policy"),
            ("none=1", "unknown policy"),
            ("map", "the map is empty"),
            ("map=", "in a map"),
            ("map=1", "in a map"),
            ("map=rx:1", "in a map"),
            ("map=q0:1", "in a map"),
            ("map=rx-1:1", "in a map"),
            ("map=rx0:", "unknown worker"),
            ("map=rx0:1,", "unknown worker"),
            ("map=rx0:+1", "unknown worker"),
            ("map=rx0:1,1", "named twice"),
            ("map=rx0:1,rx0:2", "in the map twice"),
            ("map=rx1024:1", "rx0 to rx1023"),
            ("map=rx70000:1", "in a map"),
            ("hash=", "unknown worker"),
            ("hash=1,,2", "unknown worker"),
            ("hash=64", "there is no worker 64"),
            ("flow=0x1", "unknown worker"),
        ] {
            let error = text.parse::<Policy>().expect_err(text).to_string();
            assert!(error.contains(said), "{text}: {error}");
        }
        assert!(
            "hash=0,2".parse::<Policy>().unwrap().check(2).unwrap_err().to_string().contains("from 0 to 1")
        );
        assert_eq!(Policy::Map(QueueMap::default()).check(2), Err(PolicyError::EmptyMap));
    }
}
