//! The keys of the page stage: the workers' lists, and the reserve.

use crate::control::registry::Registry;
use netmem::page::{Lists, Memory, Watermarks};

/// Maximum number of pages moved between a worker's list and its node.
const BATCH_MAX: usize = 128;
/// Minimum pages of a list that tunes itself: one move of Linux since 5.14.
const LEAST: usize = 63;

/// Adds the keys of a memory.
pub fn keys(registry: &mut Registry, memory: &Memory) {
    let (of, to) = (memory.clone(), memory.clone());
    registry.switch(
        "page.statistics",
        "whether to count which node pages come from, and how often workers visit nodes",
        move || of.statistics(),
        move |on| to.set_statistics(on),
    );
    lists(registry, memory);
    tuned(registry, memory);
    for (name, at, what) in [
        ("page.watermarks.min", 0, "free pages that only urgent work takes; raises low and high with it"),
        ("page.watermarks.low", 1, "free pages below which pages are scarce; moves min and high with it"),
        ("page.watermarks.high", 2, "free pages from which pages are not scarce; lowers low and min with it"),
    ] {
        let (of, to) = (memory.clone(), memory.clone());
        let range = (format!("0 to {}", memory.stats().total), "pages", what);
        registry.number(
            name,
            range,
            move || marks(of.watermarks())[at],
            move |mark| to.set_watermarks(moved(to.watermarks(), at, mark)),
        );
    }
}

/// Adds the two numbers of a worker's list. Setting one makes it a list of a fixed size.
fn lists(registry: &mut Registry, memory: &Memory) {
    let most = memory.list_size_max();
    for (name, at, (range, what)) in [
        ("page.lists.high", 0, (0..=most, "how many free pages a worker keeps")),
        ("page.lists.batch", 1, (1..=BATCH_MAX, "how many pages go between a worker and its node at once")),
    ] {
        let (of, to) = (memory.clone(), memory.clone());
        let text = format!("{} to {}", range.start(), range.end());
        registry.number(
            name,
            (text, "pages", what),
            move || numbers(&of)[at],
            move |value| {
                if !range.contains(&value) {
                    return Err(format!("{value} is out of range"));
                }
                let mut numbers = numbers(&to);
                numbers[at] = value;
                to.set_lists(Lists::Fixed { high: numbers[0], batch: numbers[1] });
                Ok(())
            },
        );
    }
}

/// Adds lists that tune themselves.
fn tuned(registry: &mut Registry, memory: &Memory) {
    let (of, to) = (memory.clone(), memory.clone());
    let largest = memory.list_size_max();
    registry.number(
        "page.lists.tuned",
        (
            format!("0 to {largest}"),
            "pages",
            "how many free pages a worker's list may grow to by itself; it shrinks while the worker rests; 0 for lists of a fixed size",
        ),
        move || match of.lists() {
            Lists::Tuned { most, .. } => most,
            _ => 0,
        },
        move |most| match most {
            0 if matches!(to.lists(), Lists::Tuned { .. }) => {
                to.set_lists(Lists::default());
                Ok(())
            }
            0 => Ok(()),
            _ if most > largest => Err(format!("{most} is out of range")),
            _ => {
                to.set_lists(Lists::Tuned { least: LEAST.min(most), most });
                Ok(())
            }
        },
    );
}

/// Returns the maximum size of a worker's list, and the number of pages that it moves at once.
fn numbers(memory: &Memory) -> [usize; 2] {
    let (high, moved) = memory.list_size();
    match memory.lists() {
        // As it was set: a list that the worker's share limits moves at most half of it.
        Lists::Fixed { batch, .. } if memory.lists() != Lists::default() => [high, batch.clamp(1, BATCH_MAX)],
        _ => [high, moved],
    }
}

fn marks(Watermarks { min, low, high }: Watermarks) -> [usize; 3] {
    [min, low, high]
}

/// Returns the watermarks with the one at `at` set to `mark`, and the others moved as far as their order requires.
fn moved(watermarks: Watermarks, at: usize, mark: usize) -> Watermarks {
    let mut all = marks(watermarks);
    all[..at].iter_mut().for_each(|below| *below = mark.min(*below));
    all[at..].iter_mut().for_each(|above| *above = mark.max(*above));
    all[at] = mark;
    let [min, low, high] = all;
    Watermarks { min, low, high }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watermark_that_is_moved_takes_the_others_along_as_far_as_their_order_wants_it() {
        let all = Watermarks { min: 10, low: 20, high: 30 };
        for (at, mark, moved_to) in [
            (0, 15, [15, 20, 30]),
            (0, 25, [25, 25, 30]),
            (0, 99, [99, 99, 99]),
            (1, 5, [5, 5, 30]),
            (1, 40, [10, 40, 40]),
            (2, 0, [0, 0, 0]),
            (2, 15, [10, 15, 15]),
        ] {
            assert_eq!(marks(moved(all, at, mark)), moved_to, "{at}: {mark}");
        }
    }
}
