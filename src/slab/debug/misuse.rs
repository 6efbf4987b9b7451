//! A misuse of an object, as data and as a report.

use super::slot::Difference;
use super::track::{Site, Track};
use std::fmt;
use std::ptr::NonNull;

/// The kind of damage that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Damage {
    /// The object was free already.
    DoubleFree,
    /// The same object is twice in one bulk.
    TwiceInBulk {
        /// Its two indices in the array.
        places: [usize; 2],
    },
    /// The object belongs to another cache.
    WrongCache {
        /// The name of that cache, or its number if the cache is gone.
        of: String,
    },
    /// The pointer lies in a slab of the cache, but not at the begin of an object.
    NotAtBegin {
        /// The address of the object whose slot contains the pointer.
        object: usize,
        /// Bytes from that object's begin to the pointer.
        offset: isize,
    },
    /// The pointer lies in no slab. It may lie in one that was given back since.
    OutsideSlabs,
    /// Bytes before the object's begin were written while it was out.
    LeftRedZone {
        /// Bytes from the object's begin to the first byte written to; negative.
        offset: isize,
        /// The current bytes (32 at most).
        bytes: Vec<u8>,
    },
    /// Bytes behind the object's end were written.
    RightRedZone {
        /// Bytes from the object's begin to the first byte written to.
        offset: isize,
        /// The current bytes (32 at most).
        bytes: Vec<u8>,
    },
    /// The object was written after it was freed.
    WrittenAfterFree {
        /// Bytes from the object's begin to the first byte written to.
        offset: isize,
        /// The current bytes (32 at most).
        bytes: Vec<u8>,
    },
    /// The object's mark says neither free nor out: something wrote far past an object's end.
    Mark,
    /// The link of a free object is invalid: the object was written after it was freed.
    Freelist,
}

/// A misuse of an object: the kind of misuse, the object, its cache and its users.
///
/// Its [`Display`](fmt::Display) is the whole report of several lines. It has eight bytes, so that a fallible free
/// costs nothing if it succeeds.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Misuse(Box<Report>);

/// The facts of a report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Report {
    pub(super) cache: String,
    /// The address of the object, or the pointer that is not an object.
    pub(super) object: usize,
    /// Bytes of the cache's objects; 0 if the size is not known.
    pub(super) size: usize,
    pub(super) damage: Damage,
    /// The call that found the misuse.
    pub(super) now: Option<Track>,
    /// The last allocation of the object.
    pub(super) allocated: Option<Track>,
    /// The last free of the object; None for an object that was out.
    pub(super) freed: Option<Track>,
}

impl From<Report> for Misuse {
    #[cold]
    fn from(report: Report) -> Misuse {
        Misuse(Box::new(report))
    }
}

impl Misuse {
    /// Makes the report of a freelist of the cache whose next word is corrupted. Caches without debug find this too.
    #[cold]
    pub(in crate::slab) fn freelist(cache: &str, object: NonNull<u8>) -> Misuse {
        Misuse::from(Report {
            cache: cache.into(),
            object: object.addr().get(),
            size: 0,
            damage: Damage::Freelist,
            now: None,
            allocated: None,
            freed: None,
        })
    }

    /// Makes the report of damage at an object of a cache whose memory is hardened.
    #[cold]
    pub(in crate::slab) fn hardened(
        cache: &str,
        (object, size): (NonNull<u8>, usize),
        damage: Damage,
        now: Site,
    ) -> Misuse {
        Misuse::from(Report {
            cache: cache.into(),
            object: object.addr().get(),
            size,
            damage,
            now: Some(Track::here(now)),
            allocated: None,
            freed: None,
        })
    }

    /// Makes the report of a pointer that is neither an object nor a large block.
    #[cold]
    #[track_caller]
    pub(in crate::slab) fn outside(pointer: NonNull<u8>) -> Misuse {
        Misuse::from(Report {
            cache: "of any size".into(),
            object: pointer.addr().get(),
            size: 0,
            damage: Damage::OutsideSlabs,
            now: Some(Track::here(Site::caller())),
            allocated: None,
            freed: None,
        })
    }

    /// The name of the cache that found it.
    pub fn cache(&self) -> &str {
        &self.0.cache
    }

    /// The object's address. For a pointer that is not an object, the pointer.
    pub fn object(&self) -> usize {
        self.0.object
    }

    /// The kind of damage.
    pub fn damage(&self) -> &Damage {
        &self.0.damage
    }

    /// The call that found it, if a call did.
    pub fn found(&self) -> Option<Track> {
        self.0.now
    }

    /// The last allocation of the object, if call sites are kept.
    pub fn allocated(&self) -> Option<Track> {
        self.0.allocated
    }

    /// The last free of an object that is not out, if call sites are kept.
    pub fn freed(&self) -> Option<Track> {
        self.0.freed
    }

    /// Prints the report and ends the process: memory that others use is not reliable any more.
    #[cold]
    pub(in crate::slab) fn abort(&self) -> ! {
        eprintln!("{self}");
        std::process::abort()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "netmem: cache {}: object {:#x}", self.cache, self.object)?;
        if self.size > 0 {
            write!(f, " ({} bytes)", self.size)?;
        }
        write!(f, ": {}", self.damage)?;
        let now = match self.damage {
            Damage::DoubleFree | Damage::TwiceInBulk { .. } => "freed again",
            _ => "found",
        };
        for (what, track) in [("allocated", self.allocated), ("freed", self.freed), (now, self.now)] {
            if let Some(track) = track {
                write!(f, "\n  {what} at {track}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Damage::DoubleFree => f.write_str("freed twice"),
            Damage::TwiceInBulk { places: [a, b] } => write!(f, "freed twice in one bulk, at {a} and {b}"),
            Damage::WrongCache { of } => write!(f, "is of cache {of}"),
            Damage::NotAtBegin { object, offset } => {
                let (by, side) = (offset.unsigned_abs(), if *offset < 0 { "before" } else { "behind" });
                write!(f, "no object begins there: it is {by} bytes {side} the begin of object {object:#x}")
            }
            Damage::OutsideSlabs => f.write_str("no object: it lies in no slab, or in none any more"),
            Damage::LeftRedZone { offset, bytes } => {
                write!(f, "written to before its begin, at offset {offset}: {}", Hex(bytes))
            }
            Damage::RightRedZone { offset, bytes } => {
                write!(f, "written to behind its end, at offset {offset}: {}", Hex(bytes))
            }
            Damage::WrittenAfterFree { offset, bytes } => {
                write!(f, "written to after it was freed, at offset {offset}: {}", Hex(bytes))
            }
            Damage::Mark => f.write_str("its mark is overwritten: it says neither free nor allocated"),
            Damage::Freelist => f.write_str("its freelist word was overwritten after it was freed"),
        }
    }
}

impl Damage {
    /// Names the difference after the side of the object that it lies on.
    pub(super) fn in_red_zone(difference: Difference) -> Damage {
        let Difference { offset, bytes } = difference;
        match offset {
            ..0 => Damage::LeftRedZone { offset, bytes },
            _ => Damage::RightRedZone { offset, bytes },
        }
    }

    pub(super) fn after_free(Difference { offset, bytes }: Difference) -> Damage {
        Damage::WrittenAfterFree { offset, bytes }
    }
}

/// Bytes as `6b 00 ff`.
struct Hex<'a>(&'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().enumerate().try_for_each(|(i, byte)| {
            let space = if i == 0 { "" } else { " " };
            write!(f, "{space}{byte:02x}")
        })
    }
}
