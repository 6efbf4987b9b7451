//! Lines of the watchdog about a machine that stood still.

/// How the lines about a worker that was given no core for a while go on, and those about one that then went on.
const GO_ON: [&str; 2] = [" has not finished a round for ", " goes on, after "];

/// Returns the lines of a run without those about a worker that was given no core for a while and then went on. All
/// lines, if one did not go on.
pub fn without_stalls(said: &str) -> String {
    let [stalls, goes_on] = GO_ON.map(|words| said.matches(words).count());
    said.split_inclusive('\n').filter(|line| stalls != goes_on || !is_stall(line)).collect()
}

/// Whether a line is about a worker that was given no core for a while, or went on after that.
pub fn is_stall(line: &str) -> bool {
    line.starts_with("netmem: worker ") && GO_ON.iter().any(|words| line.contains(words))
}
