//! Rules about the source itself, checked by reading it.
//!
//! Each rule is a function from a [`Source`] to the faults that it finds, and one test: over the
//! tree, where it must find none and otherwise says why the rule is there, and over a small bad
//! example, where it must find something (a rule that cannot fail guards nothing).

mod source;

use source::{NEAR, Source, hold, paths, read, repository, root, split, tokens};
use std::path::Path;

/// Who may name whom: a module at the top of `src`, and the modules it may use besides itself. A
/// row may only name rows above it, so that arrows point down. `ffi` is not here: it uses the
/// public names only.
const LAYERS: &[(&str, &[&str])] = &[
    ("ticks", &[]),
    ("word", &[]),
    ("statistics", &[]),
    ("sync", &[]),
    ("hash", &[]),
    ("clock", &["sync"]),
    ("reclaim", &["sync"]),
    ("guard", &["sync"]),
    ("plan", &["ticks", "word"]),
    ("limit", &["plan"]),
    ("decision", &[]),
    ("rule", &["sync", "word"]),
    // The two sides that know nothing of each other ...
    ("algorithm", &["ticks", "word", "guard", "plan", "decision", "rule"]),
    ("table", &["word", "sync", "reclaim", "rule"]),
    // ... and the only place where they meet.
    ("limiter", &["hash", "clock", "guard", "plan", "limit", "decision", "algorithm", "table", "statistics"]),
    ("replay", &["limit", "limiter", "decision"]),
];

/// What is named in one file only (the system in two: it gives time and memory), so that it can be replaced there: by a mock, or for good.
const NAMED_ONCE: &[(&str, &[&str])] = &[
    ("ahash", &["src/hash.rs"]),
    ("crossbeam_epoch", &["src/reclaim.rs"]),
    ("libc", &["src/clock.rs", "src/table/memory.rs"]),
    ("std::time::Instant", &["src/clock.rs"]),
    ("std::time::SystemTime", &["src/clock.rs"]),
    ("std::sync::atomic", &["src/sync.rs"]),
    ("core::sync::atomic", &["src/sync.rs"]),
];

/// Files and folders where `unsafe` may stand.
const UNSAFE: &[&str] = &["src/ffi/", "src/clock.rs", "src/clock/cycles.rs", "src/table/", "src/reclaim.rs", "src/tests/mod.rs"];

/// Folders where floats may stand: what is shown to people. Everything else counts in whole numbers.
const FLOATS: &[&str] = &["src/replay/", "src/bin/", "src/tests/"];

const ORDERINGS: [&str; 5] = ["Relaxed", "Acquire", "Release", "AcqRel", "SeqCst"];
const LINES_MAX: usize = 400;

// ---- the rules ----------------------------------------------------------------------------------

#[test]
fn arrows_between_layers_point_down() {
    for (i, (module, uses)) in LAYERS.iter().enumerate() {
        for used in *uses {
            assert!(LAYERS[..i].iter().any(|(above, _)| above == used), "LAYERS: {module} names {used}, which is not above it");
        }
    }
    let names = public_names(&read(&root().join("src/lib.rs")));
    hold("a layer that uses a higher one cannot be read, tested or replaced alone", |s| layers(s, &names));

    let names = public_names("pub use decision::{Decision, NEVER as Never};\npub use limiter::Limiter;\n");
    let faults = |path: &str, text: &str| layers(&Source::new(path, text), &names).len();
    assert_eq!(faults("src/table/slot.rs", "use crate::{word::Word, plan::{Plan, Unit}};"), 2);
    assert_eq!(faults("src/table/mod.rs", "fn f() { crate::limiter::f(); super::limit::g(); slot::h() }"), 2);
    assert_eq!(faults("src/algorithm/quota.rs", "use super::super::table; use super::Step; use crate::Limiter;"), 2);
    assert_eq!(faults("src/algorithm/quota.rs", "use crate::Decision;\n#[cfg(test)]\nmod tests { use crate::Limiter; }"), 0);
    assert_eq!(faults("src/ffi/limiter.rs", "use crate::{Limiter, ffi::status, limiter::BuildError};"), 1);
    assert_eq!(faults("src/news.rs", ""), 1);
}

