//! The findings of the source, and which of them hold on this machine.

use netmem::page::Memory;

use super::form::{Form, PATCHED, VANILLA};
use super::group::{Answer, Neighbour};
use super::question::Question;
use super::simulated::Counts;
use super::usage::Use;
use crate::bench::Bench;
use crate::json::{Published, params};
use crate::method::machine::Machine;
use crate::method::ratio::{Interval, TOO_FEW};
use crate::method::round::Label;
use crate::metric::Metric;

/// A difference within this share counts as none.
const NOTHING: f64 = 0.03;

/// What "it" does if there are too few set-ups or rounds to tell.
const CANNOT_TELL: &str = "cannot be told from so few set-ups or rounds";

/// If rates fall by 30 percent, the time is longer by this many percent.
const LOCK_SLOWER: f64 = 42.9;

/// The answers of the run.
pub(super) struct Found {
    pub(super) grid: Vec<Answer>,
    pub(super) sizes: Vec<Answer>,
    pub(super) axes: Vec<Answer>,
}

impl Found {
    fn all(&self) -> impl Iterator<Item = &Answer> {
        self.grid.iter().chain(&self.sizes).chain(&self.axes)
    }

    fn answer(&self, bytes: usize, usage: Use, neighbour: Neighbour, question: Question) -> Option<Interval> {
        let wanted = |answer: &&Answer| {
            let group = answer.group;
            (group.bytes, group.usage, group.neighbour) == (bytes, usage, neighbour)
                && answer.question == question
        };
        self.all().find(wanted).map(|answer| answer.over)
    }

    /// Returns the cold, written row without work on the second core.
    fn cold(&self, bytes: usize, question: Question) -> Option<Interval> {
        self.answer(bytes, Use::ColdWrite, Neighbour::Nobody, question)
    }
}

/// The differences that the source prints, in percent, and a note for each of its findings.
pub(super) fn notes(bench: &mut Bench<'_>, found: &Found, memories: &[Memory; 3]) {
    percent_rows(bench, found);
    warm(bench, found);
    lock(bench, found);
    in_turn(bench, found);
    descriptor(bench, found);
    by_lock(bench, found);
    fades(bench, found);
    machine(bench, memories);
}

/// Reports the differences of the cold, written rows, with the source's figure if it gives one.
fn percent_rows(bench: &mut Bench<'_>, found: &Found) {
    let cold = |answer: &&Answer| {
        answer.group.usage == Use::ColdWrite && answer.group.neighbour == Neighbour::Nobody
    };
    let answers: Vec<Answer> = found.all().filter(cold).copied().collect();
    for Answer { group, question, over } in answers {
        let (figure, what) = match (question, group.bytes) {
            (Question::LockInterrupts | Question::LockInterruptsCold, _) => (
                Some(LOCK_SLOWER),
                "a lock with interrupts disabled over the double CAS: rates hurt by about 30 %, 1 / 0.7 of the time",
            ),
            (Question::Patched, 32) => (Some(5.0), "56 bytes over 64 bytes, the largest loss, kmalloc(32)"),
            (Question::Patched | Question::PatchedLock, _) => (None, ""),
            _ => continue,
        };
        let of = format!("Linux of January 2014, cache-cold kfree, {what}");
        let published = figure.map(|value| Published { value, unit: "percent".to_owned(), of });
        let params = params([
            ("work", "object".into()),
            ("bytes", group.bytes.into()),
            ("use", group.usage.name().into()),
            ("over", question.forms()[1].variant().into()),
            ("order", "random".into()),
        ]);
        let label = Label { variant: question.forms()[0].variant(), params };
        bench.figure(label, Metric::Percent, 100.0 * (over.median - 1.0), published);
    }
}

