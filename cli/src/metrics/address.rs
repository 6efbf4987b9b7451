//! The address of the metrics server.

use std::net::SocketAddr;
use std::path::PathBuf;

/// A TCP address, or a Unix socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

impl Address {
    /// Parses an address: a path if the text has a slash, else IP:PORT.
    ///
    /// # Errors
    /// One line that describes a valid address.
    pub fn parse(text: &str) -> Result<Address, String> {
        if text.contains('/') {
            return Ok(Address::Unix(text.into()));
        }
        let wrong =
            || "give IP:PORT, as in 127.0.0.1:19681 or [::1]:19681, or the path of a Unix socket".to_owned();
        match text.parse::<SocketAddr>() {
            // The kernel would choose a port, which no scraper knows.
            Ok(address) if address.port() == 0 => {
                Err("port 0 is no port: give one, as in 127.0.0.1:19681".to_owned())
            }
            parsed => parsed.map(Address::Tcp).map_err(|_| wrong()),
        }
    }

    /// Returns true if processes of other machines could connect.
    pub fn is_remote(&self) -> bool {
        matches!(self, Address::Tcp(address) if !address.ip().to_canonical().is_loopback())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_paths_are_told_apart_and_only_loopback_is_local() {
        for (text, remote) in [
            ("127.0.0.1:19681", false),
            ("[::1]:19681", false),
            ("[::ffff:127.0.0.1]:19681", false),
            ("/run/netmem.metrics", false),
            ("./metrics", false),
            ("0.0.0.0:19681", true),
            ("[::]:19681", true),
            ("192.0.2.1:19681", true),
        ] {
            assert_eq!(Address::parse(text).unwrap().is_remote(), remote, "{text}");
        }
        for text in
            ["19681", ":19681", "localhost:19681", "127.0.0.1", "::1:19681x", "", "127.0.0.1:0", "[::1]:0"]
        {
            assert!(Address::parse(text).unwrap_err().contains("127.0.0.1:19681"), "{text}");
        }
    }
}
