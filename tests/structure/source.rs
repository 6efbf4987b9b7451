//! The tree's Rust files as code alone: comments and literals blanked, lines and columns as they are.

use std::fs;
use std::path::{Path, PathBuf};

/// One file.
pub struct Source {
    /// Its path from the root of the repository, with `/`.
    pub path: String,
    /// Its lines without comments and literals.
    pub code: Vec<String>,
    /// Which of the lines belong to the product, not to its tests.
    in_product: Vec<bool>,
}

impl Source {
    /// Every `.rs` file under the directory `dir` of the repository, in order.
    ///
    /// # Panics
    /// If there is none: then a test of the tree would test nothing.
    pub fn under(dir: &str) -> Vec<Source> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut files = Vec::new();
        collect(&root.join(dir), &mut files);
        assert!(!files.is_empty(), "no Rust files under {dir}");
        files.sort();
        files.iter().map(|file| Source::read(root, file)).collect()
    }

    fn read(root: &Path, file: &Path) -> Source {
        let text = fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        Source::of(&file.strip_prefix(root).expect("a file of the tree").display().to_string(), &text)
    }

    /// The file `path` with this text.
    pub fn of(path: &str, text: &str) -> Source {
        let code: Vec<String> = blank(text).lines().map(str::to_owned).collect();
        let in_product = product_lines(path, &code);
        Source { path: path.to_owned(), code, in_product }
    }

    /// The lines with their numbers, from 1.
    pub fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.code.iter().enumerate().map(|(i, line)| (i + 1, line.as_str()))
    }

    /// The lines of the product, without those of its tests.
    pub fn product(&self) -> impl Iterator<Item = (usize, &str)> {
        self.lines().filter(|(number, _)| self.in_product[number - 1])
    }

    /// Returns the number of the line on which the block that opens on or after line `from` closes. Returns None if a
    /// `;` comes first.
    pub fn block_end(&self, from: usize) -> Option<usize> {
        let (mut braces, mut brackets) = (0, 0);
        for (number, line) in self.lines().skip(from - 1) {
            for c in line.chars() {
                match c {
                    '{' => braces += 1,
                    '}' if braces == 1 => return Some(number),
                    '}' => braces -= 1,
                    '(' | '[' => brackets += 1,
                    ')' | ']' => brackets -= 1,
                    // Not that of an array's length.
                    ';' if braces == 0 && brackets == 0 => return None,
                    _ => {}
                }
            }
        }
        panic!("{}:{from}: a block without an end", self.path)
    }
}

/// Whether a line of code has `word` as a separate word.
pub fn names(line: &str, word: &str) -> bool {
    words(line).any(|one| one == word)
}

/// The identifiers of a line.
pub fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

fn collect(dir: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display())) {
        let path = entry.expect("a directory entry").path();
        if path.is_dir() {
            // `fuzz/target` is made by cargo.
            if path.ends_with("target") {
                continue;
            }
            collect(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

/// Returns the lines that belong to the product: none of a file `tests.rs`, and in others those outside the test
/// module.
fn product_lines(path: &str, code: &[String]) -> Vec<bool> {
    let mut product = vec![!path.ends_with("tests.rs") && !path.contains("/tests/"); code.len()];
    let begins = |i: usize| {
        code[i].trim() == "#[cfg(test)]" && code.get(i + 1).is_some_and(|l| l.starts_with("mod tests {"))
    };
    let mut i = 0;
    while i < code.len() {
        if begins(i) {
            // rustfmt puts the brace that closes an outermost item into the first column.
            let end = (i..code.len()).find(|&j| code[j].starts_with('}')).unwrap_or(code.len() - 1);
            product[i..=end].fill(false);
            i = end;
        }
        i += 1;
    }
    product
}

/// The text with comments, strings and character literals turned into spaces.
fn blank(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    while out.len() < bytes.len() {
        let rest = &text[out.len()..];
        let literal = literal_len(rest, out.last().copied());
        if literal == 0 {
            let next = rest.chars().next().map_or(1, char::len_utf8);
            out.extend_from_slice(&rest.as_bytes()[..next]);
        } else {
            out.extend(rest.as_bytes()[..literal].iter().map(|&b| if b == b'\n' { b'\n' } else { b' ' }));
        }
    }
    String::from_utf8(out).expect("blanks and whole characters")
}

/// Returns the bytes of the comment or literal at the beginning of `rest`; 0 if there is none.
fn literal_len(rest: &str, before: Option<u8>) -> usize {
    let in_word = before.is_some_and(|b| b.is_ascii_alphanumeric() || b == b'_');
    if rest.starts_with("//") {
        return rest.find('\n').unwrap_or(rest.len());
    }
    if rest.starts_with("/*") {
        return rest.find("*/").map_or(rest.len(), |end| end + 2);
    }
    if rest.starts_with('r') && !in_word {
        let fence = rest[1..].bytes().take_while(|&b| b == b'#').count();
        if rest[1 + fence..].starts_with('"') {
            let close = format!("\"{}", "#".repeat(fence));
            let begin = fence + 2;
            return rest[begin..].find(&close).map_or(rest.len(), |end| begin + end + close.len());
        }
    }
    match rest.as_bytes()[0] {
        b'"' => quoted_len(rest, b'"'),
        // A character, not a lifetime: it closes after one character or an escape.
        b'\'' if rest[1..].starts_with('\\') => quoted_len(rest, b'\''),
        b'\'' => {
            let one = rest[1..].chars().next().map_or(0, char::len_utf8);
            if rest[1 + one..].starts_with('\'') { one + 2 } else { 0 }
        }
        _ => 0,
    }
}

fn quoted_len(rest: &str, quote: u8) -> usize {
    let bytes = rest.as_bytes();
    let mut i = 1;
    while i < bytes.len() && bytes[i] != quote {
        i += if bytes[i] == b'\\' { 2 } else { 1 };
    }
    (i + 1).min(bytes.len())
}

#[test]
fn comments_and_literals_are_blanked_and_lines_stay() {
    let text = "let a = \"un\\\"safe {\"; // unsafe\nlet b = r#\"}\"unsafe\"#; /* un\nsafe */ let c = '{'; let d: &'a str = '\\'';";
    let code = blank(text);
    assert_eq!(code.len(), text.len());
    assert_eq!(code.lines().count(), 3);
    assert_eq!(
        words(&code).collect::<Vec<_>>(),
        ["let", "a", "let", "b", "let", "c", "let", "d", "a", "str"]
    );
    assert!(!code.contains(['{', '}', '"']));
}
