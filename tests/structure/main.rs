//! The house rules that a compiler does not check: the order of the stages, which code may name the system's libraries,
//! where `unsafe` may be used, and the sizes of files and functions.

mod imports;
mod prose;
mod source;
mod unsafety;

use imports::{Imports, circles};
use source::{Source, names, words};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::Path;

/// The folder of this test.
const HERE: &str = "tests/structure/main.rs";

/// Names that do not describe the contents.
const EMPTY_NAMES: [&str; 9] =
    ["manager", "helper", "helpers", "util", "utils", "common", "inner", "ctx", "context"];

const FILE_LINES_MAX: usize = 500;
const FUNCTION_LINES_MAX: usize = 60;

/// The folders of the product's code.
const PRODUCT: [&str; 13] = [
    "src",
    "router/src",
    "traffic/src",
    "rtnetlink/src",
    "doctor/src",
    "ports/src",
    "capi/src",
    "tokio/src",
    "bytes/src",
    "smoltcp/src",
    "quinn/src",
    "lab/src",
    "cli/src",
];

/// The folders of its tests, benchmarks and examples.
const AROUND: [&str; 17] = [
    "tests",
    "examples",
    "fuzz",
    "router/tests",
    "rtnetlink/tests",
    "ports/tests",
    "capi/tests",
    "tokio/tests",
    "bytes/examples",
    "bytes/tests",
    "smoltcp/examples",
    "smoltcp/tests",
    "quinn/examples",
    "quinn/tests",
    "lab/benches",
    "lab/tests",
    "cli/tests",
];

fn product() -> impl Iterator<Item = Source> {
    PRODUCT.into_iter().flat_map(Source::under)
}

fn everything() -> impl Iterator<Item = Source> {
    PRODUCT.into_iter().chain(AROUND).flat_map(Source::under)
}

/// The stages in flow order, as `src/lib.rs` declares them.
fn stages() -> Vec<String> {
    let lib =
        Source::under("src").into_iter().find(|source| source.path == "src/lib.rs").expect("src/lib.rs");
    let stages: Vec<String> = lib
        .lines()
        .filter_map(|(_, line)| {
            Some(line.trim_start_matches("pub ").strip_prefix("mod ")?.strip_suffix(';')?.to_owned())
        })
        .collect();
    assert!(stages.len() > 1, "src/lib.rs declares no stages");
    stages
}

/// Returns the stage that a file of the library is part of; `None` for `src/lib.rs`.
fn stage_of(path: &str) -> Option<&str> {
    let path = path.strip_prefix("src/")?;
    let (first, _) = path.split_once('/').or_else(|| path.split_once('.'))?;
    (first != "lib").then_some(first)
}

/// Returns the module of a file, as `pool::batch`. A stage's own file is the stage.
fn module_of(path: &str) -> String {
    let path = path.trim_start_matches("src/").trim_end_matches(".rs").trim_end_matches("/mod");
    path.replace('/', "::")
}

/// The stages that a line names: what follows each `crate::`, and each member of `crate::{…}`.
fn named_after_crate(line: &str) -> Vec<&str> {
    let mut named = Vec::new();
    for (at, found) in line.match_indices("crate::") {
        let rest = &line[at + found.len()..];
        match rest.strip_prefix('{') {
            None => named.extend(words(rest).next()),
            Some(list) => {
                let mut depth = 0;
                for item in list.split_inclusive([',', '{', '}']) {
                    if depth == 0 {
                        named.extend(words(item).next());
                    }
                    depth += item.matches('{').count() as i32 - item.matches('}').count() as i32;
                }
            }
        }
    }
    named
}

/// Fails with every finding, each on its own line.
fn report(rule: &str, findings: &[String]) {
    let mut text = String::new();
    findings.iter().for_each(|finding| writeln!(text, "  {finding}").expect("a string grows"));
    assert!(findings.is_empty(), "{rule}:\n{text}");
}

#[test]
fn a_stage_names_only_itself_and_stages_before_it() {
    let stages = stages();
    let place = |name: &str| stages.iter().position(|stage| stage == name);
    let mut findings = Vec::new();
    for source in Source::under("src") {
        let Some(stage) = stage_of(&source.path) else { continue };
        let Some(own) = place(stage) else {
            findings.push(format!("{}:1: {stage} is no stage that src/lib.rs declares", source.path));
            continue;
        };
        let out_of_the_stage = "super::".repeat(module_of(&source.path).split("::").count());
        for (number, line) in source.product() {
            let above = |name: &&str| place(name).is_none_or(|at| at > own);
            let upwards = named_after_crate(line).into_iter().filter(above);
            findings
                .extend(upwards.map(|name| format!("{}:{number}: `{stage}` names `{name}`", source.path)));
            if line.contains(&out_of_the_stage) {
                findings.push(format!("{}:{number}: climbs out of `{stage}`: write crate::", source.path));
            }
        }
    }
    report(&format!("stages in order: {}. Upwards or outside them point", stages.join(" → ")), &findings);
}