/// Finding: a hot loop never reaches the word.
fn warm(bench: &mut Bench<'_>, found: &Found) {
    let of = |answer: &&Answer| answer.group.usage == Use::Warm;
    let far = |over: Interval| off(over.low).max(off(over.high));
    let furthest = found.grid.iter().filter(of).map(|a| a.over).max_by(|a, b| far(*a).total_cmp(&far(*b)));
    let Some(furthest) = furthest else { return };
    let apart = |a: &Answer| a.over.low > 1.0 + NOTHING || a.over.high < 1.0 - NOTHING;
    let verdict = match () {
        () if found.grid.iter().filter(of).any(|a| a.over.too_few) => CANNOT_TELL,
        () if far(furthest) <= NOTHING => "holds here",
        () if found.grid.iter().filter(of).any(apart) => "does not hold so exactly here",
        () => "cannot be told from noise here",
    };
    bench.note(format!(
        "the source: an object that is freed just after its allocation shows no difference at all, since no slab's \
         word is changed; here the warm ratio whose interval is furthest from 1 is {}: it {verdict}",
        shown(furthest),
    ));
}

/// Finding: the lock costs some 30 %, through the lines that it touches.
fn lock(bench: &mut Bench<'_>, found: &Found) {
    let cold = |question| found.cold(256, question);
    let hot = found.answer(256, Use::Hot, Neighbour::Nobody, Question::Lock);
    let all = (cold(Question::LockInterruptsCold), cold(Question::LockInterrupts), cold(Question::Lock), hot);
    let (Some(far), Some(near), Some(lock), Some(hot)) = all else { return };
    // Half of the effect: the root of 1.43. Its case lies between lines that are warm and lines that are cold.
    let verdict = match () {
        () if near.too_few || far.too_few => CANNOT_TELL,
        () if near.low > 1.2 => "holds here",
        () if far.high < 1.2 => "does not show in its size here",
        () => "cannot be told from these bounds, between which its case lies",
    };
    bench.note(format!(
        "the source: a lock reduces rates by about 30 % (1.43 times the time) compared with the double CAS, because \
         disabling interrupts touches more lines; here, 256 bytes cold and written: {} with two such lines that \
         are cold whatever the objects do, {} with two that every change writes, so that they never leave the \
         first-level cache, {} without them, and {} if the words are hot: it {verdict}",
        shown(far),
        shown(near),
        shown(lock),
        shown(hot),
    ));
}

/// Finding: the effect of the order of the frees.
fn in_turn(bench: &mut Bench<'_>, found: &Found) {
    let of = |usage, question| found.answer(256, usage, Neighbour::Nobody, question);
    let both = |question| Some((of(Use::ColdWrite, question)?, of(Use::InTurn, question)?));
    let all = (both(Question::LockInterruptsCold), both(Question::Patched));
    let (Some((lock, lock_turn)), Some((small, small_turn))) = all else { return };
    bench.note(format!(
        "objects that are freed in a random order find their descriptors cold; in the order of allocation only the \
         first of a slab does: the lock with cold lines over the double CAS is {} and {}, 56 over 64 bytes {} and \
         {}",
        shown(lock),
        shown(lock_turn),
        shown(small),
        shown(small_turn),
    ));
}

