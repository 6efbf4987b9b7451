//! The runner through its public face, with the smallest runs there are.

use std::sync::atomic::AtomicUsize;

use serde_json::Value;

use super::*;
use crate::bench::SetUpError;
use crate::method::round::Label;
use crate::metric::Metric;

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// As few rounds and windows as the keys allow.
fn smallest() -> Options {
    let set = [("rounds", "5"), ("rounds-max", "5"), ("setups", "1"), ("windows", "8"), ("watch", "1")];
    Options {
        quick: true,
        json: None,
        turns_by: None,
        budget: None,
        resume: false,
        set: set.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect(),
    }
}

/// Every name, as an error lists them.
fn valid() -> String {
    EXPERIMENTS.iter().map(|e| e.name).collect::<Vec<_>>().join(", ")
}

fn refused(which: &[&str], options: &Options) -> String {
    let result = run(&names(which), options, &AtomicBool::new(false), &mut |_| panic!("nothing may start"));
    result.unwrap_err().to_string()
}

/// A path of this test alone, removed at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("netmem-lab-{}-{name}", std::process::id())))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn an_unknown_name_lists_the_valid_ones_in_one_line() {
    let line = refused(&["page-slow-path"], &smallest());
    assert_eq!(line, format!("unknown experiment \"page-slow-path\": valid are {}, all", valid()));
}

#[test]
fn a_run_without_a_name_lists_all_experiments() {
    assert_eq!(refused(&[], &smallest()), format!("no experiment named: valid are {}, all", valid()));
}

#[test]
fn an_unknown_key_lists_the_valid_ones_in_one_line() {
    let options = Options { set: vec![("colour".into(), "red".into())], ..smallest() };
    let line = refused(&["page-fast-path"], &options);
    assert!(
        line.starts_with(
            "unknown key \"colour\": valid are rounds, rounds-max, setups, windows, seed, watch"
        ),
        "{line}"
    );
    assert!(!line.contains('\n'));
}

#[test]
fn a_key_of_one_experiment_is_accepted_beside_another() {
    let keys = [("ring".to_owned(), "512".to_owned())];
    let all = choose(&names(&["all"])).unwrap();
    assert!(check_keys(&all, &keys).is_ok());
    let page = choose(&names(&["page-fast-path"])).unwrap();
    assert!(check_keys(&page, &keys).is_err());
}

#[test]
fn a_bad_value_is_refused_before_anything_runs() {
    let options = Options { set: vec![("rounds".into(), "none".into())], ..smallest() };
    let line = refused(&["page-fast-path"], &options);
    assert_eq!(line, "bad value \"none\" for rounds: give a whole number from 1 to 10000");
}

#[test]
fn a_file_that_cannot_be_written_is_refused_before_anything_runs() {
    let path = std::env::temp_dir().join("netmem-lab-no-such-directory/report.json");
    let line = refused(&["page-fast-path"], &Options { json: Some(path.clone()), ..smallest() });
    assert!(line.starts_with(&format!("cannot write {}: ", path.display())), "{line}");
}

#[test]
fn the_same_experiment_named_twice_runs_once() {
    let chosen = choose(&names(&["page-fast-path", "all", "page-fast-path"])).unwrap();
    let mut chosen: Vec<&str> = chosen.iter().map(|e| e.name).collect();
    chosen.sort_unstable();
    chosen.dedup();
    assert_eq!(chosen.len(), EXPERIMENTS.len());
}

#[test]
fn one_name_writes_one_object_over_what_the_file_held() {
    let file = Scratch::new("one.json");
    std::fs::write(&file.0, "x".repeat(1 << 20)).unwrap();
    let options = Options { json: Some(file.0.clone()), ..smallest() };
    let reports = run(&names(&["page-fast-path"]), &options, &AtomicBool::new(false), &mut |_| {}).unwrap();
    let written: Report = serde_json::from_slice(&std::fs::read(&file.0).unwrap()).unwrap();
    assert_eq!([written], reports[..]);
}

#[test]
fn a_stopped_run_of_all_writes_an_array_of_what_was_begun() {
    let file = Scratch::new("all.json");
    let options = Options { json: Some(file.0.clone()), ..smallest() };
    let reports = run(&names(&["all"]), &options, &AtomicBool::new(true), &mut |_| {}).unwrap();
    assert_eq!(reports.len(), 1);
    let written: Value = serde_json::from_slice(&std::fs::read(&file.0).unwrap()).unwrap();
    assert_eq!(written.as_array().map(Vec::len), Some(1));
}

