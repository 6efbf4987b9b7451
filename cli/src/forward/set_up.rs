//! Sets up memory, workers, pools, ports and forwarders as planned. Interfaces are touched last. After a failure,
//! everything made before is dropped.

use super::carriers::Carriers;
use super::cores::cores;
use super::cuts::Cuts;
use super::hooks::{self, Hooks};
use super::lending;
use super::links::Links;
use super::network::Network;
use super::outcomes::Outcomes;
use super::own_addresses::{Followed, Own};
use super::packet_registry;
use super::phases::LatestStatus;
use super::plan::Plan;
use super::ports::{self, Ports, Shared};
use super::recorder::{self, RecordFile};
use super::registry::registry;
use super::reload::{self, Reload, Requests};
use super::retention::{MirrorRetention, RetentionThread};
use super::routing::{self, Following, GivenRoutes};
use super::take_registry;
use super::worker_setup::{Icmp, Owner, WorkerSetup, owners};
use crate::control;
use crate::failure::Failure;
use crate::listening::Server;
use crate::metrics::{self, Others, Source};
use crate::sandbox;
use crate::stop::Asked;
use netmem::forward::local_queue::{Retention, RetentionLimit, local_queue};
use netmem::forward::mirror::mirror;
use netmem::forward::recorder::QueueTimes;
use netmem::forward::{Decide, Forwarder, Steering, SteeringControl};
use netmem::packet::CopyBreak;
use netmem::page::{Memory, MemoryConfig};
use netmem::slab::{CacheConfig, SizeClasses};
use netmem::steer::MeshConfig;
use netmem_ports::KernelCopies;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::vec::IntoIter;

/// Minimum slots of a local queue.
const QUEUE: u32 = 1024;

/// The parts of a run.
pub struct Dataplane {
    pub memory: Memory,
    /// One for each worker.
    pub setups: Vec<WorkerSetup>,
    /// The built-in network of the mem ports, and its core. None with interfaces.
    pub network: Option<(Network, Option<usize>)>,
    /// The host's addresses, whose packets ports leave to the kernel.
    pub own: Followed,
    /// The interfaces, which may change.
    pub links: Links,
    /// The local queues for passed frames, or None if no packets are passed.
    pub retention: Option<RetentionThread>,
    /// The parts of the full path that can be read, or None on the fast path.
    pub hooks: Option<Hooks>,
    /// The state and control of sharing between workers, or None if each forwards its own packets.
    pub steering: Option<SteeringControl>,
    /// The follower of the kernel's routes, or None if routes are given.
    pub following: Option<Following>,
    /// The reload of the configuration, or None if SIGHUP does not ask for one.
    pub reload: Option<Reload>,
    /// The control socket, if requested.
    pub control: Option<Server>,
    /// The flight recorder's file.
    pub record_file: RecordFile,
    /// The states of ports, for the control socket.
    pub latest_status: LatestStatus,
    /// The metrics, if requested.
    pub scraped: Option<Scraped>,
    /// What happens to the kernel's copies of the packets that each port takes, with the port as it is written.
    pub copies: Vec<(String, KernelCopies)>,
}

/// The cuts of the run, and the server that answers scrapers with them.
pub struct Scraped {
    pub cuts: Arc<Cuts>,
    /// Dropping it ends its threads.
    pub _server: Server,
}

