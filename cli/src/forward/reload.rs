//! SIGHUP and `netmem reload`: reads the configuration again, and changes everything that can change during a run.
//! COLD.

use super::interfaces::Interfaces;
use super::outcomes::Outcomes;
use super::plan::{Plan, Source};
use super::routing::GivenRoutes;
use crate::args;
use crate::control::registry::{Changes, Registry};
use crate::failure::Failure;
use crate::log::Level;
use crate::sandbox;
use netmem::forward::filter::FilterControl;
use netmem::forward::{IdleControl, SteeringControl};
use netmem::steer::Policy;
use netmem_router::icmp::{IcmpControl, IcmpLimit};
use std::mem;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

/// The time that `netmem reload` waits for the thread that reloads.
const RELOAD_TIMEOUT: Duration = Duration::from_secs(10);

/// The line about SIGHUP to a run without a configuration.
const NO_CONFIG: &str = "SIGHUP: there is no configuration to read again: start netmem with --config FILE";

/// The result of a reload: the keys of `netmem set` whose changed values it has overridden. An error is one line.
type Answer = Result<Vec<&'static str>, String>;

/// The control socket's end: it asks for a reload and waits for the answer.
pub struct Caller {
    to: Sender<Request>,
    changes: Changes,
}

/// The forwarder's end.
pub struct Requests {
    from: Receiver<Request>,
    changes: Changes,
}

/// A request for a reload.
struct Request {
    to: Sender<Answer>,
    /// Set by the end that is first: the forwarder when it begins, or the caller when it gives up.
    is_taken: Arc<AtomicBool>,
}

/// Takes a request, to carry it out or to give it up. Returns false if the other end was first.
fn take(is_taken: &AtomicBool) -> bool {
    !is_taken.swap(true, Relaxed)
}

/// Returns both ends.
pub fn requests() -> (Caller, Requests) {
    let ((to, from), changes) = (channel(), Changes::default());
    (Caller { to, changes: Arc::clone(&changes) }, Requests { from, changes })
}

impl Caller {
    /// Lets the registry ask for reloads. Its keys and a reload change the run one after the other.
    pub fn answer_by(self, registry: &mut Registry) {
        registry.set_changes(Arc::clone(&self.changes));
        registry.set_reload(move || self.reload());
    }

    /// Asks for a reload, and waits for the answer.
    fn reload(&self) -> Answer {
        self.reload_within(RELOAD_TIMEOUT)
    }

    /// Asks for a reload, and waits this long for the answer. A reload that has not begun by then is not carried out.
    fn reload_within(&self, timeout: Duration) -> Answer {
        let ((to, answer), is_taken) = (channel(), Arc::new(AtomicBool::new(false)));
        // No request is read after the last round.
        let over = || "the run is ending".to_owned();
        self.to.send(Request { to, is_taken: Arc::clone(&is_taken) }).map_err(|_| over())?;
        answer.recv_timeout(timeout).unwrap_or_else(|error| match error {
            RecvTimeoutError::Disconnected => Err(over()),
            RecvTimeoutError::Timeout if take(&is_taken) => {
                Err(format!("no answer within {timeout:?}: nothing has changed"))
            }
            // It may have been answered since then.
            RecvTimeoutError::Timeout => answer.try_recv().unwrap_or_else(|_| {
                Err(format!(
                    "no answer within {timeout:?}: the reload has begun, and may still change the run, which logs the result"
                ))
            }),
        })
    }
}

/// Changes a run, and holds the current plan.
pub struct Reload {
    /// Set by SIGHUP.
    pub asked: Arc<AtomicBool>,
    /// The requests of the control socket.
    pub requests: Requests,
    pub plan: Plan,
    pub routes: Option<GivenRoutes>,
    /// The rules of each worker, which are the same.
    pub rules: Vec<FilterControl>,
    pub idle: Vec<IdleControl>,
    pub icmp: Vec<IcmpControl>,
    pub steering: Option<SteeringControl>,
    /// The policy of the current plan, with the workers that it chooses from.
    pub policy: Option<Policy>,
    /// Where the outcome of each reload is noted.
    pub outcomes: Arc<Outcomes>,
}

impl Reload {
    /// Returns the callers that wait for an answer, if a reload was requested since the last call.
    pub fn asked(&self) -> Option<Vec<Sender<Answer>>> {
        let not_given_up = self.requests.from.try_iter().filter(|request| take(&request.is_taken));
        let callers: Vec<_> = not_given_up.map(|request| request.to).collect();
        (self.asked.swap(false, Relaxed) || !callers.is_empty()).then_some(callers)
    }

