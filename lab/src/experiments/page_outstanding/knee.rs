//! The number of pages at which a worker's list ends, from counters, and the time at that number.

/// The measurement with this many pages allocated at once.
#[derive(Debug, Clone, Copy)]
pub(super) struct Point {
    /// Pages allocated at once.
    pub(super) held: usize,
    /// Node accesses for one page.
    pub(super) visits: f64,
    /// The median time for one page with statistics, in nanoseconds, or `None` if no window counts.
    pub(super) ns: Option<f64>,
    /// What statistics add to it, by the ratio inside rounds.
    pub(super) offset: Option<f64>,
}

/// Checks that the node is accessed past `high` pages and never before. Returns the figures too.
pub(super) fn check(points: &[Point], high: usize) -> (bool, String) {
    let visited = |inside: bool| points.iter().filter(move |p| (p.held <= high) == inside);
    let early = visited(true).find(|point| point.visits > 0.0);
    let late = visited(false).find(|point| point.visits == 0.0);
    let (inside, past) = (visited(true).count(), visited(false).count());
    let detail = match (early, late) {
        (Some(point), _) => format!("{:.4} visits per page with {} out", point.visits, point.held),
        (None, Some(point)) => format!("no visit with {} out", point.held),
        (None, None) => format!("no visit up to {high} ({inside} points), visits in all {past} past it"),
    };
    (early.is_none() && late.is_none() && inside > 0 && past > 0, detail)
}

/// Returns the largest number of pages without node accesses.
pub(super) fn last_without(points: &[Point]) -> Option<usize> {
    points.iter().take_while(|point| point.visits == 0.0).last().map(|point| point.held)
}

/// Describes accesses and time before and after `end`. `batch` is the number of pages that a fixed list moves at
/// once.
pub(super) fn shape(points: &[Point], end: usize, batch: Option<usize>) -> String {
    let at_end = points.iter().rfind(|point| point.held <= end);
    let (Some(at_end), Some(last)) = (at_end, points.last()) else {
        return "no point was measured".to_owned();
    };
    let counted = format!(
        "no visit to the node up to {} pages out, one for every {:.0} pages with {}{}",
        at_end.held,
        1.0 / last.visits.max(f64::MIN_POSITIVE),
        last.held,
        batch.map_or_else(String::new, |batch| format!(
            " (moves of {batch}, one visit to take and one to give)"
        )),
    );
    let (Some(before), Some(far)) = (at_end.ns, last.ns) else { return counted };
    let next = points.iter().find(|point| point.held > end).and_then(|point| Some((point.held, point.ns?)));
    let step = next.map_or_else(String::new, |(held, ns)| format!(", {ns:.1} with {held}"));
    let seen = if far > 1.25 * before {
        "the time has the knee too"
    } else {
        "the time hardly shows the knee: moving a batch is cheap"
    };
    format!(
        "{counted}; {before:.1} ns a page at the end of the list{step}, {far:.1} with {}: {seen}",
        last.held
    )
}

/// Describes the offset between the curves with and without statistics. The page judges whether it is constant.
pub(super) fn offset(points: &[Point]) -> String {
    let offsets = points.iter().filter_map(|point| point.offset);
    let (least, most) = offsets.fold((f64::MAX, f64::MIN), |(least, most), ns| (least.min(ns), most.max(ns)));
    if least > most {
        return "no point was measured".to_owned();
    }
    format!(
        "statistics add {least:.2} to {most:.2} ns over the whole curve, by the medians of ratios inside rounds"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(visits: &[(usize, f64)], ns: impl Fn(usize) -> f64) -> Vec<Point> {
        visits
            .iter()
            .map(|&(held, visits)| Point { held, visits, ns: Some(ns(held)), offset: Some(0.4) })
            .collect()
    }

    #[test]
    fn a_knee_at_the_list_is_found_and_one_elsewhere_fails() {
        let good = points(&[(127, 0.0), (128, 0.0), (129, 0.016), (8_192, 0.0625)], |_| 5.0);
        assert!(check(&good, 128).0);
        assert_eq!(check(&good, 127), (false, "no visit with 128 out".to_owned()));
        assert_eq!(check(&good, 129), (false, "0.0160 visits per page with 129 out".to_owned()));
        assert!(!check(&good[..2], 128).0, "nothing was seen past the knee");
    }

    #[test]
    fn the_last_point_without_visits_stands_before_the_first_with() {
        let tuned = points(&[(1, 0.0), (512, 0.0), (1_024, 0.01), (2_048, 0.0)], |_| 5.0);
        assert_eq!(last_without(&tuned), Some(512));
        assert_eq!(last_without(&points(&[(1, 0.5)], |_| 5.0)), None);
    }

    #[test]
    fn the_note_about_the_time_follows_the_measured_time() {
        let visits = [(64, 0.0), (128, 0.0), (129, 0.016), (8_192, 0.0625)];
        let steep = shape(&points(&visits, |held| if held > 128 { 15.0 } else { 5.0 }), 128, Some(32));
        assert!(
            steep.starts_with("no visit to the node up to 128 pages out, one for every 16 pages with 8192"),
            "{steep}"
        );
        assert!(steep.ends_with("15.0 with 8192: the time has the knee too"), "{steep}");
        let flat = shape(&points(&visits, |_| 5.0), 128, Some(32));
        assert!(flat.contains("hardly shows"), "{flat}");
    }

    #[test]
    fn the_least_and_the_largest_offset_are_reported() {
        let visits = [(64, 0.0), (128, 0.0), (8_192, 0.0625)];
        let mut points = points(&visits, |_| 10.0);
        points[1].offset = Some(3.0);
        assert!(offset(&points).starts_with("statistics add 0.40 to 3.00 ns over"));
        assert_eq!(offset(&[]), "no point was measured");
    }
}
