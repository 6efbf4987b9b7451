//! The kernel's table and netmem's, route by route.

use crate::router::Router;
use crate::testbed::{Testbed, wait_until};
use serde_json::Value;

/// A route as both sides can say it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Line {
    table: String,
    prefix: String,
    metric: u64,
    kind: String,
    paths: Vec<String>,
}

/// Waits until netmem has exactly the kernel's routes, of both families and tables. Returns their number.
///
/// # Panics
/// When it never has, with the routes that differ.
pub fn assert_same(router: &Router) -> usize {
    let mut differ = (Vec::new(), Vec::new());
    let same = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let mut count = 0;
        wait_until("netmem has the kernel's routes", || {
            let (kernel, netmem) = (kernel(&router.bed), netmem(router));
            count = kernel.len();
            let only = |of: &[Line], in_none: &[Line]| {
                of.iter().filter(|line| in_none.binary_search(line).is_err()).take(5).cloned().collect()
            };
            differ = (only(&kernel, &netmem), only(&netmem, &kernel));
            kernel == netmem
        });
        count
    }));
    same.unwrap_or_else(|_| panic!("only in the kernel: {:#?}\nonly in netmem: {:#?}", differ.0, differ.1))
}

fn netmem(router: &Router) -> Vec<Line> {
    let text = |record: &Value, name: &str| record[name].as_str().expect("a text").to_owned();
    let line = |record: Value| Line {
        table: text(&record, "table"),
        prefix: text(&record, "name"),
        metric: record["metric"].as_u64().expect("a metric"),
        kind: text(&record, "kind"),
        paths: sorted(text(&record, "paths").split("; ").filter(|path| !path.is_empty()).map(str::to_owned)),
    };
    sorted(router.stat("routes").into_iter().map(line))
}

/// Returns the output of `ip route` for both families and tables.
fn kernel(bed: &Testbed) -> Vec<Line> {
    let mut lines = Vec::new();
    for (family, bits) in [("-4", "32"), ("-6", "128")] {
        for table in ["main", "local"] {
            let words = format!("-j -d {family} route show table {table}");
            let said = bed.dut.ip(&words);
            let routes: Vec<Value> =
                serde_json::from_str(&said).unwrap_or_else(|_| panic!("{words}: {said}"));
            lines.extend(routes.iter().filter_map(|route| line(route, table, bits)));
        }
    }
    sorted(lines.into_iter())
}

/// Returns a route in netmem's form. Returns None for a route of only some packets, and for one whose links are all
/// down.
fn line(route: &Value, table: &str, bits: &str) -> Option<Line> {
    if route.get("tos").is_some() {
        return None;
    }
    let prefix = match route["dst"].as_str().expect("a destination") {
        "default" if bits == "32" => "0.0.0.0/0".to_owned(),
        "default" => "::/0".to_owned(),
        network if network.contains('/') => network.to_owned(),
        host => format!("{host}/{bits}"),
    };
    let kind = match route["type"].as_str().unwrap_or("unicast") {
        "local" | "broadcast" | "anycast" | "multicast" => "local",
        kind => kind,
    };
    let mtu = route["metrics"][0]["mtu"].as_u64().map_or_else(String::new, |mtu| format!(" mtu {mtu}"));
    let paths = match (kind, route["nexthops"].as_array()) {
        ("unicast", Some(hops)) => sorted(hops.iter().filter_map(path).map(|path| path + &mtu)),
        ("unicast", None) => sorted(path(route).into_iter().map(|path| path + &mtu)),
        _ => Vec::new(),
    };
    if kind == "unicast" && paths.is_empty() {
        return None;
    }
    let (table, metric) = (table.to_owned(), route["metric"].as_u64().unwrap_or(0));
    Some(Line { table, prefix, metric, kind: kind.to_owned(), paths })
}

/// Returns a next hop whose link is up. The weight of a single one is 1.
fn path(hop: &Value) -> Option<String> {
    if hop["flags"].as_array().is_some_and(|flags| flags.iter().any(|flag| flag == "dead")) {
        return None;
    }
    let gateway = hop["gateway"].as_str().or(hop["via"]["host"].as_str());
    let via = gateway.map_or_else(String::new, |gateway| format!("via {gateway} "));
    let weight = hop["weight"].as_u64().unwrap_or(1);
    Some(format!("{via}dev {} weight {weight}", hop["dev"].as_str().expect("a link")))
}

fn sorted<T: Ord>(items: impl Iterator<Item = T>) -> Vec<T> {
    let mut items: Vec<T> = items.collect();
    items.sort();
    // The kernel has one for each link, which netmem has only once: multicast, which is its own on all links.
    items.dedup();
    items
}
