//! A recorded packet in the form of the control socket, and a file of such packets as pcapng.

use crate::control::Record;
use crate::pcapng::{self, Packet};
use serde::Deserialize;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::{self, Write};

/// Maximum number of packets in one answer at the control socket. A client that gets this many asks for the next ones.
pub const ANSWER_PACKETS: usize = 4096;

/// A packet, and its verdict.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Recorded {
    /// Its ring's number among all rings of the run. Each port at each worker has a ring. Used to ask for later
    /// packets.
    pub ring: usize,
    /// The worker that decided.
    pub worker: usize,
    /// The name of the port that it came in on. It has the port's number if ports share a name.
    pub port: String,
    /// The queue of that port.
    pub queue: u16,
    /// Its number in the ring.
    pub number: u64,
    /// The time at which its burst was decided about, in nanoseconds since 1970.
    pub time_ns: u64,
    /// Its original length.
    pub len: u32,
    /// Its first bytes, as hexadecimal digits.
    pub bytes: String,
    /// redirect, tx, pass, wait, fragment or drop. Empty while it is being processed.
    pub verdict: Option<String>,
    /// The name of the port that it was to leave by, in the same form.
    pub to: Option<String>,
    /// The reason for its drop, by its verdict or later.
    pub dropped: Option<String>,
    /// The time that it waited before its verdict.
    pub waited_ns: Option<u64>,
    /// The time that it spent in the lane from the worker that received it, in the lane back, and in the local
    /// queue.
    pub lane_ns: Option<u64>,
    pub lane_back_ns: Option<u64>,
    pub local_queue_ns: Option<u64>,
    /// An ICMP error about its drop was sent.
    pub answered: bool,
}

impl Recorded {
    /// Returns the known times that it spent in queues, by their names in a record, with a description of each.
    fn times(&self) -> impl Iterator<Item = (&'static str, String, u64)> {
        let lane = format!("in the lane from worker {}", self.queue);
        let back = format!("in the lane back to worker {}", self.queue);
        let times = [
            ("waited_ns", "waited".to_owned(), self.waited_ns),
            ("lane_ns", lane, self.lane_ns),
            ("lane_back_ns", back, self.lane_back_ns),
            ("local_queue_ns", "in the local queue".to_owned(), self.local_queue_ns),
        ];
        times.into_iter().filter_map(|(name, words, ns)| Some((name, words, ns?)))
    }

    /// Returns the record for the control socket.
    pub fn record(&self) -> Record {
        let mut record = Record::default()
            .with("ring", self.ring)
            .with("worker", self.worker)
            .with("port", self.port.as_str())
            .with("queue", self.queue)
            .with("number", self.number)
            .with("time_ns", self.time_ns)
            .with("len", self.len)
            .with("verdict", self.verdict.as_deref());
        for (name, text) in [("to", &self.to), ("dropped", &self.dropped)] {
            record = text.iter().fold(record, |record, text| record.with(name, text.as_str()));
        }
        record = self.times().fold(record, |record, (name, _, ns)| record.with(name, ns));
        record.with("answered", self.answered).with("bytes", self.bytes.as_str())
    }

    /// Parses a record of the control socket.
    ///
    /// # Errors
    /// One line, if it is not a recorded packet.
    pub fn of(record: &Record) -> Result<Recorded, String> {
        let value = serde_json::to_value(record).map_err(|error| error.to_string())?;
        serde_json::from_value(value)
            .map_err(|error| format!("a recorded packet that cannot be read: {error}"))
    }

