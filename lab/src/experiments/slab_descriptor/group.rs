//! One group: a size of objects and a use of them, in several forms that are measured in the same rounds.

use std::hint::black_box;
use std::sync::Mutex;

use netmem::sync::Worker;

use super::form::{Form, VANILLA};
use super::question::{Question, asked};
use super::scene::Scene;
use super::usage::Use;
use crate::bench::{Bench, Comparison, Cores, SetUpError};
use crate::experiments::slab_windows::Beside;
use crate::experiments::slab_working_set::{Frees, WorkingSet};
use crate::json::{Params, params};
use crate::method::ratio::Interval;
use crate::method::round::{Label, Series, Variant};
use crate::method::window::OpLoop;
use crate::metric::Metric;

/// Words of the buffer that the neighbour walks through: larger than two cores' own caches.
const NOISE_WORDS: usize = 1 << 21;

/// Words in a cache line.
const LINE_WORDS: usize = 8;

/// Lines, or pairs of allocation and free, in one turn of the neighbour.
const TURN: u32 = 256;

/// The work of the second core.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Neighbour {
    /// Nothing.
    Nobody,
    /// The same loop, on the same cache.
    SameLoop,
    /// It reads and writes memory, line by line.
    Noise,
}

/// A measured group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Group {
    pub(super) bytes: usize,
    pub(super) usage: Use,
    pub(super) neighbour: Neighbour,
}

/// The answer of one group.
#[derive(Debug, Clone, Copy)]
pub(super) struct Answer {
    pub(super) group: Group,
    pub(super) question: Question,
    pub(super) over: Interval,
}

/// Measures `forms` in `group`. Answers the questions whose forms are among them. Returns nothing once the run is
/// stopped.
pub(super) fn run(
    scene: &Scene<'_>,
    bench: &mut Bench<'_>,
    group: Group,
    forms: &[Form],
) -> Result<Vec<Answer>, SetUpError> {
    if bench.stopped() {
        return Ok(Vec::new());
    }
    let sets = forms.iter().map(|&form| scene.working_set(form, group.bytes, group.usage));
    let mut sets: Vec<_> = sets.collect::<Result<_, _>>()?;
    let mut peers = peers(scene, group, forms, &sets)?;
    let noise = Mutex::new(vec![0; if group.neighbour == Neighbour::Noise { NOISE_WORDS } else { 0 }]);
    let core = bench.cores.get(1).copied();

    let mut variants: Vec<Box<dyn Variant + '_>> = Vec::new();
    let mut waiting = peers.iter_mut();
    for (set, &form) in sets.iter_mut().zip(forms) {
        let alone = variant(scene, group, form, &mut **set);
        variants.push(match group.neighbour {
            Neighbour::Nobody => alone,
            Neighbour::Noise => Beside::boxed(alone, core, || disturb(&noise)),
            Neighbour::SameLoop => match waiting.next() {
                Some((worker, twin)) => Beside::boxed(alone, core, || twin.oldest(worker, TURN)),
                None => alone,
            },
        });
    }
    let asked = asked(forms);
    let comparisons: Vec<Comparison> = asked.iter().map(|&(_, comparison)| comparison).collect();
    let cores = if group.neighbour == Neighbour::Nobody { Cores::Same } else { Cores::Cross };
    let series = bench.measure_with(&mut variants, &comparisons, cores, scene.effort);
    drop(variants);

    for one in &series {
        bench.row(one, Metric::NsPerOp, None);
    }
    for (set, &form) in sets.iter().zip(forms) {
        count_frees(bench, scene, group, form, set.frees());
    }
    for (mut worker, twin) in peers {
        scene.add(twin.settle(&mut worker));
    }
    for (set, &form) in sets.into_iter().zip(forms) {
        scene.end(form, set);
    }
    Ok(answers(bench, group, &series, &asked))
}

fn answers(
    bench: &Bench<'_>,
    group: Group,
    series: &[Series],
    asked: &[(Question, Comparison)],
) -> Vec<Answer> {
    let answer = |&(question, Comparison { a, b, .. }): &(Question, Comparison)| {
        Some(Answer { group, question, over: bench.over(&series[a], &series[b])? })
    };
    asked.iter().filter_map(answer).collect()
}

