//! Lines of the watchdog about a machine that stood still.

/// Returns the lines of a run without those about a worker that was given no core for a while and then went on. All lines, if
/// one did not go on.
pub fn without_stalls(said: &str) -> String {
    let ends = [" has not finished a round for ", " goes on, after "];
    let [stalls, goes_on] = ends.map(|end| said.matches(end).count());
    let is_stall =
        |line: &str| line.starts_with("netmem: worker ") && ends.iter().any(|end| line.contains(end));
    said.split_inclusive('\n').filter(|line| stalls != goes_on || !is_stall(line)).collect()
}