/// The crates beside the library, each after those that it may use.
const BESIDE: [&str; 12] = [
    "netmem-traffic",
    "netmem-router",
    "netmem-rtnetlink",
    "netmem-doctor",
    "netmem-ports",
    "netmem-capi",
    "netmem-tokio",
    "netmem-bytes",
    "netmem-smoltcp",
    "netmem-quinn",
    "netmem-lab",
    "netmem-cli",
];

/// netmem owns packet memory. Routing, traffic, protocols and tools are crates beside it. Without them no line of it
/// changes.
#[test]
fn the_library_its_tests_and_examples_use_no_crate_beside_it() {
    let mut findings = Vec::new();
    let manifest = fs::read_to_string("Cargo.toml").expect("Cargo.toml");
    let (_, package) = manifest.split_once("[package]").expect("the library's part");
    // The workspace states how other crates are compiled.
    let (package, _) = package.split_once("\n[profile.").unwrap_or((package, ""));
    for name in BESIDE {
        if package.contains(name) {
            findings.push(format!("Cargo.toml: depends on {name}"));
        }
        let module = name.replace('-', "_");
        for source in ["src", "tests", "examples"].into_iter().flat_map(Source::under) {
            let named = source.lines().find(|(_, line)| names(line, &module));
            findings.extend(named.map(|(number, _)| format!("{}:{number}: names {module}", source.path)));
        }
    }
    report("the library knows what is built on it", &findings);
}

/// What may name `netmem::system`, which is hidden: the lab, the program, and files that wait for a descriptor or ask the
/// broker. Others use the public interface alone.
const MAY_NAME_SYSTEM: [&str; 6] = [
    "lab/",
    "cli/",
    "rtnetlink/src/follower.rs",
    "rtnetlink/src/socket.rs",
    "smoltcp/src/device.rs",
    "tokio/src/watch.rs",
];

#[test]
fn crates_beside_the_library_use_its_public_interface_alone_except_for_the_files_of_a_list() {
    let (mut findings, mut unused) = (Vec::new(), BTreeSet::from(MAY_NAME_SYSTEM));
    let folders = BESIDE.iter().map(|name| name.strip_prefix("netmem-").expect("a crate of this workspace"));
    for source in folders.flat_map(Source::under) {
        let Some((number, _)) = source.lines().find(|(_, line)| line.contains("netmem::system")) else {
            continue;
        };
        match MAY_NAME_SYSTEM.iter().find(|may| source.path.starts_with(**may)) {
            Some(may) => drop(unused.remove(may)),
            None => findings.push(format!("{}:{number}: names netmem::system", source.path)),
        }
    }
    findings.extend(unused.iter().map(|may| format!("{HERE}: {may} may name it, and does not")));
    report("what is hidden is not theirs", &findings);
}

/// Found in a review: a release that adds to the library alone may change `netmem::system` (README, Versions), and cargo would
/// have built it with the crates of an earlier release.
#[test]
fn crates_that_use_what_is_hidden_take_exactly_one_version_of_the_library() {
    let read = |path: &str| fs::read_to_string(path).expect("a manifest");
    let workspace = read("Cargo.toml");
    let is_exact = workspace.lines().any(|line| line.starts_with("netmem = { version = \"="));
    let mut findings = Vec::new();
    let mut users = 0;
    for folder in PRODUCT.into_iter().filter(|folder| *folder != "src") {
        let uses_it = |source: &Source| source.lines().any(|(_, line)| line.contains("netmem::system"));
        if !Source::under(folder).iter().any(uses_it) {
            continue;
        }
        users += 1;
        let manifest = folder.replace("src", "Cargo.toml");
        let is_from_workspace = |line: &str| {
            ["netmem.workspace = true", "netmem = { workspace = true"]
                .iter()
                .any(|form| line.starts_with(form))
        };
        if !(is_exact && read(&manifest).lines().any(is_from_workspace)) {
            findings.push(format!("{manifest}: give netmem = \"=VERSION\", as the workspace does"));
        }
    }
    assert!(users > 2, "no crate names netmem::system any more");
    report("another version of the library has another netmem::system", &findings);
}

/// Number of files of the largest circle of imports in each stage, and in each crate without stages. If none is stated,
/// no two files may name each other. A change that unties a circle lowers its number here.
const LARGEST_CIRCLE: &[(&str, usize)] = &[
    ("src/page", 2),
    ("src/slab", 2),
    ("src/pool", 5),
    ("src/packet", 2),
    ("src/steer", 5),
    ("src/port", 3),
    ("src/forward", 3),
    ("traffic/src", 2),
    ("lab/src", 2),
];

