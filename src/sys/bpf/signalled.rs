//! Loading a program in spite of signals.

use rustix::io::Errno;

/// Maximum number of loads of a program, as libbpf has it.
const LOADS: usize = 5;

/// Repeats a load that a signal ended: the verifier gives up with `AGAIN` while one is pending.
pub(super) fn unless_signalled<T>(mut load: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    let done = (1..LOADS).map(|_| load()).find(|done| !matches!(done, Err(Errno::AGAIN)));
    done.unwrap_or_else(load)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Found in a review: two signals in a row, and the port did not open.
    #[test]
    fn a_load_that_signals_end_is_repeated_and_one_that_is_refused_is_not() {
        let mut loads = 0;
        let mut load = |signals, then| {
            loads += 1;
            if loads <= signals { Err(Errno::AGAIN) } else { then }
        };
        assert_eq!(unless_signalled(|| load(2, Ok(()))), Ok(()));
        assert_eq!(unless_signalled(|| load(0, Err(Errno::INVAL))), Err(Errno::INVAL));
        assert_eq!(loads, 4);
        assert_eq!(unless_signalled(|| Err::<(), _>(Errno::AGAIN)), Err(Errno::AGAIN));
    }
}