    /// Returns a description of its verdict.
    fn comment(&self) -> String {
        let mut text = match self.verdict.as_deref() {
            Some("redirect") => format!("to {}", self.to.as_deref().unwrap_or("a port that is not there")),
            Some("tx") => "back by its port".to_owned(),
            Some("pass") => "passed to the local queue".to_owned(),
            Some("wait") => "waits".to_owned(),
            Some("fragment") => "cut, and sent in pieces".to_owned(),
            Some(_) => String::new(),
            None => "in work".to_owned(),
        };
        if let Some(reason) = &self.dropped {
            let sent_on = if text.is_empty() { "" } else { ", " };
            // Writing to a String cannot fail.
            let _ = write!(text, "{sent_on}dropped: {reason}");
        }
        if self.answered {
            text.push_str(", an ICMP error was sent");
        }
        for (_, words, ns) in self.times() {
            let _ = write!(text, "; {words} {:.3} ms", ns as f64 / 1e6);
        }
        let _ = write!(text, "; worker {}", self.worker);
        text
    }

    /// Returns the verdict of an XDP program with the same effect, with the numbers of xdp_action. Returns None if
    /// the packet waits or is being processed.
    fn xdp_action(&self) -> Option<u64> {
        match (self.dropped.is_some(), self.verdict.as_deref()?) {
            (true, _) | (false, "drop") => Some(1),
            (false, "pass") => Some(2),
            (false, "tx") => Some(3),
            (false, "redirect" | "fragment") => Some(4),
            (false, _) => None,
        }
    }
}

