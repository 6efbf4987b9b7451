//! Tests of what the compiler may assume about public types: in which direction a lifetime inside of them may change,
//! and which of them threads may move or share.
//!
//! Changes of a lifetime that must not compile stand as `compile_fail` examples in the documentation of the types:
//! `Constructed`, `ConstructedCache`, `Sender`, `Receiver`.

use netmem::forward::{Forwarder, Pieces};
use netmem::packet::{
    CopyBreak, External, HeadCache, InFlightHeads, Packet, Packets, QueuedPacket, ReadyPackets, ReadyStack,
};
use netmem::page::{Memory, OwnerId, Page, SharedPage};
use netmem::pool::{Batch, Drain, Fragment, Fragments, Frame, Pool, SharedFrame};
use netmem::port::Posting;
use netmem::port::copying::{CopyingPort, Device, RxBuffer, RxBuffers};
use netmem::port::{Port, PortCounters, PortState};
use netmem::ring::{IdReceiver, IdSender, Receiver, Sender};
use netmem::slab::{Cache, Constructed, ConstructedCache, Live, Object, RawCache, SizeClasses, SlabBytes};
use netmem::stats::{Count, Writer};
use netmem::steer::{Inbox, Mesh, Outbox};
use netmem::sync::{Doorbell, Worker};
use netmem::system::memif::Text;
use netmem::wire::icmp::Upper;
use netmem::wire::options::Stamp;
use std::cell::Cell;
use std::fs;
use std::marker::PhantomData;
use std::path::Path;
use std::rc::Rc;
use std::sync::MutexGuard;

/// Asserts that the type is `Send`, or `Sync`. Otherwise it does not compile.
macro_rules! is {
    ($trait:ident: $($type:ty),* $(,)?) => { const _: () = { const fn is<T: $trait>() {} $(is::<$type>();)* }; };
}

/// Asserts that the type is not. If it is, two implementations of `Which` fit and the compiler cannot choose.
macro_rules! is_not {
    ($trait:ident: $($type:ty),* $(,)?) => {
        $(const _: fn() = || {
            trait Which<A> { fn one() {} }
            impl<T: ?Sized> Which<()> for T {}
            struct IsToo;
            impl<T: ?Sized + $trait> Which<IsToo> for T {}
            let _ = <$type as Which<_>>::one;
        };)*
    };
}

/// `Send`, not `Sync`.
type Moves = Cell<u8>;
/// `Sync`, not `Send`.
type Shares = MutexGuard<'static, u8>;
/// Neither.
type Neither = Rc<u8>;

// A ring moves its items between threads, and shares none. Both ends may go where the items may go, and a shared end
// gives access to none of them.
is!(Send: Sender<Moves>, Receiver<Moves>);
is!(Sync: Sender<Moves>, Receiver<Moves>);
is_not!(Send: Sender<Shares>, Receiver<Shares>, Sender<Neither>, Receiver<Neither>);
is_not!(Sync: Sender<Shares>, Receiver<Shares>, Sender<Neither>, Receiver<Neither>);
// Ids are numbers.
is!(Send: IdSender, IdReceiver);
is!(Sync: IdSender, IdReceiver);

// An object is a box of its value.
is!(Send: Object<Moves>, Constructed<Moves>);
is!(Sync: Object<Shares>, Constructed<Shares>);
is_not!(Send: Object<Shares>, Object<Neither>, Constructed<Shares>, Constructed<Neither>);
is_not!(Sync: Object<Moves>, Object<Neither>, Constructed<Moves>, Constructed<Neither>);

// A cache has no value that anybody could reach through a shared handle. It can be made for values that are `Send` alone:
// they are put in on one thread and dropped on another.
is!(Send: Cache<Moves>, ConstructedCache<Moves>, RawCache, SizeClasses);
is!(Sync: Cache<Moves>, ConstructedCache<Moves>, RawCache, SizeClasses);
is!(Send: SlabBytes, Live<RawCache>, Live<Cache<Moves>>);
is!(Sync: SlabBytes, Live<RawCache>, Live<Cache<Moves>>);
is_not!(Send: Live<Neither>);
is_not!(Sync: Live<Moves>);

// A worker is used by one thread at a time, and may go to another.
is!(Send: Worker);
is_not!(Sync: Worker);
is!(Send: Doorbell);
is!(Sync: Doorbell);

// Claims on pages and frames may go to any thread. A shared claim only reads.
is!(Send: Memory, Page, SharedPage, OwnerId, Pool, Frame, SharedFrame, Fragment, Fragments, Batch, Drain<'static>);
is!(Sync: Memory, Page, SharedPage, OwnerId, Pool, Frame, SharedFrame, Fragment, Batch, Drain<'static>);
is!(Send: HeadCache, Packet, Packets, QueuedPacket, ReadyPackets, ReadyStack, InFlightHeads, External, CopyBreak);
is!(Sync: HeadCache, Packet, Packets, QueuedPacket, ReadyPackets, ReadyStack, InFlightHeads, External, CopyBreak);

// Each end of the lanes is one worker's at a time.
is!(Send: Mesh, Outbox, Inbox, Forwarder, Box<dyn Port>);
is!(Sync: Mesh);

/// A device with a lifetime in it.
struct Borrows<'a>(&'a str, PhantomData<Moves>);

impl Device for Borrows<'_> {
    fn kind(&self) -> &'static str {
        "borrows"
    }
    fn receive(&mut self, _: &mut RxBuffers<'_>, _: &Writer<PortCounters>) -> usize {
        self.0.len()
    }
    fn send(&mut self, _: &[Frame], _: &Writer<PortCounters>) -> usize {
        0
    }
    fn state(&self) -> PortState {
        PortState::Up
    }
}