    /// Reads the configuration again and answers `callers`. Returns the line for the log.
    pub fn reload(&mut self, callers: &[Sender<Answer>]) -> (Level, String) {
        if self.plan.config.is_none() {
            return (Level::Warning, NO_CONFIG.to_owned());
        }
        // An interface may be away, or have another number of queues by now.
        let interfaces = Interfaces::OfRun(&self.plan.queues);
        let plan = sandbox::check_reads()
            .and_then(|()| args::forward_again())
            .and_then(|args| Plan::on(&args, interfaces));
        let done = plan.and_then(|plan| self.change(plan));
        let refused =
            |failure: Failure| format!("the configuration stays as it was: {}", failure.lines().join("; "));
        let done = done.map_err(refused);
        self.outcomes.reloaded(done.is_ok());
        // A caller that is gone needs no answer.
        callers.iter().for_each(|caller| drop(caller.send(done.clone())));
        match done {
            Ok(keys) if keys.is_empty() => (Level::Info, "configuration reloaded".to_owned()),
            Ok(keys) => {
                let keys = keys.join(", ");
                (Level::Info, format!("configuration reloaded; overridden, after netmem set: {keys}"))
            }
            Err(why) => (Level::Error, why),
        }
    }

    /// Changes the run to `plan`, if the plans differ only in parts that can change. Otherwise nothing has changed. A part
    /// that is the same in both plans stays as it is, also if `netmem set` has changed it. Returns the keys of those that
    /// `netmem set` had changed and that are overridden.
    fn change(&mut self, plan: Plan) -> Result<Vec<&'static str>, Failure> {
        let fixed = differences(&self.plan, &plan);
        if !fixed.is_empty() {
            return Err(Failure::Input(format!(
                "{} cannot change while packets pass: end the run and restart it",
                fixed.join(", ")
            )));
        }
        let changes = Arc::clone(&self.requests.changes);
        let _alone = changes.lock().unwrap_or_else(PoisonError::into_inner);
        let mut overridden = Vec::new();
        // The only part that may still be rejected comes first.
        overridden.extend(self.change_policy(&plan)?);
        overridden.extend(self.change_rules(&plan)?);
        if plan.idle != self.plan.idle {
            overridden
                .extend(self.idle.iter().any(|idle| idle.get() != self.plan.idle).then_some("forward.idle"));
            self.idle.iter().for_each(|idle| idle.set(plan.idle));
        }
        let limits = ICMP.iter().filter_map(|(key, of)| self.change_limit(&plan, *of).then_some(*key));
        overridden.extend(limits);
        if let (Some(given), Source::Ports { routes, .. }) = (&mut self.routes, &plan.source) {
            given.replace(routes);
        }
        self.plan = plan;
        Ok(overridden)
    }

    /// Changes the steering policy if the plans differ in it.
    fn change_policy(&mut self, plan: &Plan) -> Result<Option<&'static str>, Failure> {
        let (Some(steering), Some(old), Some(new)) = (&self.steering, &self.plan.steer, &plan.steer) else {
            return Ok(None);
        };
        if old.policy == new.policy {
            return Ok(None);
        }
        let is_overridden = Some(steering.policy()) != self.policy;
        steering.set_policy(&new.policy).map_err(Failure::input)?;
        self.policy = Some(steering.policy());
        Ok(is_overridden.then_some("steer.policy"))
    }

    /// Changes the rules if the plans differ in them.
    fn change_rules(&self, plan: &Plan) -> Result<Option<&'static str>, Failure> {
        let of =
            |plan: &Plan| plan.packets.as_ref().and_then(|packets| packets.rules.clone()).unwrap_or_default();
        let (old, new) = (of(&self.plan), of(plan));
        if old == new {
            return Ok(None);
        }
        let is_set = |control: &FilterControl| !control.rules().iter().map(|of| &of.rule).eq(&old);
        let is_overridden = self.rules.iter().any(is_set);
        for control in &self.rules {
            control.replace(new.clone()).map_err(Failure::input)?;
        }
        Ok(is_overridden.then_some("rules"))
    }

    /// Changes one number of the limit on ICMP errors if the plans differ in it. Returns true if `netmem set` had changed
    /// it.
    fn change_limit(&self, plan: &Plan, of: OfLimit) -> bool {
        let (mut old, mut new) = (self.plan.icmp, plan.icmp);
        let (old, new) = (*of(&mut old), *of(&mut new));
        let mut is_overridden = false;
        for control in self.icmp.iter().filter(|_| old != new) {
            let mut limit = control.get();
            is_overridden |= *of(&mut limit) != old;
            *of(&mut limit) = new;
            control.set(limit);
        }
        is_overridden
    }
}