/// Returns bytes as hexadecimal digits.
pub fn digits(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Returns the bytes of hexadecimal digits, up to the first other character.
fn bytes(digits: &str) -> Vec<u8> {
    let pair = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    digits.as_bytes().chunks(2).map_while(pair).collect()
}

/// A pcapng file of recorded packets that is being written.
pub struct Capture<W: Write> {
    to: W,
    /// The number of each port's interface.
    interfaces: HashMap<String, u32>,
    /// The number of each ring's next packet if none is missing, or None if no packet has come from the ring.
    next: Vec<Option<u64>>,
}

impl<W: Write> Capture<W> {
    /// Begins the file.
    ///
    /// # Errors
    /// Those of writing.
    pub fn new(mut to: W) -> io::Result<Capture<W>> {
        pcapng::section(&mut to)?;
        Ok(Capture { to, interfaces: HashMap::new(), next: Vec::new() })
    }

    /// Writes a packet, and its port before the port's first packet.
    ///
    /// # Errors
    /// Those of writing.
    pub fn write(&mut self, packet: &Recorded) -> io::Result<()> {
        let interface = self.interface(&packet.port)?;
        if self.next.len() <= packet.ring {
            self.next.resize(packet.ring + 1, None);
        }
        let next = self.next[packet.ring].replace(packet.number + 1);
        let written = Packet {
            interface,
            time_ns: packet.time_ns,
            len: packet.len,
            bytes: &bytes(&packet.bytes),
            comment: &packet.comment(),
            missing: packet.number.saturating_sub(next.unwrap_or(packet.number)),
            id: (packet.ring as u64) << 48 | packet.number & 0xffff_ffff_ffff,
            queue: packet.queue.into(),
            action: packet.xdp_action(),
        };
        written.write(&mut self.to)
    }

    /// Returns the numbers of the first packets that are not written yet, of each ring.
    pub fn since(&self) -> Vec<u64> {
        self.next.iter().map(|next| next.unwrap_or_default()).collect()
    }

    /// Returns the writer.
    pub fn to(&mut self) -> &mut W {
        &mut self.to
    }

    fn interface(&mut self, port: &str) -> io::Result<u32> {
        if let Some(&number) = self.interfaces.get(port) {
            return Ok(number);
        }
        pcapng::interface(&mut self.to, port)?;
        let number = self.interfaces.len() as u32;
        self.interfaces.insert(port.to_owned(), number);
        Ok(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use netmem::forward::Reason;
    use std::process::Command;

    fn packet(number: u64, verdict: Option<&str>) -> Recorded {
        Recorded {
            ring: 3,
            worker: 1,
            port: "xdp:eth0".into(),
            queue: 7,
            number,
            time_ns: 1_700_000_000_123_456_789,
            len: 1500,
            bytes: digits(&[0x5a; 144]),
            verdict: verdict.map(str::to_owned),
            to: None,
            dropped: None,
            waited_ns: None,
            lane_ns: None,
            lane_back_ns: None,
            local_queue_ns: None,
            answered: false,
        }
    }

    /// Returns packets with every possible property. Numbers are missing before the last.
    fn all() -> Vec<Recorded> {
        let verdicts = ["redirect", "tx", "pass", "wait", "fragment"].map(Some).into_iter().chain([None]);
        let mut all: Vec<_> = (0..).zip(verdicts).map(|(number, verdict)| packet(number, verdict)).collect();
        all[0].to = Some("memif:/run/a".into());
        for reason in Reason::ALL {
            let mut dropped = packet(all.len() as u64, Some("drop"));
            dropped.dropped = Some(reason.name().into());
            all.push(dropped);
        }
        let mut last = packet(1000, Some("redirect"));
        last.dropped = Some("tx_full".into());
        (last.waited_ns, last.answered) = (Some(1_234_567), true);
        (last.lane_ns, last.lane_back_ns, last.local_queue_ns) = (Some(2_000), Some(3_000), Some(4_000_000));
        all.push(last);
        all
    }

    #[test]
    fn a_packet_is_on_the_control_socket_what_it_was() {
        for packet in all() {
            assert_eq!(Recorded::of(&packet.record()).as_ref(), Ok(&packet));
        }
        assert_eq!((bytes("00ff5a"), bytes("0g"), bytes("é")), (vec![0, 0xff, 0x5a], vec![], vec![]));
    }

    #[test]
    fn tshark_reads_every_verdict_and_every_reason() {
        let path = std::env::temp_dir().join(format!("netmem-recorded-{}.pcapng", std::process::id()));
        let mut capture = Capture::new(std::fs::File::create(&path).unwrap()).unwrap();
        all().iter().for_each(|packet| capture.write(packet).unwrap());
        let fields = [
            "interface_name",
            "interface_queue",
            "packet_id",
            "verdict.ebpf_xdp",
            "drop_count",
            "len",
            "cap_len",
            "time_epoch",
            "comment",
        ];
        let fields = fields.iter().flat_map(|field| ["-e".to_owned(), format!("frame.{field}")]);
        let mut command = Command::new("tshark");
        let out =
            command.args(["-n", "-T", "fields", "-E", "separator=|", "-r"]).arg(&path).args(fields).output();
        std::fs::remove_file(&path).unwrap();
        let Ok(out) = out else {
            assert!(std::env::var_os("NETMEM_NO_SKIP").is_none(), "no tshark");
            return eprintln!("SKIPPED: tshark_reads_every_verdict_and_every_reason: no tshark");
        };
        let text = String::from_utf8(out.stdout).unwrap();
        let lines: Vec<_> = text.lines().collect();
        let line = |number: u64, verdict: &str, missing: &str, comment: &str| {
            let id = 3 << 48 | number;
            format!("xdp:eth0|7|{id}|{verdict}|{missing}|1500|144|1700000000.123456789|{comment}; worker 1")
        };
        let mut wanted = vec![
            line(0, "4", "", "to memif:/run/a"),
            line(1, "3", "", "back by its port"),
            line(2, "2", "", "passed to the local queue"),
            line(3, "", "", "waits"),
            line(4, "4", "", "cut, and sent in pieces"),
            line(5, "", "", "in work"),
        ];
        for reason in Reason::ALL {
            wanted.push(line(wanted.len() as u64, "1", "", &format!("dropped: {}", reason.name())));
        }
        let missing = (1000 - wanted.len()).to_string();
        let last = "to a port that is not there, dropped: tx_full, an ICMP error was sent; waited 1.235 ms; \
                    in the lane from worker 7 0.002 ms; in the lane back to worker 7 0.003 ms; in the local queue 4.000 ms";
        wanted.push(line(1000, "1", &missing, last));
        assert_eq!(lines, wanted);
    }
}
