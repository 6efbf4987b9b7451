//! External memory: bytes that a packet carries and that do not belong to the memory of netmem.

use crate::pool::NoRoom;
use std::fmt;
use std::sync::Arc;

/// Memory that is not a frame, with the function to call after its last holder is gone.
struct Loan<O, F: FnOnce(O)> {
    /// Taken out once, when the loan ends.
    held: Option<(O, F)>,
}

/// The functions of a loan that a view needs, for every type of owner.
trait Lent: Send + Sync {
    fn bytes(&self) -> &[u8];
}

impl<O: AsRef<[u8]> + Send + Sync, F: FnOnce(O) + Send + Sync> Lent for Loan<O, F> {
    fn bytes(&self) -> &[u8] {
        self.held.as_ref().map_or(&[], |(owner, _)| owner.as_ref())
    }
}

impl<O, F: FnOnce(O)> Drop for Loan<O, F> {
    fn drop(&mut self) {
        if let Some((owner, on_release)) = self.held.take() {
            on_release(owner);
        }
    }
}

/// A read-only view of memory that belongs to the caller, for a packet to carry.
///
/// Clone the handle freely: each clone has a view of its own, which it can only narrow. The memory is given back
/// through `on_release` when the last clone is gone, including the last packet that carries one. `on_release` may run
/// on any thread. It runs outside all locks of this library, but in the middle of a poll loop, so it must be brief.
///
/// ```
/// # use netmem::packet::External;
/// let (back, freed) = std::sync::mpsc::channel();
/// let external = External::new(vec![1, 2, 3], move |memory| drop(back.send(memory)));
/// let mut end = external.clone();
/// end.pull(2)?;
/// assert_eq!(end.data(), [3]);
/// drop(external);
/// assert!(freed.try_recv().is_err());
/// drop(end);
/// assert_eq!(freed.try_recv(), Ok(vec![1, 2, 3]));
/// # Ok::<(), netmem::pool::NoRoom>(())
/// ```
#[derive(Clone)]
pub struct External {
    lent: Arc<dyn Lent>,
    off: u32,
    len: u32,
}

impl External {
    /// Returns a view of all of `owner`'s bytes, at most the first 4 GiB less one. `on_release` gives the bytes back.
    ///
    /// # Cost
    /// One allocation by the program's own allocator.
    pub fn new<O>(owner: O, on_release: impl FnOnce(O) + Send + Sync + 'static) -> External
    where
        O: AsRef<[u8]> + Send + Sync + 'static,
    {
        let len = owner.as_ref().len().try_into().unwrap_or(u32::MAX);
        External { lent: Arc::new(Loan { held: Some((owner, on_release)) }), off: 0, len }
    }

    /// The bytes of this view. The result is empty if the owner now returns fewer bytes than before.
    pub fn data(&self) -> &[u8] {
        let (off, len) = (self.off as usize, self.len as usize);
        self.lent.bytes().get(off..off + len).unwrap_or_default()
    }

    /// Number of bytes in this view.
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Returns whether the view has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes that stay with the holders however small their views are: all bytes that were lent.
    pub fn pinned(&self) -> usize {
        self.lent.bytes().len()
    }

    /// Moves the start of this view `n` bytes forward.
    ///
    /// # Errors
    /// Returns [`NoRoom`] if there are fewer bytes.
    pub fn pull(&mut self, n: usize) -> Result<(), NoRoom> {
        let n = self.within(n)?;
        self.off += n;
        self.len -= n;
        Ok(())
    }

    /// Cuts this view to its first `len` bytes.
    ///
    /// # Errors
    /// Returns [`NoRoom`] if there are fewer bytes.
    pub fn trim(&mut self, len: usize) -> Result<(), NoRoom> {
        self.len = self.within(len)?;
        Ok(())
    }

    fn within(&self, n: usize) -> Result<u32, NoRoom> {
        let room = self.len();
        u32::try_from(n).ok().filter(|&n| n <= self.len).ok_or_else(|| NoRoom::of(n, room))
    }
}

impl fmt::Debug for External {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("External").field("off", &self.off).field("len", &self.len).finish()
    }
}
