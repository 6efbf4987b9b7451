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
/// Each experiment runs its variants in interleaved rounds and prints the quantiles over windows of time, the
/// ratios with their 95 % interval, and its checks. It is set up anew several times, each time in a process of its own and in
/// turns with the others, and more often where a ratio is undecided. Ctrl-C ends it with the set-ups, or the first one's rounds, that are finished.
///
/// Exit codes: 0 all checks hold, 1 one does not, 2 bad input, 130 ended by a signal.
/// What was finished is kept, and says that it was interrupted.
#[derive(Debug, Args)]
pub struct LabRunArgs {
    /// Names of experiments, in the order in which they are to run, or `all`.
    #[arg(value_name = "NAME", required = true)]
    pub names: Vec<String>,
    /// The same rows with fewer rounds: some seconds each.
    #[arg(long)]
    pub quick: bool,
    /// Also write the reports to FILE, as JSON: one object for one name, an array for several or `all`.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Seconds of wall time that the run may take: what is least decided has turns until they are spent.
    /// A quick run of `all` has 600 unless it is told otherwise.
    #[arg(long, value_name = "SECONDS", value_parser = whole(1_u64..=1_000_000), conflicts_with = "resume")]
    pub budget: Option<u64>,
    /// Run one experiment after the other, append each to the FILE of --json when it is finished, and leave out those that it
    /// has of this machine: for a full run that may be ended and begun again.
    #[arg(long, requires = "json")]
    pub resume: bool,
    /// Set a key of the method or of an experiment to a whole number; `netmem lab list` shows them.
    /// Repeatable.
    #[arg(long, value_name = "KEY=VALUE", value_parser = settings::split)]
    pub set: Vec<(String, String)>,
}

/// Say whether the ratios of two runs agree within their own intervals.
///
/// Two ratios agree if their 95 % intervals overlap and both are decided. Prints those that do not, then the share that
/// does.
///
/// Exit codes: 0 at least the share asked for agrees, 1 less does, 2 bad input.
#[derive(Debug, Args)]
pub struct LabCompareArgs {
    /// What `netmem lab run --json` wrote.
    #[arg(value_name = "FILE")]
    pub first: PathBuf,
    /// The same of another run.
    #[arg(value_name = "OTHER")]
    pub second: PathBuf,
    /// The share that must agree, in percent.
    #[arg(long, value_name = "PERCENT", default_value = "95", value_parser = whole(0_u32..=100), allow_negative_numbers = true)]
    pub at_least: u32,
    /// Print one JSON object instead: how many agree, and those that do not.
    #[arg(long)]
    pub json: bool,
}

/// Write reports as one page of HTML: what the sources claim and what holds here, plots, tables and checks.
///
/// The page needs nothing else: no network and no scripts. Of two reports of one experiment on one machine the last is shown;
/// reports of several machines stand side by side, and of a claim the worst counts.
///
/// The object of --json: `experiments` (checks, those that failed, ratios, how many are undecided), `not_run`, `claims`
/// (name, source, says, published, measured, verdict: holds, other-regime, fails, cannot-tell, not-comparable or not-measured;
/// sentence; with several machines the worst, and `machines` has each), `targets` (work,
/// rival, over, must, aim, better: less or more; ratio with median, low and high; standing:
/// aim, must, undecided, missed or not-measured; cause where it is missed; experiment, metric, made_by), and `losses` to rivals
/// (a, b, lost of so many settings, worst, causes).
///
/// Exit codes: 0 the page or the object is written, 2 bad input or a file that cannot be written.
#[derive(Debug, Args)]
pub struct LabReportArgs {
    /// Files of `netmem lab run --json`, or directories of such files.
    #[arg(long, value_name = "DIR|FILE", num_args = 1.., default_value = ".")]
    pub from: Vec<PathBuf>,
    /// Where to write the page.
    #[arg(long, value_name = "FILE", default_value = "report.html")]
    pub out: PathBuf,
    /// Print what the page says as one JSON object instead, and write no page.
    #[arg(long, conflicts_with = "out")]
    pub json: bool,
}
