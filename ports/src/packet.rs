//! `--port packet:…`: an interface by a packet socket.

use super::options::{Keys, interface};

/// A port on an interface, by a packet socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PacketSpec {
    /// The interface's name.
    pub interface: String,
    /// Whether control traffic is left to the kernel alone; None if the mode decides.
    pub leaves_control: Option<bool>,
    /// Whether the ports of this memory on the interface share its packets by flow, also if there is one worker.
    pub shares: bool,
    /// Whether each packet gets the time at which the kernel received it.
    pub kernel_timestamps: bool,
}

/// The keys of a packet port.
const KEYS: Keys = Keys {
    kind: "packet",
    names: &["kernel", "fanout", "timestamps"],
    form: "kernel=none or kernel=control, fanout=yes or no, timestamps=kernel, as in packet:eth0,kernel=control",
};

/// Parses the text behind `packet:`.
///
/// # Errors
/// Returns a line that says what would be valid.
pub(super) fn packet(text: &str) -> Result<PacketSpec, String> {
    let (name, rest) = text.split_once(',').unwrap_or((text, ""));
    let interface = interface("packet", name)?;
    let (mut leaves_control, mut shares, mut kernel_timestamps) = (None, false, false);
    for option in KEYS.options(rest)? {
        match option {
            ("kernel", "control") => leaves_control = Some(true),
            ("kernel", "none") => leaves_control = Some(false),
            ("fanout", "yes") => shares = true,
            ("fanout", "no") => shares = false,
            ("timestamps", "kernel") => kernel_timestamps = true,
            other => return Err(KEYS.refuse(other)),
        }
    }
    Ok(PacketSpec { interface, leaves_control, shares, kernel_timestamps })
}
