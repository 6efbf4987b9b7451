//! Tests of the guide and the README: each chapter names its programs, which run and print what they should; every link
//! leads to an existing page; and all Rust snippets are doc tests.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::{env, fs};

const GUIDE: &str = "docs/guide";

/// Each chapter with its programs, in the order of the guide.
const CHAPTERS: [(&str, &[&str]); 23] = [
    ("choosing.md", &[]),
    ("memory.md", &["memory", "objects"]),
    ("ledger.md", &["ledger"]),
    ("ports.md", &["replay"]),
    ("loop.md", &["echo", "redirect"]),
    ("endpoint.md", &["udp_echo", "dns"]),
    ("packets.md", &["packets", "gather"]),
    ("cores.md", &["pipeline", "balancer"]),
    ("decision.md", &["acl", "balancer"]),
    ("port.md", &["zero_copy_port", "page_owner"]),
    ("tuning.md", &["tuning"]),
    // `tests/hardening` checks its statements.
    ("hardening.md", &[]),
    // Its programs are in C, and run by the tests of capi/.
    ("c.md", &[]),
    ("moving.md", &["redirect"]),
    ("reference.md", &[]),
    ("host.md", &[]),
    ("troubleshooting.md", &[]),
    ("router.md", &[]),
    ("doctor.md", &[]),
    ("peers.md", &[]),
    ("measuring.md", &[]),
    ("replay.md", &[]),
    ("running.md", &[]),
];

/// Pages about the program, the host and other projects, which name more than the library's items. `cli/tests/help.rs` tries every
/// command of theirs.
const PROGRAM: [&str; 9] = [
    "choosing.md",
    "host.md",
    "troubleshooting.md",
    "router.md",
    "doctor.md",
    "peers.md",
    "measuring.md",
    "replay.md",
    "running.md",
];

/// Programs with their arguments, and a part of what each prints. `tests/redirect.rs` and `tests/endpoint` run those
/// that need interfaces.
const PRINTED: [(&str, &[&str], &[&str]); 13] = [
    (
        "memory",
        &[],
        &[
            "out: 1000 pages, 500 objects",
            "500 packets were counted",
            "4096 of 4096 pages free",
            "nodes [0, 1, 0]",
        ],
    ),
    ("objects", &[], &["20000 buffers used", "pages were short 1 time", "those of the cache: true"]),
    (
        "gather",
        &[],
        &[
            "32 packets of 1064 bytes take 1 frame",
            "as a frame for a port: 1064 bytes",
            "the body came back: 1000 bytes",
            r#"kept: "as it was", written: "AS it was", frames out: 2"#,
        ],
    ),
    (
        "ledger",
        &[],
        &["32 posted to be sent ", "queued 32", "returning 28", "posted  0  queued  0  returning 96  = 128"],
    ),
    ("replay", &[], &["1000 packets read, 750 of IPv4 written; read again: 750"]),
    ("echo", &["2000"], &["2000 sent, 1800 echoed, 200 dropped"]),
    (
        "packets",
        &[],
        &[
            "62 bytes with the outer header",
            "3 readers of 1 frame",
            "a frame of its own for a port, 2 frames in all",
            "12 bytes in 2 parts",
            "60 bytes pin 124 bytes",
        ],
    ),
    ("pipeline", &["50000"], &["50000 of 50000 handed over, 50000 came in order, 0 dropped"]),
    ("acl", &["10.0.7.0/24"], &["crossed: 25500 packets", "acl_denied: 100 packets"]),
    ("balancer", &["10000"], &["back end 0: ", "back end 1: ", "back end 2: "]),
    ("zero_copy_port", &[], &["posted: 64"]),
    ("page_owner", &["20000"], &["20000 packets read by two each; 64 pages mapped once, 64 home"]),
    ("tuning", &[], &["forwarded 60000 of 60000, dropped 0", "4096 frames, cache of 64", "all home: true"]),
];

