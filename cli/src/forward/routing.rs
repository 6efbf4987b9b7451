//! Routes: given ones, or the kernel's as they change. COLD.

use super::links::GivenTable;
use super::own_addresses::{AddressUpdates, Own};
use super::phases::Phases;
use super::plan::{Plan, Source};
use super::resyncs::Resyncs;
use super::worker_setup::Icmp;
use crate::args::{ModeArg, RoutesArg, port_interface};
use crate::control::Record;
use crate::control::registry::Registry;
use crate::failure::Failure;
use crate::log::{self, Level};
use netmem::forward::{CrossConnect, Decide, DropAll, PassAll, Reflect};
use netmem::pool::Pool;
use netmem_router::Interface;
use netmem_router::icmp::IcmpLimit;
use netmem_router::route::{Change, Fib, FibReader, Rib, RibRoute, Route, fib};
use netmem_router::{NeighbourQueues, Router, neighbour_queues};
use netmem_rtnetlink::{Follower, FollowerConfig, FollowerTables, StaticRoutes};
use std::mem;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The maximum time until the kernel is asked for neighbours that frames wait for.
const TURN: Duration = Duration::from_millis(2);
const NO_REQUESTS: &str = "netmem: the kernel refuses requests for neighbours (CAP_NET_ADMIN is missing): packets to hosts that it does not know \
    already are dropped (neigh_failed, netmem stat netlink: neigh_refused); start netmem with CAP_NET_ADMIN";
/// Number of routes, or neighbours, that are read while the follower waits.
const PAGE: usize = 2048;
/// The share of a worker's frames that may wait for neighbours, over all workers together.
const WAITING_SHARE: usize = 8;

/// The decision about packets, for any number of workers.
pub enum ModeDecision {
    Ip(FibReader),
    CrossConnect,
    Reflect,
    Drop,
    Pass,
}

impl ModeDecision {
    /// Returns the decision of one worker. If a router lets frames wait, they wait in `queues`.
    pub fn decision(&self, queues: Option<NeighbourQueues>, limit: IcmpLimit) -> (Box<dyn Decide>, Icmp) {
        let simple: Box<dyn Decide> = match self {
            ModeDecision::Ip(reader) => {
                let mut router = Router::new(reader.clone()).with_icmp_limit(limit);
                if let Some(queues) = queues {
                    router = router.with_neighbour_queues(queues);
                }
                let icmp = Icmp { counters: router.icmp_counters(), control: Some(router.icmp_control()) };
                return (Box::new(router), icmp);
            }
            ModeDecision::CrossConnect => Box::new(CrossConnect),
            ModeDecision::Reflect => Box::new(Reflect),
            ModeDecision::Drop => Box::new(DropAll),
            ModeDecision::Pass => Box::new(PassAll),
        };
        (simple, Icmp::default())
    }
}

/// Changes the given routes during a run.
pub enum GivenRoutes {
    /// There are no other routes, except for the router's own addresses.
    Alone(GivenTable),
    /// The kernel's routes are used in addition.
    Beside(StaticRoutes),
}

impl GivenRoutes {
    /// Replaces the given routes.
    pub fn replace(&mut self, routes: &[Route]) {
        let routes = routes.iter().map(|route| RibRoute::from(*route));
        match self {
            GivenRoutes::Alone(alone) => {
                let (rib, control, own) = &mut *alone.lock().unwrap_or_else(PoisonError::into_inner);
                rib.replace_static(own.iter().flat_map(|own| own.routes()).chain(routes));
                control.apply(rib.take_changes());
            }
            GivenRoutes::Beside(beside) => beside.replace(routes),
        }
    }

    /// Returns the table of the given routes, if the kernel's are not followed.
    pub fn table(&self) -> Option<GivenTable> {
        match self {
            GivenRoutes::Alone(table) => Some(Arc::clone(table)),
            GivenRoutes::Beside(_) => None,
        }
    }
}

