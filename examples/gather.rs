//! Packets with parts that are not whole frames: `gather`. A header is in a small piece of a frame, one body for many
//! packets is in the program's own memory, and a copy is made for a port. It ends with an error if a check fails.

use netmem::packet::{External, HeadCache};
use netmem::pool::{Fragments, SharedFrame};
use netmem::{Memory, MemoryConfig, Packet, Pool, PoolConfig, Worker};
use std::error::Error;
use std::sync::mpsc::channel;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Packets that carry the same body.
const PACKETS: usize = 32;
/// Bytes of each header.
const HEADER: usize = 64;

fn main() -> Outcome<()> {
    let memory = Memory::new(&MemoryConfig { bytes: 8 << 20, ..Default::default() })?;
    let mut w = memory.worker()?;
    let pool = Pool::new(&memory, &mut w, &PoolConfig { frames: 256, ..Default::default() })?;
    let heads = HeadCache::new(&memory)?;
    respond(&mut w, &pool, &heads)?;
    edit(&mut w, &pool, &heads)?;
    let ledger = pool.ledger();
    println!("at the end: {} of {} frames freed", ledger.total - ledger.out(), ledger.total);
    if ledger.all_freed() { Ok(()) } else { Err(format!("{ledger:?}").into()) }
}

/// Each packet has a header of its own, cut from one frame for many. All share one body, which is not in a frame at
/// all.
fn respond(w: &mut Worker, pool: &Pool, heads: &HeadCache) -> Outcome<()> {
    let (released, came) = channel();
    let body =
        External::new(vec![b'x'; 1000], move |bytes: Vec<u8>| released.send(bytes.len()).unwrap_or_default());
    let mut headers = Fragments::new(pool);
    let mut packets: Vec<Packet> = Vec::new();
    for number in 0..PACKETS {
        let mut header = headers.alloc(w, HEADER).ok_or("no piece")?;
        header.put(HEADER)?.fill(number as u8);
        let mut packet = heads.attach_fragment(w, header).map_err(|_| "no head")?;
        packet.append(heads.attach_external(w, body.clone()).map_err(|_| "no head")?);
        packets.push(packet);
    }
    headers.flush(w); // the frame that is being cut is freed with the last of its pieces
    println!("{PACKETS} packets of {} bytes take {} frame", packets[0].len(), pool.ledger().out());
    let mut sent = packets.pop().ok_or("no packet")?;
    heads.make_sendable(w, &mut sent, pool)?; // a port takes one frame: header and body are copied into it
    let frame = heads.detach(w, sent).map_err(|_| "shared")?;
    println!("one of them as a frame for a port: {} bytes", frame.len());
    frame.free(w);
    drop(body);
    packets.into_iter().for_each(|packet| heads.free(w, packet));
    println!("the body came back: {} bytes", came.try_recv()?); // with the last packet that carried it
    Ok(())
}

/// One frame, several holders. The one that wants to write gets bytes of its own.
fn edit(w: &mut Worker, pool: &Pool, heads: &HeadCache) -> Outcome<()> {
    let mut frame = pool.alloc(w).ok_or("no frame")?;
    frame.put_slice(b"as it was")?;
    let kept: SharedFrame = frame.share();
    let mut packet = heads.attach_shared(w, kept.clone()).map_err(|_| "no head")?;
    packet.make_writable(w, pool)?;
    packet.data_mut().ok_or("shared")?[..2].copy_from_slice(b"AS");
    let texts = [kept.data(), packet.data()].map(String::from_utf8_lossy);
    println!("kept: {:?}, written: {:?}, frames out: {}", texts[0], texts[1], pool.ledger().out());
    heads.free(w, packet);
    kept.free(w);
    Ok(())
}