/// A page of the repository: its path and text.
struct Page {
    path: PathBuf,
    text: String,
}

impl Page {
    fn read(path: impl Into<PathBuf>) -> Page {
        let path = path.into();
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Page { path, text }
    }

    /// Its lines outside of blocks of code.
    fn prose(&self) -> impl Iterator<Item = &str> {
        let mut is_code = false;
        self.text.lines().filter(move |line| {
            let is_fence = line.starts_with("```");
            is_code ^= is_fence;
            !is_code && !is_fence
        })
    }

    /// Returns the targets of its links, without links to other sites.
    fn links(&self) -> BTreeSet<&str> {
        let of_line =
            |line| str::split(line, "](").skip(1).filter_map(|rest: &str| Some(rest.split_once(')')?.0));
        self.prose().flat_map(of_line).filter(|link| !link.contains("://")).collect()
    }

    /// What stands behind the opening fence of each block of code.
    fn languages(&self) -> impl Iterator<Item = &str> {
        self.text.lines().filter_map(|line| line.strip_prefix("```")).step_by(2)
    }

    /// The anchors of its headings, as they are made of their words.
    fn anchors(&self) -> BTreeSet<String> {
        let headings = self.prose().filter(|line| line.starts_with('#'));
        let kept = |letter: &char| letter.is_alphanumeric() || [' ', '-', '_'].contains(letter);
        let anchor = |heading: &str| heading.trim_start_matches('#').trim().to_lowercase();
        headings
            .map(|heading| anchor(heading).chars().filter(kept).collect::<String>().replace(' ', "-"))
            .collect()
    }
}

fn guide() -> Vec<Page> {
    let entries = fs::read_dir(GUIDE).expect("the guide's folder").map(|entry| entry.expect("a file").path());
    let pages: Vec<Page> =
        entries.filter(|path| path.extension().is_some_and(|end| end == "md")).map(Page::read).collect();
    assert!(pages.len() > CHAPTERS.len(), "the tests run in the root of the repository");
    pages
}

/// An example's program, which cargo builds beside this test's.
fn run(example: &str, arguments: &[&str]) -> Output {
    let here = env::current_exe().expect("this program's path");
    let program = here.ancestors().nth(2).expect("the build directory").join("examples").join(example);
    assert!(program.is_file(), "{}: build it first, cargo build --example {example}", program.display());
    Command::new(program).args(arguments).output().expect("the program runs")
}

#[test]
fn the_summary_names_every_chapter_in_order() {
    let summary = Page::read(Path::new(GUIDE).join("SUMMARY.md"));
    let listed = summary.prose().filter(|line| line.starts_with("- ["));
    let chapters: Vec<&str> =
        listed.filter_map(|line| Some(line.split_once("](")?.1.trim_end_matches(')'))).collect();
    assert_eq!(chapters, CHAPTERS.map(|(chapter, _)| chapter));
    let pages: Vec<Page> = guide();
    let files =
        pages.iter().filter_map(|page| page.path.file_name()?.to_str()).filter(|name| *name != "SUMMARY.md");
    assert_eq!(summary.links(), files.collect(), "pages of the guide");
}

#[test]
fn each_chapter_links_to_its_programs_and_says_how_to_run_them() {
    let mut named = BTreeSet::new();
    for (chapter, examples) in CHAPTERS {
        let page = Page::read(Path::new(GUIDE).join(chapter));
        for example in examples {
            let link = format!("../../examples/{example}.rs");
            assert!(page.links().contains(&*link), "{chapter}: no link to {link}");
            named.insert(format!("{example}.rs"));
        }
        if let Some(first) = examples.first() {
            let said = format!("--example {first}");
            assert!(page.text.contains(&said), "{chapter} does not say {said}");
        }
    }
    let files = fs::read_dir("examples").expect("examples").map(|file| file.expect("a file").file_name());
    assert_eq!(
        named,
        files.map(|name| name.to_string_lossy().into_owned()).collect(),
        "examples in chapters"
    );
}