/// Returns one number of the limit on ICMP errors.
type OfLimit = fn(&mut IcmpLimit) -> &mut u32;

/// The keys of `netmem set` about the limit on ICMP errors, and their numbers.
const ICMP: [(&str, OfLimit); 4] = [
    ("icmp.rate", |limit| &mut limit.rate),
    ("icmp.burst", |limit| &mut limit.burst),
    ("icmp.source_rate", |limit| &mut limit.source_rate),
    ("icmp.source_burst", |limit| &mut limit.source_burst),
];

/// Returns the differing keys of the parts that cannot change.
fn differences(old: &Plan, new: &Plan) -> Vec<&'static str> {
    let same = changed(old.clone(), new.clone());
    let parts = parts(&same, new).into_iter().filter_map(|(keys, differs)| differs.then_some(keys));
    let parts: Vec<_> = parts.collect();
    // One key may change several parts: the sizes of rings and pools follow from the ports.
    let is_written = |key: &&str| old.written.differs(&new.written, key);
    let written: Vec<_> = parts.iter().copied().flatten().copied().filter(is_written).collect();
    match written.is_empty() {
        false => written,
        // A key with the same text may have another meaning: a file with a secret, or the name of a user.
        true => parts.iter().filter_map(|keys| keys.first().copied()).collect(),
    }
}

/// Returns the keys of each part of a plan that cannot change, and whether the part differs.
fn parts(same: &Plan, new: &Plan) -> [(&'static [&'static str], bool); 24] {
    [
        (&["workers"], same.workers != new.workers),
        (&["steer"], same.steer != new.steer),
        (&SOURCE, same.source != new.source),
        (&["mode"], same.mode != new.mode),
        (&["martians", "source-routes"], same.allow != new.allow),
        (&["reverse-path"], same.reverse_path != new.reverse_path),
        (&["path", "ready-heads", "ready-packets"], same.packets != new.packets),
        (
            &["local-queue", "local-queue-bytes", "local-queue-seconds", "local-queue-copybreak"],
            same.local_queue != new.local_queue,
        ),
        (&["mirror"], same.mirror != new.mirror),
        (&["free"], same.free != new.free),
        (&["frames"], same.frames != new.frames),
        (&["frame-size"], same.frame_size != new.frame_size),
        (&["hardening"], same.hardening != new.hardening),
        (&["ring"], same.ring != new.ring),
        (&["kernel-copies"], same.packets_alone != new.packets_alone),
        (&["seconds"], same.time != new.time),
        (&["wait"], same.wait != new.wait),
        (&["watchdog"], same.watchdog != new.watchdog),
        (&["control"], same.control != new.control),
        (&["metrics", "metrics-from"], same.metrics != new.metrics),
        (&["record", "record-to", "record-when"], same.recorder != new.recorder),
        (&["fix"], same.fix != new.fix),
        (&["user", "no-sandbox"], same.sandbox != new.sandbox),
        (&["config"], same.config != new.config),
    ]
}

/// The keys of the source of packets.
const SOURCE: [&str; 9] =
    ["port", "address", "routes", "xdp-mode", "generators", "flows", "size", "packets", "pause"];

/// Returns the old plan with the changeable parts of the new one.
fn changed(mut old: Plan, mut new: Plan) -> Plan {
    (old.idle, old.icmp) = (new.idle, new.icmp);
    if let (Some(old), Some(new)) = (&mut old.steer, &mut new.steer) {
        mem::swap(&mut old.policy, &mut new.policy);
        // The workers have a key of their own.
        old.workers = new.workers;
    }
    if let (Some(old), Some(new)) = (&mut old.packets, &mut new.packets)
        && let (Some(old), Some(new)) = (&mut old.rules, &mut new.rules)
    {
        mem::swap(old, new);
    }
    if let (Source::Ports { routes: old, .. }, Source::Ports { routes: new, .. }) =
        (&mut old.source, &mut new.source)
    {
        mem::swap(old, new);
    }
    old
}

#[cfg(test)]
mod tests;
