//! The queues that another process grants, dealt out to the workers of a port.

use super::{OpenError, PortPlace};
use crate::XdpSpec;
use netmem::port::xdp::XdpGrant;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// What is left of each grant, by the port's number and the path of its socket, until all workers have their queues.
#[derive(Debug, Default)]
pub(super) struct Grants(HashMap<(usize, PathBuf), Rest>);

/// A grant of which some workers have their queues.
#[derive(Debug)]
struct Rest {
    /// The numbers of all its queues.
    all: Vec<u32>,
    /// Those that no worker has yet: one or more. It also holds the program on the interface.
    grant: XdpGrant,
}

impl Grants {
    /// Returns the queues of the worker at `place`, of `workers`, and the number of queues of all. The first worker that
    /// opens the port asks for the grant.
    ///
    /// # Errors
    /// Returns [`OpenError`] if there is no grant, or if it is of another interface or of fewer queues than workers.
    pub(super) fn of_worker(
        &mut self,
        spec: &XdpSpec,
        path: &Path,
        place: PortPlace,
        workers: usize,
    ) -> Result<(XdpGrant, u32), OpenError> {
        let port = (place.port, path.to_owned());
        let Rest { all, mut grant } = match self.0.remove(&port) {
            Some(rest) => rest,
            None => ask(spec, path, workers)?,
        };
        let count = all.len() as u32;
        let own: Vec<u32> = all.iter().copied().skip(place.worker as usize).step_by(workers).collect();
        let Some(part) = grant.split_off(&own) else {
            // The worker opens the port once more, so it needs another grant.
            return self.of_worker(spec, path, place, workers);
        };
        if !grant.queues().is_empty() {
            self.0.insert(port, Rest { all, grant });
        }
        Ok((part, count))
    }
}

fn ask(spec: &XdpSpec, path: &Path, workers: usize) -> Result<Rest, OpenError> {
    let port = || spec.to_string();
    let grant = XdpGrant::ask(path).map_err(|error| OpenError::Grant { port: port(), error })?;
    if grant.interface() != spec.interface {
        return Err(OpenError::GrantedOther { port: port(), granted: grant.interface().to_owned() });
    }
    let all = grant.queues();
    if all.len() < workers {
        let line = format!(
            "{workers} workers need a queue each, and {} was granted {}: use fewer workers, or grant more (netmem grant --port \
             xdp:{},queues=all,take=RULES)",
            port(),
            all.len(),
            spec.interface
        );
        return Err(OpenError::QueueCount(line));
    }
    Ok(Rest { all, grant })
}
