//! `netmem doctor`.

use super::number::seconds;
use super::port::PortParser;
use clap::Args;
use netmem_ports::{PortSpec, port_spec};
use std::path::PathBuf;

/// Arguments that --qualify does not have. Its own options refuse them too: clap requires no option that conflicts with
/// a given one.
const WITHOUT_QUALIFY: [&str; 7] = ["ports", "config", "fix", "undo", "save", "from", "json"];

/// Report what on this host will not work, lose packets or be slow, each with the command that fixes it.
///
/// It looks at capabilities, memory, the kernel and cores. For each port it looks at the interface: queues, rings, offloads (of
/// both ends if they are visible), XDP modes, other programs and sockets, bridges, bonds, settings of the kernel's forwarding,
/// peers and files. Nothing is changed without --fix. The exit code is 1 if something will not work or loses packets.
///
/// With --qualify, packets are forwarded between two interfaces in every mode that their drivers support, and a report is written.
#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// Interfaces, or ports as in netmem forward --port; eth0 means xdp:eth0. Without ports and without --config, only the host.
    #[arg(value_name = "INTERFACE|PORT", value_parser = PortParser(port))]
    pub ports: Vec<PortSpec>,

    /// The configuration file that netmem forward will read.
    #[arg(long, value_name = "FILE", conflicts_with = "ports")]
    pub config: Option<PathBuf>,

    /// Make the changes that need no decision of yours. Each change is written to the journal before it is made.
    #[arg(long, conflicts_with_all = ["from", "undo"])]
    pub fix: bool,

    /// Undo all changes of the journal, the last one first; also after netmem was killed. Refused while another netmem uses the journal.
    #[arg(long, conflicts_with_all = ["ports", "config", "from", "save", "json"])]
    pub undo: bool,

    /// The journal of the changes.
    #[arg(long, value_name = "FILE", default_value = "/run/netmem/doctor.journal")]
    pub journal: PathBuf,

    /// Write the data read from this host to a file, which --from reads on another host.
    #[arg(long, value_name = "FILE")]
    pub save: Option<PathBuf>,

    /// Look at a host that --save wrote to a file, instead of this one.
    #[arg(long, value_name = "FILE")]
    pub from: Option<PathBuf>,

    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,

    /// Forward packets both ways between two interfaces with a cable between them, and write a report of the results.
    ///
    /// It tries each mode of AF_XDP that the driver supports, and packet sockets. In each it sends short and mixed packets and jumbo
    /// frames, sets the second interface down and up, and closes its port under traffic. No other program may use the interfaces,
    /// and they must have no addresses. Changes to the interfaces are written to the journal and undone at the end; after a kill,
    /// --undo undoes them. The exit code is 1 if a check failed. docs/hardware.md lists the reports so far.
    #[arg(long, num_args = 2, value_names = ["INTERFACE", "INTERFACE"],
          conflicts_with_all = WITHOUT_QUALIFY)]
    pub qualify: Vec<String>,

    /// Seconds that --qualify takes in total; fractions are allowed.
    #[arg(long, value_name = "S", value_parser = seconds, default_value = "300", requires = "qualify",
          conflicts_with_all = WITHOUT_QUALIFY, allow_negative_numbers = true)]
    pub seconds: f64,

    /// The file that --qualify writes [default: qualified-INTERFACE-INTERFACE.md]
    #[arg(long, value_name = "FILE", requires = "qualify", conflicts_with_all = WITHOUT_QUALIFY)]
    pub report: Option<PathBuf>,
}

/// A port; a word that names no kind of port is an interface.
fn port(text: &str) -> Result<PortSpec, String> {
    let is_interface = !text.contains([':', '/']);
    port_spec(&if is_interface { format!("xdp:{text}") } else { text.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Command;

    /// Seen: `netmem doctor --seconds 3 v0` and `--report x v0` looked at the host and ignored the option.
    #[test]
    fn the_options_of_qualify_are_refused_without_it() {
        let doctor = |words: &str| {
            let doctor = DoctorArgs::augment_args(Command::new("doctor"));
            doctor.try_get_matches_from(["doctor"].into_iter().chain(words.split(' ')))
        };
        for option in ["--seconds 3", "--report x"] {
            for other in ["", " v0", " --config f", " --fix", " --undo", " --save f", " --from f", " --json"]
            {
                assert!(doctor(&format!("{option}{other}")).is_err(), "{option}{other}");
            }
            assert!(doctor(&format!("{option} --qualify v0 v1")).is_ok(), "{option}");
        }
        assert!(doctor("v0 --json").is_ok() && doctor("--qualify v0 v1").is_ok());
    }

    /// Seen: `netmem doctor --undo --json` printed text.
    #[test]
    fn an_undo_has_no_json_object() {
        let doctor = || DoctorArgs::augment_args(Command::new("doctor"));
        let refused = doctor().try_get_matches_from(["doctor", "--undo", "--json"]).unwrap_err().to_string();
        assert!(
            ["--undo", "--json", "cannot be used"].iter().all(|part| refused.contains(part)),
            "{refused}"
        );
        assert!(doctor().try_get_matches_from(["doctor", "--undo"]).is_ok());
        assert!(doctor().try_get_matches_from(["doctor", "--fix", "--json"]).is_ok());
    }
}
