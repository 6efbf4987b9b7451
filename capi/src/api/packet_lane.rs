//! HOT: sends and receives packets through a lane.

use super::burst::words;
use super::lane::{end, no_receiver, no_sender};
use super::packet::traced_pool;
use super::types::{netmem_lane, netmem_packet, netmem_worker};
use super::worker::out;
use crate::errno::ENOMEM;
use crate::failure::short;
use crate::lane_packets::{Mark, Marks};
use crate::lanes::End;
use crate::misuse::{Kind, PACKET, refused};
use crate::objects::Uses;
use crate::sites::{self, Site};
use crate::table::Tag;
use crate::workers::{State, go_in};
use crate::{packets, table};
use netmem::Packets;
use netmem::limits::BATCH_MAX;
use std::ffi::{c_char, c_int};
use std::{iter, slice};

/// Sends up to `n` packets with all their parts through a lane, from the front of the array. Only the lane's
/// sender may call it.
/// Returns the number sent, which is less than `n` if the lane becomes full. The handles of packets that were
/// sent become invalid; the receiver gets new ones from netmem_lane_receive_packets. The other packets stay
/// with the caller, unchanged.
/// Stops at the first invalid handle. If that is the first packet, returns its negative errno.
/// Returns -EPIPE if the receiver has closed its end.
/// A lane keeps the order of packets and the order of frames, but not the order between packets and frames.
///
/// # Safety
/// See the module.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_lane_send_packets_at(
    worker: netmem_worker,
    lane: netmem_lane,
    packets: *const netmem_packet,
    n: u32,
    site: *const c_char,
) -> c_int {
    const CALL: &str = "netmem_lane_send_packets";
    // SAFETY: the promise of C; the packets are only read, and the word is all that a packet is.
    let (site, words) = unsafe { (Site::new(site), words(packets.cast_mut().cast(), n)) };
    let Some(mut inside) = go_in(worker.word) else { return out(worker, CALL, site) };
    let State { lanes, packets, worker, tag, uses, held, .. } = &mut *inside;
    let (sending, words) = match (end(&mut lanes.sending, End::Sender, (lane, CALL, site)), words) {
        (Ok(sending), Ok(words)) => (sending, words),
        (Err(errno), _) | (_, Err(errno)) => return errno,
    };
    let Some(room) = sending.room_for_packets(words.len()) else { return no_receiver(CALL) };
    let (mut sent, mut refusal) = (0, None);
    for burst in words[..room].chunks(BATCH_MAX) {
        let bad = take((uses, tag), burst, packets, &mut sending.packets.marks);
        let taken = sending.send_packets(worker, packets);
        sent += taken;
        if sites::is_on() {
            sites::note_ended(burst[..taken].iter().copied(), site);
        }
        if let Err((word, kind)) = bad {
            refusal = Some(refused(kind, CALL, PACKET, word, site));
            break;
        }
    }
    sending.wake();
    *held -= sent as u64;
    refusal.filter(|_| sent == 0).unwrap_or(sent as c_int)
}

/// Takes packets out of their entries, in order, and records the mark of each.
///
/// # Errors
/// The first invalid handle, with the reason. The packets before it were taken.
#[inline(always)]
fn take(
    (uses, tag): (&mut Uses, &mut Tag),
    burst: &[u64],
    packets: &mut Packets,
    marks: &mut Marks,
) -> Result<(), (u64, Kind)> {
    let (mut left, mut marks) = (burst, &mut marks[..]);
    while let [word, rest @ ..] = left {
        // Read before the use ends: another packet may take the entry then.
        let (run, pool) =
            if sites::is_on() { (slice::from_ref(word), traced_pool(*word)) } else { (left, 0) };
        let taken = packets::take_run(uses, tag, (run, table::End::Moved), None, packets);
        let (n, heads) = taken.map_err(|kind| (*word, kind))?;
        let (of_run, others) = marks.split_at_mut(n);
        of_run.fill(Mark { heads, pool });
        (left, marks) = (&rest[n - 1..], others);
    }
    Ok(())
}

/// Receives up to `n` packets from a lane, oldest first. Only the lane's receiver may call it.
/// Returns the number received, or -EPIPE if the sender has closed its end and neither packets nor frames wait in
/// the lane. The result is less than the number of waiting packets only if there is no memory for their handles:
/// netmem_last_errno is ENOMEM then.
/// A packet keeps its head. netmem_packet_free gives the head back to the heads that it was taken from, and
/// the frames to their pools.
///
/// # Safety
/// See the module.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_lane_receive_packets_at(
    worker: netmem_worker,
    lane: netmem_lane,
    packets: *mut netmem_packet,
    n: u32,
    site: *const c_char,
) -> c_int {
    const CALL: &str = "netmem_lane_receive_packets";
    // SAFETY: the promise of C; a netmem_packet is one word.
    let (site, places) = unsafe { (Site::new(site), words(packets.cast::<u64>(), n)) };
    let Some(mut inside) = go_in(worker.word) else { return out(worker, CALL, site) };
    let State { lanes, packets, worker, tag, uses, held, .. } = &mut *inside;
    let (receiving, places) = match (end(&mut lanes.receiving, End::Receiver, (lane, CALL, site)), places) {
        (Ok(receiving), Ok(places)) => (receiving, places),
        (Err(errno), _) | (_, Err(errno)) => return errno,
    };
    // Read first: the call then sees everything that was sent before the sender closed.
    let is_over = receiving.lane.is_gone(End::Sender);
    let (mut got, mut is_short) = (0, false);
    for burst in places.chunks_mut(BATCH_MAX) {
        is_short = !uses.reserve(burst.len());
        if is_short {
            short(
                ENOMEM,
                format_args!("{CALL}: there is no memory for handles: the packets wait in the lane"),
            );
            break;
        }
        let came = receiving.packets.receive(worker, burst.len(), packets);
        let marks = &receiving.packets.marks[..came];
        packets::give_all(uses, tag, packets, |at| marks[at].heads, burst);
        if sites::is_on() {
            for (mark, place) in marks.iter().zip(&*burst) {
                sites::note_given(iter::once(*place), mark.pool, site);
            }
        }
        receiving.finish_packets(came);
        got += came;
        if came < burst.len() {
            break;
        }
    }
    *held += got as u64;
    if got == 0 && is_over && !is_short && !places.is_empty() && !receiving.waiting() {
        return no_sender(CALL);
    }
    got as c_int
}
