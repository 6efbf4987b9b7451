//! The object: a box out of a cache.

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
/// Give it back with [`Cache::free`](super::Cache::free); dropped anywhere else it goes home by a slower way.
///
/// ```compile_fail,E0382
/// # fn f(cache: netmem::slab::Cache<u64>, w: &mut netmem::sync::Worker, object: netmem::slab::Object<u64>) {
/// cache.free(w, object);
/// println!("{}", *object); // a freed object cannot be read
/// # }
/// ```
#[repr(transparent)]
#[must_use = "dropped, it is freed by the slow way"]
pub struct Object<T> {
    /// The object's address, with its cache's number in the upper 16 bits: so a cache tells its own objects without
    /// a look at their descriptors.
    ///
    /// Invariant: initialised, inside an object of a live cache, and claimed by nobody else.
    tagged: NonZeroU64,
    _owns: PhantomData<T>,
}

const _: () = assert!(size_of::<Option<Object<u64>>>() == 8);

// SAFETY: an Object owns its T like a Box; going home from another thread is what `free_from_anywhere` is for.
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
        // SAFETY: the caller's promise: room, alignment, nobody else at it, and not null.
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

    /// Gives the claim up as a word; without [`Object::from_word`] the object never goes home.
    #[inline(always)]
    pub(crate) fn into_word(self) -> NonZeroU64 {
        ManuallyDrop::new(self).tagged
    }

    /// The object of a word that [`Object::into_word`] gave.
    ///
    /// # Safety
    /// An `Object<T>` gave the word, and it is made one once: it is a claim.
    #[inline(always)]
    pub(crate) unsafe fn from_word(tagged: NonZeroU64) -> Object<T> {
        Object { tagged, _owns: PhantomData }
    }

    /// The tagged object; the claim stays.
    #[inline(always)]
    pub(super) fn tagged(&self) -> Ref {
        self.tagged.get()
    }

    #[inline(always)]
    fn at(&self) -> *mut T {
        pointer(self.tagged()).cast()
    }

    /// Drops the value and gives the claim up. If that panics the object is home.
    #[inline(always)]
    pub(super) fn end(self) -> Ref {
        let ending = Ending(ManuallyDrop::new(self).tagged());
        // SAFETY: the invariant; the claim is `ending`'s, which has no value, so the value is dropped once.
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

    /// Moves the value out; the object goes home by the slow way.
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
        // SAFETY: what comes off a list is claimed by nobody; the one who made the cache chose size and alignment for
        // its `T`.
        unsafe { Object::claim(object, value) }
    }
}

/// An object whose value is being dropped, and the claim on it: when that is over, or panics, the object goes home by the
/// slow way.
struct Ending(Ref);

impl Drop for Ending {
    #[cold]
    #[inline(never)]
    fn drop(&mut self) {
        // SAFETY: the claim was an object's, which gave it up to this, and ends here.
        unsafe { Shared::free_from_anywhere(self.0, Some(Site::DROPPED)) }
    }
}

/// Drops all values and gives all claims up; the tagged objects, in the room that the handles had. If a value's Drop panics
/// the others are dropped all the same, and all objects are home.
#[inline]
pub(super) fn end_all<'a, T>(objects: &'a mut Vec<Object<T>>, shared: &Shared) -> &'a mut [Ref] {
    let words = forget_all(objects);
    if !needs_drop::<T>() {
        return words;
    }
    let mut ending = EndingAll::<T> { words, done: 0, shared, _values: PhantomData };
    while let Some(&object) = ending.words.get(ending.done) {
        // Counted first: a value whose Drop panics is not dropped again.
        ending.done += 1;
        // SAFETY: initialised, and given up above; counted, so dropped once.
        unsafe { pointer(object).cast::<T>().drop_in_place() }
    }
    mem::take(&mut ManuallyDrop::new(ending).words)
}

/// Objects whose values are being dropped, and the claims on them, which are the cache's own.
struct EndingAll<'a, 's, T> {
    words: &'a mut [Ref],
    /// Of so many the value was dropped, or was to be.
    done: usize,
    shared: &'s Shared,
    _values: PhantomData<T>,
}

impl<T> Drop for EndingAll<'_, '_, T> {
    /// One panicked: the other values, then all objects.
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

/// As [`end_all`], but the values are not dropped.
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

/// Free objects that were taken for a vector, in the room behind its end, and not claimed yet. Those that are still
/// there when this goes are given back: the caller's code that makes the values may panic.
pub(super) struct Unclaimed<'a, T> {
    objects: &'a mut Vec<Object<T>>,
    shared: &'a Shared,
    /// Words behind the vector's end; there is room for `most`.
    n: usize,
    most: usize,
}

impl<'a, T> Unclaimed<'a, T> {
    #[inline]
    pub(super) fn new(objects: &'a mut Vec<Object<T>>, shared: &'a Shared, most: usize) -> Self {
        objects.reserve(most);
        Unclaimed { objects, shared, n: 0, most }
    }

    /// Adds free objects, just taken off the cache's lists.
    #[inline(always)]
    pub(super) fn extend(&mut self, words: &[Ref]) {
        let words = &words[..words.len().min(self.most - self.n)];
        let end = self.objects.len() + self.n;
        // SAFETY: `new` made room for `most` objects behind the end, which are transparent u64s, and no more are added.
        unsafe {
            let to = self.objects.as_mut_ptr().add(end).cast::<Ref>();
            to.copy_from_nonoverlapping(words.as_ptr(), words.len());
        }
        self.n += words.len();
    }

    /// Moves a value into each.
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
            // SAFETY: as in `claim`: `n` words stand behind the end.
            let words = unsafe {
                let begin = self.objects.as_mut_ptr().add(self.objects.len()).cast::<Ref>();
                std::slice::from_raw_parts_mut(begin, self.n)
            };
            self.shared.undo(words);
        }
    }
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

/// By value: an object that would be dropped if something panics stays in a register until then.
#[cold]
#[inline(never)]
fn dropped<T>(object: Ref) {
    let ending = Ending(object);
    // SAFETY: the invariant of the object that was dropped, whose claim is `ending`'s now; the value is dropped once.
    unsafe { pointer(ending.0).cast::<T>().drop_in_place() }
}
