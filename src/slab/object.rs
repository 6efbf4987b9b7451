//! The object: a box from a cache.

use super::debug::Site;
use super::reference::Ref;
use super::shared::Shared;
use super::slabs::pointer;
use crate::sync::Steps;
use std::fmt;
use std::marker::PhantomData;
use std::mem::{self, ManuallyDrop, needs_drop};
use std::num::NonZeroU64;
use std::ops::{Deref, DerefMut};

/// A `T` in a [`Cache`](super::Cache): eight bytes, move-only, derefs to the `T`.
///
/// Give it back with [`Cache::free`](super::Cache::free). An object that is dropped is also freed, more slowly.
///
/// ```compile_fail,E0382
/// # fn f(cache: netmem::slab::Cache<u64>, w: &mut netmem::sync::Worker, object: netmem::slab::Object<u64>) {
/// cache.free(w, object);
/// println!("{}", *object); // a freed object cannot be read
/// # }
/// ```
#[repr(transparent)]
#[must_use = "dropping it frees it on the slow path: give it back with a worker"]
pub struct Object<T> {
    /// The object's address, with its cache's number in the upper 16 bits: so a cache recognises its own objects
    /// without a look at their descriptors.
    ///
    /// Invariant: initialised, inside an object of a live cache, and without another claim.
    tagged: NonZeroU64,
    _owns: PhantomData<T>,
}

const _: () = assert!(size_of::<Option<Object<u64>>>() == 8);

// SAFETY: an Object owns its T like a Box; `free_from_anywhere` frees it on another thread.
unsafe impl<T: Send> Send for Object<T> {}
// SAFETY: a shared Object gives only a shared T.
unsafe impl<T: Sync> Sync for Object<T> {}

impl<T> Object<T> {
    /// Claims a free object and moves `value` into it.
    ///
    /// # Safety
    /// `object` was just taken off a list of a cache whose objects have room and alignment for `T`.
    #[inline(always)]
    pub(super) unsafe fn claim(object: Ref, value: T) -> Object<T> {
        // SAFETY: the caller's promise: room, alignment, no other code at it, and not null.
        unsafe {
            pointer(object).cast::<T>().write(value);
            Object::adopt(object)
        }
    }

    /// Claims a free object that holds a value.
    ///
    /// # Safety
    /// As [`Object::claim`], and the value is there.
    #[inline(always)]
    pub(super) unsafe fn adopt(object: Ref) -> Object<T> {
        // SAFETY: addresses of objects are not null.
        Object { tagged: unsafe { NonZeroU64::new_unchecked(object) }, _owns: PhantomData }
    }

    /// Turns the claim into a word. Without [`Object::from_word`] the object is never freed.
    #[inline(always)]
    pub(crate) fn into_word(self) -> NonZeroU64 {
        ManuallyDrop::new(self).tagged
    }

    /// Returns the object of a word that [`Object::into_word`] gave.
    ///
    /// # Safety
    /// An `Object<T>` gave the word, and the word is turned into one once: it is a claim.
    #[inline(always)]
    pub(crate) unsafe fn from_word(tagged: NonZeroU64) -> Object<T> {
        Object { tagged, _owns: PhantomData }
    }

    /// The tagged object. The claim stays.
    #[inline(always)]
    pub(super) fn tagged(&self) -> Ref {
        self.tagged.get()
    }

    #[inline(always)]
    fn at(&self) -> *mut T {
        pointer(self.tagged()).cast()
    }

    /// Drops the value and gives the claim up. If the Drop panics, the object is freed.
    #[inline(always)]
    pub(super) fn end(self) -> Ref {
        let ending = Ending(ManuallyDrop::new(self).tagged());
        // SAFETY: the invariant; the claim belongs to `ending`, which has no value, so the value is dropped once.
        unsafe { pointer(ending.0).cast::<T>().drop_in_place() };
        ManuallyDrop::new(ending).0
    }

