//! A text whose kind of port is not known.

use crate::memif::without_secrets;
use crate::nearest::nearest;

/// The remedy for an unknown kind.
const KINDS: &str = "write xdp:IFNAME[:QUEUE][,queues=...][,kernel=...][,take=...], memif:PATH, packet:IFNAME, tap:IFNAME or pcap:in=FILE,out=FILE";

/// Returns what may have been meant: an interface without a kind, or a misspelt kind.
pub(crate) fn unknown(text: &str) -> String {
    let kind = text.split(':').next().unwrap_or_default();
    let kinds = ["xdp", "memif", "packet", "tap", "pcap", "fault", "trace"];
    match nearest(kinds, &kind.to_ascii_lowercase()) {
        Some(near) if text.contains(':') => {
            format!("unknown kind of port in {:?}: did you mean {near}:...?", without_secrets(text))
        }
        _ if !text.is_empty() && !text.contains([':', '/', ',', '=']) => {
            format!("give the kind of port too: did you mean packet:{text} or xdp:{text}?")
        }
        _ => format!("unknown kind of port in {:?}: {KINDS}", without_secrets(text)),
    }
}
