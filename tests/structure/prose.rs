//! Tests of the words of the files.

use crate::source::{Source, words};
use crate::{everything, product, report, tests_of};
use netmem::forward::Reason;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Folders and files that are read by others than ourselves, and so are checked as text.
const READ: [&str; 14] = [
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "README.md",
    "SECURITY.md",
    "benches",
    "cli",
    "demo",
    "docs",
    "doctor",
    "examples",
    "lab",
    "rtnetlink",
    "src",
];

/// The files of [`READ`] that are text.
fn texts() -> Vec<(PathBuf, String)> {
    let mut left: Vec<PathBuf> = READ.iter().map(PathBuf::from).collect();
    let mut texts = Vec::new();
    while let Some(path) = left.pop() {
        if path.is_dir() {
            let entries = fs::read_dir(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            left.extend(entries.map(|entry| entry.expect("a folder can be read").path()));
        } else if let Ok(text) = fs::read_to_string(&path) {
            texts.push((path, text));
        }
    }
    assert!(texts.len() > 100, "the tests run in the root of the repository");
    texts
}

fn line_of(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

/// A text is cited by its key in `docs/sources.md`, which a reader can look up, and not by a number of a list that is not
/// in the repository.
#[test]
fn a_published_text_is_cited_by_its_key() {
    let of_hash =
        |rest: &[u8]| rest.len() > 10 && rest[1] == b'_' && rest[2..10].iter().all(u8::is_ascii_hexdigit);
    let mut findings = Vec::new();
    for (path, text) in texts() {
        let small = text.to_ascii_lowercase();
        let by_number = small.match_indices(concat!("source", " 00")).map(|(at, _)| at);
        let by_file =
            small.match_indices("00").map(|(at, _)| at).filter(|at| of_hash(&small.as_bytes()[at + 2..]));
        let found = by_number.chain(by_file).map(|at| format!("{}:{}", path.display(), line_of(&text, at)));
        findings.extend(found);
    }
    report("a published text is named by its key in docs/sources.md", &findings);
}

/// Keys in brackets belong to a text on the page of sources.
#[test]
fn each_key_in_brackets_has_a_section_in_the_page_of_sources() {
    let page = fs::read_to_string(Path::new("docs/sources.md")).expect("docs/sources.md");
    let of = |heading: &'static str| {
        page.lines().filter_map(move |line| line.strip_prefix(heading)?.strip_suffix(']'))
    };
    // The five texts, and what became of them.
    let keys: Vec<&str> = of("## [").chain(of("### [")).collect();
    assert_eq!((of("## [").count(), keys.len()), (5, 9));
    let mut findings = Vec::new();
    for (path, text) in texts() {
        for (at, _) in text.match_indices('[') {
            let Some((key, _)) = text[at + 1..].split_once(']') else { continue };
            if is_key(key) && !keys.contains(&key) {
                findings.push(format!("{}:{}: [{key}]", path.display(), line_of(&text, at)));
            }
        }
    }
    report("docs/sources.md has no section of that key", &findings);
}

/// The tables of the texts' items quote existing files by their path, and existing tests by their name, which is a
/// sentence.
#[test]
fn the_code_and_the_tests_of_each_item_of_a_published_text_are_there() {
    let sources: Vec<Source> = everything().collect();
    let tests: BTreeSet<&str> = sources.iter().flat_map(tests_of).map(|(_, test)| test).collect();
    let (mut named, mut findings) = (0, Vec::new());
    for (page, text) in texts().into_iter().filter(|(page, _)| page.starts_with("docs/sources")) {
        for quoted in text.split('`').skip(1).step_by(2) {
            let folder = quoted.split_once('/').map(|(folder, _)| Path::new(folder));
            let is_there = if quoted.ends_with(".rs") || folder.is_some_and(Path::is_dir) {
                Path::new(quoted).is_file()
            } else if quoted.matches('_').count() > 2 {
                tests.contains(quoted)
            } else {
                continue;
            };
            named += 1;
            if !is_there {
                findings.push(format!("{}: there is no {quoted}", page.display()));
            }
        }
    }
    assert!(named > 200, "{named} files and tests are named under docs/sources");
    report("what the tables of items name", &findings);
}

/// Whether `text` is author, two digits and one word.
fn is_key(text: &str) -> bool {
    let Some((who, word)) = text.split_once('-') else { return false };
    let small = |text: &str| text.len() > 2 && text.bytes().all(|byte| byte.is_ascii_lowercase());
    let Some((author, year)) = who.split_at_checked(who.len().wrapping_sub(2)) else { return false };
    small(author) && year.bytes().all(|byte| byte.is_ascii_digit()) && small(word)
}

/// Words that only netmem used as names. `docs/glossary.md` has the words of the field.
const RETIRED: [&str; 32] = [
    "absence", "anew", "board", "condense", "doubled", "doubt", "ear", "ground", "heard", "keep", "keeper",
    "lookout", "mouth", "nobody", "odd", "pairs", "places", "presence", "reckoned", "rooms", "seat",
    "silent", "somebody", "spoilt", "stock", "stranger", "told", "uncut", "way", "wish", "wishes", "yard",
];

/// Files with a retired word in public names: a stock of libnetmem is the glossary's.
const STILL: [(&str, &str); 2] = [("capi/src/api/stock.rs", "stock"), ("capi/src/stock.rs", "stock")];

#[test]
fn no_public_name_is_made_of_a_retired_word() {
    let (mut findings, mut renamed) = (Vec::new(), BTreeSet::from(STILL));
    for source in product() {
        for (number, line) in source.product() {
            let Some(item) = line.trim().strip_prefix("pub ") else { continue };
            let Some(name) = words(item).find(|word| !KEYWORDS.contains(word)) else { continue };
            for part in parts(name).iter().filter(|part| RETIRED.contains(&part.as_str())) {
                match STILL.iter().find(|still| **still == (&source.path[..], &part[..])) {
                    Some(still) => drop(renamed.remove(still)),
                    None => findings.push(format!("{}:{number}: {name}", source.path)),
                }
            }
        }
    }
    findings.extend(
        renamed.iter().map(|(path, word)| format!("{path} has no name of {word}: take it off the list")),
    );
    report("public names of retired words (docs/glossary.md has the field's)", &findings);
}

/// What may stand between `pub` and a name.
const KEYWORDS: [&str; 11] =
    ["async", "const", "enum", "fn", "mod", "static", "struct", "trait", "type", "union", "unsafe"];

/// The words that a name is made of: `OnRamp` and `on_ramp` are both `on` and `ramp`.
fn parts(name: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    for letter in name.chars() {
        if letter == '_' || letter.is_uppercase() {
            parts.push(String::new());
        }
        let last = parts.last_mut().expect("there is one");
        last.extend(letter.to_lowercase().filter(|letter| *letter != '_'));
    }
    parts
}

/// Lines around one that skips a test, in which that must be refused if nothing may be skipped.
const NEAR: usize = 6;

/// CI sets `NETMEM_NO_SKIP`, and then a test that cannot run must fail. Otherwise nobody would notice that it never runs.
#[test]
fn what_prints_that_a_test_is_skipped_fails_instead_if_nothing_may_be_skipped() {
    let says = [concat!("\"SKIP", "PED"), concat!("\"not ", "tested")];
    let (mut found, mut findings) = (0, Vec::new());
    for Source { path, .. } in everything() {
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
        let lines: Vec<&str> = text.lines().collect();
        let skips = |line: &str| !line.trim().starts_with("//") && says.iter().any(|it| line.contains(it));
        for (at, _) in lines.iter().enumerate().filter(|(_, line)| skips(line)) {
            found += 1;
            let near = &lines[at.saturating_sub(NEAR)..lines.len().min(at + NEAR)];
            if !near.iter().any(|line| line.contains("\"NETMEM_NO_SKIP\"")) {
                findings.push(format!("{path}:{}: skips although NETMEM_NO_SKIP is 1", at + 1));
            }
        }
    }
    assert!(found > 5, "{found} lines skip a test");
    report("tests that can be skipped unseen", &findings);
}

#[test]
fn the_table_of_drop_reasons_has_a_row_for_each_reason_and_no_other() {
    const PAGE: &str = "docs/control.md";
    let page = fs::read_to_string(PAGE).expect(PAGE);
    let (_, table) = page.split_once("\n| reason | ").expect("the table of drop reasons");
    let rows: Vec<&str> = table
        .lines()
        .skip(2)
        .map_while(|row| row.strip_prefix("| `")?.split_once('`'))
        .map(|(name, _)| name)
        .collect();
    let named: BTreeSet<&str> = rows.iter().copied().collect();
    assert_eq!(named, Reason::ALL.iter().map(|reason| reason.name()).collect());
    assert_eq!(rows.len(), named.len(), "a reason has two rows");
}
