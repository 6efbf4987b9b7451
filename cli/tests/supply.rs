//! Tests of the crates that this tree is built from: their source, licence, versions, and build settings.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

/// Licences that anybody may build on without more than naming the authors.
const LICENCES: &[&str] = &[
    "MIT",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "Unicode-3.0",
    "Zlib",
    "0BSD",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
];

/// Those that are under another licence, each with the reason why it may be here.
const EXCEPTIONS: &[(&str, &str)] = &[(
    "cbindgen",
    "MPL-2.0: writes the header of the library for C, in a test; nothing of it is in what is built",
)];

/// Crates with two versions, each with the crate that needs the older one.
const TWICE: &[(&str, &str)] = &[
    ("bitflags", "smoltcp wants 1"),
    ("getrandom", "ring wants 0.2"),
    ("syn", "zerocopy-derive and cbindgen want 2"),
    ("toml", "cbindgen wants 0.9"),
    ("toml_datetime", "toml 0.9"),
    ("windows-sys", "ring wants 0.52; nothing of it is built here"),
    ("winnow", "toml 0.9"),
];

/// Crates whose sums are checked in release builds too: they read input that is not trusted.
const CHECKED: &[&str] = &["netmem-router", "netmem-rtnetlink", "netmem-cli"];

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// Every package that the tree is built from, with features of all kinds.
fn packages() -> Vec<Value> {
    let out = Command::new(env!("CARGO"))
        .args(["metadata", "--locked", "--all-features", "--format-version", "1"])
        .current_dir(ROOT)
        .output()
        .expect("cargo runs");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let mut said: Value = serde_json::from_slice(&out.stdout).expect("cargo writes JSON");
    let packages = said["packages"].take();
    packages.as_array().cloned().expect("a list of packages")
}

fn text<'a>(package: &'a Value, key: &str) -> &'a str {
    package[key].as_str().unwrap_or_default()
}

/// Whether an expression of SPDX can be met by licences of the list alone: one of those joined by OR, all joined by AND.
fn is_met(expression: &str) -> bool {
    let expression = expression.replace('/', " OR ").replace(['(', ')'], "");
    let all = |some: &str| some.split(" AND ").all(|one| LICENCES.contains(&one.trim()));
    // No expression here has an OR within an AND that its brackets would decide otherwise than this: MIT is on both sides.
    expression.split(" OR ").any(all)
}

#[test]
fn every_crate_has_a_licence_that_requires_only_attribution() {
    assert!(
        is_met("MIT OR GPL-3.0") && is_met("(MIT OR Apache-2.0) AND Unicode-3.0") && is_met("Unlicense/MIT")
    );
    assert!(!is_met("GPL-2.0") && !is_met("MIT AND GPL-2.0") && !is_met(""));
    let packages = packages();
    for package in &packages {
        let (name, licence) = (text(package, "name"), text(package, "license"));
        let excepted = EXCEPTIONS.iter().any(|(exception, _)| *exception == name);
        assert!(
            is_met(licence) != excepted,
            "{name} is under {licence:?}, and stands in EXCEPTIONS: {excepted}"
        );
    }
    for (name, _) in EXCEPTIONS {
        assert!(
            packages.iter().any(|package| text(package, "name") == *name),
            "{name} is not there any more"
        );
    }
}

#[test]
fn every_crate_comes_from_the_registry_or_is_in_this_tree() {
    for package in packages() {
        let source = text(&package, "source");
        assert!(
            source.is_empty() || source == "registry+https://github.com/rust-lang/crates.io-index",
            "{} comes from {source}",
            text(&package, "name")
        );
    }
}

#[test]
fn only_the_listed_crates_have_two_versions() {
    let mut versions: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for package in packages() {
        versions
            .entry(text(&package, "name").to_owned())
            .or_default()
            .insert(text(&package, "version").to_owned());
    }
    let twice: Vec<_> = versions.iter().filter(|(_, versions)| versions.len() > 1).collect();
    let found: BTreeSet<&str> = twice.iter().map(|(name, _)| name.as_str()).collect();
    let named: BTreeSet<&str> = TWICE.iter().map(|(name, _)| *name).collect();
    assert_eq!(found, named, "{twice:?}");
}

#[test]
fn crates_that_read_untrusted_input_check_their_sums_in_release_builds() {
    let manifest =
        std::fs::read_to_string(Path::new(ROOT).join("Cargo.toml")).expect("the workspace's manifest");
    for name in CHECKED {
        let (_, behind) = manifest
            .split_once(&format!("\n[profile.release.package.{name}]\n"))
            .unwrap_or_else(|| panic!("no profile of {name}"));
        let settings = behind.split("\n[").next().unwrap_or_default();
        assert!(settings.lines().any(|line| line == "overflow-checks = true"), "{name}: {settings}");
    }
}
