//! Every other parameter alone, at 256 bytes: the use of the objects, and the work of the second core.

use super::form::ALL;
use super::group::{self, Answer, Group, Neighbour};
use super::scene::Scene;
use super::usage::Use;
use crate::bench::{Bench, SetUpError};

/// Bytes of the objects.
const BYTES: usize = 256;

/// The axes, in addition to the grid's own two uses without work on the second core.
const AXES: [(Use, Neighbour); 6] = [
    (Use::Hot, Neighbour::Nobody),
    (Use::Cold, Neighbour::Nobody),
    (Use::InTurn, Neighbour::Nobody),
    (Use::All, Neighbour::Nobody),
    (Use::ColdWrite, Neighbour::SameLoop),
    (Use::ColdWrite, Neighbour::Noise),
];

/// Every form along every axis.
pub(super) fn run(scene: &Scene<'_>, bench: &mut Bench<'_>) -> Result<Vec<Answer>, SetUpError> {
    let mut answers = Vec::new();
    for (usage, neighbour) in AXES {
        if neighbour != Neighbour::Nobody && bench.cores.len() < 2 {
            bench.note(format!(
                "no rows with {neighbour:?} on the second core: this process may use only one core"
            ));
            continue;
        }
        let group = Group { bytes: BYTES, usage, neighbour };
        answers.extend(group::run(scene, bench, group, &ALL)?);
    }
    Ok(answers)
}