#[test]
fn no_circle_of_imports_is_larger_than_is_stated() {
    let mut findings = Vec::new();
    let mut largest = BTreeMap::new();
    for folder in PRODUCT {
        let imports = Imports::of(folder);
        let graph = imports.graph();
        assert!(graph.values().any(|files| !files.is_empty()), "no file of {folder} imports any other");
        for circle in circles(&graph) {
            let first = circle.first().expect("files of a circle");
            let whole = stage_of(first).map_or(folder.to_owned(), |stage| format!("src/{stage}"));
            let at_most = LARGEST_CIRCLE.iter().find(|(of, _)| *of == whole).map_or(1, |(_, files)| *files);
            if circle.len() > at_most {
                let files = circle.iter().copied().collect::<Vec<_>>().join(", ");
                findings.push(format!("{whole}: {} files name each other: {files}", circle.len()));
            }
            let length = largest.entry(whole).or_insert(1);
            *length = circle.len().max(*length);
        }
    }
    for (whole, files) in LARGEST_CIRCLE {
        let found = largest.get(*whole).copied().unwrap_or(1);
        if found < *files {
            findings.push(format!("{HERE}: {whole} is allowed {files} files, and has {found}: state that"));
        }
    }
    report("circles of imports", &findings);
}

#[test]
fn only_the_sys_stage_names_libc_or_rustix() {
    let mut findings = Vec::new();
    // The code that follows the kernel's routes uses its own sockets, and so does the code that inspects a host. System
    // calls that only experiments need are in the lab, and the settings of a terminal are in the program.
    const OWN: [&str; 5] = [
        "rtnetlink/",
        "doctor/src/read/",
        "doctor/src/journal",
        "lab/src/system/",
        "cli/src/top/terminal.rs",
    ];
    let own = |source: &Source| OWN.iter().any(|at| source.path.starts_with(at));
    let others = product().filter(|source| stage_of(&source.path) != Some("sys") && !own(source));
    for source in others {
        for (number, line) in source.lines() {
            let library = ["libc", "rustix"].into_iter().find(|library| names(line, library));
            findings.extend(library.map(|library| format!("{}:{number}: names {library}", source.path)));
        }
    }
    report("the library's system calls are made by src/sys alone", &findings);
}

#[test]
fn no_file_is_longer_than_500_lines() {
    let long = |source: &Source| source.code.len() > FILE_LINES_MAX;
    let findings: Vec<String> = everything()
        .filter(long)
        .map(|source| format!("{}:{}: {} lines", source.path, FILE_LINES_MAX + 1, source.code.len()))
        .collect();
    report("split these files", &findings);
}

#[test]
fn no_function_is_longer_than_60_lines() {
    let mut findings = Vec::new();
    for source in everything() {
        for (number, line) in source.lines() {
            let mut after_fn = words(line).skip_while(|word| *word != "fn").skip(1);
            // `fn(u32) -> u32` is a type: only a name makes a function, and the name comes right behind.
            let Some(name) = after_fn.next().filter(|name| line.contains(&format!("fn {name}"))) else {
                continue;
            };
            let lines = source.block_end(number).map_or(1, |end| end + 1 - number);
            if lines > FUNCTION_LINES_MAX {
                findings.push(format!("{}:{number}: {name} has {lines} lines", source.path));
            }
        }
    }
    report("split these functions", &findings);
}

#[test]
fn every_module_is_named_for_what_is_inside() {
    let mut findings = Vec::new();
    for source in everything() {
        let file = source.path.split(['/', '.']).find(|part| EMPTY_NAMES.contains(part));
        findings.extend(file.map(|name| format!("{}:1: a file or folder named {name}", source.path)));
        for (number, line) in source.lines() {
            let name = line.trim().split_once("mod ").and_then(|(_, rest)| words(rest).next());
            if let Some(name) = name.filter(|name| EMPTY_NAMES.contains(name)) {
                findings.push(format!("{}:{number}: a module named {name}", source.path));
            }
        }
    }
    report("names that say nothing", &findings);
}

#[test]
fn every_operation_of_pool_and_packet_is_in_the_scenario_in_which_allocations_fail() {
    const SCENARIO: &str = "src/packet/tests/scenario";
    let chapters = Source::under(SCENARIO);
    let called = |name: &str| {
        let forms = [format!(".{name}("), format!("::{name}(")];
        chapters.iter().any(|chapter| chapter.lines().any(|(_, line)| forms.iter().any(|f| line.contains(f))))
    };
    let mut findings = Vec::new();
    for source in ["src/pool", "src/packet"].into_iter().flat_map(Source::under) {
        for (number, line) in source.product() {
            if let Some(name) = public_function(line).filter(|name| !called(name)) {
                findings.push(format!("{}:{number}: {name}", source.path));
            }
        }
    }
    report(&format!("operations that are in no chapter of {SCENARIO}"), &findings);
}

