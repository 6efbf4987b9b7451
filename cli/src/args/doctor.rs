//! `netmem doctor`.

use super::number::seconds;
use clap::Args;
use netmem_ports::{PortSpec, port_spec};
use std::path::PathBuf;

/// Say what of this host will not work, lose packets or be slow, each with the command that mends it.
///
/// It looks at capabilities, memory, the kernel, cores, and of each port at its interface: queues, rings, offloads at both ends where they are seen, modes of
/// XDP, programs and sockets of others, bridges, bonds, settings of the kernel's forwarding, peers and files. Nothing is changed without
/// --fix. Exit code 1 where something will not work or loses packets.
///
/// With --qualify packets are forwarded between two interfaces, in every mode that their drivers have, and a report is written.
#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// Interfaces, or ports as --port of netmem forward has them: eth0 means xdp:eth0. Without any, and without --config, the host alone.
    #[arg(value_name = "INTERFACE|PORT", value_parser = port)]
    pub ports: Vec<PortSpec>,

    /// The configuration that netmem forward is going to read.
    #[arg(long, value_name = "FILE", conflicts_with = "ports")]
    pub config: Option<PathBuf>,

    /// Make the changes that need nobody's decision, each written to the journal before it is made.
    #[arg(long, conflicts_with_all = ["from", "undo"])]
    pub fix: bool,

    /// Take all changes of the journal back, the last one first; also after a kill.
    #[arg(long, conflicts_with_all = ["ports", "config", "from", "save"])]
    pub undo: bool,

    /// Where changes are written down.
    #[arg(long, value_name = "FILE", default_value = "/run/netmem/doctor.journal")]
    pub journal: PathBuf,

    /// Write what was read of this host to a file, which --from reads on another host.
    #[arg(long, value_name = "FILE")]
    pub save: Option<PathBuf>,

    /// Look at a host that was saved, not at this one.
    #[arg(long, value_name = "FILE")]
    pub from: Option<PathBuf>,

    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,

    /// Forward packets both ways between two interfaces with a cable between them, and write down what held.
    ///
    /// In each mode of AF_XDP that the driver has and by packet sockets: short and mixed packets, jumbo frames, the second interface
    /// set down and up, its port closed in mid-traffic. Nobody else may use the interfaces, and they have no addresses. What is changed of them is in the journal, and is changed
    /// back, also by --undo after a kill. Exit code 1 where something did not hold. docs/hardware.md lists what was reported so.
    #[arg(long, num_args = 2, value_names = ["INTERFACE", "INTERFACE"],
          conflicts_with_all = ["ports", "config", "fix", "undo", "save", "from", "json"])]
    pub qualify: Vec<String>,

    /// Seconds that --qualify takes in all; fractions are fine.
    #[arg(long, value_name = "S", value_parser = seconds, default_value = "300", requires = "qualify", allow_negative_numbers = true)]
    pub seconds: f64,

    /// The file that --qualify writes [default: qualified-INTERFACE-INTERFACE.md]
    #[arg(long, value_name = "FILE", requires = "qualify")]
    pub report: Option<PathBuf>,
}

/// A port; a word that names no kind of port is an interface.
fn port(text: &str) -> Result<PortSpec, String> {
    let is_interface = !text.contains([':', '/']);
    port_spec(&if is_interface { format!("xdp:{text}") } else { text.to_owned() })
}