fn layers(source: &Source, names: &[(String, String)]) -> Vec<String> {
    let Some(module) = source.module() else { return Vec::new() };
    let row = LAYERS.iter().find(|(name, _)| *name == module);
    if row.is_none() && module != "ffi" {
        return vec![format!("{}: not in LAYERS of src/tests/tidy.rs; give it a row", source.path)];
    }
    let mut faults = Vec::new();
    for (line, path) in paths(&source.shipped) {
        let mut parts = path.split("::").peekable();
        if parts.peek() == Some(&"crate") {
            parts.next();
        } else {
            let mut up = 0;
            while parts.next_if_eq(&"super").is_some() {
                up += 1;
            }
            if up < source.depth() {
                continue;
            }
        }
        let Some(first) = parts.next() else { continue };
        let public = names.iter().find(|(name, _)| name == first);
        let used = public.map_or(first, |(_, module)| module.as_str());
        let fine = used == module || row.map_or(public.is_some(), |(_, uses)| uses.contains(&used));
        if !fine {
            faults.push(format!("{}:{line}: {module} may not use {path}", source.path));
        }
    }
    faults
}

/// The names that `lib.rs` gives to everybody, each with the module it is from.
fn public_names(lib: &str) -> Vec<(String, String)> {
    let code = split(lib).0;
    let uses = code.split("pub use ").skip(1).filter_map(|rest| rest.split_once(';')).map(|(tree, _)| tree);
    let paths = uses.flat_map(paths).map(|(_, path)| path);
    paths
        .filter_map(|path| {
            let path = path.strip_prefix("crate::").unwrap_or(&path);
            let (module, rest) = path.split_once("::")?;
            Some((rest.rsplit("::").next()?.to_owned(), module.to_owned()))
        })
        .collect()
}

#[test]
fn what_may_be_replaced_is_named_in_one_file() {
    hold("a crate or a clock that is named in one file can be replaced or mocked there", named_once);

    let faults = |path: &str, text: &str| named_once(&Source::new(path, text)).len();
    assert_eq!(faults("src/table/mod.rs", "use std::sync::{Arc, atomic::{AtomicU64, Ordering}}; use ahash::RandomState;"), 3);
    assert_eq!(faults("src/limiter.rs", "fn f() { let t = std::time::Instant::now(); unsafe { libc::time(p) } }"), 2);
    assert_eq!(faults("src/sync.rs", "#[cfg(not(loom))]\npub(crate) use std::sync::atomic::AtomicU64;"), 0);
    assert_eq!(faults("src/ffi/mod.rs", "use std::sync::atomic::AtomicU64;"), 0);
    assert_eq!(faults("src/word.rs", "// ahash::X\nfn f() { libc(\"libc::x\") }"), 0);
}

fn named_once(source: &Source) -> Vec<String> {
    // Tests look from outside, the program is another crate, and the C ABI names public items only.
    let excepted =
        |name: &str| source.is_in(&["src/bin/", "src/tests/"]) || (name.contains("atomic") && source.is_in(&["src/ffi/"]));
    let mut faults = Vec::new();
    for (line, path) in paths(&source.shipped) {
        for (name, homes) in NAMED_ONCE {
            let named =
                path.strip_prefix(name).is_some_and(|rest| rest.starts_with("::") || (rest.is_empty() && name.contains("::")));
            if named && !homes.contains(&source.path.as_str()) && !excepted(name) {
                faults.push(format!("{}:{line}: {path} belongs in {}", source.path, homes.join(" or ")));
            }
        }
    }
    faults
}

#[test]
fn unsafe_stands_in_few_files_and_gives_its_reason() {
    hold("unsafe code is read line by line in review: it stays in few files, and says what it rests on", unsafety);

    let faults = |path: &str, text: &str| unsafety(&Source::new(path, text)).len();
    assert_eq!(faults("src/limiter.rs", "// SAFETY: none\nfn f() { unsafe { g() } }"), 1);
    assert_eq!(faults("src/reclaim.rs", "struct A;\nunsafe impl Send for A {}\nunsafe fn f() {}\n"), 2);
    assert_eq!(faults("src/reclaim.rs", "// SAFETY: A has no\n// state.\nunsafe impl Send for A {}\ntype F = unsafe fn();"), 0);
    assert_eq!(faults("src/ffi/limiter.rs", "#[unsafe(no_mangle)]\npub unsafe extern \"C\" fn azud_x() {}"), 0);
    assert_eq!(faults("src/word.rs", "#![deny(unsafe_code)] // unsafe"), 0);
}

