//! One mode under one load, with the load's disturbances. COLD.

use super::bench::Bench;
use super::cable::{Cable, Closed};
use super::direction::Direction;
use super::mode::Mode;
use crate::failure::Failure;
use netmem::system::clock::monotonic_ns;

const SECOND: u64 = 1_000_000_000;
/// The time that an interface may take to carry packets again: cards negotiate a speed for some seconds.
const LINK_TIMEOUT: u64 = 30 * SECOND;
/// The time for which an interface is down, or a port closed, while packets go on.
const ABSENCE: u64 = SECOND / 2;
/// The names of the two directions in a report.
const DIRECTIONS: [&str; 2] = ["first interface to second", "second to first"];

/// The load of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Load {
    /// Packets of 64 bytes.
    Small,
    /// Packets of 64 to 1,514 bytes.
    Mixed,
    /// Long packets, with a larger MTU.
    Jumbo,
    /// The second interface is set down and up.
    Flap,
    /// The second port is closed and opened again.
    Close,
}

/// The outcome of a trial.
pub struct Outcome {
    pub mode: Mode,
    pub load: Load,
    /// None if the driver does not support the mode or the MTU. `lacks` has the reason.
    pub closed: Option<Closed>,
    /// The reason why it was not tried.
    pub lacks: Option<String>,
    /// The failed checks, one line each.
    pub failures: Vec<String>,
}

impl Load {
    /// All loads.
    pub const ALL: [Load; 5] = [Load::Small, Load::Mixed, Load::Jumbo, Load::Flap, Load::Close];

    /// Returns its name in a report.
    pub fn name(self) -> &'static str {
        match self {
            Load::Small => "64 bytes",
            Load::Mixed => "64 to 1,514 bytes",
            Load::Jumbo => "jumbo",
            Load::Flap => "link down and up",
            Load::Close => "closed in mid-traffic",
        }
    }

    fn sizes(self, mode: Mode) -> Vec<usize> {
        match self {
            Load::Small => vec![64],
            Load::Jumbo => vec![64, 1514, mode.jumbo_mtu() as usize + 14],
            Load::Mixed | Load::Flap | Load::Close => vec![64, 590, 1514],
        }
    }

    /// Returns true if packets may be lost.
    fn loses(self) -> bool {
        matches!(self, Load::Flap | Load::Close)
    }
}

/// Runs the trial for `time` nanoseconds.
///
/// # Errors
/// [`Failure`] if the host cannot be changed or restored.
pub fn run(bench: &Bench, mode: Mode, load: Load, time: u64) -> Result<Outcome, Failure> {
    let mut outcome = Outcome { mode, load, closed: None, lacks: None, failures: Vec::new() };
    if load == Load::Jumbo
        && let Some(why) = bench.set_mtu(mode.jumbo_mtu())?
    {
        outcome.lacks = Some(why);
        return bench.take_back().map(|()| outcome);
    }
    let frames = mode.frames(load == Load::Jumbo);
    match Cable::open(mode, &bench.interfaces, bench.macs, frames, &load.sizes(mode)) {
        Ok(cable) => outcome.judge(measure(bench, cable, load, time)?),
        Err(error) => outcome.refused(error.lines().join(" ")),
    }
    bench.take_back().map(|()| outcome)
}

/// Returns for each direction whether any packet crosses. Waits until a card has negotiated a speed, but no longer
/// than the whole trial is to take.
///
/// # Errors
/// [`Failure`] if packet sockets cannot be opened.
pub fn is_cabled(bench: &Bench, whole: u64) -> Result<[bool; 2], Failure> {
    let mut cable =
        Cable::open(Mode::Packet, &bench.interfaces, bench.macs, Mode::Packet.frames(false), &[64])?;
    let begun = monotonic_ns();
    cable.forward(|directions, now| {
        now - begun > LINK_TIMEOUT.min(whole) || directions.iter().all(|direction| direction.laps > 0)
    });
    Ok(cable.close().directions.map(|direction| direction.laps > 0))
}

/// The measurements of a run, and the checks that failed during it.
type Measured = (Closed, Vec<String>);

fn measure(bench: &Bench, mut cable: Cable, load: Load, time: u64) -> Result<Measured, Failure> {
    let mut failures = Vec::new();
    let forward_for = |cable: &mut Cable, time: u64| {
        let begun = monotonic_ns();
        cable.forward(|_, now| now - begun >= time);
    };
    forward_for(&mut cable, time / 2);
    cable.set_disturbed(load.loses());
    match load {
        Load::Flap => {
            bench.take_down()?;
            forward_for(&mut cable, ABSENCE);
            bench.take_back()?;
            failures.extend(again(&mut cable));
        }
        Load::Close => {
            cable.close_one();
            forward_for(&mut cable, ABSENCE);
            cable.reopen()?;
            failures.extend(again(&mut cable));
        }
        Load::Small | Load::Mixed | Load::Jumbo => {}
    }
    cable.set_disturbed(false);
    forward_for(&mut cable, time / 2);
    // The port that is closed in mid-traffic is not waited for at the end either.
    if load != Load::Close {
        cable.drain();
    }
    failures.extend(cable.down());
    Ok((cable.close(), failures))
}

/// Forwards until packets come in both directions again. Returns a line for each direction without packets.
fn again(cable: &mut Cable) -> Vec<String> {
    let begun = monotonic_ns();
    let before = cable.laps();
    let has_come =
        move |directions: &[Direction; 2]| [0, 1].map(|number| directions[number].laps > before[number]);
    cable.forward(|directions, now| now - begun > LINK_TIMEOUT || has_come(directions) == [true; 2]);
    let missing = has_come(cable.directions());
    let line = |number: usize| format!("{}: no packet arrived in the 30 s after it", DIRECTIONS[number]);
    (0..2).filter(|&number| !missing[number]).map(line).collect()
}

impl Outcome {
    fn refused(&mut self, why: String) {
        if self.mode.may_lack() || self.load == Load::Jumbo {
            self.lacks = Some(why);
        } else {
            self.failures.push(why);
        }
    }

    fn judge(&mut self, (closed, failures): Measured) {
        self.failures = failures;
        for (number, direction) in closed.directions.iter().enumerate() {
            let name = DIRECTIONS[number];
            let mut fails = |does: bool, line: String| {
                if does {
                    self.failures.push(line)
                }
            };
            fails(direction.laps == 0, format!("{name}: no packet arrived"));
            fails(
                direction.corrupt() > 0,
                format!("{name}: {} packets arrived with wrong bytes", direction.corrupt()),
            );
            fails(
                direction.duplicates() > 0,
                format!("{name}: {} packets arrived twice", direction.duplicates()),
            );
            let lost = direction.made - direction.whole();
            let does = lost > 0 && direction.laps > 0 && !self.load.loses();
            fails(does, format!("{name}: {lost} of {} packets were lost", direction.made));
        }
        if !closed.ledger.balanced() {
            self.failures.push(format!("the frames do not add up: {:?}", closed.ledger));
        }
        // A driver releases its buffers at any time, and does not report it (netmem::port::xdp).
        if closed.away > 0 && self.mode != Mode::ZeroCopy {
            self.failures.push(format!(
                "{} frames were not given back in the 2 s after the ports were closed",
                closed.away
            ));
        }
        self.closed = Some(closed);
    }
}
