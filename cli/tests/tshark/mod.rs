//! What tshark reads of a file.

use std::path::Path;
use std::process::Command;
use std::{env, io};

/// Returns these fields of each packet of a file, as tshark reads it. Returns None without tshark.
pub fn tshark(test: &str, file: &Path, fields: &[&str]) -> Option<Vec<Vec<String>>> {
    let mut command = Command::new("tshark");
    command.arg("-n").arg("-r").arg(file).args(["-T", "fields", "-E", "separator=|"]);
    for field in fields {
        command.args(["-e", field]);
    }
    let out = match command.output() {
        Ok(out) => out,
        Err(error) => {
            assert!(
                env::var("NETMEM_NO_SKIP").as_deref() != Ok("1"),
                "{test} must not be skipped: no tshark: {error}"
            );
            let _ = io::Write::write_all(
                &mut io::stderr(),
                format!("SKIPPED {test}: no tshark: {error}\n").as_bytes(),
            );
            return None;
        }
    };
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let text = String::from_utf8(out.stdout).expect("text");
    Some(text.lines().map(|line| line.split('|').map(str::to_owned).collect()).collect())
}
