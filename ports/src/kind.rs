//! A text whose kind of port is not known.

use crate::memif::without_secrets;
use crate::nearest::nearest;

/// The remedy for an unknown kind.
const KINDS: &str = "write xdp:IFNAME[:QUEUE][,queues=...][,kernel=...][,take=...], memif:PATH, packet:IFNAME, tap:IFNAME or pcap:in=FILE,out=FILE";

/// Returns what may have been meant: an interface or a capture without a kind, or a misspelt kind.
pub(crate) fn unknown(text: &str) -> String {
    let kind = text.split(':').next().unwrap_or_default();
    let kinds = ["xdp", "memif", "packet", "tap", "pcap", "fault", "trace"];
    match nearest(kinds, &kind.to_ascii_lowercase()) {
        Some(near) if text.contains(':') => {
            format!("unknown kind of port in {:?}: did you mean {near}:...?", without_secrets(text))
        }
        _ if is_capture(text) => format!("give the kind of port too: did you mean pcap:in={text}?"),
        _ if !text.is_empty() && !text.contains([':', '/', ',', '=']) => {
            format!("give the kind of port too: did you mean packet:{text} or xdp:{text}?")
        }
        _ => format!("unknown kind of port in {:?}: {KINDS}", without_secrets(text)),
    }
}

/// Whether the text is the name of a capture, which a port string can give.
fn is_capture(text: &str) -> bool {
    let name = text.strip_suffix(".gz").unwrap_or(text);
    [".pcap", ".pcapng", ".cap"].iter().any(|end| name.ends_with(end)) && !text.contains([':', ',', '='])
}

#[cfg(test)]
mod tests {
    use crate::port_spec;

    /// Seen: "did you mean packet:in.pcap or xdp:in.pcap?"
    #[test]
    fn the_name_of_a_capture_without_a_kind_is_taken_for_one() {
        for text in ["in.pcap", "/tmp/in.pcapng", "./in.pcap.gz"] {
            let meant = format!("give the kind of port too: did you mean pcap:in={text}?");
            assert_eq!(port_spec(text).unwrap_err(), meant);
        }
    }
}
