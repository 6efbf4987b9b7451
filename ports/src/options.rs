//! The options of a port, behind its kind in the string.

use crate::nearest::nearest;
use netmem::wire::MacAddr;

/// The keys that one kind of port has.
pub(super) struct Keys {
    pub(super) kind: &'static str,
    pub(super) names: &'static [&'static str],
    /// Their form, for error messages.
    pub(super) form: &'static str,
}

impl Keys {
    /// Returns the options in `text`: `KEY=VALUE` with commas between.
    ///
    /// # Errors
    /// Returns one line if a key is given twice.
    pub(super) fn options<'a>(&self, text: &'a str) -> Result<Vec<(&'a str, &'a str)>, String> {
        let Keys { kind, names, .. } = self;
        let all: Vec<_> = split(text).collect();
        let count = |key: &str| all.iter().filter(|(other, _)| *other == key).count();
        match names.iter().find(|key| count(key) > 1) {
            Some(key) => Err(format!("{kind}: {key} is given twice: leave one out")),
            None => Ok(all),
        }
    }

    /// Returns the error message for an unknown key, with the key that was probably meant, or for a value that a key
    /// does not have.
    pub(super) fn refuse(&self, (key, value): (&str, &str)) -> String {
        let Keys { kind, names, form } = self;
        match nearest(names.iter().copied(), key) {
            _ if names.contains(&key) && value.is_empty() => {
                format!("{kind}: {key} needs a value: give {form}")
            }
            _ if names.contains(&key) => format!("{kind}: {key}={value}: give {form}"),
            Some(near) => format!("{kind}: unknown key {key:?}: did you mean {near}? Give {form}"),
            // Probably the rest of the name of a file.
            None if value.is_empty() && form.contains("=FILE") => format!(
                "{kind}: unknown key {key:?}: a comma ends a file's name: for a name with a comma, make a link whose name has none, and give the link"
            ),
            None => format!("{kind}: unknown key {key:?}: give {form}"),
        }
    }
}

/// Returns the options in `text`: `KEY=VALUE` with commas between.
fn split(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.split(',')
        .filter(|option| !option.is_empty())
        .map(|option| option.split_once('=').unwrap_or((option, "")))
}

/// Parses the interface of a kind of port that has no queues to choose.
///
/// # Errors
/// Returns a line that says what would be valid.
pub(super) fn interface(kind: &str, name: &str) -> Result<String, String> {
    match name {
        "" => Err(format!("{kind}: give the name of an interface, as in {kind}:{kind}0")),
        name if name.contains(':') => {
            Err(format!("{kind}:{name}: there are no queues to choose: write {kind}:IFNAME"))
        }
        name => Ok(name.to_owned()),
    }
}

/// Parses the MAC address of one station.
pub(super) fn station(text: &str) -> Option<MacAddr> {
    text.parse::<MacAddr>().ok().filter(|mac| !mac.is_multicast() && *mac != MacAddr::default())
}

#[cfg(test)]
mod tests {
    use crate::port_spec;

    /// Observed: for `xdp:a0,tak=udp:53` the message listed all forms, and did not name the mistake.
    #[test]
    fn an_unknown_key_is_named_with_the_nearest_and_those_that_there_are() {
        for (text, said) in [
            ("xdp:a0,tak=udp:53", "xdp: unknown key \"tak\": did you mean take? Give queues=N"),
            ("memif:/m.sock,rol=client", "memif: unknown key \"rol\": did you mean role? Give role=client"),
            (
                "packet:a0,kernal=none",
                "packet: unknown key \"kernal\": did you mean kernel? Give kernel=none",
            ),
            ("tap:t0,mak=02:00:00:00:00:01", "tap: unknown key \"mak\": did you mean mac? Give mac=MAC"),
            ("pcap:in=a,lop=3", "pcap: unknown key \"lop\": did you mean loop? Give in=FILE"),
            ("fault:dropp=1/2/tap:t0", "fault: unknown key \"dropp\": did you mean drop? Give seed=N"),
            (
                "fault:delay_us=3/tap:t0",
                "fault: unknown key \"delay_us\": did you mean delay-us? Give seed=N",
            ),
            ("trace:fil=a/tap:t0", "trace: unknown key \"fil\": did you mean file? Give file=FILE"),
            ("tap:t0,colour=red", "tap: unknown key \"colour\": give mac=MAC"),
            ("pcap:in=a,colour=red", "pcap: unknown key \"colour\": give in=FILE"),
        ] {
            let error = port_spec(text).unwrap_err();
            assert!(error.starts_with(said) && !error.contains('\n'), "{text}: {error}");
        }
    }

    /// Seen: "unknown key "b.pcap": give in=FILE, …", of a file that is named a,b.pcap.
    #[test]
    fn the_rest_of_a_files_name_behind_a_comma_is_refused_with_the_remedy() {
        for (text, said) in [
            ("pcap:in=a,b.pcap", "pcap: unknown key \"b.pcap\": a comma ends a file's name"),
            ("trace:file=a,b.trace/tap:t0", "trace: unknown key \"b.trace\": a comma ends a file's name"),
        ] {
            let error = port_spec(text).unwrap_err();
            assert!(error.starts_with(said) && error.ends_with("give the link"), "{text}: {error}");
        }
    }

    #[test]
    fn a_key_with_another_value_is_named_with_both() {
        for (text, said) in [
            ("xdp:a0,kernel=all", "xdp: kernel=all: give queues=N"),
            ("memif:/m.sock,role=master", "memif: role=master: give role=client"),
            ("packet:a0,kernel", "packet: kernel needs a value: give kernel=none"),
            ("tap:t0,mac=any", "tap: mac=any: give mac=MAC"),
            ("pcap:in=a,speed=fast", "pcap: speed=fast: give in=FILE"),
            ("trace:format=text/tap:t0", "trace: format=text: give file=FILE"),
        ] {
            let error = port_spec(text).unwrap_err();
            assert!(error.starts_with(said), "{text}: {error}");
        }
    }

    /// Seen: the last of two values replaced the first, so that an xdp port took less than its rules said.
    #[test]
    fn a_key_that_is_given_twice_is_refused() {
        for (text, said) in [
            ("xdp:a0,take=udp:1,take=udp:2", "xdp: take is given twice: leave one out"),
            ("xdp:a0:1,queues=2,kernel=none,queues=all", "xdp: queues is given twice: leave one out"),
            ("memif:/m.sock,role=server,role=client", "memif: role is given twice: leave one out"),
            ("packet:a0,kernel=control,kernel=none", "packet: kernel is given twice: leave one out"),
            ("tap:t0,mac=02:00:00:00:00:01,mac=02:00:00:00:00:01", "tap: mac is given twice: leave one out"),
            ("pcap:in=a,in=b", "pcap: in is given twice: leave one out"),
            ("pcap:out=b,in=a,out=b", "pcap: out is given twice: leave one out"),
            ("fault:drop=1/2,drop=1/3/tap:t0", "fault: drop is given twice: leave one out"),
            ("trace:file=a,file=b/tap:t0", "trace: file is given twice: leave one out"),
        ] {
            assert_eq!(port_spec(text).unwrap_err(), said, "{text}");
        }
        let apart = "fault:drop=1/2/fault:drop=1/3/tap:t0";
        assert_eq!(port_spec(apart).unwrap().wraps.len(), 2, "each wrapper has its own keys");
        assert!(port_spec("xdp:a0,tak=1,tak=2").unwrap_err().contains("did you mean take?"));
    }
}
