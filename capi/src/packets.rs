//! HOT: packets and shared frames by their words.
//!
//! # Soundness
//! As of `objects.rs`: an entry whose holder is a worker *is* the claim on the packet or the shared frame whose words it has. A claim enters it
//! only out of a `Packet` or a `SharedFrame` ([`give`], [`give_shared`], [`put_back`], [`change`]) and leaves it only as one: for good where the use ends
//! ([`take`], [`take_shared`]), and for a while where a call has the packet ([`lend`], [`change`]). Meanwhile the entry has no head, by which a word that
//! stands twice in one burst is refused the second time. [`look`] makes one that is never dropped, while the tag is borrowed.

use crate::misuse::Kind;
use crate::objects::{self, Claim, Uses, What};
use crate::table::{End, Tag};
use netmem::{Packet, Packets, SharedFrame};
use std::mem::ManuallyDrop;
use std::num::NonZeroU64;

/// What an entry holds of a packet: the word of its frame, and that of its head.
#[inline(always)]
fn words(packet: Packet) -> (u64, u64) {
    let (head, frame) = packet.into_raw();
    (frame.map_or(0, NonZeroU64::get), head.get())
}

#[inline(always)]
fn claim(packet: Packet, of: u64) -> Claim {
    let (at, head) = words(packet);
    Claim { at, of, head }
}

/// The packet of a claim; None where a call has it already.
///
/// # Safety
/// An entry has the claim, and has it no longer, or the packet is not dropped.
#[inline(always)]
unsafe fn packet(claim: Claim) -> Option<Packet> {
    let head = NonZeroU64::new(claim.head)?;
    // SAFETY: the words came from a packet; the rest is the caller's promise.
    Some(unsafe { Packet::from_raw(head, NonZeroU64::new(claim.at)) })
}

/// The shared frame of a claim.
///
/// # Safety
/// As of [`packet`].
#[inline(always)]
unsafe fn shared(claim: Claim) -> Option<SharedFrame> {
    // SAFETY: as of `packet`.
    NonZeroU64::new(claim.at).map(|word| unsafe { SharedFrame::from_raw(word) })
}

/// Gives out a packet whose use was reserved, and returns its word. `of` is the word of the heads to which the packet's head belongs.
#[inline(always)]
pub fn give(uses: &mut Uses, tag: &mut Tag, packet: Packet, of: u64) -> u64 {
    uses.give(tag, What::Packet, claim(packet, of)).unwrap_or(0)
}

/// Ends a use: the packet and the word of its heads.
///
/// # Errors
/// What is wrong with the word.
#[inline(always)]
pub fn take(uses: &mut Uses, tag: &mut Tag, word: u64, end: End) -> Result<(Packet, u64), Kind> {
    let frees = end == End::Freed;
    let claim = uses.take(tag, What::Packet, word, end).ok_or_else(|| why(word, frees))?;
    // SAFETY: the entry had the claim, and has it no longer.
    unsafe { packet(claim) }.map(|packet| (packet, claim.of)).ok_or(Kind::MadeUp)
}

/// Gives out packets whose uses were reserved, each of the heads of that word, as far as there are places for their words; how many.
#[inline(never)]
pub fn give_all<'a>(
    uses: &mut Uses,
    tag: &mut Tag,
    packets: &mut Packets,
    heads: impl ExactSizeIterator<Item = u64>,
    places: impl ExactSizeIterator<Item = &'a mut u64>,
) -> usize {
    let claims = packets.drain().zip(heads).map(|(packet, of)| claim(packet, of));
    uses.give_all(tag, What::Packet, claims, places)
}

/// Ends the uses of packets of one and the same heads, which are `heads` if those are named, and appends the packets to `to`: from the first word on, up to one
/// that is not good or of other heads, and as far as there is room. Returns how many, at least one, and the word of their heads.
///
/// # Errors
/// What is wrong with the first word.
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
    let mut taking = uses.taking(tag, What::Packet, run, end, of);
    // SAFETY: the entry of each had it, and has it no longer.
    to.extend(taking.by_ref().map_while(|claim| unsafe { packet(claim) }));
    Ok((taking.finish(), of))
}