/// Returns the decision about packets between ports with these interfaces. In ip mode, also returns the control of
/// the given routes, and the follower of the kernel's, if they are followed.
///
/// # Errors
/// [`Failure::NotNow`] if the kernel's state cannot be read.
pub fn mode_decision(
    plan: &Plan,
    interfaces: Vec<Interface>,
) -> Result<(ModeDecision, Option<GivenRoutes>, Option<Follower>), Failure> {
    let mode_decision = match plan.mode {
        ModeArg::Ip => return routes(plan, interfaces),
        ModeArg::CrossConnect => ModeDecision::CrossConnect,
        ModeArg::Reflect => ModeDecision::Reflect,
        ModeArg::Drop => ModeDecision::Drop,
        ModeArg::Pass => ModeDecision::Pass,
    };
    Ok((mode_decision, None, None))
}

fn routes(
    plan: &Plan,
    interfaces: Vec<Interface>,
) -> Result<(ModeDecision, Option<GivenRoutes>, Option<Follower>), Failure> {
    let built_in = netmem_traffic::routes();
    let (ports, routes, own, from) = match &plan.source {
        Source::BuiltIn(_) => (&[][..], &built_in[..], &[][..], RoutesArg::Static),
        Source::Ports { ports, routes, own, from, .. } => (&ports[..], &routes[..], &own[..], *from),
    };
    if from == RoutesArg::Static {
        let of = |port| own.iter().filter(move |own| usize::from(own.port) == port).map(|own| own.net);
        let addresses = (0..interfaces.len()).map(|port| of(port).collect()).collect();
        let mut first = Fib::new(interfaces);
        (first.addresses, first.allow) = (addresses, plan.allow);
        first.reverse_path = plan.reverse_path.clone();
        first.apply(&[Change::OwnAddresses(own.iter().map(|own| own.net).collect())]);
        let (control, mut reader) = fib(first);
        let table = (Rib::default(), control, own.to_vec());
        let mut given = GivenRoutes::Alone(Arc::new(Mutex::new(table)));
        given.replace(routes);
        reader.refresh();
        return Ok((ModeDecision::Ip(reader), Some(given), None));
    }
    let config = FollowerConfig {
        ports: interfaces.into_iter().zip(ports.iter().map(port_interface)).collect(),
        static_routes: routes.iter().map(|route| RibRoute::from(*route)).collect(),
        allow: plan.allow,
        reverse_path: plan.reverse_path.clone(),
    };
    let (follower, reader) = Follower::start(config).map_err(Failure::not_now)?;
    Ok((ModeDecision::Ip(reader), Some(GivenRoutes::Beside(follower.static_routes())), Some(follower)))
}

/// Follows the kernel's routes, and its own addresses if ports leave those to the kernel.
pub struct Following {
    pub follower: Follower,
    pub own: Own,
}

impl Following {
    /// Makes the queues of frames of this pool that wait for neighbours, on one of `workers` workers. The follower asks for their neighbours.
    pub fn neighbour_queues(&mut self, pool: &Pool, workers: usize) -> NeighbourQueues {
        // Frames that wait with any worker may all belong to one pool.
        let (queues, unresolved) = neighbour_queues(pool.frames() / (WAITING_SHARE * workers));
        self.follower.add_unresolved(unresolved);
        queues
    }

    /// Follows until the workers are drained.
    ///
    /// # Errors
    /// Returns one line at once if the kernel can no longer be followed: the workers would keep the current routes.
    pub fn run(mut self, phases: &Phases) -> Result<(), String> {
        let mut resyncs = Resyncs::default();
        if !self.follower.may_request_neighbours() {
            log::say(Level::Warning, NO_REQUESTS);
        }
        let (mut own, tables, mut forged) =
            (AddressUpdates::new(mem::take(&mut self.own)), self.follower.tables(), false);
        while !phases.is_drained() {
            let news = resyncs.after_turn(self.follower.poll(TURN), || tables.counters().resyncs)?;
            if let Some((level, news)) = news {
                log::say(level, format_args!("netmem: {news}"));
            }
            if !forged && tables.counters().forged > 0 {
                log::say(
                    Level::Warning,
                    "netmem: another program sends netlink messages to netmem in the kernel's place: they are not read, and \
                     counted as forged (netmem stat netlink)",
                );
                forged = true;
            }
            for what in self.follower.take_unsupported() {
                log::say(Level::Warning, format_args!("netmem: not followed: {what}"));
            }
            if let Some(news) = own.update(self.follower.take_own_addresses()) {
                log::say(Level::Info, format_args!("netmem: {news}"));
            }
        }
        Ok(())
    }
}

