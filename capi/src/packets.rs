//! HOT: turns handles into packets and shared frames.
//!
//! # Soundness
//! As in `objects.rs`, an entry whose holder is a worker *is* the claim on the packet or shared frame whose words it
//! has. A claim enters an entry only from a `Packet` or a `SharedFrame` ([`give`], [`give_shared`], [`put_back`],
//! [`change`]) and leaves it only as one. It leaves for good when the use ends ([`take`], [`take_shared`]), and for the
//! time of a call when the call borrows the packet ([`lend`], [`change`]). While a call has the packet, the entry has no
//! head. So a handle that a burst contains twice is refused the second time. [`look`] makes a packet that is never
//! dropped, while the tag is borrowed.

use crate::misuse::Kind;
use crate::objects::{self, Claim, Uses, What};
use crate::table::{End, Tag};
use netmem::{Frame, Packet, Packets, SharedFrame};
use std::ffi::c_void;
use std::mem::{self, ManuallyDrop, MaybeUninit};
use std::num::{NonZeroU32, NonZeroU64};
use std::ptr;

/// Returns the two words that an entry stores for a packet: of its frame (0 if it has several parts) and of its head.
#[inline(always)]
fn words(packet: Packet) -> (u64, u64) {
    let (head, frame) = packet.into_raw();
    (frame.map_or(0, NonZeroU64::get), head.get())
}

/// Returns the claim that an entry stores for a packet.
#[inline(always)]
fn claim(packet: Packet, of: u64) -> Claim {
    let (at, head) = words(packet);
    Claim { at, of, head }
}

/// Returns the packet of a claim, or None if a call has it already.
///
/// # Safety
/// The claim has left its entry, or the caller does not drop the packet.
#[inline(always)]
unsafe fn packet(claim: Claim) -> Option<Packet> {
    let head = NonZeroU64::new(claim.head)?;
    // SAFETY: the words came from a packet. The rest is the caller's promise.
    Some(unsafe { Packet::from_raw(head, NonZeroU64::new(claim.at)) })
}

/// Returns the shared frame of a claim.
///
/// # Safety
/// As for [`packet`].
#[inline(always)]
unsafe fn shared(claim: Claim) -> Option<SharedFrame> {
    // SAFETY: as for `packet`.
    NonZeroU64::new(claim.at).map(|word| unsafe { SharedFrame::from_raw(word) })
}

/// Returns the number of the chunk that the shared frame of a claim begins in. The claim may be one that another thread is
/// changing, and then be no shared frame's: so only the number is read. None if it is 0.
pub fn shared_chunk(claim: Claim) -> Option<u32> {
    NonZeroU32::new(claim.at as u32).map(NonZeroU32::get)
}

/// Frees the packet or the shared frame of a claim that has left its entry, without a worker.
///
/// # Safety
/// The claim has left its entry.
#[cold]
pub unsafe fn free(what: What, claim: Claim) {
    match what {
        // SAFETY: the caller's promise.
        What::Packet => drop(unsafe { packet(claim) }),
        // SAFETY: as above.
        What::Shared => drop(unsafe { shared(claim) }),
        What::Object | What::Page => (),
    }
}

/// Starts a use of a packet with a reserved number. Returns the handle. `of` is the handle of the heads that
/// the packet's head belongs to.
#[inline(always)]
pub fn give(uses: &mut Uses, tag: &mut Tag, packet: Packet, of: u64) -> u64 {
    uses.give(tag, What::Packet, claim(packet, of)).unwrap_or(0)
}

/// Ends a use. Returns the packet and the handle of its heads.
///
/// # Errors
/// The reason why the handle is invalid.
#[inline(always)]
pub fn take(uses: &mut Uses, tag: &mut Tag, word: u64, end: End) -> Result<(Packet, u64), Kind> {
    let frees = end == End::Freed;
    let claim = uses.take(tag, What::Packet, word, end).ok_or_else(|| why(word, frees))?;
    // SAFETY: the claim has left its entry.
    unsafe { packet(claim) }.map(|packet| (packet, claim.of)).ok_or(Kind::MadeUp)
}

