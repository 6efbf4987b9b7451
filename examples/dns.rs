//! An authoritative DNS server beside the kernel: `dns eth0 ZONE` answers in the frame that carried the question. Lines
//! of ZONE have the form `www.example.test. A 192.0.2.80`, of types A, AAAA, NS and SOA. Needs root; Ctrl-C ends it.

use netmem::port::xdp::{XdpConfig, XdpQueues};
use netmem::wire::Datagram;
use netmem::{Batch, DmaMap, Frame, Memory, MemoryConfig, Pool, PoolConfig, Port, PortState, Umem};
use std::iter::successors;
use std::net::{Ipv4Addr, Ipv6Addr};

const SOA: u16 = 6;
/// All records: names in wire format, types, data.
struct Zone(Vec<(Vec<u8>, u16, Vec<u8>)>);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [interface, file] = &words[..] else {
        eprintln!("usage: dns INTERFACE ZONE");
        std::process::exit(2);
    };
    let text = std::fs::read_to_string(file)?;
    let records = text.lines().map(|line| record(line).ok_or(format!("not a record: {line}")));
    let zone = Zone(records.collect::<Result<_, _>>()?);
    let memory = Memory::new(&MemoryConfig::default())?;
    let mut w = memory.worker()?;
    let config = PoolConfig { dma: DmaMap::Umem, ..PoolConfig::default() };
    let pool = Pool::new(&memory, &mut w, &config)?;
    let config = XdpConfig { take: Some("udp:53".parse()?), ..XdpConfig::default() };
    // A card spreads flows over its queues.
    let queues = XdpQueues::all_of(interface)?;
    let umem = Umem::new(&memory);
    let port: &mut dyn Port = &mut XdpQueues::open(&umem, &mut w, &pool, interface, &queues, &config)?;
    let (mut frames, mut reported) = (Batch::new(), PortState::Up);
    loop {
        port.refill(&mut w, &pool);
        if port.rx(&mut w, &mut frames) == 0 {
            let state = port.state();
            if port.is_failed() {
                return Err(format!("{} is {state}", port.name()).into()); // it will not come up again
            }
            if state != reported {
                eprintln!("dns: {} is {state}", port.name());
                reported = state;
            }
            std::thread::yield_now(); // examples/udp_echo.rs sleeps
        }
        frames.iter_mut().for_each(|frame| zone.answer(frame).or_else(|| frame.trim(0).ok()).unwrap_or(()));
        frames.retain(&mut w, |frame| !frame.is_empty());
        port.tx(&mut w, &mut frames);
        frames.free(&mut w); // frames for which the ring has no room are lost, as datagrams may be
        port.kick();
        port.complete(&mut w, &mut frames);
        frames.free(&mut w);
    }
}

/// A name in wire format: each label behind its length.
fn name(text: &str) -> Vec<u8> {
    let sent = |label: &str| [&[label.len() as u8], label.to_ascii_lowercase().as_bytes()].concat();
    text.trim_end_matches('.').split('.').flat_map(sent).chain([0]).collect()
}

fn record(line: &str) -> Option<(Vec<u8>, u16, Vec<u8>)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [owner, kind, data @ ..] = &words[..] else { return None };
    let (kind, data) = match (*kind, data) {
        ("A", [address]) => (1, address.parse::<Ipv4Addr>().ok()?.octets().to_vec()),
        ("AAAA", [address]) => (28, address.parse::<Ipv6Addr>().ok()?.octets().to_vec()),
        ("NS", [server]) => (2, name(server)),
        ("SOA", [server, mail, times @ ..]) if times.len() == 5 => {
            let times = times.iter().map(|time| Some(u32::to_be_bytes(time.parse().ok()?)));
            (SOA, [name(server), name(mail), times.collect::<Option<Vec<_>>>()?.concat()].concat())
        }
        _ => return None,
    };
    Some((name(owner), kind, data))
}

/// The name, in small letters, and the type that a query asks for.
fn asked(query: &[u8]) -> Option<(Vec<u8>, u16)> {
    let (0, [0, 1]) = (query.get(2)? & 0xf8, query.get(4..6)?) else { return None };
    let label = |at: &usize| query.get(*at).filter(|len| (1..64).contains(*len));
    let end = successors(Some(12), |at| Some(at + 1 + usize::from(*label(at)?))).last()?;
    let &[0, high, low, 0, 1] = query.get(end..end + 5)? else { return None };
    Some((query[12..=end].to_ascii_lowercase(), u16::from_be_bytes([high, low])))
}

impl Zone {
    fn find(&self, name: &[u8], kind: u16) -> impl Iterator<Item = &[u8]> {
        self.0.iter().filter(move |one| one.0 == name && one.1 == kind).map(|one| &one.2[..])
    }

    /// Turns a question into its answer, in its frame. Returns None for a frame that is not a question.
    fn answer(&self, frame: &mut Frame) -> Option<()> {
        let (question, query) = Datagram::parse(frame.data()).ok()?;
        let (answer, (name, kind)) = (question.answer()?, asked(query)?);
        let soa = (0..name.len()).find_map(|at| Some((at, SOA, self.find(&name[at..], SOA).next()?)));
        let mut records: Vec<_> = self.find(&name, kind).map(|data| (0, kind, data)).collect();
        let count = records.len() as u8;
        records.extend(soa.filter(|_| count == 0)); // tells for how long there is no such record
        frame.trim(answer.headers_len() + 12 + name.len() + 4).ok()?;
        let header = &mut frame.data_mut()[answer.headers_len()..];
        header[2] = header[2] & 1 | if soa.is_some() { 0x84 } else { 0x80 };
        let is_absent = !self.0.iter().any(|one| one.0.ends_with(&name));
        header[3] = if soa.is_some() { 3 * u8::from(is_absent) } else { 5 }; // NXDOMAIN, REFUSED
        header[6..12].copy_from_slice(&[0, count, 0, records.len() as u8 - count, 0, 0]);
        for (at, kind, data) in records {
            let [owner, kind, len] = [0xc00c + at as u16, kind, data.len() as u16].map(u16::to_be_bytes);
            let fields = [owner, kind, [0, 1], [0, 0], [1, 44], len].concat(); // of class IN, for 300 seconds
            frame.put(12 + data.len()).ok()?.copy_from_slice(&[&fields, data].concat());
        }
        answer.write(frame.data_mut()).ok()
    }
}