/// Takes a packet out of its entry for the time of a call, at whose end [`put_back`] or [`end`] is called; and the word of its heads.
///
/// # Errors
/// What is wrong with the word; `again` where the call has it already.
#[inline(always)]
pub fn lend(tag: &mut Tag, word: u64, again: Kind) -> Result<(Packet, u64), Kind> {
    let lent = |claim: Claim| Some((0, 0, claim));
    let claim = objects::change(tag, What::Packet, word, lent).ok_or_else(|| why(word, false))?;
    // SAFETY: the entry had the claim, and has it no longer.
    unsafe { packet(claim) }.map(|packet| (packet, claim.of)).ok_or(again)
}

/// Puts a packet back that was lent.
#[inline(always)]
pub fn put_back(tag: &mut Tag, word: u64, packet: Packet) {
    let (at, head) = words(packet);
    objects::put(tag, What::Packet, word, at, head);
}

/// Ends the use of a packet that was lent, and that was used up.
#[inline(always)]
pub fn end(uses: &mut Uses, tag: &mut Tag, word: u64, end: End) {
    uses.take(tag, What::Packet, word, end);
}

/// Calls `look` with the packet of a word.
///
/// # Errors
/// What is wrong with the word.
#[inline(always)]
pub fn look<R>(tag: &Tag, word: u64, look: impl FnOnce(&Packet) -> R) -> Result<R, Kind> {
    let claim = objects::look(tag, What::Packet, word).ok_or_else(|| why(word, false))?;
    // SAFETY: it is not dropped, and the entry is this worker's, of which no other call is under way.
    let packet = ManuallyDrop::new(unsafe { packet(claim) }.ok_or(Kind::MadeUp)?);
    Ok(look(&packet))
}

/// Calls `change` with the packet of a word and the word of its heads, and keeps what it has become.
///
/// # Errors
/// What is wrong with the word.
#[inline(always)]
pub fn change<R>(tag: &mut Tag, word: u64, change: impl FnOnce(&mut Packet, u64) -> R) -> Result<R, Kind> {
    let done = objects::change(tag, What::Packet, word, |claim| {
        // SAFETY: it is not dropped, and the entry is this call's meanwhile.
        let mut packet = ManuallyDrop::new(unsafe { packet(claim) }?);
        let done = change(&mut packet, claim.of);
        let (at, head) = words(ManuallyDrop::into_inner(packet));
        Some((at, head, done))
    });
    done.ok_or_else(|| why(word, false))
}

/// Gives a shared frame out whose use was reserved: its word.
#[inline(always)]
pub fn give_shared(uses: &mut Uses, tag: &mut Tag, shared: SharedFrame, of: u64) -> u64 {
    let claim = Claim { at: shared.into_raw().get(), of, head: 0 };
    uses.give(tag, What::Shared, claim).unwrap_or(0)
}

/// Ends a use: the shared frame.
///
/// # Errors
/// What is wrong with the word.
#[inline(always)]
pub fn take_shared(uses: &mut Uses, tag: &mut Tag, word: u64, end: End) -> Result<SharedFrame, Kind> {
    let claim = uses.take(tag, What::Shared, word, end).ok_or_else(|| why_shared(word, end == End::Freed))?;
    // SAFETY: the entry had the claim, and has it no longer.
    unsafe { shared(claim) }.ok_or(Kind::MadeUp)
}

/// Calls `change` with the shared frame of a word, and keeps what it has become.
///
/// # Errors
/// What is wrong with the word.
#[inline(always)]
pub fn change_shared<R>(
    tag: &mut Tag,
    word: u64,
    change: impl FnOnce(&mut SharedFrame) -> R,
) -> Result<R, Kind> {
    let done = objects::change(tag, What::Shared, word, |claim| {
        // SAFETY: it is not dropped, and the entry is this call's meanwhile.
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
