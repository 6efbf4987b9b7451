//! HOT: receives and transmits packets through the queues of a port.

use super::burst::words;
use super::known::look_up;
use super::packet::{give_all, not_one_frame};
use super::port::find_port;
use super::types::{netmem_heads, netmem_packet, netmem_port, netmem_worker};
use super::unsendable::part_all;
use super::worker::out;
use crate::errno::ENOMEM;
use crate::failure::short;
use crate::misuse::{Kind, PACKET, refused};
use crate::packets;
use crate::registry::HEADS;
use crate::sites::{self, Site};
use crate::table::{End, Tag};
use crate::workers::{State, go_in};
use netmem::limits::BATCH_MAX;
use netmem::{Batch, Packet, Packets};
use std::ffi::{c_char, c_int};

/// Receives up to `n` packets, each a received frame with a head of `heads`, and writes their handles to
/// `packets`.
/// Returns the number received. If there is no memory for a head or a handle, the frame waits for the next
/// netmem_port_rx_packets or netmem_port_rx, and netmem_last_errno is ENOMEM.
///
/// # Safety
/// See the module.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_port_rx_packets_at(
    worker: netmem_worker,
    port: netmem_port,
    heads: netmem_heads,
    packets: *mut netmem_packet,
    n: u32,
    site: *const c_char,
) -> c_int {
    const CALL: &str = "netmem_port_rx_packets";
    // SAFETY: the promise of C; a netmem_packet is one word.
    let (site, places) = unsafe { (Site::new(site), words(packets.cast::<u64>(), n)) };
    let Some(mut inside) = go_in(worker.word) else { return out(worker, CALL, site) };
    let State { ports, heads: known, packets, worker, tag, uses, held, memory_word, .. } = &mut *inside;
    let (open, heads_of, places) = match (
        find_port(ports, port, CALL, site),
        look_up(&HEADS, known, *memory_word, (heads.word, CALL, site)),
        places,
    ) {
        (Ok(open), Ok(heads), Ok(places)) => (open, heads, places),
        (Err(errno), ..) | (_, Err(errno), _) | (.., Err(errno)) => return errno,
    };
    let mut got = 0;
    while got < places.len() {
        if open.received.is_empty() && open.port.rx(worker, &mut open.received) == 0 {
            break;
        }
        let places = &mut places[got..];
        let wanted = places.len().min(open.received.len());
        // Before the frames leave the port, where they wait if there are no handles.
        if !uses.reserve(wanted) {
            let text = "there is no memory for handles: the received frames wait in the port";
            short(ENOMEM, format_args!("{CALL}: {text}"));
            break;
        }
        let mut frames = Batch::new();
        open.received.drain().move_to(&mut frames, wanted);
        heads_of.attach_burst(worker, &mut frames, packets);
        let asked = packets.len() + frames.len();
        // Frames without a head wait in front of those received later.
        frames.append(&mut open.received);
        open.received = frames;
        let came = give_all((packets, heads.word), (uses, tag), (heads_of, worker), places);
        got += came;
        if came < asked {
            let text = "the memory has no more for heads: the received frames wait in the port";
            short(ENOMEM, format_args!("{CALL}: {text}"));
            break;
        }
    }
    *held += got as u64;
    sites::note_all_given(&places[..got], open.pool, site);
    got as c_int
}

