//! The file of `netmem doctor --save`, which `--from` reads on another host. COLD.

use crate::control::client::printable;
use crate::failure::Failure;
use netmem_doctor::Host;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::fmt::Display;
use std::fs;
use std::path::Path;

/// The name of the file's schema.
const SCHEMA: &str = "netmem-doctor-host";
/// Its version. A later netmem may add properties without a new version.
const VERSION: u32 = 1;

/// The schema of a file.
#[derive(Serialize, Deserialize)]
struct Head<'a> {
    schema: Cow<'a, str>,
    version: u32,
}

/// A whole file.
#[derive(Serialize)]
struct Saved<'a> {
    #[serde(flatten)]
    head: Head<'a>,
    #[serde(flatten)]
    host: &'a Host,
}

/// Writes a host to a file.
///
/// # Errors
/// [`Failure::Input`] if it cannot be written.
pub fn save(host: &Host, file: &Path) -> Result<(), Failure> {
    let failed = |error: &dyn Display| Failure::Input(format!("--save {}: {error}", file.display()));
    let head = Head { schema: SCHEMA.into(), version: VERSION };
    let text = serde_json::to_string_pretty(&Saved { head, host }).map_err(|error| failed(&error))?;
    fs::write(file, text + "\n").map_err(|error| failed(&error))
}

/// Reads a saved host.
///
/// # Errors
/// [`Failure::Input`] if the file cannot be read, or is not one that [`save`] wrote.
pub fn read(file: &Path) -> Result<Host, Failure> {
    let failed = |why: String| Failure::Input(format!("--from {}: {why}", file.display()));
    let bytes = fs::read(file).map_err(|error| failed(error.to_string()))?;
    parse(&bytes).map_err(failed)
}

fn parse(bytes: &[u8]) -> Result<Host, String> {
    let foreign = |why: &dyn Display| {
        format!("not a file that netmem doctor --save wrote: {}", printable(&why.to_string()))
    };
    let Head { schema, version } = serde_json::from_slice(bytes).map_err(|error| foreign(&error))?;
    if schema != SCHEMA {
        return Err(foreign(&format!("its schema is {schema:?}, not {SCHEMA:?}")));
    }
    if version != VERSION {
        return Err(format!(
            "version {version} of the file, and this netmem reads version {VERSION}: save the host with this netmem"
        ));
    }
    serde_json::from_slice(bytes).map_err(|error| foreign(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seen: `{}`, the report of an experiment, a list, and the output of `netmem doctor --json` were taken for a
    /// healthy host: "nothing found", exit code 0.
    #[test]
    fn only_a_file_that_save_wrote_is_a_host() {
        let findings = r#"{"findings": [], "unseen": []}"#;
        let head = r#"{"schema": "netmem-doctor-host", "version": "#;
        for (text, why) in [
            ("{}", "missing field `schema`"),
            ("[]", "netmem doctor --save"),
            (r#"["netmem-doctor-host", 1]"#, "netmem doctor --save"),
            (findings, "missing field `schema`"),
            (r#"{"schema": 1, "experiment": "page-order"}"#, "invalid type"),
            (r#"{"schema": "other", "version": 1}"#, "its schema is \"other\""),
            (&format!("{head}2}}"), "version 2 of the file, and this netmem reads version 1"),
        ] {
            let refused = parse(text.as_bytes()).expect_err(text);
            assert!(refused.contains(why) && refused.lines().count() == 1, "{text}: {refused}");
        }
        let file = std::env::temp_dir().join(format!("netmem-doctor-host-{}", std::process::id()));
        let mut host = Host::default();
        host.kernel.release = "6.1.0".into();
        save(&host, &file).unwrap();
        assert_eq!(read(&file).unwrap(), host);
        fs::remove_file(file).unwrap();
    }
}
