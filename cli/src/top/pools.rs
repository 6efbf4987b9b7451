//! The states of pools' frames, as a bar.

use super::line::{Line, Style};
use super::reading::{Pool, STATES};
use crate::output::{short, thousands};

/// Columns of a pool's name, its total, and whether it is balanced.
const AROUND: (usize, usize, usize) = (12, 8, 10);
/// The widest bar.
const BAR_MAX: usize = 128;

/// Returns the meaning of the bars' letters.
pub fn heading(columns: usize) -> Line {
    let mut text = "POOLS".to_owned();
    STATES.iter().for_each(|(state, letter)| text.push_str(&format!(" {letter} {state}")));
    Line::new(Style::Heading, &text, columns)
}

/// Returns a pool's total and bar, and whether its counts add up.
pub fn row(pool: &Pool, columns: usize) -> Line {
    let (name, total, state) = AROUND;
    let bar = bar(&pool.states, columns.saturating_sub(name + total + state + 2).min(BAR_MAX));
    // Wider than any sum of these: a count below 0 wraps.
    let frames = pool.states.map(u128::from);
    let known: u128 = frames[..STATES.len() - 1].iter().sum();
    let off = known.abs_diff(u128::from(pool.total)).max(frames[STATES.len() - 1]);
    let said = if pool.is_balanced() { "balanced".to_owned() } else { format!("off {}", short(off as f64)) };
    let text = format!("{:<name$}{:>total$} {bar} {said}", pool.name, thousands(pool.total));
    Line::new(Style::Plain, &text, columns)
}

/// Returns the number of frames in each state that has any.
pub fn numbers(pool: &Pool, columns: usize) -> Line {
    let mut text = " ".repeat(AROUND.0 + AROUND.1);
    for ((state, _), frames) in STATES.iter().zip(pool.states).filter(|(_, frames)| *frames > 0) {
        text.push_str(&format!(" {state} {}", thousands(frames)));
    }
    Line::new(Style::Plain, &text, columns)
}

/// Returns a bar of that width, in which each state has its share by its letter. A state with any frame is visible
/// while there is room.
fn bar(states: &[u64], width: usize) -> String {
    let all: u128 = states.iter().map(|&frames| u128::from(frames)).sum();
    if all == 0 {
        return ".".repeat(width);
    }
    let mut shares: Vec<usize> = states.iter().map(|&frames| share(frames, all, width)).collect();
    // Rounding leaves some columns over, or has taken too many: the longest share changes least.
    while let Some(longest) = (0..shares.len()).max_by_key(|&at| (shares[at], states[at])) {
        match shares.iter().sum::<usize>() {
            sum if sum < width => shares[longest] += width - sum,
            sum if sum > width => shares[longest] -= 1,
            _ => break,
        }
    }
    let letters = STATES.iter().zip(shares);
    letters.flat_map(|((_, letter), share)| std::iter::repeat_n(*letter, share)).collect()
}

fn share(frames: u64, all: u128, width: usize) -> usize {
    let share = (u128::from(frames) * width as u128 / all) as usize;
    share.max(usize::from(frames > 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_has_its_width_and_a_letter_for_each_state_with_frames() {
        assert_eq!(bar(&[50, 0, 0, 0, 50, 0, 0, 0], 8), "ffffpppp");
        assert_eq!(bar(&[1_000_000, 1, 0, 0, 1, 0, 0, 0], 8), "ffffffcp");
        assert_eq!(bar(&[1, 1, 1, 0, 0, 0, 0, 0], 8), "ffccrrrr");
        assert_eq!(bar(&[0; 8], 3), "...");
        for width in 0..40 {
            for states in [[1; 8], [u64::MAX; 8], [0, 9, 0, 1, 2, 5, 0, 70]] {
                assert_eq!(bar(&states, width).len(), width, "{states:?}");
            }
        }
    }

    #[test]
    fn a_pool_says_whether_it_is_balanced_and_by_how_many_frames_it_is_not() {
        let pool = |states| Pool { name: "rx".into(), total: 1600, states };
        let balanced = row(&pool([600, 0, 0, 0, 1000, 0, 0, 0]), 50).text;
        assert!(
            balanced.starts_with("rx             1,600 fff") && balanced.ends_with("p balanced"),
            "{balanced}"
        );
        assert!(row(&pool([593, 0, 0, 0, 1000, 0, 0, 0]), 80).text.ends_with(" off 7"));
        assert!(row(&pool([600, 0, 0, 0, 1000, 0, 0, 2]), 80).text.ends_with(" off 2"));
        // -4, which wraps.
        let wrapped = row(&pool([600, 0, 0, u64::MAX - 3, 1004, 0, 0, 0]), 80).text;
        assert!(wrapped.contains(" off "), "{wrapped}");
        assert_eq!(
            numbers(&pool([600, 0, 0, 0, 1000, 0, 0, 0]), 80).text.trim_start(),
            "free 600 posted 1,000"
        );
    }
}