#[test]
fn every_link_of_the_guide_the_readme_and_the_results_leads_to_a_page_and_its_heading() {
    let mut links = 0;
    for page in guide().into_iter().chain(["README.md", "docs/results.md"].map(Page::read)) {
        let folder = page.path.parent().expect("a page is in a folder");
        for link in page.links() {
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() { page.path.clone() } else { folder.join(file) };
            assert!(target.exists(), "{}: {link} leads nowhere", page.path.display());
            // The book is in target/guide, where pages of the guide end in .html and other pages do not.
            let is_outside = page.path.starts_with(GUIDE) && link.starts_with("..");
            let is_in_book = !is_outside || (link.starts_with("../../") && !file.ends_with(".md"));
            assert!(is_in_book, "{}: {link} leads nowhere from the book", page.path.display());
            let is_there = heading.is_empty() || Page::read(&target).anchors().contains(heading);
            assert!(is_there, "{}: {link} names no heading", page.path.display());
            links += 1;
        }
    }
    assert!(links > 60, "{links} links were looked at");
}

/// An example that is not compiled is wrong sooner or later.
#[test]
fn all_rust_of_the_guide_and_the_readme_is_compiled() {
    let library = fs::read_to_string("src/lib.rs").expect("src/lib.rs");
    let mut snippets = 0;
    for page in guide().into_iter().chain([Page::read("README.md")]) {
        for language in page.languages() {
            let known =
                ["rust", "rust,no_run", "rust,compile_fail,E0382", "c", "sh", "text"].contains(&language);
            assert!(known, "{}: a block of code that is {language:?}", page.path.display());
            snippets += usize::from(language.starts_with("rust"));
        }
        let included = format!("include_str!(\"../{}\")", page.path.display());
        let has_rust = page.languages().any(|language| language.starts_with("rust"));
        assert!(!has_rust || library.contains(&included), "{} is no doc test", page.path.display());
    }
    assert!(snippets >= 15, "{snippets} snippets of Rust");
}

/// Words before a name that is declared.
const DECLARE: [&str; 8] = ["const", "enum", "fn", "mod", "pub", "struct", "trait", "type"];
/// Names in the guide that are the standard library's, or a snippet's.
const OTHERS: [&str; 11] = [
    "Acquire",
    "Arc",
    "Box",
    "Bridge",
    "HashMap",
    "None",
    "Option",
    "Release",
    "Result",
    "into",
    "copy_from_slice",
];

/// The names that sources below a folder declare: of items, fields, methods and variants.
fn declared(folder: &Path, names: &mut BTreeSet<String>) {
    for path in fs::read_dir(folder).expect("a folder of sources").map(|entry| entry.expect("a file").path())
    {
        if path.is_dir() {
            declared(&path, names);
            continue;
        }
        let text = Page::read(path).text;
        for line in text
            .lines()
            .map(str::trim_start)
            .filter(|line| !["//", "pub("].iter().any(|not| line.starts_with(not)))
        {
            let words: Vec<&str> = words(line).collect();
            let declares = words.windows(2).filter(|pair| DECLARE.contains(&pair[0]));
            names.extend(declares.map(|pair| pair[1].to_owned()));
            let variant =
                words.first().filter(|word| line.starts_with(char::is_uppercase) && !word.is_empty());
            names.extend(variant.map(|word| (*word).to_owned()));
        }
    }
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|letter: char| !letter.is_alphanumeric() && letter != '_').filter(|word| !word.is_empty())
}