/// Seen: Ctrl-C right after the start, or a budget too small to begin, replaced a finished report by none.
#[test]
fn a_run_that_ended_before_it_had_a_row_leaves_the_file_of_an_earlier_one() {
    let file = Scratch::new("earlier.json");
    let options = Options { json: Some(file.0.clone()), ..smallest() };
    std::fs::write(&file.0, "earlier").unwrap();
    run(&names(&["page-fast-path"]), &options, &AtomicBool::new(true), &mut |_| {}).unwrap();
    let options = Options { budget: Some(Duration::ZERO), ..options };
    run(&names(&["page-fast-path"]), &options, &AtomicBool::new(false), &mut |_| {}).unwrap();
    assert_eq!(std::fs::read_to_string(&file.0).unwrap(), "earlier");
}

#[test]
fn a_stop_in_the_middle_keeps_the_finished_rounds() {
    let stop = AtomicBool::new(false);
    let mut rounds = 0;
    let reports = run(&names(&["page-fast-path"]), &smallest(), &stop, &mut |progress| {
        if let Progress::Round { done, .. } = progress {
            rounds = done;
            stop.store(done == 2, Ordering::Relaxed);
        }
    });
    let report = &reports.unwrap()[0];
    assert_eq!(rounds, 2);
    assert!(!report.rows.is_empty());
    assert!(report.notes.iter().any(|note| note.contains("2 rounds")), "{:?}", report.notes);
}

#[test]
fn the_list_names_every_experiment_with_source_and_question() {
    let list = list_json();
    let text = list_text();
    for (entry, experiment) in list.as_array().unwrap().iter().zip(EXPERIMENTS) {
        assert_eq!(entry["name"], experiment.name);
        assert_eq!(entry["source"], experiment.source);
        assert_eq!(entry["seconds"], experiment.seconds);
        assert!(text.contains(experiment.name) && text.contains(experiment.question));
    }
}

#[test]
fn experiments_take_turns_and_each_ends_once() {
    let mut set = smallest().set;
    set.retain(|(key, _)| key != "setups" && key != "rounds-max");
    set.extend([("setups".to_owned(), "2".to_owned()), ("rounds-max".to_owned(), "5".to_owned())]);
    let (mut begun, mut ended) = (Vec::new(), Vec::new());
    let reports = run(
        &names(&["page-fast-path", "page-bulk"]),
        &Options { set, ..smallest() },
        &AtomicBool::new(false),
        &mut |progress| match progress {
            Progress::Begin { experiment, setup, most, .. } => begun.push((experiment.name, setup, most)),
            Progress::End(report) => ended.push(report.experiment.clone()),
            Progress::Round { .. } => {}
        },
    );
    let (fast, bulk) = ("page-fast-path", "page-bulk");
    assert_eq!(begun, [(fast, 1, 2), (bulk, 1, 2), (fast, 2, 2), (bulk, 2, 2)]);
    assert_eq!(ended, [fast, bulk]);
    let reports = reports.unwrap();
    assert!(reports.iter().all(Report::ok));
    // Two set-ups of three rounds, eight windows each.
    let row = &reports[0].rows[0];
    assert_eq!(row.windows + row.windows_dropped, 2 * 3 * 8);
}

#[test]
fn a_stop_in_the_second_turn_keeps_the_report_of_the_first() {
    let mut set = smallest().set;
    set.push(("setups".to_owned(), "2".to_owned()));
    let stop = AtomicBool::new(false);
    let reports = run(&names(&["page-fast-path"]), &Options { set, ..smallest() }, &stop, &mut |progress| {
        if let Progress::Begin { setup: 2, .. } = progress {
            stop.store(true, Ordering::Relaxed);
        }
    });
    let report = &reports.unwrap()[0];
    assert_eq!(report.rows[0].windows + report.rows[0].windows_dropped, 3 * 8);
    assert!(report.notes.contains(&"stopped: the rows are of 1 set-ups".to_owned()), "{:?}", report.notes);
}

#[test]
fn a_budget_that_is_spent_keeps_what_was_measured_and_says_so() {
    let set = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    let mut options = smallest();
    options.set.retain(|(key, _)| key != "setups");
    options.set.extend([set("setups", "1000"), set("rounds-max", "10000"), set("rounds", "10000")]);
    options.budget = Some(Duration::from_secs(2));
    // If the machine stands still before the first turn, nothing is affordable any more.
    let mut runs = (0..10)
        .map(|_| run(&names(&["page-fast-path"]), &options, &AtomicBool::new(false), &mut |_| ()).unwrap());
    let reports = runs.find(|reports| !reports.is_empty()).expect("a run with a turn");
    let note = reports[0].notes.iter().find(|note| note.starts_with("the time of the run was spent: "));
    assert!(note.is_some(), "{:?}", reports[0].notes);
    assert!(!reports[0].rows.is_empty() && !reports[0].interrupted);
}