fn unsafety(source: &Source) -> Vec<String> {
    let tokens = tokens(&source.code);
    let mut faults = Vec::new();
    for (i, (line, token)) in tokens.iter().enumerate() {
        let next = |n: usize| tokens.get(i + n).map_or("", |(_, token)| token.as_str());
        if token != "unsafe" || next(1) == "(" {
            continue;
        }
        if !source.is_in(UNSAFE) {
            faults.push(format!("{}:{line}: unsafe is not allowed here", source.path));
        }
        // `unsafe extern "C" fn` has its contract in its documentation, which is the header.
        let is_reasoned = match next(1) {
            "{" | "impl" => source.says(*line, "SAFETY"),
            "fn" if next(2) != "(" => source.says(*line, "# Safety") || source.says(*line, "SAFETY"),
            _ => true,
        };
        if !is_reasoned {
            faults.push(format!("{}:{line}: a comment above must say SAFETY: and why it holds", source.path));
        }
    }
    faults
}

#[test]
fn the_engine_counts_in_whole_numbers() {
    hold("floats drift, and no two languages round them alike: limits would not be exact", floats);

    let faults = |path: &str, text: &str| floats(&Source::new(path, text)).len();
    assert_eq!(faults("src/table/mod.rs", "fn f(x: f64) -> u64 { (x * 0.75) as u64 }"), 2);
    assert_eq!(faults("src/plan/calendar.rs", "const A: f32 = 1e9;"), 2);
    assert_eq!(faults("src/ticks.rs", "fn f() { a.0.1; 0..10; 1.max(2); 0x1e3; 1_000u64; } // 0.5 f64"), 0);
}

fn floats(source: &Source) -> Vec<String> {
    let is_float = |token: &str| {
        let literal = token.starts_with(|c: char| c.is_ascii_digit()) && !token.starts_with("0x");
        let point = literal && token.split_once('.').is_some_and(|(_, rest)| rest.starts_with(|c: char| c.is_ascii_digit()));
        let exponent = literal && token.split_once('e').is_some_and(|(_, rest)| rest.starts_with(|c: char| c.is_ascii_digit()));
        token == "f32" || token == "f64" || point || exponent
    };
    if source.is_in(FLOATS) {
        return Vec::new();
    }
    let floats = tokens(&source.shipped).into_iter().filter(|(_, token)| is_float(token));
    floats.map(|(line, token)| format!("{}:{line}: {token}", source.path)).collect()
}

#[test]
fn every_file_says_what_it_is_and_is_short() {
    hold("a file has one reason to exist, says it first, and can be read in one sitting", shape);

    let faults = |text: &str| shape(&Source::new("src/word.rs", text)).len();
    assert_eq!(faults("use std::fmt;\n//! Late.\n"), 1);
    assert_eq!(faults(&format!("//! Long.\n{}", "fn f() {}\n".repeat(LINES_MAX))), 1);
    assert_eq!(faults(&format!("//! Tested.\n#[cfg(test)]\nmod tests {{\n{}}}\n", "fn f() {}\n".repeat(LINES_MAX))), 0);
}

fn shape(source: &Source) -> Vec<String> {
    let mut faults = Vec::new();
    if !source.text.starts_with("//! ") {
        faults.push(format!("{}:1: begin with a line //! that says what the file is for", source.path));
    }
    let lines = source.text.lines().count() - source.lines_of_tests;
    if lines >= LINES_MAX && !source.is_in(&["src/tests/"]) {
        faults.push(format!("{}: {lines} lines without its tests; fewer than {LINES_MAX}, please", source.path));
    }
    faults
}

