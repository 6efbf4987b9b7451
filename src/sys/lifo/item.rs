//! HOT: what lies in an array: a number, or a value with an owner.

use std::fmt::Debug;

/// An item of a [`Lifo`](super::Lifo), and the place of one that lies apart.
pub trait Item: Sized {
    /// An item or nothing, in as many bytes as an item.
    type Place: Debug;
    /// A place without an item.
    const NOTHING: Self::Place;

    /// A place with this item.
    fn into_place(self) -> Self::Place;

    /// The item of a place, if there is one.
    fn out_of(place: Self::Place) -> Option<Self>;

    /// Whether there is an item in a place.
    fn is_in(place: &Self::Place) -> bool;
}

/// A value with an owner, such as a packet. It needs no bits to say whether it is there, because it has a pointer.
pub trait Owned: Debug {}

impl<T: Owned> Item for T {
    type Place = Option<T>;
    const NOTHING: Option<T> = None;

    #[inline(always)]
    fn into_place(self) -> Option<T> {
        const { assert!(size_of::<Option<T>>() == size_of::<T>(), "a place larger than an item") };
        Some(self)
    }

    #[inline(always)]
    fn out_of(place: Option<T>) -> Option<T> {
        place
    }

    #[inline(always)]
    fn is_in(place: &Option<T>) -> bool {
        place.is_some()
    }
}

/// Numbers of frames and pages, and addresses of objects. None of them is 0.
macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl Item for $number {
            type Place = $number;
            const NOTHING: $number = 0;

            #[inline(always)]
            fn into_place(self) -> $number {
                debug_assert!(self != 0, "0 is no item");
                self
            }

            #[inline(always)]
            fn out_of(place: $number) -> Option<$number> {
                (place != 0).then_some(place)
            }

            #[inline(always)]
            fn is_in(place: &$number) -> bool {
                *place != 0
            }
        }
    )*};
}

numbers!(u32, u64);

#[cfg(test)]
impl<T: Debug> Owned for std::sync::Arc<T> {}
#[cfg(test)]
impl<T: Debug> Owned for (std::sync::Arc<T>, usize) {}