/// Posts up to `n` packets for transmission. Each packet must be one unshared frame; see
/// netmem_packet_make_sendable.
/// Returns the number posted. The port owns their frames; the heads are freed and the handles are invalid.
/// The other packets stay with the caller: the call moves them to the end of `packets`, in order, so that
/// they begin at the index that the call returns.
/// The call works in groups of 64 packets. It stops before a group that contains an invalid handle, or a
/// packet that is not one unshared frame (-EBUSY). If that is the first group, returns the negative errno.
///
/// # Safety
/// See the module.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_port_tx_packets_at(
    worker: netmem_worker,
    port: netmem_port,
    packets: *mut netmem_packet,
    n: u32,
    site: *const c_char,
) -> c_int {
    const CALL: &str = "netmem_port_tx_packets";
    // SAFETY: the promise of C.
    let (site, places) = unsafe { (Site::new(site), words(packets, n)) };
    let Some(mut inside) = go_in(worker.word) else { return out(worker, CALL, site) };
    let State { ports, heads: known, packets, posting, worker, tag, uses, held, memory_word, .. } =
        &mut *inside;
    let (open, places) = match (find_port(ports, port, CALL, site), places) {
        (Ok(open), Ok(places)) => (open, places),
        (Err(errno), _) | (_, Err(errno)) => return errno,
    };
    let (mut posted, mut asked) = (0, [Asked::default(); BATCH_MAX]);
    for burst in places.chunks_mut(BATCH_MAX) {
        if let Err((word, why)) = lend(tag, burst, packets, &mut asked) {
            let errno =
                why.map_or_else(|| not_one_frame(CALL), |kind| refused(kind, CALL, PACKET, word, site));
            return if posted == 0 { errno } else { posted as c_int };
        }
        let mut batch = Batch::new();
        // `lend` has checked that each packet is one frame.
        packets.drain().for_each(|packet| drop(posting.detach(packet, &mut batch)));
        asked.iter_mut().zip(batch.iter()).for_each(|(asked, frame)| asked.frame = frame.id().get());
        open.port.tx(worker, &mut batch);
        let (taken, asked) = (burst.len() - batch.len(), &mut asked[..burst.len()]);
        if !batch.is_empty() {
            put_behind(asked, &batch);
            posting.attach_newest(&mut batch, packets);
            packets.drain().zip(&asked[taken..]).for_each(|(packet, asked)| asked.put_back(tag, packet));
            burst.iter_mut().zip(&*asked).for_each(|(place, asked)| place.word = asked.word);
        }
        for gone in &asked[..taken] {
            packets::end(uses, tag, gone.word, End::Sent);
            // All heads are alike, so any free head can go back for each packet. It goes to the heads that
            // the packet belonged to.
            if let Some(heads) = HEADS.of_part(known, *memory_word, gone.of) {
                posting.free_newest(1, &heads, worker);
            }
        }
        *held -= taken as u64;
        posted += taken;
        if sites::is_on() {
            sites::note_ended(burst[..taken].iter().map(|packet| packet.word), site);
        }
        if taken < burst.len() {
            break;
        }
    }
    posted as c_int
}

/// Does for packets what netmem_port_take_unsendable does for frames. Each packet must be one unshared frame, as for
/// netmem_port_tx_packets: otherwise returns -EBUSY.
/// Returns the number found. If a handle is invalid, or a packet is not one unshared frame, returns the negative errno;
/// packets in front of it may have changed places.
///
/// # Safety
/// See the module.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_port_take_unsendable_packets_at(
    worker: netmem_worker,
    port: netmem_port,
    packets: *mut netmem_packet,
    n: u32,
    site: *const c_char,
) -> c_int {
    const CALL: &str = "netmem_port_take_unsendable_packets";
    // SAFETY: the promise of C.
    let (site, places) = unsafe { (Site::new(site), words(packets, n)) };
    let Some(mut inside) = go_in(worker.word) else { return out(worker, CALL, site) };
    let State { ports, packets, posting, tag, .. } = &mut *inside;
    let (open, places) = match (find_port(ports, port, CALL, site), places) {
        (Ok(open), Ok(places)) => (open, places),
        (Err(errno), _) | (_, Err(errno)) => return errno,
    };
    let mut asked = [Asked::default(); BATCH_MAX];
    let found = part_all(places, |burst| {
        lend(tag, burst, packets, &mut asked)?;
        let mut batch = Batch::new();
        packets.drain().for_each(|packet| drop(posting.detach(packet, &mut batch)));
        let asked = &mut asked[..burst.len()];
        asked.iter_mut().zip(batch.iter()).for_each(|(asked, frame)| asked.frame = frame.id().get());
        let mut bad = open.port.take_unsendable(&mut batch);
        let found = bad.len();
        if found > 0 {
            put_behind(asked, &bad);
        }
        batch.append(&mut bad);
        posting.attach_newest(&mut batch, packets);
        packets.drain().zip(&*asked).for_each(|(packet, asked)| asked.put_back(tag, packet));
        burst.iter_mut().zip(&*asked).for_each(|(place, asked)| place.word = asked.word);
        Ok(found)
    });
    match found {
        Ok(found) => found as c_int,
        Err((_, None)) => not_one_frame(CALL),
        Err((word, Some(kind))) => refused(kind, CALL, PACKET, word, site),
    }
}

