//! `netmem lab`.

use super::number::whole;
use clap::{Args, Subcommand};
use netmem_lab::settings;
use std::path::PathBuf;

/// What the lab can do.
#[derive(Debug, Subcommand)]
pub enum LabCommand {
    /// List the experiments: name, duration, source, question, and keys of --set.
    List {
        /// Print one JSON array instead.
        #[arg(long)]
        json: bool,
    },
    Run(LabRunArgs),
    Report(LabReportArgs),
    Compare(LabCompareArgs),
    /// Take one turn of a run: what `netmem lab run` starts for each, with its orders on standard input.
    #[command(hide = true)]
    Turn,
}

/// Run experiments and print the measured figures beside the published ones.
///
/// Each experiment runs its variants in interleaved rounds. It prints the quantiles over windows of time, the ratios with their
/// 95 % interval, and its checks. Each experiment is set up several times, each time in a new process, in turns with the other
/// experiments. An undecided ratio gets more set-ups. Ctrl-C ends the run, and so do SIGTERM and the end of the
/// terminal. It keeps the set-ups that are finished, or the finished rounds of the first set-up, and the report is marked as
/// interrupted. If there is no row yet, an earlier FILE of --json stays as it is. A second Ctrl-C ends the program at once: what was
/// measured is lost, and network namespaces `netmem-lab-…` may be left.
///
/// An experiment that needs root, and runs without it, measures nothing. In a run of `all` a line on standard error says so, and an
/// experiment that was named fails.
///
/// Exit codes: 0 all checks hold, 1 a check does not hold, or an experiment was not begun or measured nothing, 2 bad input, 130
/// ended by a signal.
#[derive(Debug, Args)]
pub struct LabRunArgs {
    /// Names of experiments in the order in which to run them, or `all`.
    #[arg(value_name = "NAME", required = true)]
    pub names: Vec<String>,
    /// The same rows with fewer rounds: some seconds each.
    #[arg(long)]
    pub quick: bool,
    /// Also write the reports to FILE, as JSON: one object for one name, an array for several or `all`.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Seconds of wall time that the run may take: the least decided ratios get turns until the time is spent.
    /// A quick run of `all` has 600 by default. It cannot be used with --resume.
    #[arg(long, value_name = "SECONDS", value_parser = whole(1_u64..=1_000_000), conflicts_with = "resume")]
    pub budget: Option<u64>,
    /// Run one experiment after the other and append each finished one to the FILE of --json. Experiments of this machine that FILE
    /// already has with this effort and these settings are left out. Use it for a full run that may be ended and started again.
    #[arg(long, requires = "json")]
    pub resume: bool,
    /// Set a key of the method or of an experiment to a whole number; `netmem lab list` shows the keys. Repeatable.
    #[arg(long, value_name = "KEY=VALUE", value_parser = settings::split)]
    pub set: Vec<(String, String)>,
}

/// Report whether the ratios of two runs agree within their own intervals.
///
/// Two ratios of one experiment on one machine agree if their 95 % intervals overlap. The command prints the ratios that do not
/// agree, then those that are undecided in a run, and last the share of the decided ones that agrees. A ratio that one run lacks
/// does not agree, unless it is that of a placement of the cores. Experiments that only one run has on a machine, or that a run
/// lost to pauses, are left out, and a note says so. Notes also say what differs between the runs: a quick run beside a full one,
/// an interrupted one, other settings, rivals, versions or programs (a hash of the
/// program's file).
///
/// Exit codes: 0 at least the required share agrees, 1 less agrees, or the result cannot be printed, 2 bad input, or no decided
/// ratio in common.
#[derive(Debug, Args)]
pub struct LabCompareArgs {
    /// A file of `netmem lab run --json`.
    #[arg(value_name = "FILE")]
    pub first: PathBuf,
    /// The file of another run.
    #[arg(value_name = "OTHER")]
    pub second: PathBuf,
    /// The share that must agree, in percent.
    #[arg(long, value_name = "PERCENT", default_value = "95", value_parser = whole(0_u32..=100), allow_negative_numbers = true)]
    pub at_least: u32,
    /// Print one JSON object instead: how many ratios agree, the ratios that do not, the undecided ones, and the notes.
    #[arg(long)]
    pub json: bool,
}

/// Write reports as one HTML page: the claims of the sources and the results here, with plots, tables and checks.
///
/// The page needs no network and no scripts. Of several reports of one experiment on one machine, the page shows a finished one before
/// one that was not finished, a full one before a quick one, and then the last. Reports of several machines stand side by side, and the worst of them decides a claim.
///
/// The object of --json: `experiments` (checks, failed checks, ratios, undecided ratios), `not_run`, `claims`
/// (name, source, says, published, measured, verdict: holds, other-regime, fails, cannot-tell, not-comparable or not-measured;
/// sentence; with several machines the worst, and `machines` has each), `targets` (work,
/// rival, over, must, aim, better: less or more; ratio with median, low and high; standing:
/// aim, must, undecided, missed or not-measured; cause if it is missed; experiment, metric, made_by), and `losses` to rivals
/// (experiment, a, b, metric, lost: the number of lost settings, of: the number of settings, worst, causes).
///
/// Exit codes: 0 the page or the object is written, 1 standard output cannot be written to, 2 bad input or a file that cannot be
/// written.
#[derive(Debug, Args)]
pub struct LabReportArgs {
    /// Files of `netmem lab run --json`, or directories of such files.
    #[arg(long, value_name = "DIR|FILE", num_args = 1.., default_value = ".")]
    pub from: Vec<PathBuf>,
    /// The file to write the page to.
    #[arg(long, value_name = "FILE", default_value = "report.html")]
    pub out: PathBuf,
    /// Print the contents of the page as one JSON object instead, and write no page.
    #[arg(long, conflicts_with = "out")]
    pub json: bool,
}
