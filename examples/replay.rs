//! Replays a capture: `replay IN.pcap OUT.pcap` writes the IPv4 packets of one file to the other. Without arguments it
//! makes a capture of 1,000 packets, replays it, and counts the packets in the output; it ends with 1 if they are
//! wrong.

use netmem::port::pcap::{PcapConfig, PcapPort};
use netmem::wire::{Ethernet, Ipv4, MacAddr, ethernet, ipv4};
use netmem::{
    Batch, Complete, Fill, Memory, MemoryConfig, Pool, PoolConfig, Port, PortState, Rx, Tx, Wake, Worker,
};
use std::error::Error;
use std::path::Path;
use std::{env, fs, process};

fn main() -> Result<(), Box<dyn Error>> {
    let memory = Memory::new(&MemoryConfig { bytes: 16 << 20, ..Default::default() })?;
    let mut w = memory.worker()?;
    let pool = Pool::new(&memory, &mut w, &PoolConfig { frames: 4096, ..Default::default() })?;
    let files: Vec<String> = env::args().skip(1).collect();
    if let [from, to] = &files[..] {
        let (read, written) =
            replay(&mut w, &pool, from.as_ref(), Some(to.as_ref())).unwrap_or_else(|error| {
                eprintln!("replay: {error}");
                process::exit(2);
            });
        println!("{read} packets read, {written} of IPv4 written to {to}");
        return Ok(());
    }
    let folder = env::temp_dir().join(format!("netmem-replay-{}", process::id()));
    fs::create_dir(&folder)?;
    let (made, out) = (folder.join("made.pcap"), folder.join("out.pcap"));
    record(&mut w, &pool, &made, 1000)?;
    let (read, written) = replay(&mut w, &pool, &made, Some(&out))?;
    let (again, of_them) = replay(&mut w, &pool, &out, None)?;
    fs::remove_dir_all(&folder)?;
    println!("{read} packets read, {written} of IPv4 written; read again: {again}");
    let is_right = (read, written, again, of_them) == (1000, 750, 750, 750) && pool.ledger().all_freed();
    process::exit(i32::from(!is_right));
}

/// Sends packets from one file to the other, except those that are not IPv4. Returns the packets read, and written.
///
/// # Errors
/// Returns an error with both numbers if the input is damaged or the output cannot be written.
fn replay(
    w: &mut Worker,
    pool: &Pool,
    from: &Path,
    to: Option<&Path>,
) -> Result<(usize, usize), Box<dyn Error>> {
    let config = PcapConfig { input: Some(from.into()), output: to.map(Into::into), ..PcapConfig::default() };
    let mut port = PcapPort::open("replay", &config)?;
    let (mut read, mut taken, mut frames) = (0, 0, Batch::new());
    while !(port.rx_finished() && port.tx_posted() == 0 && frames.is_empty()) {
        port.refill(w, pool);
        read += port.rx(w, &mut frames);
        frames.retain(w, |frame| {
            Ethernet::parse(frame.data()).is_ok_and(|(link, _)| link.ethertype() == ethernet::IPV4)
        });
        taken += send(w, &mut port, &mut frames);
        if !port.can_retry_tx() {
            break; // the output failed, and takes no more frames
        }
    }
    frames.free(w);
    let (state, counters) = (port.state(), port.counters());
    drop(port); // writes the rest, for a pipe that had no room
    let lost = counters.tx_lost.get() as usize;
    let written = taken - lost;
    match state {
        PortState::Down(reason) => Err(format!("{reason}; {read} packets read, {written} written").into()),
        PortState::Up if lost > 0 => Err(format!("{lost} of {taken} packets could not be written").into()),
        PortState::Up => Ok((read, written)),
    }
}

/// A round's second half: frames that do not fit stay in `frames` for the next one.
fn send(w: &mut Worker, port: &mut PcapPort, frames: &mut Batch) -> usize {
    let sent = port.tx(w, frames);
    let mut done = Batch::new();
    port.complete(w, &mut done);
    done.free(w);
    port.kick(); // files are read and written here
    sent
}

/// Writes a capture of `n` packets, of which every fourth is ARP.
fn record(w: &mut Worker, pool: &Pool, to: &Path, n: usize) -> Result<(), Box<dyn Error>> {
    let mut port =
        PcapPort::open("record", &PcapConfig { output: Some(to.into()), ..PcapConfig::default() })?;
    for number in 0..n {
        let ethertype = if number % 4 == 0 { ethernet::ARP } else { ethernet::IPV4 };
        let link = Ethernet::new(MacAddr::BROADCAST, MacAddr::new([2, 0, 0, 0, 0, 1]), ethertype);
        let header = Ipv4::new([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), ipv4::UDP, 64, 26);
        let mut frame = pool.alloc(w).ok_or("the pool is empty")?;
        frame.put_slice(&link.to_bytes())?;
        frame.put_slice(&header.to_bytes())?;
        frame.put_zeroed(26)?;
        let mut frames = Batch::new();
        frames.extend([frame]);
        send(w, &mut port, &mut frames);
    }
    Ok(())
}
