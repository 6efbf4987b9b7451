//! HOT: packets by a lane, from one worker to another.

use super::burst::words;
use super::lane::{end, no_receiver, no_sender};
use super::packet::traced_pool;
use super::types::{netmem_lane, netmem_packet, netmem_worker};
use super::worker::out;
use crate::lane_packets::Passing;
use crate::lanes::End;
use crate::misuse::{PACKET, refused};
use crate::sites::{self, Site};
use crate::workers::{State, go_in};
use crate::{packets, table};
use netmem::limits::BATCH_MAX;
use std::ffi::{c_char, c_int};
use std::iter;

/// Sends packets, each with all its parts, from the front, as many as the lane has room for; returns how many. Their words are good no longer: the receiver
/// gets new ones, by netmem_lane_receive_packets. The others stay the caller's, as they are. -EPIPE where the receiver has closed its end. Where a word is not
/// good nothing is sent from it on, and where it is the first the result is the negative errno. Packets come in the order of packets, frames in that of frames.
///
/// # Safety
/// As of the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_lane_send_packets_at(
    worker: netmem_worker,
    lane: netmem_lane,
    packets: *const netmem_packet,
    n: u32,
    site: *const c_char,
) -> c_int {
    const CALL: &str = "netmem_lane_send_packets";
    // SAFETY: the promise of C; the packets are only read.
    let (site, words) = unsafe { (Site::new(site), words(packets.cast_mut(), n)) };
    let Some(mut inside) = go_in(worker.word) else { return out(worker, CALL, site) };
    let State { lanes, worker, tag, uses, held, .. } = &mut *inside;
    let (sending, words) = match (end(&mut lanes.sending, End::Sender, (lane, CALL, site)), words) {
        (Ok(sending), Ok(words)) => (sending, words),
        (Err(errno), _) | (_, Err(errno)) => return errno,
    };
    let Some(room) = sending.room_for_packets(words.len()) else { return no_receiver(CALL) };
    let (mut rest, mut bad) = (words.iter(), None);
    let sent = sending.send_packets(worker, room, || {
        let word = rest.next()?.word;
        // Of its entry, which another packet may have after this.
        let pool = if sites::is_on() { traced_pool(word) } else { 0 };
        match packets::take(uses, tag, word, table::End::Moved) {
            Ok((packet, heads)) => {
                if sites::is_on() {
                    sites::note_ended(iter::once(word), site);
                }
                Some(Passing { packet, heads, pool })
            }
            Err(kind) => {
                bad = Some((kind, word));
                None
            }
        }
    });
    *held -= sent as u64;
    match bad.map(|(kind, word)| refused(kind, CALL, PACKET, word, site)) {
        Some(errno) if sent == 0 => errno,
        _ => sent as c_int,
    }
}

/// Receives up to `n` packets, oldest first; returns how many, which are fewer than wait only when there is no memory to note them. -EPIPE where there are none
/// and the sender has closed its end. They are of the heads that they were of, to which netmem_packet_free gives those back.
///
/// # Safety
/// As of the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_lane_receive_packets_at(
    worker: netmem_worker,
    lane: netmem_lane,
    packets: *mut netmem_packet,
    n: u32,
    site: *const c_char,
) -> c_int {
    const CALL: &str = "netmem_lane_receive_packets";
    // SAFETY: the promise of C.
    let (site, places) = unsafe { (Site::new(site), words(packets, n)) };
    let Some(mut inside) = go_in(worker.word) else { return out(worker, CALL, site) };
    let State { lanes, worker, tag, uses, held, .. } = &mut *inside;
    let (receiving, places) = match (end(&mut lanes.receiving, End::Receiver, (lane, CALL, site)), places) {
        (Ok(receiving), Ok(places)) => (receiving, places),
        (Err(errno), _) | (_, Err(errno)) => return errno,
    };
    // Asked first: what was sent before is seen then.
    let is_over = receiving.lane.is_gone(End::Sender);
    let (mut got, mut is_short) = (0, false);
    for burst in places.chunks_mut(BATCH_MAX) {
        is_short = !uses.reserve(burst.len());
        if is_short {
            break;
        }
        let (want, mut free) = (burst.len(), burst.iter_mut());
        let came = receiving.receive_packets(worker, want, |_, Passing { packet, heads, pool }| {
            let word = packets::give(uses, tag, packet, heads);
            free.by_ref().take(1).for_each(|place| place.word = word);
            if sites::is_on() {
                sites::note_given(iter::once(word), pool, site);
            }
        });
        got += came;
        if came < want {
            break;
        }
    }
    *held += got as u64;
    if got == 0 && is_over && !is_short && !places.is_empty() {
        return no_sender(CALL);
    }
    got as c_int
}
