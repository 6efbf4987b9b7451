//! The value of an argument that names a port.

use clap::builder::TypedValueParser;
use clap::{Arg, Command, Error};
use netmem_ports::without_secrets;
use std::ffi::OsStr;

/// Parses a port by this function. Of a port that is refused, the message does not show a secret: standard error may go to a log.
#[derive(Debug, Clone, Copy)]
pub struct PortParser<T>(pub fn(&str) -> Result<T, String>);

impl<T: Clone + Send + Sync + 'static> TypedValueParser for PortParser<T> {
    type Value = T;

    fn parse_ref(&self, command: &Command, arg: Option<&Arg>, value: &OsStr) -> Result<T, Error> {
        let Some(text) = value.to_str() else { return self.0.parse_ref(command, arg, value) };
        let line = match (self.0)(text) {
            Ok(port) => return Ok(port),
            Err(line) => line,
        };
        let refuse = move |_: &str| Err::<T, String>(line.clone());
        refuse.parse_ref(command, arg, OsStr::new(&without_secrets(text)))
    }
}
