//! The queues that another process grants, dealt out to ports and workers.

use super::{OpenError, PortPlace};
use crate::{QueueCount, XdpSpec};
use netmem::port::xdp::XdpGrant;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// What is left of each grant, by the path of its socket.
#[derive(Debug, Default)]
pub(super) struct Grants(HashMap<PathBuf, Rest>);

/// A grant of which some queues have ports.
#[derive(Debug)]
struct Rest {
    /// The numbers of all its queues.
    all: Vec<u32>,
    /// Those that no port has had yet: one or more. It also holds the program on the interface.
    grant: XdpGrant,
}

impl Grants {
    /// Returns the queues of the worker at `place`, of `workers`, and the number of queues of all workers. Asks for the grant,
    /// unless these queues are left of one.
    ///
    /// # Errors
    /// Returns [`OpenError`] if there is no grant, or if it is of another interface or lacks one of the queues.
    pub(super) fn of_worker(
        &mut self,
        spec: &XdpSpec,
        path: &Path,
        place: PortPlace,
        workers: usize,
    ) -> Result<(XdpGrant, u32), OpenError> {
        let is_left = |rest: &Rest| {
            let queues = rest.grant.queues();
            rest.grant.interface() == spec.interface
                && of_worker(spec, &rest.all, place, workers).iter().all(|queue| queues.contains(queue))
        };
        // A rest without these queues is given up before another grant is asked for: an interface has one program.
        let rest = self.0.remove(path).filter(is_left);
        let Rest { all, mut grant } = rest.map_or_else(|| ask(spec, path), Ok)?;
        let own = of_worker(spec, &all, place, workers);
        let Some(part) = grant.split_off(&own) else {
            return Err(OpenError::QueueCount(lacks(spec, &own, &all)));
        };
        let count = of_all(spec, &all, workers).len() as u32;
        if !grant.queues().is_empty() {
            self.0.insert(path.to_owned(), Rest { all, grant });
        }
        Ok((part, count))
    }
}

/// Returns the queues of all workers, of which `granted` may lack some.
fn of_all(spec: &XdpSpec, granted: &[u32], workers: usize) -> Vec<u32> {
    match spec.queues {
        QueueCount::All => granted.iter().copied().filter(|queue| *queue >= spec.queue).collect(),
        QueueCount::EachWorker => spec.of_worker(0, 1, workers as u32),
        QueueCount::Number(count) => spec.of_worker(0, 1, count),
    }
}

fn of_worker(spec: &XdpSpec, granted: &[u32], place: PortPlace, workers: usize) -> Vec<u32> {
    of_all(spec, granted, workers).into_iter().skip(place.worker as usize).step_by(workers.max(1)).collect()
}

fn ask(spec: &XdpSpec, path: &Path) -> Result<Rest, OpenError> {
    let port = || spec.to_string();
    let grant = XdpGrant::ask(path).map_err(|error| OpenError::Grant { port: port(), error })?;
    if grant.interface() != spec.interface {
        return Err(OpenError::GrantedOther { port: port(), granted: grant.interface().to_owned() });
    }
    Ok(Rest { all: grant.queues(), grant })
}

fn lacks(spec: &XdpSpec, own: &[u32], granted: &[u32]) -> String {
    let interface = &spec.interface;
    let wanted = match own {
        [] => "a queue for each worker".to_owned(),
        own => format!("queue {}", listed(own)),
    };
    format!(
        "open {spec}: it needs {wanted}, and queue {} was granted: grant more (netmem grant --port \
         xdp:{interface},queues=all,take=RULES), or open fewer",
        listed(granted)
    )
}

fn listed(queues: &[u32]) -> String {
    let queues: Vec<String> = queues.iter().map(u32::to_string).collect();
    queues.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::xdp::xdp;

    #[test]
    fn granted_queues_are_dealt_out_as_those_of_an_interface() {
        let of = |text: &str, granted: &[u32], workers| {
            let spec = xdp(text).unwrap();
            let of_worker = |worker| of_worker(&spec, granted, PortPlace { port: 0, worker }, workers);
            (0..workers as u32).map(of_worker).collect::<Vec<_>>()
        };
        assert_eq!(of("eth0,grant=@x", &[0, 1, 2, 3], 1), [[0]]);
        assert_eq!(of("eth0:1,grant=@x", &[0, 1, 2, 3], 2), [[1], [2]]);
        assert_eq!(of("eth0,queues=3,grant=@x", &[0, 1, 2, 3], 2), [vec![0, 2], vec![1]]);
        assert_eq!(of("eth0:2,queues=all,grant=@x", &[0, 2, 5, 7], 2), [vec![2, 7], vec![5]]);
        assert_eq!(of("eth0,queues=all,grant=@x", &[3], 2), [vec![3], vec![]]);
    }

    #[test]
    fn a_queue_that_was_not_granted_is_named() {
        let spec = xdp("eth0,queues=2,grant=@x").unwrap();
        let line = lacks(&spec, &[0, 1], &[0]);
        assert!(
            line.starts_with(
                "open xdp:eth0,queues=2,grant=@x: it needs queue 0, 1, and queue 0 was granted: "
            ),
            "{line}"
        );
        assert!(lacks(&spec, &[], &[0]).contains("needs a queue for each worker"));
    }
}