/// Sets everything up, for a run that signals may ask for something by `asked`.
///
/// # Errors
/// [`Failure::Input`] or [`Failure::NotNow`] with the failed step and the remedy.
pub fn open(plan: &Plan, asked: Asked) -> Result<Dataplane, Failure> {
    let memory = memory(plan)?;
    let mut owners = owners(plan, &memory)?;
    let (ports, Shared { network, own, takes, copies }) = ports::open(plan, &memory, &mut owners)?;
    let interfaces = ports.first().map_or_else(Vec::new, |ports| ports.interfaces.clone());
    let (mode_decision, routes, follower) = routing::mode_decision(plan, interfaces.clone())?;
    let links = Links::new(routes.as_ref().and_then(GivenRoutes::table), plan, interfaces);
    let mut following = follower.map(|follower| Following { follower, own: own.clone() });
    let cores = cores(plan.workers);
    let mut hooks = plan.packets.as_ref().map(|packets| Hooks::new(&memory, packets)).transpose()?;
    let (steering, mut ends) = plan.steer.as_ref().map(share).transpose()?.unzip();
    let (mut setups, port_count) = (Vec::new(), ports.first().map_or(0, |ports| ports.ports.len()));
    let times = recorder::queue_times(plan, port_count);
    for (number, ((owner, ports), core)) in owners.into_iter().zip(ports).zip(cores.workers).enumerate() {
        let queues = following.as_mut().map(|of| of.neighbour_queues(&owner.pool, plan.workers));
        let (decided, at) = (mode_decision.decision(queues, plan.icmp), (number, core, times.as_ref()));
        let mut setup = one_worker(plan, owner, (ports, decided), at, hooks.as_mut())?;
        ends.as_mut().and_then(Iterator::next).into_iter().for_each(|end| setup.forwarder.set_steering(end));
        setups.push(setup);
    }
    let retention = retention_thread(&mut setups, &memory, plan, times.as_ref())?;
    let (control, listener) = listen_and_give_up(plan, memory.bytes())?;
    let (steered, outcomes) = (steering.as_ref(), Arc::new(Outcomes::default()));
    let (recordings, record_file) = recorder::of_run(plan, asked.recording, &setups, steered, &outcomes)?;
    let ((caller, requests), latest_status) = (reload::requests(), LatestStatus::default());
    let listen = |socket| {
        let mut registry = registry(&memory, &setups, steered, (plan, &latest_status, &links.carriers()));
        take_registry::takes(&mut registry, &takes);
        hooks.iter().for_each(|hooks| packet_registry::packets(&mut registry, hooks, port_count));
        retention.iter().for_each(|retention| packet_registry::local_queue(&mut registry, retention, plan));
        following.iter().for_each(|of| routing::registry(&mut registry, &of.follower.tables()));
        recordings.iter().for_each(|recordings| recordings.show(&mut registry));
        if plan.config.is_some() {
            caller.answer_by(&mut registry);
        }
        control::start(socket, registry)
    };
    let control = control.map(listen).transpose()?;
    let others = others(&setups, (hooks.as_ref(), following.as_ref()), links.carriers(), &outcomes);
    let scraped = scraped(listener, &memory, &setups, (steered, retention.as_ref(), others))?;
    let reload = reload(plan, routes, (asked.reload, requests), &setups, (hooks.as_ref(), steered, outcomes));
    Ok(Dataplane {
        memory,
        setups,
        network: network.map(|network| (network, cores.network)),
        // A follower of the kernel's routes also follows its addresses.
        own: Followed::new(if following.is_none() { own } else { Own::default() }),
        links,
        retention,
        hooks,
        steering,
        following,
        reload,
        control,
        latest_status,
        record_file,
        scraped,
        copies,
    })
}

/// Listens at the planned addresses, which is the last step that needs privileges, and drops the privileges. No
/// thread has been started yet.
fn listen_and_give_up(
    plan: &Plan,
    memory_bytes: usize,
) -> Result<(Option<control::Socket>, Option<metrics::Listener>), Failure> {
    let control = plan.control.as_deref().map(control::bind).transpose()?;
    let listener = plan.metrics.as_ref().map(metrics::bind).transpose()?;
    if let Some(user) = plan.sandbox.user {
        let sockets = control.iter().chain(listener.as_ref().and_then(metrics::Listener::socket));
        sockets.for_each(|socket| socket.give_to(user));
    }
    sandbox::enter(&plan.sandbox, memory_bytes)?;
    Ok((control, listener))
}

/// Returns what a scrape shows besides the workers and the memory.
fn others(
    setups: &[WorkerSetup],
    (hooks, following): (Option<&Hooks>, Option<&Following>),
    carriers: Carriers,
    outcomes: &Arc<Outcomes>,
) -> Others {
    let routers = setups.iter().filter(|setup| setup.icmp.control.is_some());
    Others {
        tables: following.map(|following| following.follower.tables()),
        rules: hooks.map_or_else(Vec::new, Hooks::rules),
        icmp: routers.map(|setup| Arc::clone(&setup.icmp.counters)).collect(),
        carriers,
        outcomes: Arc::clone(outcomes),
    }
}

/// Starts to answer scrapers, if metrics were requested.
fn scraped(
    listener: Option<metrics::Listener>,
    memory: &Memory,
    setups: &[WorkerSetup],
    (steering, retention, others): (Option<&SteeringControl>, Option<&RetentionThread>, Others),
) -> Result<Option<Scraped>, Failure> {
    let Some(listener) = listener else { return Ok(None) };
    let beside = retention.map(|retention| Arc::clone(&retention.standing));
    let cuts = Arc::new(Cuts::new(setups, steering, beside));
    let server = metrics::start(listener, Source::new(&cuts, setups, memory, others))?;
    Ok(Some(Scraped { cuts, _server: server }))
}

/// Returns the reload of the configuration, if SIGHUP asks for it.
fn reload(
    plan: &Plan,
    routes: Option<GivenRoutes>,
    (asked, requests): (Option<Arc<AtomicBool>>, Requests),
    setups: &[WorkerSetup],
    (hooks, steering, outcomes): (Option<&Hooks>, Option<&SteeringControl>, Arc<Outcomes>),
) -> Option<Reload> {
    Some(Reload {
        asked: asked?,
        requests,
        plan: plan.clone(),
        routes,
        rules: hooks.map_or_else(Vec::new, Hooks::rules),
        idle: setups.iter().map(|setup| setup.forwarder.idle_control()).collect(),
        icmp: setups.iter().filter_map(|setup| setup.icmp.control.clone()).collect(),
        steering: steering.cloned(),
        policy: steering.map(SteeringControl::policy),
        outcomes,
    })
}