// A port over a device is as its device.
is!(Send: CopyingPort<Borrows<'static>>);
is_not!(Sync: CopyingPort<Borrows<'static>>);

// Plain data.
is!(Send: Text<8>, Upper<'static>, Stamp<Moves>);
is!(Sync: Text<8>, Upper<'static>, Stamp<Shares>);

// Frames to be received into, borrowed.
is!(Send: RxBuffer<'static>, RxBuffers<'static>);

// As the Arc that its readers get.
is!(Send: Writer<Count>);
is!(Sync: Writer<Count>);
is_not!(Send: Writer<Moves>);
is_not!(Send: Stamp<Neither>);
is_not!(Sync: Stamp<Moves>);

/// A lifetime inside may become shorter: the value inside does not outlive the type that shows it.
#[allow(dead_code)]
mod becomes_shorter {
    use super::*;

    /// An object's value ends with it.
    pub fn object<'s>(object: Object<&'static str>) -> Object<&'s str> {
        object
    }

    /// A cache has no values: each is in an object of the type with which it was put in.
    pub fn cache<'s>(cache: Cache<&'static str>) -> Cache<&'s str> {
        cache
    }

    pub fn live<'s>(live: Live<&'static str>) -> Live<&'s str> {
        live
    }

    pub fn drain<'s>(drain: Drain<'static>) -> Drain<'s> {
        drain
    }

    pub fn copying_port<'s>(port: CopyingPort<Borrows<'static>>) -> CopyingPort<Borrows<'s>> {
        port
    }

    pub fn pieces<'s>(pieces: Pieces<'static>) -> Pieces<'s> {
        pieces
    }

    pub fn posting<'s>(posting: Posting<'static>) -> Posting<'s> {
        posting
    }

    pub fn rooms<'s>(rooms: RxBuffers<'static>) -> RxBuffers<'s> {
        rooms
    }

    pub fn room<'s>(room: RxBuffer<'static>) -> RxBuffer<'s> {
        room
    }

    pub fn writer<'s>(writer: Writer<&'static str>) -> Writer<&'s str> {
        writer
    }

    pub fn upper<'s>(upper: Upper<'static>) -> Upper<'s> {
        upper
    }

    pub fn stamp<'s>(stamp: Stamp<&'static str>) -> Stamp<&'s str> {
        stamp
    }
}

/// Every public generic type outside of `sys`, and where it is checked: `shorter` above, `fixed` by examples in its
/// documentation that must not compile, `none` if it has no lifetime or type inside.
const GENERIC: [(&str, &str); 18] = [
    ("Buckets", "none"),
    ("Cache", "shorter"),
    ("Constructed", "fixed"),
    ("ConstructedCache", "fixed"),
    ("CopyingPort", "shorter"),
    ("Drain", "shorter"),
    ("Live", "shorter"),
    ("Object", "shorter"),
    ("Pieces", "shorter"),
    ("Posting", "shorter"),
    ("Receiver", "fixed"),
    ("RxBuffer", "shorter"),
    ("RxBuffers", "shorter"),
    ("Sender", "fixed"),
    ("Stamp", "shorter"),
    ("Text", "none"),
    ("Upper", "shorter"),
    ("Writer", "shorter"),
];

/// Reads all sources below a folder, those of `sys` and of tests left out.
fn sources(folder: &Path, each: &mut dyn FnMut(&str)) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && name != "sys" && name != "tests" {
            sources(&path, each);
        } else if name.ends_with(".rs") {
            each(&fs::read_to_string(&path).unwrap());
        }
    }
}

#[test]
fn every_public_generic_type_stands_in_the_table_of_variances() {
    let mut found = Vec::new();
    let mut fixed = Vec::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut |text| {
        let lines: Vec<&str> = text.lines().collect();
        for (at, line) in lines.iter().enumerate() {
            let kinds = ["pub struct ", "pub enum ", "pub union "];
            let Some(rest) = kinds.iter().find_map(|kind| line.strip_prefix(kind)) else { continue };
            let name: String = rest.chars().take_while(|c| c.is_alphanumeric()).collect();
            if !rest[name.len()..].starts_with('<') {
                continue;
            }
            let documented = lines[..at].iter().rev().take_while(|line| line.starts_with(['/', '#']));
            if documented.clone().any(|line| line.contains("compile_fail,E0308")) {
                fixed.push(name.clone());
            }
            found.push(name);
        }
    });
    found.sort_unstable();
    assert_eq!(found, GENERIC.map(|(name, _)| name), "say in this file how each may change, and why");
    let expected = GENERIC.iter().filter(|(_, how)| *how == "fixed").map(|(name, _)| name.to_string());
    let bare: Vec<String> = expected.filter(|name| !fixed.contains(name)).collect();
    assert!(bare.is_empty(), "without an example that must not compile: {bare:?}");
}