/// If a name changes in the library, the text must change too.
#[test]
fn every_type_and_call_that_the_guide_names_is_in_the_library() {
    let mut names = BTreeSet::new();
    ["src", "router/src", "ports/src", "tokio/src", "bytes/src", "smoltcp/src", "quinn/src"]
        .iter()
        .for_each(|folder| declared(Path::new(folder), &mut names));
    let mut looked_at = 0;
    // The index is made from the sources, and held to them by .ci/surface.
    let others: Vec<&str> = PROGRAM.into_iter().chain(["reference.md"]).collect();
    for page in guide().into_iter().filter(|page| !others.iter().any(|name| page.path.ends_with(name))) {
        let is_comparison = page.path.ends_with("moving.md");
        for line in page.prose() {
            // The first column there has others' names.
            let first = line.strip_prefix('|').filter(|_| is_comparison).and_then(|row| row.split_once('|'));
            for span in first.map_or(line, |(_, ours)| ours).split('`').skip(1).step_by(2) {
                let called =
                    span.split("::").skip(1).chain(span.split('.').skip(1)).filter_map(|rest| {
                        words(rest).next().filter(|word| !word.starts_with(char::is_numeric))
                    });
                let types = words(span).filter(|word| word.starts_with(char::is_uppercase));
                let types = types.filter(|word| word.contains(char::is_lowercase));
                let is_file = [".rs", ".sh", ".sock", ".md", ".html", ".toml", ".yml", ".service", "netmem "]
                    .iter()
                    .any(|end| span.contains(end));
                for name in called.chain(types).filter(|name| !is_file && !OTHERS.contains(name)) {
                    assert!(names.contains(name), "{}: `{span}`: no {name} is declared", page.path.display());
                    looked_at += 1;
                }
            }
        }
    }
    assert!(looked_at > 200, "{looked_at} names were looked at");
}

#[test]
fn the_programs_of_the_guide_print_what_they_did_and_end_well() {
    for (example, arguments, expected) in PRINTED {
        let output = run(example, arguments);
        let printed = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{example}: {} {printed} {output:?}", output.status);
        for words in expected {
            assert!(printed.contains(words), "{example} does not print {words:?}:\n{printed}");
        }
    }
}

#[test]
fn a_capture_that_is_not_there_and_an_interface_that_is_not_are_errors() {
    let missing = run("replay", &["no-such-file.pcap", "out.pcap"]);
    let said = String::from_utf8_lossy(&missing.stderr).into_owned();
    assert!(!missing.status.success() && said.contains("no-such-file.pcap"), "{said}");
    assert_eq!(run("redirect", &["one"]).status.code(), Some(2), "how it is used");
    let absent = run("redirect", &["no-such-if0", "no-such-if1"]);
    let said = String::from_utf8_lossy(&absent.stderr).into_owned();
    assert!(absent.status.code() == Some(2) && said.contains("no-such-if0"), "{said}");
}

/// A capture of 1,000 IPv4 packets of 60 bytes, without its last `cut` bytes.
fn capture(name: &str, cut: usize) -> PathBuf {
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    // Magic number in microseconds, version 2.4, zone, accuracy, snapshot length, Ethernet.
    let mut bytes = words(&[0xa1b2_c3d4, 0x0004_0002, 0, 0, 65535, 1]);
    for number in 0..1000 {
        bytes.extend(words(&[number, 0, 60, 60]));
        bytes.extend([2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0]);
        bytes.extend([7; 46]);
    }
    bytes.truncate(bytes.len() - cut);
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::write(&path, bytes).expect("the capture can be written");
    path
}

/// Seen: on a full disk the program went round without end, or reported lost packets as written; the end of a damaged
/// capture was reported as the end of the capture.
#[test]
fn a_full_disk_and_a_damaged_capture_are_errors_with_what_was_written() {
    let (whole, damaged) = (capture("replayed.pcap", 0), capture("replayed-damaged.pcap", 10));
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("replayed-out.pcap");
    for (from, to, cause, counts) in [
        (&whole, Path::new("/dev/full"), "write /dev/full: ", " packets read, 0 written"),
        (&damaged, &*out, "ends within a packet", "999 packets read, 999 written"),
    ] {
        let output = run("replay", &[&from.display().to_string(), &to.display().to_string()]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.lines().count() == 1, "{said}");
        assert!(said.contains(cause) && said.contains(counts), "{said}");
    }
}
