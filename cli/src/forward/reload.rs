//! SIGHUP and `netmem reload`: the configuration is read again, and what can change while packets pass does. COLD.

use super::plan::{Plan, Source};
use super::routing::GivenRoutes;
use crate::args;
use crate::failure::Failure;
use crate::log::Level;
use netmem::forward::filter::{FilterControl, RULES_MAX};
use netmem::forward::{IdleControl, SteeringControl};
use netmem_router::icmp::IcmpControl;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// How long `netmem reload` waits for the thread that reloads.
const PATIENCE: Duration = Duration::from_secs(10);

/// What came of a reload: an error is one line.
type Answer = Result<(), String>;

/// The control socket's end: it asks for a reload and waits for the answer.
pub struct Caller(Sender<Sender<Answer>>);

/// The forwarder's end: each request is the sender that its answer goes to.
pub type Requests = Receiver<Sender<Answer>>;

/// Both ends.
pub fn requests() -> (Caller, Requests) {
    let (to, requests) = channel();
    (Caller(to), requests)
}

impl Caller {
    /// Has the configuration read again, and waits for the answer.
    pub fn reload(&self) -> Answer {
        let (to, answer) = channel();
        // No request is read after the last round.
        let over = || "the run is ending".to_owned();
        self.0.send(to).map_err(|_| over())?;
        answer.recv_timeout(PATIENCE).unwrap_or_else(|error| match error {
            RecvTimeoutError::Timeout => Err(format!("no answer within {PATIENCE:?}")),
            RecvTimeoutError::Disconnected => Err(over()),
        })
    }
}

/// What changes a run, and how it is by now.
pub struct Reload {
    /// Set by SIGHUP.
    pub asked: Arc<AtomicBool>,
    /// What the control socket asked for.
    pub requests: Requests,
    pub plan: Plan,
    pub routes: Option<GivenRoutes>,
    /// Each worker's, the same rules.
    pub rules: Vec<FilterControl>,
    pub idle: Vec<IdleControl>,
    pub icmp: Vec<IcmpControl>,
    pub steering: Option<SteeringControl>,
}

impl Reload {
    /// Where a reload was asked for since this was last called: the callers that wait for its answer.
    pub fn asked(&self) -> Option<Vec<Sender<Answer>>> {
        let callers: Vec<_> = self.requests.try_iter().collect();
        (self.asked.swap(false, Relaxed) || !callers.is_empty()).then_some(callers)
    }

    /// Reads the configuration again and answers `callers`; the line for the log.
    pub fn reload(&mut self, callers: &[Sender<Answer>]) -> (Level, String) {
        let done = args::forward_again().and_then(|args| Plan::of(&args)).and_then(|plan| self.change(plan));
        let refused =
            |failure: Failure| format!("the configuration stays as it was: {}", failure.lines().join("; "));
        let done = done.map_err(refused);
        // A caller that went away needs no answer.
        callers.iter().for_each(|caller| drop(caller.send(done.clone())));
        match done {
            Ok(()) => (Level::Info, "configuration reloaded".to_owned()),
            Err(why) => (Level::Error, why),
        }
    }

    /// Runs by `plan` from now on, if it differs only in what can change; else nothing has changed.
    fn change(&mut self, plan: Plan) -> Result<(), Failure> {
        let fixed = differences(&self.plan, &plan);
        if !fixed.is_empty() {
            return Err(Failure::Input(format!(
                "{} cannot change while packets pass: end the run and restart it",
                fixed.join(", ")
            )));
        }
        let rules = plan.packets.as_ref().and_then(|packets| packets.rules.as_ref());
        if rules.is_some_and(|rules| rules.len() > RULES_MAX) {
            return Err(Failure::Input(format!("give at most {RULES_MAX} rules")));
        }
        // The only one that may still be refused comes first.
        if let (Some(steering), Some(steer)) = (&self.steering, &plan.steer) {
            steering.set_policy(&steer.policy).map_err(Failure::input)?;
        }
        for control in &self.rules {
            control.replace(rules.cloned().unwrap_or_default()).map_err(Failure::input)?;
        }
        self.idle.iter().for_each(|idle| idle.set(plan.idle));
        self.icmp.iter().for_each(|icmp| icmp.set(plan.icmp));
        if let (Some(given), Source::Ports { routes, .. }) = (&mut self.routes, &plan.source) {
            given.replace(routes);
        }
        self.plan = plan;
        Ok(())
    }
}

/// What differs of all that cannot change.
fn differences(old: &Plan, new: &Plan) -> Vec<&'static str> {
    let same = changed(old.clone(), new.clone());
    let differ = [
        ("workers", same.workers != new.workers),
        ("steer", same.steer != new.steer),
        ("port, address, routes, xdp-mode or traffic", same.source != new.source),
        ("mode", same.mode != new.mode),
        ("martians or source-routes", same.allow != new.allow),
        ("reverse-path", same.reverse_path != new.reverse_path),
        ("path, ready-heads or ready-pairs", same.packets != new.packets),
        ("hold", same.hold != new.hold),
        ("tap", same.tap != new.tap),
        ("free", same.free != new.free),
        ("frames", same.frames != new.frames),
        ("frame-size", same.frame_size != new.frame_size),
        ("hardening", same.hardening != new.hardening),
        ("ring", same.ring != new.ring),
        ("kernel-copies", same.packets_alone != new.packets_alone),
        ("seconds", same.time != new.time),
        ("watchdog", same.watchdog != new.watchdog),
        ("control", same.control != new.control),
        ("metrics or metrics-from", same.metrics != new.metrics),
        ("record, record-to or record-when", same.recorder != new.recorder),
        ("fix", same.fix != new.fix),
        ("user", same.sandbox != new.sandbox),
        ("config", same.config != new.config),
    ];
    differ.into_iter().filter_map(|(name, differs)| differs.then_some(name)).collect()
}

/// The old plan with all that can change as it is in the new one.
fn changed(mut old: Plan, mut new: Plan) -> Plan {
    (old.idle, old.icmp) = (new.idle, new.icmp);
    if let (Some(old), Some(new)) = (&mut old.steer, &mut new.steer) {
        mem::swap(&mut old.policy, &mut new.policy);
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
