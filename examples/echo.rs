//! A UDP echo in place: it sends datagrams to port 7 back to their senders, and drops all other frames. `echo
//! [DATAGRAMS]`, by default 10,000. It also plays the client, and ends with 1 if a datagram is missing.

use netmem::limits::BATCH_MAX;
use netmem::port::mem::{MemConfig, MemDevice, MemPort};
use netmem::wire::{Ethernet, Ipv4, MacAddr, Udp, ethernet, ipv4, udp};
use netmem::{Batch, Memory, MemoryConfig, Pool, PoolConfig, Port, Worker};
use std::error::Error;
use std::net::Ipv4Addr;
use std::process::exit;

const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

/// Turns a datagram to port 7 round, which changes no checksum. Returns None, with nothing changed, for every other
/// frame, and for what no host must answer: a datagram to a group, or from port 7, since two such services would answer
/// each other without end.
fn swap_endpoints(frame: &mut [u8]) -> Option<()> {
    let (link, packet) = Ethernet::parse_mut(frame).ok()?;
    let (header, datagram) = Ipv4::parse(packet).ok().filter(|_| link.ethertype() == ethernet::IPV4)?;
    let is_whole = header.protocol() == ipv4::UDP && !header.is_fragment();
    let is_to_group = link.dst.is_multicast() || header.dst().is_multicast() || header.dst().is_broadcast();
    let start = header.header_len();
    let is_request = |udp: &Udp| udp.dst_port() == 7 && udp.src_port() != 7;
    Udp::parse(datagram).filter(|(udp, _)| is_whole && !is_to_group && is_request(udp))?;
    Udp::parse_mut(&mut packet[start..])?.0.swap_ports();
    Ipv4::parse_mut(packet).ok()?.swap_addresses();
    link.swap_addresses();
    Some(())
}

/// One round over a port of any kind. Returns the number of frames dropped. Frames without room stay in `frames`.
fn round(port: &mut dyn Port, w: &mut Worker, pool: &Pool, frames: &mut Batch) -> usize {
    port.refill(w, pool);
    let mut dropped = 0;
    if frames.is_empty() {
        dropped = port.rx(w, frames);
        let mut is_echo = [false; BATCH_MAX];
        frames.each_data_mut(4, |i, data| is_echo[i] = swap_endpoints(data).is_some());
        let mut verdicts = is_echo.into_iter();
        frames.retain(w, |_| verdicts.next() == Some(true));
        dropped -= frames.len();
    }
    port.tx(w, frames);
    if !frames.is_empty() {
        port.take_unsendable(frames).free(w); // offered again, they would block the others
    }
    let mut sent = Batch::new();
    port.complete(w, &mut sent);
    sent.free(w);
    port.kick();
    dropped
}

fn main() -> Result<(), Box<dyn Error>> {
    let datagrams = std::env::args().nth(1).map_or(Ok(10_000), |text| text.parse())?;
    let memory = Memory::new(&MemoryConfig { bytes: 8 << 20, ..Default::default() })?;
    let mut w = memory.worker()?;
    let pool = Pool::new(&memory, &mut w, &PoolConfig { frames: 1024, ..Default::default() })?;
    let (mut port, mut client) = MemPort::pair("0", &MemConfig::default())?;
    let (mut frames, mut sent, mut dropped, mut answers) = (Batch::new(), 0, 0, 0);
    for _round in 0..10 + datagrams {
        ask(&mut client, &mut sent, datagrams);
        dropped += round(&mut port, &mut w, &pool, &mut frames);
        client.collect(32, |answer| answers += usize::from(is_answer(answer)));
    }
    drop((port, client));
    println!("{sent} sent, {answers} echoed, {dropped} dropped; {:?}", pool.ledger());
    exit(i32::from(answers != datagrams - datagrams / 10 || !pool.ledger().all_freed()));
}

/// The client sends a burst while there are datagrams left: every tenth is for port 9, where nothing listens.
fn ask(client: &mut MemDevice, sent: &mut usize, datagrams: usize) {
    client.deliver((datagrams - *sent).min(32), |room| {
        *sent += 1;
        let port = if sent.is_multiple_of(10) { 9 } else { 7 };
        let link =
            Ethernet::new(MacAddr::new([2, 0, 0, 0, 0, 2]), MacAddr::new([2, 0, 0, 0, 0, 1]), ethernet::IPV4);
        let mut header = Udp::new(50_000, port, 18);
        header.set_checksum(udp::checksum(
            udp::pseudo_header(CLIENT, SERVER, 26) + header.sum().bytes(&[7; 18]),
        ));
        room[..14].copy_from_slice(&link.to_bytes());
        room[14..34].copy_from_slice(&Ipv4::new(CLIENT, SERVER, ipv4::UDP, 64, 26).to_bytes());
        room[34..42].copy_from_slice(&header.to_bytes());
        room[42..60].fill(7);
        60
    });
}

/// Returns whether this is the server's answer: from its port 7 to the client's, with correct checksums.
fn is_answer(frame: &[u8]) -> bool {
    let Ok((header, datagram)) = Ipv4::parse(&frame[14..]) else { return false };
    let ports = Udp::parse(datagram).map(|(udp, _)| (udp.src_port(), udp.dst_port()));
    (header.src(), header.dst(), ports) == (SERVER, CLIENT, Some((7, 50_000)))
        && udp::intact(SERVER, CLIENT, datagram)
}
