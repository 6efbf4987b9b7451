//! The grid: every form at six sizes warm and cold, and all sizes for the forms that the source compares.

use super::form::{ALL, DEFAULT, LOCKED, PATCHED, VANILLA};
use super::group::{self, Answer, Group, Neighbour};
use super::scene::Scene;
use super::usage::Use;
use crate::bench::{Bench, SetUpError};
use crate::experiments::slab_working_set::SIZES;

/// The sizes of the grid.
const GRID: [usize; 6] = [8, 32, 256, 1024, 4096, 8192];

/// Every form, six sizes, warm and cold.
pub(super) fn run(scene: &Scene<'_>, bench: &mut Bench<'_>) -> Result<Vec<Answer>, SetUpError> {
    let mut answers = Vec::new();
    for bytes in GRID {
        for usage in [Use::Warm, Use::ColdWrite] {
            let group = Group { bytes, usage, neighbour: Neighbour::Nobody };
            answers.extend(group::run(scene, bench, group, &ALL)?);
        }
    }
    Ok(answers)
}

/// All sizes that the grid does not have, cold: the source's kernel, its change, both sizes under a lock, and the
/// default here.
pub(super) fn sizes(scene: &Scene<'_>, bench: &mut Bench<'_>) -> Result<Vec<Answer>, SetUpError> {
    let forms = [VANILLA, PATCHED, LOCKED[0], LOCKED[1], DEFAULT];
    let mut answers = Vec::new();
    for bytes in SIZES.into_iter().filter(|bytes| !GRID.contains(bytes)) {
        let group = Group { bytes, usage: Use::ColdWrite, neighbour: Neighbour::Nobody };
        answers.extend(group::run(scene, bench, group, &forms)?);
    }
    Ok(answers)
}