fn variant<'a>(
    scene: &'a Scene<'_>,
    group: Group,
    form: Form,
    set: &'a mut dyn WorkingSet,
) -> Box<dyn Variant + 'a> {
    let worker = scene.worker(form);
    let body = move |ops| {
        let worker = &mut worker.borrow_mut();
        match group.usage {
            Use::Warm => set.same(worker, ops),
            Use::Hot | Use::Cold | Use::ColdWrite | Use::InTurn => set.oldest(worker, ops),
            Use::All => set.all(worker, ops),
        }
    };
    let label = Label { variant: form.variant(), params: labels(group, form) };
    Box::new(OpLoop::new(label, &scene.clock, Box::new(body)))
}

/// Counts the paths of the frees of `form`. The source's kernel gets a row of it.
fn count_frees(bench: &mut Bench<'_>, scene: &Scene<'_>, group: Group, form: Form, frees: Frees) {
    let all = frees.fast + frees.slow;
    if all == 0 {
        return;
    }
    scene.count(|paths| paths.add(group.usage, frees));
    if form == VANILLA {
        let mut params = labels(group, form);
        params.insert("event".to_owned(), "free_slowpath".into());
        let share = 100.0 * frees.slow as f64 / all as f64;
        bench.figure(Label { variant: form.variant(), params }, Metric::Percent, share, None);
    }
}

/// Returns the parameters of the rows of `form` in `group`.
fn labels(group: Group, form: Form) -> Params {
    let mut params = params([
        ("work", "object".into()),
        ("burst", 1.into()),
        ("cores", "same".into()),
        ("bytes", group.bytes.into()),
        ("touch", group.usage.writes().into()),
        ("use", group.usage.name().into()),
        ("layer", "cpu_slab".into()),
        ("descriptor", form.descriptor_name().into()),
        ("word", form.word_name().into()),
    ]);
    if let Some(order) = group.usage.order() {
        params.insert("order".to_owned(), order.into());
    }
    match group.neighbour {
        Neighbour::Nobody => None,
        Neighbour::SameLoop => params.insert("threads".to_owned(), 2.into()),
        Neighbour::Noise => params.insert("noise".to_owned(), true.into()),
    };
    params
}

/// The worker and the objects with which the second core runs the same loop.
type Peer = (Worker, Box<dyn WorkingSet>);

/// Makes a worker and a twin of each working set for the second core, if it runs the same loop.
fn peers(
    scene: &Scene<'_>,
    group: Group,
    forms: &[Form],
    sets: &[Box<dyn WorkingSet>],
) -> Result<Vec<Peer>, SetUpError> {
    let peer = |place: usize| {
        let (form, set) = (forms[place], &sets[place]);
        let mut worker = scene.memory(form).worker().map_err(SetUpError::at("worker"))?;
        let mut twin = set.twin(&mut worker);
        scene.order(&mut *twin, group.usage);
        Ok((worker, twin))
    };
    let wanted = if group.neighbour == Neighbour::SameLoop { forms.len() } else { 0 };
    (0..wanted).map(peer).collect()
}

/// Reads and writes one word of some lines. Each turn continues where the last one ended.
fn disturb(noise: &Mutex<Vec<usize>>) {
    let Ok(mut words) = noise.lock() else { return };
    let mut place = words.first().copied().unwrap_or(0);
    for _ in 0..TURN {
        place = (place + LINE_WORDS) % words.len().max(1);
        if let Some(word) = words.get_mut(place.max(1)) {
            *word = black_box(*word).wrapping_add(1);
        }
    }
    if let Some(first) = words.first_mut() {
        *first = place;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_goes_on_where_it_stopped_and_round_again() {
        let noise = Mutex::new(vec![0; 3 * TURN as usize]);
        let places: Vec<usize> = (0..4)
            .map(|_| {
                disturb(&noise);
                noise.lock().unwrap()[0]
            })
            .collect();
        assert!(places.windows(2).all(|pair| pair[0] != pair[1]), "{places:?}");
        assert!(noise.lock().unwrap()[1..].iter().filter(|&&word| word > 0).count() > 90);
    }
}
