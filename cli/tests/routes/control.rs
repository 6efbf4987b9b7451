//! The kernel as the control: ordinary tools find the same router, but for the differences that are written down.

use crate::questions::{Answer, PROGRAMS, ask_all, lengthen};
use crate::router::{Router, addressed, set};
use std::collections::BTreeMap;

/// Every difference that there is, with its reason.
const DIFFERENCES: &str = include_str!("../../../docs/router-control.md");

#[test]
fn ordinary_tools_see_the_same_router_as_the_kernel_except_for_the_listed_differences() {
    let Some(bed) = addressed(&PROGRAMS) else { return };
    let far = lengthen(&bed);
    let router = Router::start_in(bed, ["xdp:one", "xdp:two"], &[]);
    let netmem = ask_all(&router.bed, &far);
    println!("{}", router.stat("drops")[0]);
    router.end();
    let Some(bed) = addressed(&PROGRAMS) else { return };
    let far = lengthen(&bed);
    set(&bed.dut, &[("ipv4/ip_forward", "1"), ("ipv6/conf/all/forwarding", "1")]);
    let kernel: BTreeMap<_, _> = ask_all(&bed, &far).into_iter().collect();
    let found: Vec<String> = netmem.iter().filter_map(|answer| difference(answer, &kernel)).collect();
    let rows = DIFFERENCES.lines().filter(|line| line.starts_with("| `"));
    let listed: Vec<String> = rows.map(without_reason).collect();
    netmem.iter().for_each(|(question, answer)| println!("{question}: {answer}"));
    assert_eq!(found, listed, "what is found, and what docs/router-control.md lists");
}

/// Returns a row of the table, without its reason, if the kernel answers differently.
fn difference((question, netmem): &Answer, kernel: &BTreeMap<String, String>) -> Option<String> {
    let kernel = &kernel[question];
    (kernel != netmem).then(|| format!("| `{question}` | {kernel} | {netmem} |"))
}

/// The first three cells of a row of the table.
fn without_reason(row: &str) -> String {
    row.match_indices('|').nth(3).map_or_else(|| row.to_owned(), |(end, _)| row[..=end].to_owned())
}