    /// Moves the value out and gives the claim up.
    #[inline(always)]
    pub(super) fn take(self) -> (Ref, T) {
        // SAFETY: the invariant; the claim is forgotten, so the value is read once.
        let value = unsafe { self.at().read() };
        let object = self.tagged();
        mem::forget(self);
        (object, value)
    }

    /// Moves the value out. The object is freed without a worker.
    #[cold]
    #[track_caller]
    pub fn into_value(self) -> T {
        let (object, value) = self.take();
        // SAFETY: the claim was this object's and ends here.
        unsafe { Shared::free_from_anywhere(object, Some(Site::caller())) }
        value
    }
}

impl Shared {
    /// Claims an object, just taken off one of the cache's lists, and moves `value` into it.
    #[inline(always)]
    pub(super) fn claim<T>(&self, object: Ref, value: T) -> Object<T> {
        // SAFETY: an object that comes off a list has no claim. The code that made the cache chose size and alignment
        // for its `T`.
        unsafe { Object::claim(object, value) }
    }
}

/// An object whose value is being dropped, and the claim on it. When the drop ends or panics, the object is freed
/// without a worker.
struct Ending(Ref);

impl Drop for Ending {
    #[cold]
    #[inline(never)]
    fn drop(&mut self) {
        // SAFETY: the claim belonged to an object, which gave it up to this, and ends here.
        unsafe { Shared::free_from_anywhere(self.0, Some(Site::DROPPED)) }
    }
}

/// Drops all values and gives all claims up. Returns the tagged objects, in the memory of the handles. If a value's
/// Drop panics, the others are still dropped, and all objects are freed.
#[inline]
pub(super) fn end_all<'a, T>(objects: &'a mut Vec<Object<T>>, shared: &Shared) -> &'a mut [Ref] {
    let words = forget_all(objects);
    if !needs_drop::<T>() {
        return words;
    }
    let mut ending = EndingAll::<T> { words, done: 0, shared, _values: PhantomData };
    while let Some(&object) = ending.words.get(ending.done) {
        // Counted first, so that a value whose Drop panics is not dropped again.
        ending.done += 1;
        // SAFETY: initialised, and given up above; counted, so dropped once.
        unsafe { pointer(object).cast::<T>().drop_in_place() }
    }
    mem::take(&mut ManuallyDrop::new(ending).words)
}

/// Objects whose values are being dropped, and the claims on them, which belong to the cache.
struct EndingAll<'a, 's, T> {
    words: &'a mut [Ref],
    /// The number of objects whose value was dropped, or is being dropped.
    done: usize,
    shared: &'s Shared,
    _values: PhantomData<T>,
}

impl<T> Drop for EndingAll<'_, '_, T> {
    /// A Drop panicked: drops the other values, then frees all objects.
    #[cold]
    #[inline(never)]
    fn drop(&mut self) {
        let mut steps = Steps::new();
        for &object in &self.words[self.done..] {
            // SAFETY: initialised, given up, and not dropped yet.
            steps.run(|| unsafe { pointer(object).cast::<T>().drop_in_place() });
        }
        self.shared.undo(self.words);
        steps.end();
    }
}

/// Does the same as [`end_all`], but does not drop the values.
#[inline]
pub(super) fn forget_all<T>(objects: &mut Vec<Object<T>>) -> &mut [Ref] {
    // SAFETY: an Object is a transparent u64; the claims are given up with the vector's length, and the words are read
    // while the vector is borrowed.
    unsafe {
        let n = objects.len();
        objects.set_len(0);
        std::slice::from_raw_parts_mut(objects.as_mut_ptr().cast::<Ref>(), n)
    }
}

/// Free objects that were taken for a vector and are not claimed yet. They lie in the room behind its end. A drop gives
/// them back: the caller's code that makes the values may panic.
pub(super) struct Unclaimed<'a, T> {
    objects: &'a mut Vec<Object<T>>,
    shared: &'a Shared,
    /// The number of words behind the vector's end; the vector has room for `most`.
    n: usize,
    most: usize,
    /// The vector's capacity before.
    before: usize,
}

