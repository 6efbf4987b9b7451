//! The protections of a memory against misuse of its pages, objects and frames. One setting switches them, in any
//! build.

use std::fmt;
use std::str::FromStr;

/// The protections of a memory, and of its caches, size classes and pools, against misuse. Nothing by default, and then
/// it costs nothing: not an instruction of a hot path.
///
/// | part | what it does | what it costs |
/// |---|---|---|
/// | `guard` | puts an inaccessible page before and behind the region, behind each slab, and behind each block that [`SizeClasses`](crate::slab::SizeClasses) takes from the pages | One page for each, so slabs are larger, and a block of a power of two takes twice as much. No 2 MiB pages that the system sets aside. Two more mappings of those that the process may have. Two system calls for each slab and block that comes and goes |
/// | `random` | gives out fresh single pages and blocks of up to 8 pages (among those taken at once), the objects of a new slab, and the frames of new pages in a random order | nothing except when they are made |
/// | `clear` | fills freed memory with zeros before it is given out again, and detects an object that was written after its free | the bytes written, for objects also the bytes read, the cold path for each page, object and frame, and the freelist word behind each object (below) |
/// | `canary` | puts a secret word behind each object, and checks it when the object is freed and when it is given out | 8 bytes for each object, the freelist word behind it (below), and the cold path for it |
///
/// With `clear` and `canary` the freelist word of 8 bytes moves from the object's begin to behind the object. The size
/// of an object is rounded up to its alignment. A size class of a power of two is aligned to its size: from 16 bytes on
/// it takes twice as much. If `guard` is also chosen, a slab of 32 KiB then holds one object of 8 KiB.
///
/// Two limits change. With `guard`, [`SizeClasses::alloc`](crate::slab::SizeClasses::alloc) of more than 4 MiB less 4 KiB
/// returns None. Without a chosen order a slab has 32 KiB, with `guard` 28 KiB of them for objects. An object and the words
/// behind it must fit: with `guard` alone 28,672 bytes, with `clear` alone 32,760, with `canary` (and `clear`) 32,752, with
/// all 28,656. [`Cache::new`](crate::slab::Cache::new) of larger objects returns
/// [`CacheError::Size`](crate::slab::CacheError::Size).
///
/// The text form is the names of the parts with commas between, `all`, or `off`.
///
/// ```
/// use netmem::page::{Hardening, Memory, MemoryConfig};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let hardening: Hardening = "clear,canary".parse()?;
/// let memory = Memory::new(&MemoryConfig { bytes: 4 << 20, hardening, ..Default::default() })?;
/// let mut w = memory.worker()?;
/// let mut page = memory.alloc(&mut w, 0).ok_or("no page")?;
/// page.bytes_mut().fill(7);
/// memory.free(&mut w, page);
/// let page = memory.alloc(&mut w, 0).ok_or("no page")?;
/// assert!(page.bytes().iter().all(|&byte| byte == 0));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Hardening {
    /// Inaccessible pages around the region, behind slabs and behind large blocks. Not in memory that the caller lends.
    /// A memory with guard pages cannot be registered as an AF_XDP UMEM.
    pub guard: bool,
    /// Fresh pages, objects and frames come in a random order; pages, among those that are taken at once. The item that
    /// was freed last still comes first.
    pub random: bool,
    /// Memory is cleared when it is freed. The values of a [`ConstructedCache`](crate::slab::ConstructedCache) are not
    /// cleared, because they must stay.
    pub clear: bool,
    /// A secret word lies behind each object.
    pub canary: bool,
    /// The seed of orders and secrets. None, the usual value, takes a key from the system. For tests.
    pub seed: Option<u64>,
    /// What a cache does with a misuse that `clear` or `canary` found. Default: it prints the report and aborts the
    /// process.
    pub on_misuse: OnMisuse,
}

/// What a cache does when it detects a misuse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum OnMisuse {
    /// Prints the report and aborts the process.
    #[default]
    Abort,
    /// The call fails with [`Misuse`](crate::slab::Misuse) and changes nothing.
    Report,
}

/// The parts' names, in the order in which they are printed.
const PARTS: [&str; 4] = ["guard", "random", "clear", "canary"];

impl Hardening {
    /// All parts.
    pub fn all() -> Hardening {
        Hardening { guard: true, random: true, clear: true, canary: true, ..Hardening::default() }
    }

    /// Whether any part is chosen.
    pub fn any(&self) -> bool {
        self.guard || self.random || self.clear || self.canary
    }

    /// Whether objects have to be checked when they are given out and when they are freed.
    pub(crate) fn checks_objects(&self) -> bool {
        self.clear || self.canary
    }

    fn parts(&self) -> [bool; 4] {
        [self.guard, self.random, self.clear, self.canary]
    }

    fn part(&mut self, name: &str) -> Option<&mut bool> {
        let parts = [&mut self.guard, &mut self.random, &mut self.clear, &mut self.canary];
        PARTS.iter().zip(parts).find_map(|(part, chosen)| (*part == name).then_some(chosen))
    }
}

/// The text does not name parts of a [`Hardening`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("hardening {text:?}: give guard, random, clear and canary with commas between, or all, or off")]
#[non_exhaustive]
pub struct HardeningError {
    /// The text that was given.
    pub text: String,
}

impl FromStr for Hardening {
    type Err = HardeningError;

    fn from_str(text: &str) -> Result<Hardening, HardeningError> {
        let mut hardening = Hardening::default();
        match text {
            "off" => return Ok(hardening),
            "all" => return Ok(Hardening::all()),
            _ => {}
        }
        for name in text.split(',') {
            let part = hardening.part(name).filter(|chosen| !**chosen);
            *part.ok_or_else(|| HardeningError { text: text.into() })? = true;
        }
        Ok(hardening)
    }
}

impl fmt::Display for Hardening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let chosen = PARTS.iter().zip(self.parts()).filter(|(_, chosen)| *chosen);
        let names: Vec<&str> = chosen.map(|(name, _)| *name).collect();
        f.pad(&match names.len() {
            0 => "off".into(),
            4 => "all".into(),
            _ => names.join(","),
        })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_is_read_again() {
        for bits in 0..16u32 {
            let [guard, random, clear, canary] = [0, 1, 2, 3].map(|bit| bits >> bit & 1 != 0);
            let hardening = Hardening { guard, random, clear, canary, ..Hardening::default() };
            assert_eq!(hardening.to_string().parse(), Ok(hardening));
            assert_eq!(hardening.any(), bits != 0);
        }
        assert_eq!("canary,guard".parse::<Hardening>().unwrap().to_string(), "guard,canary");
    }

    #[test]
    fn what_is_no_part_is_refused_with_what_there_is() {
        for bad in ["", "on", "guard,", "guard,guard", "all,guard", "Guard", "guard, clear"] {
            let error = bad.parse::<Hardening>().unwrap_err().to_string();
            assert!(error.contains(&format!("{bad:?}: give guard, random, clear and canary")), "{error}");
        }
    }
}
