//! Packets: frames that get heads, a header in front of the data, one packet with several readers, a packet of two
//! parts, and a small one that is kept without its frame: `packets`. It ends with an error if a check fails.

use netmem::packet::{CopyBreak, HeadCache};
use netmem::slab::{CacheConfig, SizeClasses};
use netmem::{Memory, MemoryConfig, Packet, Pool, PoolConfig, Worker};
use std::error::Error;

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<()> {
    let memory = Memory::new(&MemoryConfig { bytes: 8 << 20, ..Default::default() })?;
    let mut w = memory.worker()?;
    let pool = Pool::new(&memory, &mut w, &PoolConfig { frames: 256, headroom: 128, ..Default::default() })?;
    let heads = HeadCache::new(&memory)?;
    tunnel(&mut w, &pool, &heads)?;
    flood(&mut w, &pool, &heads)?;
    chain(&mut w, &pool, &heads)?;
    keep(&memory, &mut w, &pool, &heads)?;
    let ledger = pool.ledger();
    println!("at the end: {} of {} frames freed", ledger.total - ledger.out(), ledger.total);
    if ledger.all_freed() { Ok(()) } else { Err(format!("{ledger:?}").into()) }
}

/// Without a copy: an outer header is put before the data, and removed again.
fn tunnel(w: &mut Worker, pool: &Pool, heads: &HeadCache) -> Outcome<()> {
    let mut packet = heads.alloc(w, pool).ok_or("no packet")?;
    packet.put_slice(b"inner packet")?;
    let room = packet.headroom();
    packet.push(50)?; // an outer Ethernet, IPv4, UDP and VXLAN header
    packet.data_mut().ok_or("shared")?[..50].fill(0xee);
    println!("tunnel: {} bytes with the outer header; there were {room} of headroom", packet.len());
    packet.pull(50)?;
    packet.set_flow_hash(7);
    let frame = heads.detach(w, packet).map_err(|_| "shared")?; // the record is gone with the head
    println!("tunnel: as a frame again: {:?}", std::str::from_utf8(frame.data())?);
    frame.free(w);
    Ok(())
}

/// One packet, three readers. One of them is sent; the last of the others may write.
fn flood(w: &mut Worker, pool: &Pool, heads: &HeadCache) -> Outcome<()> {
    let mut packet = heads.alloc(w, pool).ok_or("no packet")?;
    packet.put_slice(b"to everyone")?;
    let mut copies: Vec<Packet> = (0..2).filter_map(|_| heads.share(w, &mut packet)).collect();
    println!("flood: {} readers of {} frame", 1 + copies.len(), pool.ledger().owned);
    let shared = packet.data_mut().is_none();
    let mut sent = copies.pop().ok_or("no head")?;
    heads.make_sendable(w, &mut sent, pool)?; // a port takes frames without other readers: this one is a copy
    let frame = heads.detach(w, sent).map_err(|_| "shared")?;
    println!("flood: a frame of its own for a port, {} frames in all", pool.ledger().owned);
    frame.free(w);
    copies.into_iter().for_each(|copy| heads.free(w, copy));
    let alone = packet.reclaim() && packet.data_mut().is_some();
    println!("flood: writable while shared: {}, when alone: {alone}", !shared);
    heads.free(w, packet);
    if shared && alone { Ok(()) } else { Err("sharing is not as it must be".into()) }
}

/// Header and body in two frames, as a device that gathers takes them, and then in one.
fn chain(w: &mut Worker, pool: &Pool, heads: &HeadCache) -> Outcome<()> {
    let mut packet = heads.alloc(w, pool).ok_or("no packet")?;
    packet.put_slice(b"header, ")?;
    let mut body = heads.alloc(w, pool).ok_or("no packet")?;
    body.put_slice(b"body")?;
    packet.append(body);
    println!("chain: {} bytes in {} parts", packet.len(), packet.segments().count());
    heads.linearize(w, &mut packet, pool)?;
    println!("chain: {:?} in one", std::str::from_utf8(packet.data())?);
    heads.free(w, packet);
    Ok(())
}

/// A program that keeps packets for long copies the small ones out of their frames.
fn keep(memory: &Memory, w: &mut Worker, pool: &Pool, heads: &HeadCache) -> Outcome<()> {
    let copy_break = CopyBreak::new(&SizeClasses::new(memory, &CacheConfig::default())?);
    let mut packet = heads.alloc(w, pool).ok_or("no packet")?;
    packet.put_slice(&[1; 60])?;
    let before = packet.pinned();
    copy_break.apply(w, &mut packet);
    println!(
        "keep: 60 bytes pin {} bytes, {before} before; frames out: {}",
        packet.pinned(),
        pool.ledger().out()
    );
    heads.free(w, packet);
    Ok(())
}
