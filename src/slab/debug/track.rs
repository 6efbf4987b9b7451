//! Call sites: the calls that allocated and freed an object.

use std::cell::Cell;
use std::fmt;
use std::panic::Location;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

/// A place in the source that allocates or frees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Site(&'static Location<'static>);

impl Site {
    /// A drop. It knows nothing of the call that led to it.
    pub(in crate::slab) const DROPPED: Site = Site(Location::caller());

    /// The call site of the function that calls this, as far up as `#[track_caller]` reaches.
    #[track_caller]
    #[inline(always)]
    pub fn caller() -> Site {
        Site(Location::caller())
    }

    /// The path of the file, as the compiler knew it.
    pub fn file(&self) -> &'static str {
        self.0.file()
    }

    /// The line number, from 1.
    pub fn line(&self) -> u32 {
        self.0.line()
    }
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Site::DROPPED { f.write_str("a drop") } else { self.0.fmt(f) }
    }
}

/// The call site and the thread of an operation on an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Track {
    /// The call site.
    pub site: Site,
    thread: u32,
}

impl Track {
    /// Makes a track of this thread at `site`.
    pub(super) fn here(site: Site) -> Track {
        Track { site, thread: this_thread() }
    }

    /// The name that the thread had when it first used a cache with debug. A thread without a name is called by its
    /// number.
    pub fn thread(&self) -> String {
        let names = THREADS.lock().unwrap_or_else(PoisonError::into_inner);
        let name = (self.thread as usize).checked_sub(1).and_then(|at| names.get(at));
        name.map_or_else(|| "an ending thread".into(), Clone::clone)
    }
}

impl fmt::Display for Track {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} by {}", self.site, self.thread())
    }
}

/// The names of the threads that used a cache with debug. A thread's number is its index here + 1.
static THREADS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// This thread's number; 0 once its locals are gone.
fn this_thread() -> u32 {
    thread_local!(static NUMBER: Cell<u32> = const { Cell::new(0) });
    let number = NUMBER.try_with(|number| {
        if number.get() == 0 {
            number.set(name_thread());
        }
        number.get()
    });
    number.unwrap_or_default()
}

fn name_thread() -> u32 {
    let thread = std::thread::current();
    let mut names = THREADS.lock().unwrap_or_else(PoisonError::into_inner);
    let number = names.len() as u32 + 1;
    names.push(match thread.name() {
        Some(name) => format!("thread {name}"),
        None => format!("thread {number} (no name)"),
    });
    number
}

/// The call sites that were recorded so far. A site's number is its index here + 1.
static SITES: Mutex<Vec<Site>> = Mutex::new(Vec::new());

/// The number of a site. There are as many sites as the program has calls, so a search through all of them is short.
fn number_of(site: Site) -> u32 {
    let mut sites = SITES.lock().unwrap_or_else(PoisonError::into_inner);
    let known = sites.iter().position(|known| std::ptr::eq(known.0, site.0) || *known == site);
    let at = known.unwrap_or_else(|| {
        sites.push(site);
        sites.len() - 1
    });
    at as u32 + 1
}

/// A [`Track`] in the form in which it lies beside an object: the numbers of site and thread, mixed with the object's
/// address. The object's holders may overwrite it, so it holds no pointer. A value that makes no sense is not a track.
#[derive(Debug)]
#[repr(transparent)]
pub(super) struct Stamp(AtomicU64);

impl Stamp {
    /// Records a track of the object, or that there is none.
    pub(super) fn write(&self, object: NonNull<u8>, track: Option<Track>) {
        let numbers =
            track.map_or(0, |track| u64::from(number_of(track.site)) << 32 | u64::from(track.thread));
        self.0.store(numbers ^ mix(object), Relaxed);
    }

    /// The recorded track. None if none was recorded, or if it was overwritten.
    pub(super) fn read(&self, object: NonNull<u8>) -> Option<Track> {
        let numbers = self.0.load(Relaxed) ^ mix(object);
        let sites = SITES.lock().unwrap_or_else(PoisonError::into_inner);
        let site = *sites.get(((numbers >> 32) as usize).checked_sub(1)?)?;
        Some(Track { site, thread: numbers as u32 })
    }
}

/// A number that differs from object to object in both halves.
fn mix(object: NonNull<u8>) -> u64 {
    (object.addr().get() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_gives_its_track_back_until_something_writes_over_it() {
        let stamp = Stamp(AtomicU64::new(0));
        let object = NonNull::from(&stamp).cast();
        assert_eq!(stamp.read(object), None, "fresh memory");
        let (track, other) = (Track::here(Site::caller()), Track::here(Site::caller()));
        assert_eq!(number_of(track.site), number_of(track.site));
        assert_ne!(number_of(track.site), number_of(other.site));
        stamp.write(object, Some(track));
        assert_eq!(stamp.read(object), Some(track));
        assert!(track.to_string().contains("track.rs:"), "{track}");
        stamp.0.store(0x6b6b_6b6b_6b6b_6b6b, Relaxed);
        assert_eq!(stamp.read(object), None, "overwritten");
        stamp.write(object, None);
        assert_eq!(stamp.read(object), None, "forgotten");
    }

    #[test]
    fn a_drop_is_called_so_and_other_sites_by_their_place() {
        assert_eq!(Site::DROPPED.to_string(), "a drop");
        let here = Site::caller();
        assert_eq!(here.to_string(), format!("{}:{}:{}", file!(), line!() - 1, 20));
        assert_eq!((here.file(), here.line()), (file!(), line!() - 2));
    }

    #[test]
    fn threads_are_called_by_their_names() {
        let named = std::thread::Builder::new().name("rx-0".into());
        let track = named.spawn(|| Track::here(Site::caller())).unwrap().join().unwrap();
        assert_eq!(track.thread(), "thread rx-0");
        let unnamed = std::thread::spawn(|| Track::here(Site::caller())).join().unwrap();
        assert!(unnamed.thread().ends_with("(no name)"), "{}", unnamed.thread());
    }
}