/// The bytes of a memory are a multiple of this ([`MemoryConfig::bytes`]), and `xdp` ports lock all of them.
const GRANULE: usize = 2 << 20;

/// Returns the bytes of memory for all pools, and for heads on the full path.
pub fn memory_bytes(plan: &Plan) -> usize {
    let frames = plan.workers * plan.frames;
    // A hardened head takes up to twice the bytes: its slab ends with a guard page, and its canary takes half a
    // cache line.
    let room = if plan.hardening.any() { 2 * hooks::room(frames) } else { hooks::room(frames) };
    let bytes = frames * plan.frame_size.bytes() + plan.packets.as_ref().map_or(0, |_| room);
    bytes.next_multiple_of(GRANULE)
}

/// Makes the memory for all pools, and for heads on the full path. A peer that is lent frames can write any byte of
/// their memory, so that memory never has heads.
fn memory(plan: &Plan) -> Result<Memory, Failure> {
    let bytes = memory_bytes(plan);
    let workers = plan.workers + usize::from(plan.retains());
    let config = MemoryConfig { bytes, workers, hardening: plan.hardening, ..MemoryConfig::default() };
    lending::memory(&config, plan.lends())
}

/// Makes the lanes between the workers.
fn share(steer: &MeshConfig) -> Result<(SteeringControl, IntoIter<Steering>), Failure> {
    let shared = Steering::between(steer).map_err(|error| Failure::input(format!("--steer: {error}")))?;
    Ok((shared.0, shared.1.into_iter()))
}

/// Makes a forwarder over the ports of the worker with that number and core, as planned. With a recorder, it
/// measures the times in queues.
fn one_worker(
    plan: &Plan,
    owner: Owner,
    (Ports { ports, details, .. }, (decision, icmp)): (Ports, (Box<dyn Decide>, Icmp)),
    (number, core, times): (usize, Option<usize>, Option<&QueueTimes>),
    hooks: Option<&mut Hooks>,
) -> Result<WorkerSetup, Failure> {
    let (decision, recording) = recorder::around(decision, (number, ports.len()), plan, times);
    let mut forwarder = Forwarder::new(ports, owner.pool.clone(), decision).map_err(Failure::input)?;
    forwarder.set_free(plan.free);
    forwarder.set_idle(plan.idle);
    if let (Some(hooks), Some(packets)) = (hooks, &plan.packets) {
        hooks.set(&mut forwarder, &owner.pool, packets)?;
    }
    Ok(WorkerSetup { owner, forwarder, icmp, recording, details, core })
}

/// Gives each forwarder its local queue and its mirror, as planned. The recording then has the times in local
/// queues too. Returns None if the plan has neither.
fn retention_thread(
    setups: &mut [WorkerSetup],
    memory: &Memory,
    plan: &Plan,
    times: Option<&QueueTimes>,
) -> Result<Option<RetentionThread>, Failure> {
    if !plan.retains() {
        return Ok(None);
    }
    let worker = memory.worker().map_err(Failure::input)?;
    let slots = (2 * plan.ring).max(QUEUE);
    let limit = plan.local_queue.map(|config| {
        let limit = RetentionLimit::new(config.frames, config.time);
        limit.set_bytes(config.bytes.unwrap_or(usize::MAX));
        Arc::new(limit)
    });
    let copies = plan.local_queue.is_some_and(|config| config.copies).then(|| {
        SizeClasses::new(memory, &CacheConfig { name: "copies".into(), ..CacheConfig::default() })
            .map_err(Failure::input)
    });
    let copies = copies.transpose()?;
    let mut thread = RetentionThread {
        limit: limit.clone(),
        retentions: Vec::new(),
        mirrors: Vec::new(),
        worker,
        standing: Arc::default(),
    };
    for setup in setups {
        if let Some(limit) = &limit {
            let (local_queue, mut reader) = local_queue(slots);
            times.into_iter().for_each(|times| reader.record(times));
            setup.forwarder.set_local_queue(local_queue);
            let retention = Retention::new(reader, Arc::clone(limit));
            thread.retentions.push(match &copies {
                Some(copies) => retention.with_copy_break(CopyBreak::new(copies)),
                None => retention,
            });
        }
        if let Some(most) = plan.mirror {
            let (mirror, reader) = mirror(slots);
            setup.forwarder.add_mirror(mirror);
            thread.mirrors.push(MirrorRetention::new(reader, most));
        }
    }
    Ok(Some(thread))
}