#[test]
fn every_memory_ordering_is_explained_by_name() {
    hold("an ordering is half of a pair: its comment names it, its partner, and what would be seen without it", orderings);

    let faults = |text: &str| orderings(&Source::new("src/table/slot.rs", text)).len();
    assert_eq!(faults("// Fine.\nlet a = b.load(Acquire);"), 1);
    assert_eq!(faults("// Acquire: pairs with f.\nb.compare_exchange(1, 2, AcqRel, Relaxed); // Relaxed: looked at again"), 1);
    assert_eq!(faults("use crate::sync::Ordering::{\n    Acquire, Relaxed,\n};\n// Acquire: pairs with f.\nb.load(Acquire);"), 0);
    assert_eq!(faults(&format!("// Acquire: far.\n{}b.load(Acquire);", "f();\n".repeat(NEAR))), 1);
}

fn orderings(source: &Source) -> Vec<String> {
    // The C ABI's are in traps of debug builds, explained once where they are declared.
    if source.is_in(&["src/tests/", "src/ffi/"]) {
        return Vec::new();
    }
    let mut in_use = false;
    let mut faults = Vec::new();
    for (line, token) in tokens(&source.shipped) {
        in_use = token == "use" || (in_use && token != ";");
        if ORDERINGS.contains(&token.as_str()) && !in_use && !source.says(line, &token) {
            faults.push(format!("{}:{line}: no comment names {token}", source.path));
        }
    }
    faults
}

#[test]
fn nothing_sleeps_and_nothing_is_left_undone() {
    hold("time comes in as a value, so nothing needs to sleep; what is unfinished is not committed", unfinished);

    let faults = |text: &str| unfinished(&Source::new("src/limiter.rs", text)).len();
    assert_eq!(faults("fn f() { todo!(); std::thread::sleep(d); dbg!(x); unimplemented!() }\n#[path = \"x\"]\nmod y;"), 5);
    assert_eq!(faults("// todo!()\nfn f(todo: u8) { asleep(\"dbg!\"); path = x }"), 0);
}

fn unfinished(source: &Source) -> Vec<String> {
    let tokens = tokens(&source.code);
    let followed = |i: usize, by: &str| tokens.get(i + 1).is_some_and(|(_, next)| next == by);
    let mut faults = Vec::new();
    for (i, (line, token)) in tokens.iter().enumerate() {
        let is_bad = match token.as_str() {
            "todo" | "unimplemented" | "dbg" => followed(i, "!"),
            // Would hide a file from the map of layers.
            "path" => !source.is_in(&["src/tests/"]) && i > 0 && tokens[i - 1].1 == "[" && followed(i, "="),
            "sleep" => true,
            _ => false,
        };
        if is_bad {
            faults.push(format!("{}:{line}: {token}", source.path));
        }
    }
    faults
}

// ---- the rules of the repository ----------------------------------------------------------------

#[test]
fn links_and_make_targets_in_the_prose_exist() {
    let Some(files) = repository() else { return };
    let makefile = read(&root().join("Makefile"));
    let targets = make_targets(&makefile);
    assert!(targets.contains(&"test"), "no targets found in the Makefile");
    let mut faults = Vec::new();
    for (path, text) in &files {
        if is_prose(path) {
            let beside = root().join(path).parent().unwrap().to_owned();
            faults.extend(links(text).filter(|link| !beside.join(link).exists()).map(|link| format!("{path}: no file {link}")));
        }
        let named = made(text, is_prose(path)).filter(|name| !targets.contains(name));
        faults.extend(named.map(|name| format!("{path}: the Makefile has no target {name}")));
    }
    assert!(faults.is_empty(), "a newcomer follows the prose to the letter:\n{}", faults.join("\n"));

    let text = "See [a](b.md#c), [d](https://e.org), [f](#g)\n[h]: i/j.md\n`[k](l)` `make test`\n```sh\nmake lint\n$ make demo A=1\n```\n";
    assert_eq!(links(text).collect::<Vec<_>>(), ["b.md", "i/j.md"]);
    assert_eq!(made(text, true).collect::<Vec<_>>(), ["test", "lint", "demo"]);
    assert_eq!(made("// `make test` will make do\n", false).collect::<Vec<_>>(), ["test"]);
    assert_eq!(make_targets("A := b\nx y-z: w\n\tq:\n.PHONY: x\n"), ["x", "y-z"]);
}

