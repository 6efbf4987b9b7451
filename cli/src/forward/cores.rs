//! The assignment of a run's threads to cores.

use netmem::system::cpu;

/// The cores of a run. None if there is only one, or if the cores are unknown: then no thread is pinned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cores {
    /// A core for each worker. With more workers than cores, workers share cores.
    pub workers: Vec<Option<usize>>,
    /// The core of the built-in network: one without a worker, if there is such a core.
    pub network: Option<usize>,
}

/// Assigns the cores that this process may use to that many workers and a network.
pub fn cores(workers: usize) -> Cores {
    assign(&cpu::allowed().unwrap_or_default(), workers)
}

/// Assigns workers from the last core down, and the network to the first: the system's own work mostly runs on the
/// first cores.
pub fn assign(allowed: &[usize], workers: usize) -> Cores {
    if allowed.len() < 2 {
        return Cores { workers: vec![None; workers], network: None };
    }
    let last_first = allowed.iter().rev().copied().cycle();
    Cores { workers: last_first.take(workers).map(Some).collect(), network: allowed.first().copied() }
}

/// Pins the calling thread to `core`. Returns the core if that worked.
pub fn pin(core: Option<usize>) -> Option<usize> {
    core.filter(|&core| cpu::pin(core).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_have_cores_of_their_own_as_far_as_there_are_and_then_take_turns() {
        let on = |allowed: &[usize], workers| assign(allowed, workers);
        let cores = |workers: &[usize], network| Cores {
            workers: workers.iter().copied().map(Some).collect(),
            network,
        };
        assert_eq!(on(&[2, 3, 7], 1), cores(&[7], Some(2)));
        assert_eq!(on(&[2, 3, 7], 2), cores(&[7, 3], Some(2)));
        assert_eq!(on(&[2, 3, 7], 5), cores(&[7, 3, 2, 7, 3], Some(2)));
        for few in [&[][..], &[4]] {
            assert_eq!(on(few, 2), Cores { workers: vec![None; 2], network: None });
        }
    }
}
