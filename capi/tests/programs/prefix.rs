//! The library as a user has it: installed below a prefix of its own, and found by pkg-config.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use std::{env, fs, thread};

/// The folder of the crate.
pub fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Where these tests keep what they make.
pub fn scratch() -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
}

/// The prefix, below which the library was installed by its Makefile as it is released, once for all tests.
pub fn prefix() -> &'static Path {
    static PREFIX: OnceLock<PathBuf> = OnceLock::new();
    PREFIX.get_or_init(|| {
        let prefix = scratch().join("prefix");
        // A prefix of an earlier run has its files.
        let _ = fs::remove_dir_all(&prefix);
        make(&["all", "install"], &prefix);
        prefix
    })
}

/// Makes goals of the Makefile below a prefix, one after another. They may be followed by variables. What make says.
pub fn make(goals: &[&str], prefix: &Path) -> String {
    let target = scratch().parent().expect("the target folder").to_owned();
    let mut make = Command::new("make");
    make.arg("-C").arg(folder()).args(goals).arg(format!("PREFIX={}", prefix.display()));
    // What cargo tells its tests is not for the cargo within.
    for (name, _) in env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("CARGO_PKG")) {
        make.env_remove(name);
    }
    good(make.env("CARGO_TARGET_DIR", target).env_remove("RUSTFLAGS"))
}

/// A command, with the library to be found.
pub fn command(program: impl AsRef<OsStr>) -> Command {
    let lib = prefix().join("lib");
    // A program that hangs is ended; time is no measure of anything here.
    let mut command = Command::new("timeout");
    command
        .arg("300")
        .arg(program)
        .env("LD_LIBRARY_PATH", &lib)
        .env("PKG_CONFIG_PATH", lib.join("pkgconfig"));
    command
}

/// What the command says, which must succeed.
pub fn good(command: &mut Command) -> String {
    let out = output(command);
    assert!(out.status.success(), "{command:?}: {}\n{}", out.status, said(&out));
    said(&out)
}

/// What the command did.
pub fn output(command: &mut Command) -> Output {
    command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"))
}

/// What it wrote, standard error last.
pub fn said(out: &Output) -> String {
    String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr)
}

/// How a program is compiled.
pub struct Compiler {
    pub program: &'static str,
    pub flags: &'static [&'static str],
}

/// As most programs are.
pub const GCC: Compiler = Compiler { program: "gcc", flags: &["-std=gnu11", "-O2", "-g"] };
/// As [`GCC`], for programs that need no library of the system at run time.
pub const STATIC: Compiler = Compiler { program: "gcc", flags: &["-std=gnu11", "-O2", "-static"] };

/// A program of `tests/c` or `examples`, compiled without a warning and linked as pkg-config says.
pub fn compiled(source: &str, compiler: &Compiler) -> PathBuf {
    let flags = good(command("pkg-config").args(["--cflags", "--libs", "netmem"]));
    linked(source, compiler, flags.split_whitespace())
}

/// As [`compiled`], with these flags behind it.
pub fn linked<'a>(source: &str, compiler: &Compiler, flags: impl Iterator<Item = &'a str>) -> PathBuf {
    let name = format!("{source}-{}{}", compiler.program, compiler.flags.join(""));
    let name: String = name.chars().map(|c| if c.is_alphanumeric() { c } else { '-' }).collect();
    // Tests on several threads may compile the same one.
    let program = scratch().join(format!("{name}-{:?}", thread::current().id()).replace(['(', ')'], ""));
    let mut cc = command(compiler.program);
    cc.args(compiler.flags).args(["-Wall", "-Wextra", "-Wpedantic", "-Werror"]);
    good(cc.arg(folder().join(source)).arg("-o").arg(&program).args(flags).arg("-pthread"));
    program
}
