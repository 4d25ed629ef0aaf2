//! Reading the tree and its Rust.
//!
//! The reader is not a compiler. It tells code from comments and quotes, knows where an item under
//! `#[cfg(test)]` or `#[cfg(loom)]` ends, and spells out paths and `use` trees; that is enough for
//! the rules.

use std::fs;
use std::path::{Path, PathBuf};

/// How many lines of code may lie between a line and the comment that speaks of it.
pub(super) const NEAR: usize = 6;

// ---- reading the tree ---------------------------------------------------------------------------

/// A file of `src`, read.
pub(super) struct Source {
    /// From the top of the repository, with slashes.
    pub(super) path: String,
    pub(super) text: String,
    /// The text with blanks for comments and for what is in quotes.
    pub(super) code: String,
    /// The code with blanks for what is compiled for tests and models only.
    pub(super) shipped: String,
    /// The text with blanks for all but comments.
    comments: Vec<String>,
    pub(super) lines_of_tests: usize,
}

impl Source {
    pub(super) fn new(path: &str, text: &str) -> Source {
        let (code, comments) = split(text);
        let (shipped, lines_of_tests) = without_tests(&code);
        let comments = comments.lines().map(str::to_owned).collect();
        Source { path: path.to_owned(), text: text.to_owned(), code, shipped, comments, lines_of_tests }
    }

    pub(super) fn is_in(&self, places: &[&str]) -> bool {
        places.iter().any(|place| self.path.starts_with(place))
    }

    /// The module at the top of `src` that the file belongs to; `None` for `lib.rs`, which lists
    /// all, the tests, which use all, and the program, which is another crate.
    pub(super) fn module(&self) -> Option<&str> {
        let inside = self.path.strip_prefix("src/")?;
        let module = inside.split('/').next()?.trim_end_matches(".rs");
        (!["lib", "tests", "bin"].contains(&module)).then_some(module)
    }

    /// How many `super` lead from the file to the root.
    pub(super) fn depth(&self) -> usize {
        self.path.trim_end_matches("/mod.rs").matches('/').count()
    }

    /// Whether a comment on the line, or near above it, has the word.
    pub(super) fn says(&self, line: usize, word: &str) -> bool {
        let code: Vec<&str> = self.code.lines().collect();
        let mut left = NEAR;
        for above in (0..line).rev() {
            if self.comments[above].contains(word) {
                return true;
            }
            let is_comment = code[above].trim().is_empty() && !self.comments[above].trim().is_empty();
            if above + 1 < line && !is_comment {
                left -= 1;
            }
            if left == 0 {
                return false;
            }
        }
        false
    }
}

pub(super) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

pub(super) fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Fails with the reason and the faults if a rule finds any in `src`.
pub(super) fn hold(reason: &str, rule: impl Fn(&Source) -> Vec<String>) {
    let files = walk(&root().join("src"));
    let sources = files.iter().filter(|(path, _)| Path::new(path).extension().is_some_and(|extension| extension == "rs"));
    let sources: Vec<_> = sources.map(|(path, text)| Source::new(path, text)).collect();
    assert!(sources.len() > 10, "the sources were not found");
    let faults: Vec<_> = sources.iter().flat_map(rule).collect();
    assert!(faults.is_empty(), "{reason}:\n{}", faults.join("\n"));
}

/// Every text file of the repository; `None` in a published package, which has not all of them.
pub(super) fn repository() -> Option<Vec<(String, String)>> {
    let published = root().join("Cargo.toml.orig").exists();
    (!published).then(|| walk(root()))
}

/// The text files under a folder, with their paths from the top of the repository. What is
/// built, fetched or recorded is left out.
fn walk(folder: &Path) -> Vec<(String, String)> {
    let mut entries: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.strip_prefix(root()).unwrap().to_string_lossy().replace('\\', "/");
        let name = path.rsplit('/').next().unwrap_or("");
        if entry.is_dir() && !["target", ".git", "corpus", "artifacts"].contains(&name) {
            files.extend(walk(&entry));
        } else if entry.is_file() && !["Cargo.lock", "access.log"].contains(&name) {
            // What is no UTF-8 is no text.
            files.extend(fs::read_to_string(&entry).ok().map(|text| (path, text)));
        }
    }
    files
}

// ---- reading Rust -------------------------------------------------------------------------------

