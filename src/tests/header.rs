//! `include/azud.h` is what `src/ffi` says, and is fit to be read.
//!
//! The header is made in memory by cbindgen and compared with the committed file. To write it anew:
//! `AZUD_BLESS=1 cargo test --features capi header`.

use std::fs;
use std::path::{Path, PathBuf};

/// The files of the C ABI, in the order in which a reader of the header wants their declarations.
const FILES: [&str; 4] = ["limiter", "options", "decision", "status"];

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn generated() -> String {
    let config = cbindgen::Config::from_file(path("cbindgen.toml")).expect("cbindgen.toml is read");
    let sources = FILES.map(|file| path(&format!("src/ffi/{file}.rs")));
    let builder = sources.iter().fold(cbindgen::Builder::new().with_config(config), cbindgen::Builder::with_src);
    let mut header = Vec::new();
    builder.generate().expect("src/ffi is understood").write(&mut header);
    String::from_utf8(header).unwrap()
}

fn committed() -> String {
    fs::read_to_string(path("include/azud.h")).expect("include/azud.h is there")
}

#[test]
fn header_is_what_the_sources_say() {
    let fresh = generated();
    if std::env::var_os("AZUD_BLESS").is_some_and(|value| value == "1") {
        fs::write(path("include/azud.h"), &fresh).unwrap();
    }
    let committed = committed();
    if let Some(line) = (1..).zip(fresh.lines().zip(committed.lines())).find(|(_, (a, b))| a != b) {
        panic!("include/azud.h differs from src/ffi at line {line:?}; write it anew with AZUD_BLESS=1");
    }
    assert_eq!(fresh.len(), committed.len(), "include/azud.h ends elsewhere; write it anew with AZUD_BLESS=1");
}

/// The text of a macro in the header.
fn defined(header: &str, name: &str) -> String {
    let line = header.lines().find_map(|line| line.strip_prefix("#define ")?.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("{name} is not defined")).to_owned()
}

#[test]
fn header_has_the_version_of_the_package() {
    let header = generated();
    let parts = ["MAJOR", "MINOR", "PATCH"].map(|part| defined(&header, &format!("AZUD_VERSION_{part}")));
    assert_eq!(parts.join("."), env!("CARGO_PKG_VERSION"));
    // The sum is what programs compare, so each part of it has to be the right one.
    assert_eq!(
        defined(&header, "AZUD_VERSION_NUMBER").replace(['(', ')'], ""),
        "AZUD_VERSION_MAJOR * 1000000 + AZUD_VERSION_MINOR * 1000 + AZUD_VERSION_PATCH"
    );
}

/// The documentation and the text of each declared function.
fn functions(header: &str) -> Vec<(&str, &str)> {
    let declared = header.split("\nAZUD_API\n").skip(1);
    let comments = header.split("\nAZUD_API\n").map(|before| before.rsplit("/**").next().unwrap());
    comments.zip(declared).map(|(comment, rest)| (comment, rest.split_once(';').unwrap().0)).collect()
}

#[test]
fn header_documents_every_parameter_of_every_function() {
    let header = generated();
    let functions = functions(&header);
    assert_eq!(functions.len(), 17, "a function came or went: is that meant, and is this number?");
    for (comment, declaration) in functions {
        let (name, parameters) = declaration.split_once('(').unwrap();
        let name = name.rsplit([' ', '*', '\n']).next().unwrap();
        assert!(name.starts_with("azud_"), "{name}");
        for parameter in parameters.trim_end_matches(')').split(',').filter(|parameter| *parameter != "void") {
            let parameter = parameter.rsplit([' ', '*']).next().unwrap();
            assert!(comment.contains(&format!("@param {parameter} ")), "{name} does not say what {parameter} is");
        }
        let is_void = declaration.starts_with("void ");
        assert!(is_void || comment.contains("@return "), "{name} does not say what it returns");
        for said in ["Threads: ", "Since: "] {
            assert!(comment.contains(said), "{name} does not say \"{said}\"");
        }
    }
}

#[test]
fn header_exports_nothing_else() {
    let exported = fs::read_dir(path("src/ffi")).unwrap().map(|file| fs::read_to_string(file.unwrap().path()).unwrap());
    let exports: usize = exported.map(|source| source.matches("\n#[unsafe(no_mangle)]").count()).sum();
    assert_eq!(exports, functions(&generated()).len(), "a file of src/ffi is not among FILES");
}