#[test]
fn a_resumed_run_measures_only_what_its_file_lacks() {
    let file = Scratch::new("resumed.json");
    let options = Options { json: Some(file.0.clone()), resume: true, ..smallest() };
    let begun = |which: &[&str], stop: bool| {
        let mut begun = Vec::new();
        let mut note = |progress: Progress<'_>| {
            if let Progress::Begin { experiment, .. } = progress {
                begun.push(experiment.name);
            }
        };
        let reports = run(&names(which), &options, &AtomicBool::new(stop), &mut note).unwrap();
        let reported: Vec<String> = reports.into_iter().map(|report| report.experiment).collect();
        (begun, reported)
    };
    assert_eq!(begun(&["page-order"], false).0, ["page-order"]);
    let (ran, reported) = begun(&["page-fast-path", "page-order"], false);
    assert_eq!((ran, reported), (vec!["page-fast-path"], names(&["page-fast-path", "page-order"])));
    let written = crate::input::read(&file.0).unwrap();
    let order: Vec<&str> = written.iter().map(|report| report.experiment.as_str()).collect();
    assert_eq!(order, ["page-order", "page-fast-path"], "the file is appended to");
    // A full run does not stand on quick ones, and one that is to stop begins nothing.
    assert_eq!(begun(&["page-bulk", "page-order"], true), (vec![], names(&["page-order"])));
}

/// An experiment whose third set-up fails, after a check and a row of its own.
static THIRD_FAILS: Experiment = Experiment {
    name: "third-fails",
    source: "none",
    question: "Which rows stay?",
    seconds: 1,
    keys: &[],
    run: |bench| {
        static SET_UPS: AtomicUsize = AtomicUsize::new(0);
        // Relaxed: the set-ups follow each other.
        let set_up = SET_UPS.fetch_add(1, Ordering::Relaxed) + 1;
        let label = |name: &str| Label { variant: name.to_owned(), params: Default::default() };
        bench.figure(label("first"), Metric::Count, set_up as f64, None);
        bench.check("a ledger", set_up != 3, format!("of set-up {set_up}"));
        if set_up == 3 {
            return Err(SetUpError { step: "memory", cause: "there is none left".to_owned() });
        }
        bench.figure(label("second"), Metric::Count, set_up as f64, None);
        Ok(())
    },
};

/// Seen: the rows and ratios of all turns were lost when a set-up could not be made, and only those that had been reported
/// before the error stayed.
#[test]
fn a_set_up_that_fails_keeps_the_report_of_the_turns_before_it() {
    let mut options = smallest();
    options.set.push(("setups".to_owned(), "9".to_owned()));
    let settings = Settings::new(&[], true, &options.set).unwrap();
    let mut turns = Turns::new(&THIRD_FAILS, &settings, &options);
    let mut reports = Vec::new();
    while !turns.over {
        turns.run(&AtomicBool::new(false), &mut |_| {});
        reports.extend(turns.report.clone());
    }
    let [_, before, last] = &reports[..] else { panic!("{} turns", reports.len()) };
    assert_eq!(last.rows, before.rows);
    let failed: Vec<_> = last.checks.iter().filter(|check| !check.ok).map(|check| &check.name[..]).collect();
    assert_eq!(failed, ["a ledger (set-up 3)", "set-up: memory"]);
    assert_eq!(last.worth(), [true, true, false]);
}

/// Seen: the report of a run whose first turn died told of a machine without cores.
#[test]
fn a_first_turn_that_dies_is_filed_under_the_machine_that_it_ran_on() {
    let options = Options { turns_by: Some("/bin/false".into()), ..smallest() };
    let reports = run(&names(&["page-fast-path"]), &options, &AtomicBool::new(false), &mut |_| {}).unwrap();
    assert!(!reports[0].ok());
    assert_eq!(reports[0].machine.cores, netmem::system::cpu::allowed().unwrap().len());
}

/// Seen: Ctrl-C right after the start failed checks of work that had not begun.
#[test]
fn a_run_that_is_stopped_at_once_fails_no_check() {
    let which = names(&["page-fast-path", "cluster-pool", "handoff"]);
    for name in which {
        let reports = run(&[name], &smallest(), &AtomicBool::new(true), &mut |_| {}).unwrap();
        let checks = reports.iter().flat_map(|report| &report.checks);
        let failed: Vec<_> = checks.filter(|check| !check.ok && check.name != "two cores").collect();
        assert!(failed.is_empty(), "{failed:?}");
    }
}