/// A text twice, in its own lines and columns: code without comments and quotes, and comments.
pub(super) fn split(text: &str) -> (String, String) {
    let chars: Vec<char> = text.chars().collect();
    let (mut code, mut comments) = (String::new(), String::new());
    let mut at = 0;
    while at < chars.len() {
        let in_word = at > 0 && (chars[at - 1].is_alphanumeric() || chars[at - 1] == '_');
        let (length, kind) = piece(&chars[at..], in_word);
        for &c in &chars[at..at + length] {
            let blank = if c == '\n' { '\n' } else { ' ' };
            code.push(if kind == Kind::Code { c } else { blank });
            comments.push(if kind == Kind::Comment { c } else { blank });
        }
        at += length;
    }
    (code, comments)
}

#[derive(PartialEq)]
enum Kind {
    Code,
    Comment,
    Quoted,
}

/// The length of the comment or quote that the text begins with, or one character of code.
fn piece(text: &[char], in_word: bool) -> (usize, Kind) {
    let begins = |at: usize, with: &str| with.chars().eq(text[at.min(text.len())..].iter().copied().take(with.len()));
    // The end of what `end` closes, looking from `from`.
    let closed = |from: usize, end: &str| (from..text.len()).find(|at| begins(*at, end)).map_or(text.len(), |at| at + end.len());
    if begins(0, "//") {
        return (text.iter().position(|c| *c == '\n').unwrap_or(text.len()), Kind::Comment);
    }
    if begins(0, "/*") {
        let (mut at, mut open) = (2, 1);
        while open > 0 && at < text.len() {
            let step = if begins(at, "/*") { 1 } else { -i32::from(begins(at, "*/")) };
            open += step;
            at += if step == 0 { 1 } else { 2 };
        }
        return (at.min(text.len()), Kind::Comment);
    }
    let prefix = usize::from(begins(0, "b") || begins(0, "c"));
    if !in_word && begins(prefix, "r") {
        let hashes = text[prefix + 1..].iter().take_while(|c| **c == '#').count();
        if begins(prefix + 1 + hashes, "\"") {
            return (closed(prefix + hashes + 2, &format!("\"{}", "#".repeat(hashes))), Kind::Quoted);
        }
    }
    let quote = match text[0] {
        '"' => '"',
        '\'' if begins(1, "\\") || text.get(2) == Some(&'\'') => '\'',
        _ => return (1, Kind::Code),
    };
    let mut at = 1;
    while at < text.len() && text[at] != quote {
        at += if text[at] == '\\' { 2 } else { 1 };
    }
    ((at + 1).min(text.len()), Kind::Quoted)
}

/// The code with blanks for the items under `#[cfg(test)]` or `#[cfg(loom)]`, and the lines that these take.
fn without_tests(code: &str) -> (String, usize) {
    let items = "pub mod use fn impl struct enum const static type trait unsafe extern macro_rules";
    let mut shipped = code.to_owned();
    let mut lines = 0;
    let mut from = 0;
    while let Some(start) = shipped[from..].find("#[cfg(").map(|at| at + from) {
        from = start + "#[cfg(".len();
        let condition = &shipped[from..from + shipped[from..].find(")]").unwrap_or(0)];
        let words = tokens(condition);
        let has = |word: &str| words.iter().any(|(_, token)| token == word);
        let mut item = from + condition.len() + 2;
        while let Some(attribute) = shipped[item..].trim_start().strip_prefix("#[") {
            item = shipped.len() - attribute.len() + attribute.find(']').map_or(0, |at| at + 1);
        }
        let first = tokens(&shipped[item..]).into_iter().next().map_or(String::new(), |(_, token)| token);
        if !(has("test") || has("loom")) || has("not") || has("any") || !items.split(' ').any(|item| item == first) {
            continue;
        }
        let mut depth = 0i32;
        let mut end = item;
        for c in shipped[item..].chars() {
            end += c.len_utf8();
            depth += i32::from("([{".contains(c)) - i32::from(")]}".contains(c));
            if depth == 0 && (c == ';' || c == '}') {
                break;
            }
        }
        let blank: String = shipped[start..end].chars().map(|c| if c == '\n' { '\n' } else { ' ' }).collect();
        lines += blank.matches('\n').count() + 1;
        shipped.replace_range(start..end, &blank);
    }
    (shipped, lines)
}

