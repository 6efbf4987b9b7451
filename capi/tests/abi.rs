//! What programs are compiled against is what was recorded: `libnetmem.abi`, by libabigail.
//!
//! `netmem.h` is compiled to a library whose functions do nothing, so that the compiler writes down every type as C sees it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::{env, fs, io, thread};

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// A program of libabigail; None, after saying why on standard error, where it is not installed; that is a failure if NETMEM_NO_SKIP is 1.
fn run(program: &str, words: &[&Path]) -> Option<Output> {
    if let Ok(out) = Command::new(program).args(words).output() {
        return Some(out);
    }
    let thread = thread::current();
    let test = thread.name().unwrap_or("a test");
    assert!(
        env::var("NETMEM_NO_SKIP").as_deref() != Ok("1"),
        "{test} must not be skipped: needs abigail-tools"
    );
    let line = format!("SKIPPED {test}: needs the program {program}: install abigail-tools\n");
    io::Write::write_all(&mut io::stderr(), line.as_bytes()).expect("standard error");
    None
}

/// The header without its comments.
fn declarations(header: &str) -> String {
    let mut parts = header.split("/*");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + part.split_once("*/").map_or("", |(_, rest)| rest))
}

/// A library of the functions of `netmem.h`; how many they are.
fn hollow(header: &str, library: &Path) -> usize {
    let text = declarations(header);
    let (_, functions) = text.split_once("extern \"C\" {\n#endif // __cplusplus").expect("functions");
    let (functions, _) = functions.split_once("#ifdef __cplusplus").expect("their end");
    let number = functions.matches(';').count();
    let source = library.with_extension("c");
    let bodies = functions.replace(';', "\n{\n    __builtin_trap();\n}\n");
    fs::write(&source, format!("#include <netmem.h>\n{bodies}")).expect("a source");
    let mut cc = Command::new("gcc");
    cc.args(["-std=c11", "-g", "-O0", "-fPIC", "-shared", "-Wall", "-Werror", "-Wno-unused-parameter"]);
    // What is recorded does not depend on the folders of the machine.
    for place in [folder().as_path(), source.parent().expect("a folder")] {
        cc.arg(format!("-ffile-prefix-map={}=.", place.display()));
    }
    cc.arg("-Wl,-soname,libnetmem.so.0").arg("-I").arg(folder()).arg(&source).arg("-o").arg(library);
    let out = cc.output().expect("gcc");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    number
}

#[test]
fn the_abi_is_the_one_that_was_recorded() {
    let recorded = folder().join("libnetmem.abi");
    let library = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("libnetmem-hollow.so");
    let header = fs::read_to_string(folder().join("netmem.h")).expect("netmem.h");
    let number = hollow(&header, &library);
    assert!(number > 60, "{number} functions");
    if env::var_os("NETMEM_WRITE_ABI").is_some() {
        let words = ["--no-show-locs", "--no-corpus-path", "--no-comp-dir-path", "--out-file"].map(Path::new);
        let Some(out) = run("abidw", &[&words[..], &[&recorded, &library]].concat()) else { return };
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    }
    let Some(out) = run("abidiff", &[&recorded, &library]) else { return };
    // By bits: 4 is a change, 8 one that breaks programs (abidiff(1)).
    let said = String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr);
    let remedy = match out.status.code() {
        Some(0) => return,
        Some(code) if code & 8 != 0 => "programs that are installed would break: a new SONAME",
        _ => "what is only added is recorded by NETMEM_WRITE_ABI=1 cargo test -p netmem-capi --test abi",
    };
    panic!("the ABI is not the recorded one ({remedy}):\n{said}");
}
