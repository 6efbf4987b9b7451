use super::*;
use crate::args;
use crate::forward::phases::Status;
use crate::forward::set_up;
use crate::stop::Asked;

/// Seen in a review: a follower that had ended was not noticed, and its router went on for good. A later review saw the
/// same of the local queue.
#[test]
fn a_run_whose_follower_of_routes_or_local_queue_has_ended_is_not_alive() {
    let has_ended = AtomicBool::new(false);
    let worker = || {
        while !has_ended.load(Relaxed) {
            thread::yield_now();
        }
        Some(1)
    };
    thread::scope(|scope| {
        let workers = [scope.spawn(worker)];
        let ended = scope.spawn(|| None::<()>);
        while !ended.is_finished() {
            thread::yield_now();
        }
        let none = None::<&Running<'_, ()>>;
        let alive = [(none, none), (Some(&ended), none), (none, Some(&ended))];
        let alive = alive.map(|(following, retention)| are_alive(&workers, following, retention));
        has_ended.store(true, Relaxed);
        assert_eq!(alive, [true, false, false]);
    });
}

/// Seen in a review: after a panic of the main thread the workers forwarded for good, and no signal ended the run.
#[test]
fn a_panic_of_the_main_thread_ends_the_other_threads_and_is_the_failure_of_the_run() {
    assert_eq!(unless_it_panics(|| 1.5), Ok(1.5));
    let failure = Failure::run("the main thread died: out of luck");
    assert_eq!(unless_it_panics(|| panic!("out of luck")), Err(failure));
    let phases = &Phases::new(1, true);
    let has_ended = || {
        let is_stopped = phases.report_status(0, Status::default());
        is_stopped && phases.is_sending_to_stop() && phases.is_drained()
    };
    let run = || {
        thread::scope(|scope| {
            let _ending = phases.end_on_drop();
            scope.spawn(|| {
                while !has_ended() {
                    thread::yield_now();
                }
            });
            panic!("outside of the watch");
        })
    };
    assert!(catch_unwind(AssertUnwindSafe(run)).is_err());
}

/// Seen in a review: the run hung, because worker 0 waited for a worker that had panicked before it forwarded.
#[test]
fn a_worker_that_panics_in_its_first_round_is_not_waited_for() {
    let text = "workers = 2\nsteer = \"hash\"\nframes = 64\nring = 32\nno-sandbox = true\n";
    let plan = args::forward_of(text, &[]).and_then(|args| Plan::of(&args)).expect("a plan");
    let mut setups = set_up::open(&plan, Asked::default()).expect("a dataplane").setups;
    let phases = &Phases::new(2, true);
    drop(retire_on_drop(0, phases));
    assert!(!phases.is_last(), "worker 0 does not wait for itself");
    // A third worker that has polled is one too many, which panics.
    (0..2).for_each(|_| phases.polled());
    let worker = || work(1, &mut setups[1], phases, None);
    assert!(catch_unwind(AssertUnwindSafe(worker)).is_err());
    assert!(phases.is_last(), "worker 0 ends");
}

#[test]
fn a_thread_that_died_is_named_with_what_it_said() {
    let said = |panic: fn()| {
        let why = thread::spawn(panic).join().unwrap_err();
        died("worker 1", &*why)
    };
    assert_eq!(said(|| panic!("out of {}", "luck")), Failure::run("worker 1 died: out of luck"));
    assert_eq!(said(|| panic!("just so")), Failure::run("worker 1 died: just so"));
    let silent = || std::panic::panic_any(7_u32);
    assert_eq!(said(silent), Failure::run("worker 1 died: it said nothing"));
}