/// Words, numbers, `::` and single characters, each with its line, counted from 1.
pub(super) fn tokens(code: &str) -> Vec<(usize, String)> {
    let mut tokens: Vec<(usize, String)> = Vec::new();
    for (text, line) in code.lines().zip(1..) {
        let mut rest = text.trim_start();
        while let Some(first) = rest.chars().next() {
            let is_part = |c: char| c.is_alphanumeric() || c == '_';
            // A point is part of a number, but for that of `a.0.1`, of `0..9` and of `1.max(2)`.
            let after_point = tokens.last().is_some_and(|(_, token)| token == ".");
            let mut length = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
            if first.is_ascii_digit() && !after_point && rest[length..].starts_with('.') {
                let decimals = &rest[length + 1..];
                let digits = decimals.find(|c| !is_part(c)).unwrap_or(decimals.len());
                length += if decimals.starts_with(|c: char| c.is_ascii_digit()) { 1 + digits } else { 0 };
            }
            if length == 0 {
                length = if rest.starts_with("::") { 2 } else { first.len_utf8() };
            }
            tokens.push((line, rest[..length].to_owned()));
            rest = rest[length..].trim_start();
        }
    }
    tokens
}

/// Every path in the code, spelled out: `use a::{b, c::d}` is `a::b` and `a::c::d`.
pub(super) fn paths(code: &str) -> Vec<(usize, String)> {
    let tokens = tokens(code);
    let mut found = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        if is_name(&tokens[at].1) {
            at = spell(&tokens, at, "", &mut found);
        } else {
            at += 1;
        }
    }
    found
}

fn is_name(token: &str) -> bool {
    token == "*" || token.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// Spells out the tree of paths that begins at a token; returns where it ends.
fn spell(tokens: &[(usize, String)], mut at: usize, prefix: &str, found: &mut Vec<(usize, String)>) -> usize {
    let token = |at: usize| tokens.get(at).map_or("", |(_, token)| token.as_str());
    let mut path = prefix.to_owned();
    loop {
        if token(at) == "{" {
            at += 1;
            while at < tokens.len() && token(at) != "}" {
                at = match token(at) {
                    "as" => at + 2,
                    name if is_name(name) => spell(tokens, at, &path, found),
                    _ => at + 1,
                };
            }
            return at + 1;
        }
        path += token(at);
        at += 1;
        let goes_on = token(at) == "::" && (is_name(token(at + 1)) || token(at + 1) == "{");
        if !goes_on {
            found.push((tokens[at - 1].0, path));
            return at;
        }
        path += "::";
        at += 1;
    }
}

#[test]
fn the_reader_tells_code_from_the_rest() {
    let text = "a // b\n/* c /* d */ e */ f \"g\\\" // h\" r#\"i\" j\"# 'k' '\\'' b'l' &'m n b\"o\" r#p";
    let (code, comments) = split(text);
    assert_eq!(code.split_whitespace().collect::<Vec<_>>(), ["a", "f", "b", "&'m", "n", "b", "r#p"]);
    assert_eq!(comments.split_whitespace().collect::<String>(), "//b/*c/*d*/e*/");
    assert_eq!(code.lines().map(str::len).collect::<Vec<_>>(), text.lines().map(str::len).collect::<Vec<_>>());
}

#[test]
fn the_reader_finds_the_end_of_tests() {
    let code = "a\n#[cfg(test)]\n#[x]\nmod t {\n { } [;]\n}\nb\n#[cfg(not(test))]\nmod c {}\n#[cfg(loom)]\nuse d::{e};\nf";
    let (shipped, lines) = without_tests(code);
    let words: Vec<_> = tokens(&shipped).into_iter().map(|(_, token)| token).filter(|token| is_name(token)).collect();
    assert_eq!((words.join(" ").as_str(), lines), ("a b cfg not test mod c f", 7));
}

#[test]
fn the_reader_spells_out_paths() {
    let code = "use a::{b, c::{self, d as e},\n f::*};\ng::h::<i::j>(k) + ::l::m";
    let found: Vec<_> = paths(code).into_iter().map(|(line, path)| format!("{line} {path}")).collect();
    let expected = ["1 use", "1 a::b", "1 a::c::self", "1 a::c::d", "2 a::f::*", "3 g::h", "3 i::j", "3 k", "3 l::m"];
    assert_eq!(found, expected);
}