/// Starts a use of each packet, for which numbers are reserved, and writes the handles to `places`, of which there are at
/// least as many. `heads` returns the handle of the heads of the packet at an index. Returns the number of packets.
#[inline(never)]
pub fn give_all(
    uses: &mut Uses,
    tag: &mut Tag,
    packets: &mut Packets,
    heads: impl Fn(usize) -> u64,
    places: &mut [u64],
) -> usize {
    let of_packet = |at, packet: &Packet| {
        // SAFETY: the list forgets its packets below, and nothing before that panics.
        claim(unsafe { ptr::read(packet) }, heads(at))
    };
    let n = uses.give_all(tag, What::Packet, (packets, of_packet), places);
    packets.drain().take(n).for_each(mem::forget);
    n
}

/// Ends the uses of a run of packets that have the same heads, and appends the packets to `to`, which has room. The run begins with the first
/// handle and stops at an invalid handle, at a packet of other heads, or when `to` is full. If `heads` is given, the packets must have those.
/// Returns the length of the run, at least 1, and the handle of the heads.
///
/// # Errors
/// The reason why the first handle is refused.
#[inline(never)]
pub fn take_run(
    uses: &mut Uses,
    tag: &mut Tag,
    (run, end): (&[u64], End),
    heads: Option<u64>,
    to: &mut Packets,
) -> Result<(usize, u64), Kind> {
    let first = run.first().copied().unwrap_or(0);
    let looked = objects::look(tag, What::Packet, first);
    let Claim { of, .. } = looked.ok_or_else(|| why(first, end == End::Freed))?;
    if heads.is_some_and(|heads| heads != of) {
        return Err(Kind::WrongCache);
    }
    let put = |place: &mut MaybeUninit<Packet>, claim| {
        // SAFETY: the claim leaves its entry if this returns true.
        unsafe { packet(claim) }.map(|packet| place.write(packet)).is_some()
    };
    // SAFETY: as many packets are written, from the front, as uses are ended.
    let n =
        unsafe { to.append_with(|places| uses.take_all(tag, What::Packet, (run, end), of, (places, put))) };
    // 0 only if a call has the first packet already.
    if n == 0 { Err(Kind::MadeUp) } else { Ok((n, of)) }
}

/// Takes a packet out of its entry for the time of a call, and returns it with the handle of its heads. The
/// call ends with [`put_back`] or [`end`].
///
/// # Errors
/// The reason why the handle is invalid; `again` if the call has the packet already.
#[inline(always)]
pub fn lend(tag: &mut Tag, word: u64, again: Kind) -> Result<(Packet, u64), Kind> {
    let lent = |claim: Claim| Some((0, 0, claim));
    let claim = objects::change(tag, What::Packet, word, lent).ok_or_else(|| why(word, false))?;
    // SAFETY: the claim has left its entry.
    unsafe { packet(claim) }.map(|packet| (packet, claim.of)).ok_or(again)
}

/// Puts a lent packet back.
#[inline(always)]
pub fn put_back(tag: &mut Tag, word: u64, packet: Packet) {
    let (at, head) = words(packet);
    objects::put(tag, What::Packet, word, at, head);
}

/// Ends the use of a lent packet that the call has consumed.
#[inline(always)]
pub fn end(uses: &mut Uses, tag: &mut Tag, word: u64, end: End) {
    uses.take(tag, What::Packet, word, end);
}

/// Calls `look` with the packet of a handle.
///
/// # Errors
/// The reason why the handle is invalid.
#[inline(always)]
pub fn look<R>(tag: &Tag, word: u64, look: impl FnOnce(&Packet) -> R) -> Result<R, Kind> {
    let claim = objects::look(tag, What::Packet, word).ok_or_else(|| why(word, false))?;
    // SAFETY: the packet is not dropped. The entry belongs to this worker, and no other call of the worker is
    // running.
    let packet = ManuallyDrop::new(unsafe { packet(claim) }.ok_or(Kind::MadeUp)?);
    Ok(look(&packet))
}