/// The name of the function that a line makes public, whatever stands between `pub` and `fn`.
fn public_function(line: &str) -> Option<&str> {
    let mut after_pub = words(line.trim().strip_prefix("pub ")?);
    after_pub
        .find(|word| !["async", "const", "extern", "unsafe"].contains(word))
        .filter(|word| *word == "fn")?;
    after_pub.next()
}

#[test]
fn public_functions_are_found_whatever_stands_before_fn() {
    for line in
        ["pub fn one(", "    pub const fn one()", "pub unsafe fn one<'a>(", "pub const unsafe fn one("]
    {
        assert_eq!(public_function(line), Some("one"), "{line}");
    }
    for line in ["fn one()", "pub(crate) fn one()", "pub const ONE: fn() = one;", "pub struct One;"] {
        assert_eq!(public_function(line), None, "{line}");
    }
}

#[test]
fn each_file_in_the_table_of_stages_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(root.join("ARCHITECTURE.md")).expect("text");
    let mut stages = stages();
    // One is a single file.
    stages.retain(|stage| root.join("src").join(stage).is_dir());
    let (mut named, mut findings) = (0, Vec::new());
    for row in text.lines().filter(|line| line.starts_with("| `") || line.starts_with("| crate `")) {
        let mut quoted = row.split('`').skip(1).step_by(2);
        let Some(first) = quoted.next() else { continue };
        let folder = match first.strip_prefix("netmem-") {
            Some(name) => format!("{name}/src"),
            None if stages.iter().any(|stage| stage == first) => format!("src/{first}"),
            None => continue,
        };
        let files = Source::under(&folder);
        for name in quoted.filter(|name| name.ends_with(".rs")) {
            named += 1;
            // Of a port each has its own.
            if !files.iter().any(|file| file.path.ends_with(&format!("/{name}"))) {
                findings.push(format!("ARCHITECTURE.md: {folder} has no {name}"));
            }
        }
    }
    assert!(named > 40, "{named} files are named");
    report("files in the table of stages", &findings);
}

/// The page that names the tests which show the duties of a router, and the folders of those tests.
const ROUTER: (&str, [&str; 4]) = ("docs/router.md", ["router", "src/port", "rtnetlink/src", "cli/tests"]);

#[test]
fn every_test_that_the_page_of_the_router_names_exists_and_every_line_of_the_checklist_is_on_the_page() {
    let (page, folders) = ROUTER;
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(page)).expect(page);
    let quoted = text.split('`').skip(1).step_by(2);
    // What else is quoted there are options and names of counters.
    let named: BTreeSet<&str> = quoted.filter(|name| name.matches('_').count() > 2).collect();
    assert!(named.len() > 40, "{} tests are named in {page}", named.len());
    let sources: Vec<Source> = folders.into_iter().flat_map(Source::under).collect();
    let tests: Vec<(&str, &str)> = sources.iter().flat_map(tests_of).collect();
    let missing = named.iter().filter(|name| !tests.iter().any(|(_, test)| test == *name));
    let mut findings: Vec<String> = missing.map(|name| format!("{page}: there is no test {name}")).collect();
    let unnamed = tests.iter().filter(|(path, test)| path.contains("checklist") && !named.contains(test));
    findings.extend(unnamed.map(|(path, test)| format!("{path}: {test} is not in {page}")));
    report("what a router owes", &findings);
}

/// The tests in a file, each with the file's path.
fn tests_of(source: &Source) -> impl Iterator<Item = (&str, &str)> {
    let name = |i: usize| {
        let mut below = source.code[i + 1..].iter().map(|line| line.trim());
        words(below.find(|line| !line.starts_with("#["))?.strip_prefix("fn ")?).next()
    };
    let tests = source.code.iter().enumerate().filter(|(_, line)| line.trim() == "#[test]");
    tests.filter_map(move |(i, _)| Some((source.path.as_str(), name(i)?)))
}

#[test]
fn grouped_and_single_paths_are_both_read() {
    assert_eq!(named_after_crate("use crate::pool::{Batch, Pool};"), ["pool"]);
    assert_eq!(
        named_after_crate("use crate::{limits::PAGE_SIZE, pool::{Batch, Pool}, sync};"),
        ["limits", "pool", "sync"]
    );
    assert_eq!(named_after_crate("fn f(a: crate::page::Page) -> crate::wire::Mac"), ["page", "wire"]);
    assert!(named_after_crate("pub(crate) fn f()").is_empty());
}