/// Finding: 64 bytes are up to 5 % faster below 256, 56 are faster above 1 KiB.
fn descriptor(bench: &mut Bench<'_>, found: &Found) {
    let listed = |sizes: &[usize]| {
        let one =
            |&bytes: &usize| Some(format!("{bytes}: {:.3}", found.cold(bytes, Question::Patched)?.median));
        sizes.iter().filter_map(one).collect::<Vec<_>>().join(", ")
    };
    let small = [8, 16, 32, 64, 96, 128, 192];
    let large = [1024, 1536, 2048, 4096, 8192];
    let clear = |bytes: &&usize| {
        let over = found.cold(**bytes, Question::Patched);
        over.is_some_and(|over| over.low > 1.0 + NOTHING || over.high < 1.0 - NOTHING)
    };
    let sizes = || small.iter().chain(&large);
    let too_few = |bytes: &usize| found.cold(*bytes, Question::Patched).is_some_and(|over| over.too_few);
    let clear: Vec<String> = sizes().filter(clear).map(usize::to_string).collect();
    let verdict = if sizes().any(too_few) {
        TOO_FEW.to_owned()
    } else if clear.is_empty() {
        "neither shows here: both are addressed by one multiplication or a shift, and a few lines less are not felt".to_owned()
    } else {
        format!(
            "a difference of more than 3 % shows at {} bytes; run again, for the place of a memory in physical memory \
             makes such differences too",
            clear.join(", ")
        )
    };
    bench.note(format!(
        "the source: 56 bytes are up to 5 % slower below 256 bytes and faster above 1 KiB; here 56 over 64 by size \
         is {}; and {}: {verdict}",
        listed(&small),
        listed(&large),
    ));
    let over = |bytes| found.cold(bytes, Question::Default).map_or_else(|| "-".to_owned(), shown);
    bench.note(format!(
        "the compact descriptor with the packed word, over the source's kernel before its change: {} at 32 bytes, {} \
         at 256, {} at 4096",
        over(32),
        over(256),
        over(4096),
    ));
}

/// Finding: descriptors of 64 bytes are faster, also without a compare-and-swap.
fn by_lock(bench: &mut Bench<'_>, found: &Found) {
    let both =
        |bytes| Some((found.cold(bytes, Question::Patched)?, found.cold(bytes, Question::PatchedLock)?));
    let (Some((swap, lock)), Some((swap_large, lock_large))) = (both(32), both(4096)) else { return };
    bench.note(format!(
        "the source: 64 bytes are faster than 56 independently of the compare-and-swap; here 56 over 64 is {} with \
         it and {} under a lock at 32 bytes, {} and {} at 4096",
        shown(swap),
        shown(lock),
        shown(swap_large),
        shown(lock_large),
    ));
}

/// Finding: smaller descriptors save loads, and the code costs branch misses.
pub(super) fn loads(bench: &mut Bench<'_>, simulated: &[(Form, Counts)]) {
    let of = |form| simulated.iter().find(|(one, _)| *one == form).map(|(_, counts)| *counts);
    let (Some(before), Some(after)) = (of(VANILLA), of(PATCHED)) else { return };
    let share = |after: f64, before: f64| {
        if before > 0.0 && after >= 0.0 { format!("{:.3}", after / before) } else { "no share".to_owned() }
    };
    let loads = share(after.last_level_loads, before.last_level_loads);
    let misses = share(after.last_level_misses, before.last_level_misses);
    let branches = share(after.branch_misses, before.branch_misses);
    bench.note(format!(
        "the source: last-level loads fell to 0.63 with 56 bytes, their misses to 0.60, branch misses rose to 1.15; the \
         simulator sees {loads}, {misses} and {branches} in a random order of the frees. The order decides: the \
         rows in turn have others. Each form here is code of its own, so that no branch is added by the other one's \
         presence, and the branch misses are not the source's",
    ));
}

/// Finding: the effect becomes smaller with noisy caches and with more cores.
fn fades(bench: &mut Bench<'_>, found: &Found) {
    // Lines that are cold by themselves would not change with noise.
    let of = |neighbour| found.answer(256, Use::ColdWrite, neighbour, Question::LockInterrupts);
    let all = (of(Neighbour::Nobody), of(Neighbour::Noise), of(Neighbour::SameLoop));
    let (Some(alone), Some(noise), Some(two)) = all else { return };
    let verdict = fading(alone, [noise, two]);
    bench.note(format!(
        "the source: the advantage goes away with noise in the caches and with more cores; here the lock with two \
         more lines over the double CAS is {} alone, {} with noise on the second core, {} with two threads: \
         {verdict}",
        shown(alone),
        shown(noise),
        shown(two),
    ));
}