/// Reads the name of a record, or None from an empty text.
fn name<T: std::str::FromStr>(text: &str) -> Result<Option<T>, T::Err> {
    Some(text).filter(|text| !text.is_empty()).map(str::parse).transpose()
}

/// Adds the sections of routes, neighbours, and the follower's counters.
pub fn registry(registry: &mut Registry, tables: &FollowerTables) {
    let of = tables.clone();
    registry.table("routes", move |after| {
        let record = |route: netmem_rtnetlink::RouteLine| {
            Record::default()
                .with("name", route.prefix)
                .with("table", route.table)
                .with("metric", route.metric)
                .with("kind", route.kind)
                .with("paths", route.paths)
        };
        let after = self::name(after).map_err(|_| format!("after {after:?}: give a prefix, or nothing"))?;
        Ok(of.routes_after(after, PAGE).into_iter().map(record).collect())
    });
    let of = tables.clone();
    registry.table("neighbours", move |after| {
        let record = |neighbour: netmem_rtnetlink::NeighbourLine| {
            let mac = neighbour.mac.map_or_else(|| "failed".to_owned(), |mac| mac.to_string());
            let name = neighbour.address.to_string();
            Record::default().with("name", name).with("dev", neighbour.dev).with("mac", mac)
        };
        let after = self::name(after).map_err(|_| format!("after {after:?}: give an address, or nothing"))?;
        Ok(of.neighbours_after(after, PAGE).into_iter().map(record).collect())
    });
    let of = tables.clone();
    registry.section("netlink", move || {
        let counters = of.counters();
        vec![Record::default().with("name", "netlink").with_all([
            ("routes", of.len() as u64),
            ("events", counters.events),
            ("malformed", counters.malformed),
            ("forged", counters.forged),
            ("overruns", counters.overruns),
            ("resyncs", counters.resyncs),
            ("unsettled", counters.unsettled),
            ("failures", counters.failures),
            ("forgotten", counters.forgotten),
            ("neigh_requests", counters.neigh_requests),
            ("neigh_refused", counters.neigh_refused),
            ("failed_neighbours", counters.failed_neighbours),
            ("unanswered", counters.unanswered),
            ("unsupported_rules", counters.unsupported_rules),
        ])]
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args;
    use crate::forward::interfaces::Interfaces;
    use seccompiler::{TargetArch, apply_filter, compile_from_json};
    use std::env::consts::ARCH;
    use std::thread;

    /// From now on no socket can be made on this thread, as if the process were out of descriptors (EMFILE).
    fn refuse_sockets() {
        let filter = br#"{"sockets": {"mismatch_action": "allow", "match_action": {"errno": 24}, "filter": [{"syscall": "socket"}]}}"#;
        let arch = TargetArch::try_from(ARCH).expect("an architecture with filters");
        let compiled = compile_from_json(&filter[..], arch).expect("a filter");
        apply_filter(&compiled["sockets"]).expect("a kernel with seccomp");
    }

    #[test]
    fn routes_that_the_kernel_cannot_tell_now_may_be_there_later() {
        let text = "port = [\"packet:one\", \"packet:two\"]\nroutes = \"kernel\"\n";
        let args = args::forward_of(text, &["--config", "FILE"]).expect("arguments");
        let host = serde_json::from_str(r#"{"cores": {"allowed": [0]}, "interfaces": {}}"#).expect("a host");
        let plan = Plan::on(&args, Interfaces::Saved(&host)).expect("a plan");
        let failed = thread::scope(|scope| {
            let refused = || {
                refuse_sockets();
                mode_decision(&plan, Vec::new()).err()
            };
            scope.spawn(refused).join().expect("a thread")
        });
        let Some(Failure::NotNow(line)) = failed else { panic!("{failed:?}") };
        assert!(line.contains("socket"), "{line}");
    }
}