impl<'a, T> Unclaimed<'a, T> {
    /// Makes room for `most` objects. Returns None if the cache's memory cannot hold as many.
    #[inline]
    pub(super) fn new(objects: &'a mut Vec<Object<T>>, shared: &'a Shared, most: usize) -> Option<Self> {
        let before = objects.capacity();
        if before - objects.len() < most && !make_room(objects, shared, most) {
            return None;
        }
        Some(Unclaimed { objects, shared, n: 0, most, before })
    }

    /// Gives the objects back, and the room that was made for them.
    #[cold]
    #[inline(never)]
    pub(super) fn refuse(mut self) {
        self.give_back();
        self.objects.shrink_to(self.before);
    }

    #[cold]
    fn give_back(&mut self) {
        // SAFETY: as in `claim`: there are `n` words behind the end.
        let words = unsafe {
            let begin = self.objects.as_mut_ptr().add(self.objects.len()).cast::<Ref>();
            std::slice::from_raw_parts_mut(begin, self.n)
        };
        // Counted first, so that none is given back again if a callback of the page stage panics.
        self.n = 0;
        self.shared.undo(words);
    }

    /// Adds free objects that were just taken off the cache's lists.
    #[inline(always)]
    pub(super) fn extend(&mut self, words: &[Ref]) {
        let words = &words[..words.len().min(self.most - self.n)];
        let end = self.objects.len() + self.n;
        // SAFETY: there is room for `most` objects behind the end, which are transparent u64s, and no more are added.
        unsafe {
            let to = self.objects.as_mut_ptr().add(end).cast::<Ref>();
            to.copy_from_nonoverlapping(words.as_ptr(), words.len());
        }
        self.n += words.len();
    }

    /// Moves a value into each object.
    #[inline(always)]
    pub(super) fn claim(mut self, mut make: impl FnMut() -> T) {
        while self.n > 0 {
            let value = make();
            let end = self.objects.len();
            // SAFETY: the word behind the end is a free object with room for a `T`; with its value in it, it is one.
            unsafe {
                let word = self.objects.as_ptr().add(end).cast::<Ref>().read();
                pointer(word).cast::<T>().write(value);
                self.objects.set_len(end + 1);
            }
            self.n -= 1;
        }
    }
}

impl<T> Drop for Unclaimed<'_, T> {
    #[inline]
    fn drop(&mut self) {
        if self.n > 0 {
            self.give_back();
        }
    }
}

/// Makes room for `most` more objects in a vector that has not enough. Returns false, without any, if the cache's memory
/// cannot hold as many or there is no memory for the room.
#[cold]
#[inline(never)]
fn make_room<T>(objects: &mut Vec<Object<T>>, shared: &Shared, most: usize) -> bool {
    most <= shared.memory.bytes() / shared.slabs.layout.stride && objects.try_reserve(most).is_ok()
}

impl<T> Deref for Object<T> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: the invariant.
        unsafe { &*self.at() }
    }
}

impl<T> DerefMut for Object<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the invariant; `&mut self` is the only claim.
        unsafe { &mut *self.at() }
    }
}

impl<T: fmt::Debug> fmt::Debug for Object<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Object").field(&**self).finish()
    }
}

impl<T> Drop for Object<T> {
    #[inline(always)]
    fn drop(&mut self) {
        dropped::<T>(self.tagged());
    }
}

/// By value: an object that would be dropped after a panic stays in a register until then.
#[cold]
#[inline(never)]
fn dropped<T>(object: Ref) {
    let ending = Ending(object);
    // SAFETY: the invariant of the object that was dropped, whose claim belongs to `ending` now; the value is dropped
    // once.
    unsafe { pointer(ending.0).cast::<T>().drop_in_place() }
}
