//! Tests where `unsafe` is used.

use crate::source::{names, words};
use crate::{module_of, product, report};
use std::collections::BTreeSet;

/// The modules of the library that may use `unsafe`, and whose parents allow it. Adding one is a decision: its module
/// documentation must state the argument for its soundness.
const MAY_BE_UNSAFE: &[&str] = &[
    "sys",
    "sync::slot",
    "sync::per_worker",
    "ring::loan",
    "ring::slots",
    "ring::spsc",
    "page::memory",
    "page::page",
    "page::share",
    "page::shared",
    "page::table",
    "pool::batch",
    "pool::fragment",
    "pool::frame",
    "pool::metadata",
    "pool::origin",
    "pool::share",
    "pool::shared",
    "pool::traces",
    "pool::frame_table",
    "slab::check",
    "slab::constructed",
    "slab::constructor",
    "slab::cpu_slab",
    "slab::debug::checker",
    "slab::debug::slot",
    "slab::grow",
    "slab::hardened",
    "slab::inspect",
    "slab::object",
    "slab::raw",
    "slab::registry",
    "slab::shared",
    "slab::sizes",
    "slab::slabs",
    "packet::raw",
    "port::memif::lend",
    "port::posted",
    "port::xdp::bind",
    "port::xdp::held",
    "capi::src::api",
    "capi::src::code",
    "capi::src::entries",
    "capi::src::lock",
    "capi::src::packets",
    "capi::src::pools",
    "capi::src::process",
    "capi::src::sites",
    "capi::src::slots",
    "capi::src::stderr",
    "capi::src::table",
    "capi::src::thread",
    "capi::src::workers",
    "cli::src::forward::lending",
    "lab::src::experiments::peers::lending",
    "lab::src::experiments::slab_objects",
    "lab::src::rivals::dpdk::shim",
    "lab::src::rivals::libnetmem",
    "lab::src::rivals::mempool_ops",
    "lab::src::rivals::shim",
    "lab::src::system::cpu_time",
    "lab::src::system::library",
    "lab::src::system::perf",
    "lab::src::system::process",
    "lab::src::system::uring",
    "ports::src::lend",
];

/// The place of that list.
const HERE: &str = "tests/structure/unsafety.rs";

#[test]
fn unsafe_stands_only_in_the_modules_of_the_list() {
    let mut findings = Vec::new();
    let mut used = BTreeSet::new();
    for source in product() {
        let Some((number, _)) = source.product().find(|(_, line)| names(line, "unsafe")) else { continue };
        let module = module_of(&source.path);
        match MAY_BE_UNSAFE.iter().find(|one| module == **one || module.starts_with(&format!("{one}::"))) {
            Some(one) => drop(used.insert(*one)),
            None => findings.push(format!("{}:{number}: unsafe in `{module}`", source.path)),
        }
    }
    let stale = MAY_BE_UNSAFE.iter().filter(|one| !used.contains(*one));
    findings.extend(stale.map(|one| format!("{HERE}: `{one}` is in the list and has no unsafe code")));
    report("unsafe code outside the list, or a list that is out of date", &findings);
}

#[test]
fn unsafe_is_allowed_to_the_modules_of_the_list_and_to_no_other() {
    let mut allowed = BTreeSet::new();
    let mut findings = Vec::new();
    for source in product() {
        for (number, _) in source.product().filter(|(_, line)| line.contains("allow(unsafe_code)")) {
            let next = source.code.get(number).map_or("", |line| line.trim());
            let Some(name) =
                next.strip_suffix(';').filter(|_| names(next, "mod")).and_then(|l| words(l).last())
            else {
                findings.push(format!("{}:{number}: allow(unsafe_code) not on a `mod name;`", source.path));
                continue;
            };
            let module = match module_of(&source.path).trim_end_matches("::lib") {
                "lib" => name.to_owned(),
                parent => format!("{parent}::{name}"),
            };
            if !MAY_BE_UNSAFE.contains(&module.as_str()) {
                findings.push(format!("{}:{number}: unsafe code allowed to `{module}`", source.path));
            }
            allowed.insert(module);
        }
    }
    let forbidden = MAY_BE_UNSAFE.iter().filter(|one| !allowed.contains(**one));
    findings.extend(forbidden.map(|one| format!("{HERE}: `{one}` is in the list and not allowed it")));
    report("allow(unsafe_code) and the list disagree", &findings);
}
