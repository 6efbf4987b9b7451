//! The archive with the static program, as `dist/package` makes it of a program that is built already.

#![allow(clippy::unwrap_used)]

mod test_frames;

use std::env;
use std::env::consts::ARCH;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use test_frames::Folder;

/// Runs a program in a folder, to its end. Returns what it printed.
fn printed(command: &mut Command, folder: &Path) -> String {
    let out = command.current_dir(folder).output().unwrap();
    assert!(out.status.success(), "{command:?}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).unwrap()
}

/// Puts a script where `dist/package` looks for the tools of Rust.
fn write_tool(home: &Path, name: &str, script: &str) {
    let tools = home.join(".cargo/bin");
    fs::create_dir_all(&tools).unwrap();
    fs::write(tools.join(name), format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(tools.join(name), Permissions::from_mode(0o755)).unwrap();
}

/// The pages that a text names by their place in the repository.
fn pages(text: &str) -> impl Iterator<Item = &str> {
    let is_of_path = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
    text.split(move |c| !is_of_path(c)).filter(|word| word.starts_with("docs/") && word.ends_with(".md"))
}

/// Seen: only the Debian package had the alerts, and nothing said whether a file that was handed out is whole.
#[test]
fn the_archive_has_the_alerts_and_checksums_stand_beside_it() {
    let home = Folder::new("package");
    let target = home.path("target");
    let release = target.join(format!("{ARCH}-unknown-linux-musl/release"));
    // Seen: rustup was asked for a target that was there already, which needs the network.
    write_tool(&home.path(""), "rustup", "exit 1");
    write_tool(&home.path(""), "rustc", "echo /");
    let built = format!("mkdir -p {0} && cp {1} {0}/netmem", release.display(), env!("CARGO_BIN_EXE_netmem"));
    // Cargo itself lists the crates, of which it has the sources in its own folder.
    let listed = format!("if [ $1 = tree ]; then exec {} \"$@\"; fi; {built}", env!("CARGO"));
    write_tool(&home.path(""), "cargo", &listed);
    let cargo_home = env::var("CARGO_HOME").unwrap_or_else(|_| env::var("HOME").unwrap() + "/.cargo");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let out = target.join("dist");
    fs::create_dir_all(&out).unwrap();
    // Seen: the archive of an earlier version stayed, and stood in SHA256SUMS.
    fs::write(out.join(format!("netmem-0.0.1-{ARCH}-linux-musl.tar.gz")), "").unwrap();
    let mut package = Command::new(root.join("dist/package"));
    package
        .arg("static")
        .env("HOME", home.path(""))
        .env("CARGO_TARGET_DIR", &target)
        .env("CARGO_HOME", cargo_home);
    printed(&mut package, root);

    let name = format!("netmem-{}-{ARCH}-linux-musl", env!("CARGO_PKG_VERSION"));
    let archive = format!("{name}.tar.gz");
    let files = printed(Command::new("tar").args(["-tzf", &archive]), &out);
    for file in
        ["netmem", "netmem.rules.yml", "forward.toml", "netmem.service", "man/netmem.1", "THIRD-PARTY"]
    {
        assert!(files.lines().any(|line| line == format!("{name}/{file}")), "no {file}: {files}");
    }
    // Seen: the alerts and the README named pages that no package had.
    let root_file = |path: &str| fs::read_to_string(root.join(path)).unwrap();
    let texts =
        ["README.md", "docs/prometheus/netmem.rules.yml", "docs/forward.toml"].map(root_file).concat();
    for page in pages(&texts) {
        assert!(files.lines().any(|line| line == format!("{name}/{page}")), "no {page}: {files}");
    }
    // Seen: nothing had the notices that the licences of the crates in the program ask for.
    let notices =
        printed(Command::new("tar").args(["-xzOf", &archive, &format!("{name}/THIRD-PARTY")]), &out);
    for one in ["==== clap ", "==== rustix ", "==== winnow ", "Permission is hereby granted", "Rich Felker"] {
        assert!(notices.contains(one), "no {one}");
    }
    let checked = printed(Command::new("sha256sum").args(["-c", "SHA256SUMS"]), &out);
    assert_eq!(checked.trim(), format!("{archive}: OK"));
}

/// Seen: in the files of a release without its repository, the only line was "fatal: not a git repository".
#[test]
fn a_package_of_a_folder_that_is_no_clone_is_refused_with_the_remedy() {
    let folder = Folder::new("no-clone");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    fs::create_dir_all(folder.path("dist")).unwrap();
    for file in ["dist/package", "Cargo.toml"] {
        fs::copy(root.join(file), folder.path(file)).unwrap();
    }
    for kind in ["deb", "static"] {
        // By its interpreter: the kernel runs no file that a child of another test thread may still have open for writing.
        let mut package = Command::new("bash");
        package.arg(folder.path("dist/package"));
        // Not the repository that a folder above may be.
        package.arg(kind).env("GIT_CEILING_DIRECTORIES", folder.path("").parent().unwrap());
        let out = package.output().unwrap();
        let said = String::from_utf8(out.stderr).unwrap();
        assert!(out.status.code() == Some(2) && said.lines().count() == 1, "{said}");
        assert!(said.contains("is no git repository: run this in a clone"), "{said}");
    }
}
