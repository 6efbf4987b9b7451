//! Which file names what of which other file, and the circles that these imports make.
//!
//! `use` and path expressions are read (`super::grow::alloc`, `grow::alloc` if `grow` was imported or is a child). A
//! name that a file only passes on (`pub use`) is followed to the file that declares it; passing it on is not an
//! import. A name of the module that a file is a part of is not an import either: the folder of a module is below the
//! module's own file, which may name all of it. What is reached through a value (a method, a field) is not seen.

use crate::source::Source;
use std::collections::{BTreeMap, BTreeSet};

/// A path as it is written: its names, and the name under which `use` makes it known.
struct Path {
    names: Vec<String>,
    known_as: String,
    passed_on: bool,
}

/// The files of one crate, by module, and what each one's `use` declares.
pub struct Imports {
    /// The file of each module, and which names its `use` declarations stand for.
    modules: BTreeMap<Vec<String>, Module>,
}

struct Module {
    file: String,
    used: Vec<Path>,
    expressions: Vec<Vec<String>>,
}

/// How far a name is followed through files that pass it on: more than any chain of the tree.
const FOLLOWED: usize = 16;

impl Imports {
    /// Of the crate whose sources lie under `dir`.
    pub fn of(dir: &str) -> Imports {
        Imports::of_sources(dir, &Source::under(dir))
    }

    fn of_sources(dir: &str, sources: &[Source]) -> Imports {
        let module = |source: &Source| {
            let (used, expressions) = read(&tokens(source));
            (module_of(dir, &source.path), Module { file: source.path.clone(), used, expressions })
        };
        Imports { modules: sources.iter().map(module).collect() }
    }

    /// The files that each file names something of.
    pub fn graph(&self) -> BTreeMap<&str, BTreeSet<&str>> {
        let mut graph = BTreeMap::new();
        for (place, module) in &self.modules {
            let imported = module.used.iter().filter(|path| !path.passed_on).map(|path| &path.names);
            let named = imported.chain(&module.expressions);
            let declared = named.filter_map(|names| self.declaring(place, names, FOLLOWED));
            let others = declared.filter(|at| !place.starts_with(at));
            graph.insert(&*module.file, others.map(|at| &*self.modules[at].file).collect());
        }
        graph
    }

    /// Returns the module that declares the target of the path `names` in the module `place`. Returns None for a target
    /// that another crate declares, and for a module, from which nothing is named yet.
    fn declaring(&self, place: &[String], names: &[String], left: usize) -> Option<&Vec<String>> {
        let left = left.checked_sub(1)?;
        let (first, mut rest) = names.split_first()?;
        let mut at = match first.as_str() {
            "crate" => Vec::new(),
            "self" => place.to_vec(),
            "super" => place.split_last()?.1.to_vec(),
            name if self.modules.contains_key(&below(place, name)) => below(place, name),
            // A name that is the first name of its own path is a crate.
            name => {
                return self
                    .used(place, name)
                    .filter(|path| path.names[0] != name)?
                    .follow(self, place, rest, left);
            }
        };
        while let Some((name, after)) = rest.split_first() {
            if name == "super" {
                at.pop();
            } else if self.modules.contains_key(&below(&at, name)) {
                at.push(name.clone());
            } else {
                return match self.used(&at, name) {
                    Some(path) => path.follow(self, &at, after, left),
                    None => self.modules.get_key_value(&at).map(|(at, _)| at),
                };
            }
            rest = after;
        }
        None
    }

    /// Returns the target that the `use` declarations of the module `place` give `name`.
    fn used(&self, place: &[String], name: &str) -> Option<&Path> {
        self.modules.get(place)?.used.iter().find(|path| path.known_as == name)
    }
}

impl Path {
    /// Returns the module that declares `rest`, below the target of this path in the module `place`.
    fn follow<'a>(
        &self,
        all: &'a Imports,
        place: &[String],
        rest: &[String],
        left: usize,
    ) -> Option<&'a Vec<String>> {
        let whole: Vec<String> = self.names.iter().chain(rest).cloned().collect();
        all.declaring(place, &whole, left)
    }
}

fn below(place: &[String], name: &str) -> Vec<String> {
    place.iter().cloned().chain([name.to_owned()]).collect()
}

/// Returns the module of the file `path` of the crate under `dir`, by names. The crate's root has none.
fn module_of(dir: &str, path: &str) -> Vec<String> {
    let inside = path.strip_prefix(dir).expect("a file under the folder").trim_end_matches(".rs");
    let inside = inside.trim_end_matches("/mod");
    let names = inside.split('/').filter(|name| !["", "lib", "main"].contains(name));
    names.map(str::to_owned).collect()
}

/// Returns the words and the signs of the product's part of a file. `::` is one sign.
fn tokens(source: &Source) -> Vec<String> {
    let mut tokens: Vec<String> = Vec::new();
    for (_, line) in source.product() {
        let mut rest = line.trim();
        while let Some(first) = rest.chars().next() {
            let word = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            let length = if rest.starts_with("::") { 2 } else { word.max(first.len_utf8()) };
            tokens.push(rest[..length].to_owned());
            rest = rest[length..].trim_start();
        }
    }
    tokens
}

