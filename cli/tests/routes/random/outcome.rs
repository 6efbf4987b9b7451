//! What became of a frame: what came to either host before the next one was sent.

use super::view::View;
use netmem::wire::Ipv4;
use std::fmt;

/// Frames that came to h1 and to h2, without what differs by chance.
#[derive(Clone, PartialEq, Eq)]
pub struct Outcome {
    pub back: Vec<Vec<u8>>,
    pub on: Vec<Vec<u8>>,
}

/// The beginning of some bytes, as digits.
pub fn hex(bytes: &[u8]) -> String {
    let shown = &bytes[..bytes.len().min(110)];
    let digits: String = shown.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{digits} ({} bytes)", bytes.len())
}

impl fmt::Debug for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.back.iter().try_for_each(|frame| write!(f, "to h1 {} ", hex(frame)))?;
        self.on.iter().try_for_each(|frame| write!(f, "to h2 {} ", hex(frame)))
    }
}

impl Outcome {
    /// All frames, those to h1 first.
    pub fn frames(&self) -> impl Iterator<Item = &Vec<u8>> {
        self.back.iter().chain(&self.on)
    }

    /// Returns the outcome for a reader: `forwarded`, the type and code of an error, `answered`, or `silence`.
    pub fn words(&self, sent: &[u8]) -> String {
        let mut words: Vec<String> = self.frames().map(|frame| word(frame, sent)).collect();
        words.dedup();
        if words.is_empty() { "silence".into() } else { words.join(", ") }
    }
}

/// Names what `frame` is: the sent frame, forwarded, or an answer to it.
fn word(frame: &[u8], sent: &[u8]) -> String {
    let (view, of) = (View::of(frame), View::of(sent));
    if view.ends().is_some() && view.ends() == of.ends() {
        return "forwarded".into();
    }
    match view.error() {
        Some((kind, code)) => format!("{kind}/{code}"),
        None => "answered".into(),
    }
}

/// Whether the frame is one of the router's own, from either of its links.
fn is_own(frame: &[u8]) -> bool {
    matches!(frame.get(6..12), Some([2, 0, 0, 0, 1 | 2, 0xfe]))
}

/// Returns a frame that came to a host, without the fields that differ by chance: the identification of the router's
/// own packets, and times. Returns None for frames that are sent unasked or by timers: multicast reports,
/// solicitations, requests for neighbours, and the end of a wait for fragments or for a link-local neighbour.
///
/// # Panics
/// When the header of a packet with options is not intact.
pub fn comparable(mut frame: Vec<u8>) -> Option<Vec<u8>> {
    let view = View::of(&frame);
    let is_unasked = match (view.v4(), view.v6()) {
        (Some(packet), _) => packet[9] == 2 || view.error() == Some((11, 1)),
        (_, Some(packet)) => {
            let upper = if packet[6] == 0 { packet.get(48) } else { packet.get(40) };
            let is_icmp = packet[6] == 58 || packet[6] == 0;
            let is_late =
                view.error() == Some((3, 1)) || view.error() == Some((1, 3)) && is_about_link_local(packet);
            is_icmp && matches!(upper, Some(131..=133 | 135 | 143)) || is_late
        }
        _ => frame.get(12..14) == Some(&[8, 6]) && frame.get(20..22) == Some(&[0, 1]),
    };
    if is_unasked && is_own(&frame) {
        return None;
    }
    if let Some(packet) = frame.get(14..).filter(|_| frame[12..14] == [8, 0]) {
        let quoted =
            view.error().and_then(|_| packet.get(view.header() + 8..)).filter(|_| is_routers_v4(packet));
        let quotes_options = quoted.is_some_and(|quote| {
            quote.first().is_some_and(|first| {
                (0x46..0x50).contains(first) && quote.len() >= 4 * usize::from(first & 15)
            })
        });
        let (is_routers, options) = (is_routers_v4(packet), packet.len() > 20 && packet[0] > 0x45);
        assert!(!options || Ipv4::parse(packet).is_ok(), "its header's checksum: {}", hex(&frame));
        let packet = &mut frame[14..];
        if is_routers {
            packet[4..6].fill(0);
        }
        if is_routers || options {
            packet[10..12].fill(0);
            forget_times(packet);
        }
        let header = 4 * usize::from(packet[0] & 15);
        if let Some([_, _, sum @ ..]) = packet.get_mut(header..).filter(|_| quotes_options) {
            let (sum, quote) = sum.split_at_mut(6);
            sum[..2].fill(0);
            forget_times(quote);
        }
    }
    Some(frame)
}

/// Whether an error of IPv6 quotes a packet to a link-local address.
fn is_about_link_local(packet: &[u8]) -> bool {
    matches!(packet.get(48 + 24..48 + 26), Some([0xfe, 0x80..0xc0]))
}

/// Whether a packet of IPv4 is from an address of the router's.
fn is_routers_v4(packet: &[u8]) -> bool {
    matches!(packet.get(12..16), Some([10, 77, 1 | 2, 254]))
}

/// Clears the times that routers and hosts have recorded in a packet.
fn forget_times(packet: &mut [u8]) {
    let header = usize::from(packet[0] & 15) * 4;
    if let Some(reply) = packet.get_mut(header..).filter(|upper| upper.first() == Some(&14)) {
        // The received and the sent packet. Their checksums cover these fields too.
        reply[2..4].fill(0);
        reply.iter_mut().skip(12).take(8).for_each(|byte| *byte = 0);
    }
    let mut at = 20;
    while let Some(&kind) = packet[..header].get(at).filter(|kind| **kind != 0) {
        let len = if kind == 1 { 1 } else { packet[..header].get(at + 1).map_or(0, |len| usize::from(*len)) };
        if len == 0 || at + len > header {
            return;
        }
        if kind == 68 && len > 4 {
            let each = if packet[at + 3] & 15 == 0 { 4 } else { 8 };
            for entry in packet[at + 4..at + len].chunks_exact_mut(each) {
                entry[each - 4..].fill(0);
            }
        }
        at += len;
    }
}
