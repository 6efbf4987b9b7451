//! `--port pcap:…`: files of packets.

use super::options::{Keys, station};
use netmem::port::pcap::{PcapConfig, Rotation, Speed};
use netmem::wire::MacAddr;
use std::ops::RangeInclusive;

/// The keys of a pcap port.
const KEYS: Keys = Keys {
    kind: "pcap",
    names: &["in", "out", "speed", "timestamps", "loop", "mac", "files", "size", "snap"],
    form: "in=FILE, out=FILE, speed=full or speed=recorded, timestamps=recorded, loop=N, mac=MAC|any, files=N with size=MIB, snap=N",
};
/// The keys that say how the file of `in=` is read.
const OF_INPUT: [&str; 3] = ["loop", "speed", "timestamps"];
/// The keys that say how the file of `out=` is written.
const OF_OUTPUT: [&str; 3] = ["files", "size", "snap"];

/// A parsed pcap port.
pub(super) struct Pcap {
    pub(super) config: PcapConfig,
    pub(super) mac: Option<MacAddr>,
    pub(super) any_mac: bool,
}

/// Parses the text behind `pcap:`.
///
/// # Errors
/// Returns a line that says what would be valid.
pub(super) fn pcap(text: &str) -> Result<Pcap, String> {
    let (mut config, mut mac, mut any_mac) = (PcapConfig::default(), None, false);
    let (mut files, mut mebibytes) = (None, None);
    let options = KEYS.options(text)?;
    for &option in &options {
        match option {
            (key @ ("in" | "out"), "") => return Err(format!("pcap: {key}= needs the name of a file")),
            ("in", file) => config.input = Some(file.into()),
            ("out", file) => config.output = Some(file.into()),
            ("speed", "full") => config.speed = Speed::Full,
            ("speed", "recorded") => config.speed = Speed::Recorded,
            ("timestamps", "recorded") => config.recorded_timestamps = true,
            ("loop", times) => {
                let times: u64 = times.parse().map_err(|_| "pcap: loop=N: give a number, 0 without end")?;
                config.times = (times > 0).then_some(times);
            }
            ("mac", "any") => any_mac = true,
            ("mac", address) => {
                let one =
                    "pcap: mac=MAC: give the address of one station, as in mac=02:00:00:00:00:01, or any";
                mac = Some(station(address).ok_or(one)?);
            }
            ("files", _) => files = Some(number(option, 2..=Rotation::FILES_MAX)?),
            ("size", _) => mebibytes = Some(number(option, 1..=1 << 30)?),
            ("snap", _) => config.snap = Some(number(option, 1..=u32::MAX)?),
            other => return Err(KEYS.refuse(other)),
        }
    }
    if config.input.is_none() && config.output.is_none() {
        return Err("pcap: give in=FILE, out=FILE, or both".into());
    }
    for (keys, file, is_given) in
        [(OF_INPUT, "in", config.input.is_some()), (OF_OUTPUT, "out", config.output.is_some())]
    {
        let of_file = options.iter().find(|(key, _)| keys.contains(key));
        if let Some((key, value)) = of_file.filter(|_| !is_given) {
            return Err(format!(
                "pcap: {key}={value} is for the file of {file}=FILE: give one, or leave {key} out"
            ));
        }
    }
    config.rotation = match (files, mebibytes) {
        (None, None) => None,
        (Some(files), Some(mebibytes)) => Some(Rotation { files, bytes: u64::from(mebibytes) << 20 }),
        _ => return Err("pcap: files=N and size=MIB belong together: give both, or none".into()),
    };
    Ok(Pcap { config, mac, any_mac })
}

/// Parses the number of an option.
fn number((key, value): (&str, &str), possible: RangeInclusive<u32>) -> Result<u32, String> {
    let number = value.parse().ok().filter(|number| possible.contains(number));
    let (least, most) = possible.into_inner();
    number.ok_or_else(|| format!("pcap: {key}={value}: give a whole number from {least} to {most}"))
}