fn is_word(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// What `use` declares, and the paths of two names or more that stand elsewhere.
fn read(tokens: &[String]) -> (Vec<Path>, Vec<Vec<String>>) {
    let (mut used, mut expressions) = (Vec::new(), Vec::new());
    let mut i = 0;
    while i < tokens.len() {
        // A name that is visible outside of the file is passed on, also by `pub(super) use`.
        let declares = tokens[i] == "use";
        if declares {
            let passed_on = i > 0 && ["pub", ")"].contains(&&*tokens[i - 1]);
            let end = i + tokens[i..].iter().position(|token| token == ";").unwrap_or(tokens.len() - i);
            let mut tree = &tokens[i + 1..end];
            read_tree(&mut tree, &[], passed_on, &mut used);
            i = end;
        } else if is_word(&tokens[i]) && tokens.get(i + 1).is_some_and(|next| next == "::") {
            let mut names = vec![tokens[i].clone()];
            while i + 2 < tokens.len() && tokens[i + 1] == "::" && is_word(&tokens[i + 2]) {
                names.push(tokens[i + 2].clone());
                i += 2;
            }
            expressions.push(names);
        }
        i += 1;
    }
    (used, expressions)
}

/// Reads one branch of a `use`, and what stands in its braces.
fn read_tree(tree: &mut &[String], above: &[String], passed_on: bool, used: &mut Vec<Path>) {
    let mut names = above.to_vec();
    let mut known_as = None;
    while let Some((token, rest)) = tree.split_first() {
        match token.as_str() {
            "," | "}" => break,
            "{" => {
                *tree = rest;
                while tree.first().is_some_and(|token| token != "}") {
                    read_tree(tree, &names, passed_on, used);
                    *tree = tree.strip_prefix(&[",".to_owned()]).unwrap_or(tree);
                }
                *tree = tree.get(1..).unwrap_or_default();
                return;
            }
            "as" => known_as = rest.first().cloned(),
            name if known_as.is_none() && (name != "self" || names.is_empty()) && name != "::" => {
                names.push(name.to_owned());
            }
            _ => {}
        }
        *tree = rest;
    }
    let known_as = known_as.or_else(|| names.last().cloned()).unwrap_or_default();
    used.push(Path { names, known_as, passed_on });
}

/// The files of which each names each other, directly or by others: every circle, the largest first.
pub fn circles<'a>(graph: &BTreeMap<&'a str, BTreeSet<&'a str>>) -> Vec<BTreeSet<&'a str>> {
    let reached: BTreeMap<&str, BTreeSet<&str>> =
        graph.keys().map(|file| (*file, reach(graph, file))).collect();
    let mut circles: Vec<BTreeSet<&str>> = Vec::new();
    for (file, others) in &reached {
        let circle: BTreeSet<&str> = others.iter().copied().filter(|o| reached[o].contains(file)).collect();
        if circle.len() > 1 && !circles.contains(&circle) {
            circles.push(circle);
        }
    }
    circles.sort_by_key(|circle| usize::MAX - circle.len());
    circles
}

/// All files that are reached from one, by one step or more.
fn reach<'a>(graph: &BTreeMap<&'a str, BTreeSet<&'a str>>, from: &'a str) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut next = vec![from];
    while let Some(file) = next.pop() {
        next.extend(graph.get(file).into_iter().flatten().copied().filter(|file| reached.insert(*file)));
    }
    reached
}

#[test]
fn paths_are_read_from_groups_and_from_expressions() {
    let source = Source::of(
        "src/a.rs",
        "use super::b::{self, C, d::{E as F}};\npub use g::H;\nfn f() { b::i(C::new()) }",
    );
    let (used, expressions) = read(&tokens(&source));
    let known: Vec<(String, &str, bool)> =
        used.iter().map(|path| (path.names.join("::"), &*path.known_as, path.passed_on)).collect();
    let expected = [
        ("super::b", "b", false),
        ("super::b::C", "C", false),
        ("super::b::d::E", "F", false),
        ("g::H", "H", true),
    ];
    assert_eq!(known, expected.map(|(path, known_as, on)| (path.to_owned(), known_as, on)));
    assert_eq!(expressions, [["b", "i"], ["C", "new"]]);
}

#[test]
fn a_circle_is_seen_through_passed_on_names_and_not_inside_a_folder() {
    let files = [
        ("src/lib.rs", "mod a; mod b; mod c;"),
        ("src/a.rs", "mod part;\npub use part::Part;\nuse crate::b::B;\nstruct A;"),
        ("src/a/part.rs", "use super::A;\npub struct Part;"),
        ("src/b.rs", "pub struct B; fn f() { crate::c::deep::g() }"),
        ("src/c.rs", "pub mod deep;"),
        ("src/c/deep.rs", "use crate::a;\nfn g(of: a::A) {}"),
    ];
    let sources: Vec<Source> = files.iter().map(|(path, text)| Source::of(path, text)).collect();
    let imports = Imports::of_sources("src", &sources);
    let circle = ["src/a.rs", "src/b.rs", "src/c/deep.rs"];
    assert_eq!(circles(&imports.graph()), [BTreeSet::from(circle)]);
}
