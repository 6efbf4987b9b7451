//! COLD: arrays as long as the program asked for: if there is no memory, that is an error and not the end of the process.

use std::collections::TryReserveError;

/// Makes an array of `len` items.
///
/// # Errors
/// There is no memory for so many.
#[cold]
pub(crate) fn try_array<T>(len: usize, item: impl FnMut() -> T) -> Result<Box<[T]>, TryReserveError> {
    let mut items = Vec::new();
    items.try_reserve_exact(len)?;
    items.resize_with(len, item);
    Ok(items.into_boxed_slice())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_array_has_as_many_items_as_were_asked_for_and_one_that_is_too_large_is_an_error() {
        assert_eq!(*try_array(3, || 7).unwrap(), [7; 3]);
        assert!(try_array(0, || 7).unwrap().is_empty());
        assert!(try_array(usize::MAX, || 7_u64).is_err());
    }
}