/// Answers the thread's own question, and describes the machine of the rows.
fn machine(bench: &mut Bench<'_>, memories: &[Memory; 3]) {
    let answer = match Machine::read(&bench.clock, bench.cores.len()).is_virtual {
        Some(true) => {
            "this machine is a virtual one. Both sides of a ratio run in it, in the same rounds; address translation \
             has one level more, which makes every miss dearer, and other guests share the last-level cache"
        }
        Some(false) => "this machine is not a virtual one",
        None => "this machine does not tell whether it is a virtual one",
    };
    bench.note(format!(
        "the thread asks whether the tests ran in a virtual machine, and how much that matters: {answer}"
    ));
    bench.note(
        "cold: the oldest object of the working set is freed, so that its own line has left the cores' own caches. \
         The set was put into a random order, so that the objects of one slab are not freed one after the other and \
         its word is cold too; `cold+write in turn` has the order of allocation. The sets of all forms of a row \
         together are larger than most last-level caches",
    );
    let backings: Vec<String> = memories.iter().map(|memory| memory.region().backing().to_string()).collect();
    bench.note(format!(
        "memories with descriptors of 56, 64 and 32 bytes: {}; ratios between two sizes of descriptor are between \
         two memories, and include the effect of their places in physical memory",
        backings.join("; "),
    ));
}

/// Returns whether an advantage becomes smaller, by whole intervals.
fn fading(alone: Interval, beside: [Interval; 2]) -> &'static str {
    match () {
        () if alone.too_few || beside.iter().any(|over| over.too_few) => TOO_FEW,
        () if beside.iter().all(|over| over.high < alone.low) => "it fades here too",
        () if beside.iter().any(|over| over.low > alone.high) => "it does not fade in both here",
        () => "the intervals overlap, so that this run cannot tell",
    }
}

/// How far a ratio is from 1.
fn off(ratio: f64) -> f64 {
    (ratio - 1.0).abs()
}

fn shown(over: Interval) -> String {
    format!("{:.2} ({:.2} to {:.2})", over.median, over.low, over.high)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::tests::report_of;
    use crate::experiments::slab_descriptor::group::Group;

    /// Seen: a run that was stopped after a set-up said which findings hold.
    #[test]
    fn no_finding_is_said_to_hold_or_not_by_intervals_of_too_few_set_ups() {
        let noted = |too_few| {
            let over = Interval { median: 1.3, low: 1.25, high: 1.35, count: 9, setups: 9, too_few };
            let answer = |usage, neighbour, question| {
                let group = Group { bytes: 256, usage, neighbour };
                Answer { group, question, over }
            };
            let nobody = |usage, question| answer(usage, Neighbour::Nobody, question);
            let cold = Question::LockInterruptsCold;
            let mut grid = vec![nobody(Use::Warm, Question::Lock), nobody(Use::Hot, Question::Lock)];
            grid.extend(
                [cold, Question::LockInterrupts, Question::Lock]
                    .map(|question| nobody(Use::ColdWrite, question)),
            );
            grid.extend(
                [Neighbour::Noise, Neighbour::SameLoop]
                    .map(|beside| answer(Use::ColdWrite, beside, Question::LockInterrupts)),
            );
            let group = Group { bytes: 32, usage: Use::ColdWrite, neighbour: Neighbour::Nobody };
            let sizes = vec![Answer { group, question: Question::Patched, over }];
            let found = Found { grid, sizes, axes: Vec::new() };
            let report = report_of(false, |bench| {
                warm(bench, &found);
                lock(bench, &found);
                descriptor(bench, &found);
                fades(bench, &found);
            });
            report.notes.into_iter().filter(|note| note.starts_with("the source: ")).collect::<Vec<_>>()
        };
        let says = |notes: &[String], words: &[&str; 4]| {
            assert_eq!(notes.len(), 4);
            for (note, word) in notes.iter().zip(words) {
                assert!(note.contains(word), "{note}");
            }
        };
        says(
            &noted(false),
            &["it does not hold so exactly", "it holds here", "shows at 32 bytes", "overlap"],
        );
        says(&noted(true), &[CANNOT_TELL, CANNOT_TELL, TOO_FEW, TOO_FEW]);
    }
}