/// Calls `change` with the packet of a handle and the handle of its heads, and stores the changed packet.
///
/// # Errors
/// The reason why the handle is invalid.
#[inline(always)]
pub fn change<R>(tag: &mut Tag, word: u64, change: impl FnOnce(&mut Packet, u64) -> R) -> Result<R, Kind> {
    let done = objects::change(tag, What::Packet, word, |claim| {
        // SAFETY: the packet is not dropped, and only this call uses the entry.
        let mut packet = ManuallyDrop::new(unsafe { packet(claim) }?);
        let done = change(&mut packet, claim.of);
        let (at, head) = words(ManuallyDrop::into_inner(packet));
        Some((at, head, done))
    });
    done.ok_or_else(|| why(word, false))
}

/// Appends bytes to packets, from the front: as many as the length beside each address, where that of the first byte is written.
/// Stops at a packet that is not one empty frame with room in its first chunk, at an invalid handle, and at one whose entry lies in
/// another segment than the first. Returns the number of packets that got their bytes.
#[inline(never)]
pub fn put_first(tag: &mut Tag, words: &[u64], lens: &[u32], to: &mut [*mut c_void]) -> usize {
    objects::change_all(tag, What::Packet, words, lens.iter().zip(to), |claim, (len, to)| {
        let frame = NonZeroU64::new(claim.at)?;
        // SAFETY: the frame is not dropped, and only this call uses the entry.
        let mut frame = ManuallyDrop::new(unsafe { Frame::from_raw(frame) });
        *to = frame.put_first(*len as usize)?.as_mut_ptr().cast();
        Some(ManuallyDrop::into_inner(frame).into_raw().get())
    })
}

/// Starts a use of a shared frame with a reserved number. Returns the handle.
#[inline(always)]
pub fn give_shared(uses: &mut Uses, tag: &mut Tag, shared: SharedFrame, of: u64) -> u64 {
    let claim = Claim { at: shared.into_raw().get(), of, head: 0 };
    uses.give(tag, What::Shared, claim).unwrap_or(0)
}

/// Ends a use. Returns the shared frame.
///
/// # Errors
/// The reason why the handle is invalid.
#[inline(always)]
pub fn take_shared(uses: &mut Uses, tag: &mut Tag, word: u64, end: End) -> Result<SharedFrame, Kind> {
    let claim = uses.take(tag, What::Shared, word, end).ok_or_else(|| why_shared(word, end == End::Freed))?;
    // SAFETY: the claim has left its entry.
    unsafe { shared(claim) }.ok_or(Kind::MadeUp)
}

/// Calls `change` with the shared frame of a handle, and stores the changed one.
///
/// # Errors
/// The reason why the handle is invalid.
#[inline(always)]
pub fn change_shared<R>(
    tag: &mut Tag,
    word: u64,
    change: impl FnOnce(&mut SharedFrame) -> R,
) -> Result<R, Kind> {
    let done = objects::change(tag, What::Shared, word, |claim| {
        // SAFETY: the shared frame is not dropped, and only this call uses the entry.
        let mut shared = ManuallyDrop::new(unsafe { shared(claim) }?);
        let done = change(&mut shared);
        Some((ManuallyDrop::into_inner(shared).into_raw().get(), 0, done))
    });
    done.ok_or_else(|| why_shared(word, false))
}

#[cold]
fn why(word: u64, frees: bool) -> Kind {
    Kind::of(objects::why(What::Packet, word), frees)
}

#[cold]
fn why_shared(word: u64, frees: bool) -> Kind {
    Kind::of(objects::why(What::Shared, word), frees)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seen: a shared frame was made of the address of an object, which another thread had put into the entry. Of an address
    /// whose lower half is 0 that is undefined behaviour.
    #[test]
    fn a_claim_that_is_no_longer_of_a_shared_frame_has_no_chunk_or_any() {
        assert_eq!(shared_chunk(Claim { at: 1 << 32, of: 1, head: 0 }), None);
        assert_eq!(shared_chunk(Claim { at: 1 << 32 | 7, of: 1, head: 0 }), Some(7));
    }
}