fn is_prose(path: &str) -> bool {
    Path::new(path).extension().is_some_and(|extension| extension == "md")
}

/// The lines of a Markdown text, each with whether it is in a block of code.
fn marked(text: &str) -> impl Iterator<Item = (bool, &str)> {
    let mut in_block = false;
    text.lines().map(move |line| {
        let fence = line.trim_start().starts_with("```");
        in_block ^= fence;
        (in_block || fence, line)
    })
}

/// The files that a Markdown text links to.
fn links(text: &str) -> impl Iterator<Item = &str> {
    let lines = marked(text).filter(|(in_block, _)| !in_block).map(|(_, line)| line);
    let targets = lines.flat_map(|line| {
        let reference = line.strip_prefix('[').and_then(|rest| rest.split_once("]: ")).map(|(_, target)| target);
        let prose = line.split('`').step_by(2);
        let inline =
            prose.flat_map(|part| part.split("](").skip(1)).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target);
        inline.chain(reference)
    });
    let files = targets.filter(|target| !target.contains("://") && !target.starts_with("mailto:"));
    files.map(|target| target.split('#').next().unwrap_or("")).filter(|file| !file.is_empty())
}

/// The targets of `make` that a text names: in backquotes, and in the blocks of code of Markdown.
fn made(text: &str, markdown: bool) -> impl Iterator<Item = &str> {
    let quoted = text.split("`make ").skip(1);
    let blocks = marked(text).filter(move |(in_block, _)| *in_block && markdown);
    let commands = blocks.filter_map(|(_, line)| line.trim_start().trim_start_matches("$ ").strip_prefix("make "));
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let names = quoted.chain(commands).map(move |rest| rest.split(|c| !is_part(c)).next().unwrap_or(""));
    names.filter(|name| !name.is_empty())
}

fn make_targets(makefile: &str) -> Vec<&str> {
    let rules = makefile.lines().filter(|line| line.starts_with(|c: char| c.is_ascii_lowercase()) && !line.contains(":="));
    rules.filter_map(|line| line.split_once(':')).flat_map(|(names, _)| names.split_whitespace()).collect()
}

#[test]
fn no_file_names_a_place_on_one_machine() {
    let Some(files) = repository() else { return };
    let faults: Vec<_> = files.iter().flat_map(|(path, text)| places(text).map(move |line| format!("{path}:{line}"))).collect();
    assert!(faults.is_empty(), "what names somebody's own folder works on that machine only:\n{}", faults.join("\n"));

    let [home, work] = [concat!("/ho", "me/ana/x"), concat!("/wo", "rk/azud")];
    assert_eq!(places(&format!("a\ncd {home}\n\"{work}\" ./src{work}")).collect::<Vec<_>>(), [2, 3]);
}

/// The lines of a text with an absolute path of somebody's own.
fn places(text: &str) -> impl Iterator<Item = usize> {
    let folders = [concat!("/ho", "me/"), concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/Us", "ers/")];
    let is_start = |c: char| !c.is_alphanumeric() && !"./_-*})".contains(c);
    let has = move |line: &str| {
        folders.iter().any(|folder| line.match_indices(folder).any(|(at, _)| line[..at].chars().next_back().is_none_or(is_start)))
    };
    text.lines().zip(1..).filter(move |(line, _)| has(line)).map(|(_, number)| number)
}

#[test]
fn the_changelog_begins_with_this_version() {
    let Some(_files) = repository() else { return };
    let newest = newest(&read(&root().join("CHANGELOG.md")));
    assert!(
        newest == env!("CARGO_PKG_VERSION") || newest == "Unreleased",
        "CHANGELOG.md begins with {newest:?}: a version that nobody can look up is no release"
    );
}

fn newest(changelog: &str) -> String {
    let line = changelog.lines().find_map(|line| line.strip_prefix("## [")).unwrap_or("nothing]");
    line.split(']').next().unwrap_or("").to_owned()
}

#[test]
fn the_newest_version_is_the_first_in_the_changelog() {
    assert_eq!(newest("# Changelog\n\n## [0.2.0] - 2026-12-01\n## [0.1.0]\n"), "0.2.0");
    assert_eq!(newest("# Changelog\n"), "nothing");
}