/// A packet whose frame the port is asked to take.
#[derive(Clone, Copy, Default)]
struct Asked {
    word: u64,
    /// The handle of its heads.
    of: u64,
    /// Its flow hash.
    flow_hash: u32,
    /// The number of its frame.
    frame: u32,
}

impl Asked {
    /// Puts a packet back that the port did not take.
    fn put_back(&self, tag: &mut Tag, mut packet: Packet) {
        if self.flow_hash != 0 {
            packet.set_flow_hash(self.flow_hash);
        }
        packets::put_back(tag, self.word, packet);
    }
}

/// Takes the packets of a burst out of their entries, in order.
///
/// # Errors
/// The first invalid handle, with the reason. The reason is None if the packet is not one unshared frame.
/// Nothing has changed then.
#[inline(always)]
fn lend(
    tag: &mut Tag,
    burst: &[netmem_packet],
    packets: &mut Packets,
    asked: &mut [Asked; BATCH_MAX],
) -> Result<(), (u64, Option<Kind>)> {
    for (at, &netmem_packet { word }) in burst.iter().enumerate() {
        let why = match packets::lend(tag, word, Kind::UsedAfterTx) {
            Ok((mut packet, of)) => {
                let is_one_frame = packet.is_linear() && packet.reclaim();
                asked[at] = Asked { word, of, flow_hash: packet.flow_hash(), frame: 0 };
                if is_one_frame {
                    // There is room for a burst.
                    drop(packets.push(packet));
                    continue;
                }
                packets::put_back(tag, word, packet);
                None
            }
            Err(kind) => Some(kind),
        };
        packets.drain().zip(&asked[..at]).for_each(|(packet, asked)| asked.put_back(tag, packet));
        return Err((word, why));
    }
    Ok(())
}

/// Moves the packets that were not taken behind the others. The taken packets keep their order; the others
/// are in the order of `left`.
#[cold]
#[inline(never)]
fn put_behind(asked: &mut [Asked], left: &Batch) {
    let before: Vec<Asked> = asked.to_vec();
    let is_left = |one: &&Asked| left.iter().any(|frame| frame.id().get() == one.frame);
    let taken = before.iter().filter(|one| !is_left(one));
    let stays = left.iter().filter_map(|frame| before.iter().find(|one| one.frame == frame.id().get()));
    asked.iter_mut().zip(taken.chain(stays)).for_each(|(to, one)| *to = *one);
}

#[cfg(test)]
mod tests {
    use super::*;
    use netmem::{Memory, MemoryConfig, Pool, PoolConfig};

    #[test]
    fn packets_that_a_port_skipped_are_behind_those_that_it_took_and_both_keep_their_order() {
        let memory = Memory::new(&MemoryConfig { bytes: 4 << 20, ..MemoryConfig::default() }).unwrap();
        let mut w = memory.worker().unwrap();
        let pool = Pool::new(&memory, &mut w, &PoolConfig { frames: 16, ..PoolConfig::default() }).unwrap();
        let (mut all, mut left) = (Batch::new(), Batch::new());
        pool.alloc_burst(&mut w, &mut all, 5);
        let mut asked: Vec<Asked> = (1..)
            .zip(all.iter())
            .map(|(word, frame)| Asked { word, frame: frame.id().get(), ..Asked::default() })
            .collect();
        // The port had no room for the third frame and can never send the first one, which stays behind.
        let (mut taken, mut first) = (Batch::new(), Batch::new());
        let mut frames = all.drain();
        frames.move_to(&mut first, 1);
        frames.move_to(&mut taken, 1);
        frames.move_to(&mut left, 1);
        frames.move_to(&mut taken, 2);
        drop(frames);
        left.append(&mut first);
        put_behind(&mut asked, &left);
        assert_eq!(asked.iter().map(|asked| asked.word).collect::<Vec<_>>(), [2, 4, 5, 3, 1]);
        taken.free(&mut w);
        left.free(&mut w);
        assert!(pool.ledger().all_freed());
    }
}
