//! Holds one packet of a thousand for seconds, and starves nobody. `hold eth0 100000` receives the packets of an
//! interface, and gives every thousandth packet to a slow reader on another thread, without a copy. It ends after that
//! many packets. Needs root; the kernel also has all packets.

use bytes::Bytes;
use netmem::port::af_packet::{AfPacketConfig, AfPacketPort};
use netmem::{Batch, Fill, Memory, MemoryConfig, Pool, PoolConfig, Port, Rx, Wake};
use netmem_bytes::Lender;
use std::error::Error;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

const ONE_OF: u64 = 1000;
const HELD: Duration = Duration::from_secs(3);

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [interface, packets] = &words[..] else { return Err("usage: hold INTERFACE PACKETS".into()) };
    let packets: u64 = packets.parse()?;
    let memory = Memory::new(&MemoryConfig::default())?;
    let mut w = memory.worker()?;
    let pool = Pool::new(&memory, &mut w, &PoolConfig { frames: 4096, ..PoolConfig::default() })?;
    let mut port = AfPacketPort::open(interface, &AfPacketConfig::default())?;
    // At most a quarter of the pool is held, however slow the reader is. Beyond that the reader gets copies.
    let lender = Lender::new(&pool, pool.capacity() / 4 * pool.frame_size());
    let (give, take) = channel();
    let reader = thread::spawn(move || read(take));
    println!("sees {interface}");
    let (mut seen, mut frames) = (0, Batch::new());
    while seen < packets {
        port.refill(&mut w, &pool);
        port.kick();
        if port.rx(&mut w, &mut frames) == 0 {
            thread::sleep(Duration::from_millis(1)); // examples/udp_echo.rs of netmem sleeps until a packet comes
        }
        for frame in frames.drain() {
            seen += 1;
            if seen % ONE_OF == 0 {
                give.send((Instant::now(), lender.lend(&mut w, frame.share())))?;
            } else {
                frame.free(&mut w);
            }
        }
    }
    drop(give);
    let (counters, starved) = (port.counters(), port.counters().rx_no_frame.get());
    println!("{seen} seen, {starved} found no frame, {} overran the socket", counters.rx_ring_full.get());
    println!("{} bytes of frames are held, {} were copied", lender.pinned(), lender.copied());
    let (held, bytes) = reader.join().map_err(|_| "the reader ended")?;
    println!("{held} were held for {HELD:?} and read: {bytes} bytes; all home: {}", {
        drop(port);
        pool.ledger().all_freed()
    });
    Ok(())
}

/// Reads each packet after it was held long enough. Returns how many, and their bytes.
fn read(packets: Receiver<(Instant, Bytes)>) -> (u64, usize) {
    packets.iter().fold((0, 0), |(held, bytes), (came, packet)| {
        thread::sleep(HELD.saturating_sub(came.elapsed()));
        (held + 1, bytes + packet.len())
    })
}
