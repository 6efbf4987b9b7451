//! `netmem top`: a running `netmem forward` on one screen.
//!
//! ```text
//!   control socket ─► sampler (a thread) ─► reading ─► rates ─┐
//!   terminal ─► keys ─► view ─────────────────────────────────┴► screen (tables, pools) ─► terminal
//! ```
//! The forwarder is asked on a thread of its own, so a slow answer does not delay the keys.

mod keys;
mod line;
mod pools;
mod rates;
mod reading;
mod sampler;
mod screen;
mod tables;
mod terminal;
mod view;

use crate::args::TopArgs;
use crate::control::path_of_run;
use crate::failure::Failure;
use crate::stop;
use keys::Key;
use rates::Activity;
use reading::Snapshot;
use sampler::Sample;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::Duration;
use terminal::Terminal;
pub use terminal::columns;
use view::{Asked, View};

/// The interval at which keys, the screen's size, answers and signals are checked.
const TICK: Duration = Duration::from_millis(50);

/// Shows a run until `q`, Ctrl-C or its end.
///
/// # Errors
/// [`Failure::Input`] if there is no terminal. [`Failure::NotNow`] if no process answers. [`Failure::Run`] if the terminal fails.
pub fn run(args: &TopArgs) -> Result<(), Failure> {
    terminal::check()?;
    let path = path_of_run(args.control.as_deref())?;
    let waiting = Arc::new(AtomicBool::new(true));
    stop::at_once_while(&waiting)?;
    let stop = stop::on_signal()?;
    let first = sampler::ask(&path)?;
    waiting.store(false, Relaxed);
    let interval = Duration::from_secs_f64(args.interval);
    let source = format!("{} every {} s", path.display(), args.interval);
    let samples = sampler::start(&path, interval)?;
    let mut watch = Watch::new(first, source);
    let mut terminal = Terminal::open()?;
    let ended = watch.run(&mut terminal, &samples, &stop);
    drop(terminal);
    if ended? == Ended::WithTheRun {
        say_end(&path);
    }
    Ok(())
}

fn say_end(path: &Path) {
    eprintln!("the run at {} has ended", path.display());
}

/// The reason why the display ends.
#[derive(Debug, PartialEq, Eq)]
enum Ended {
    Asked,
    WithTheRun,
}

/// The displayed data, and its sources.
struct Watch {
    view: View,
    activity: Activity,
    last: Snapshot,
    source: String,
    /// Bytes of a key that may be incomplete.
    unread: Vec<u8>,
}

impl Watch {
    fn new(last: Snapshot, source: String) -> Watch {
        let activity = Activity::new(None, &last);
        Watch { view: View::default(), activity, last, source, unread: Vec::new() }
    }

    fn run(
        &mut self,
        terminal: &mut Terminal,
        samples: &Receiver<Sample>,
        stop: &AtomicBool,
    ) -> Result<Ended, Failure> {
        while !stop.load(Relaxed) {
            let size = terminal.size();
            let screen = screen::screen(&self.activity, &self.view, &self.source, size);
            self.view.offset = screen.offset;
            terminal.draw(&screen.lines, size)?;
            let Some(bytes) = terminal.pressed(TICK)? else { break };
            for key in self.keys(&bytes) {
                match self.view.press(key, size.page()) {
                    Asked::Nothing => {}
                    Asked::Quit => return Ok(Ended::Asked),
                    Asked::Suspend => terminal.suspend()?,
                }
            }
            match samples.try_recv() {
                Ok(Sample::Answer(snapshot)) => self.take(snapshot),
                Ok(Sample::Ended) => return Ok(Ended::WithTheRun),
                Ok(Sample::Failed(failure)) => return Err(failure),
                Err(TryRecvError::Empty) => {}
                Err(TryRecvError::Disconnected) => {
                    return Err(Failure::run("nothing asks the control socket any more"));
                }
            }
        }
        Ok(Ended::Asked)
    }

    /// Returns the keys of the bytes read, once they are complete. A lone escape is a key if nothing followed it.
    fn keys(&mut self, bytes: &[u8]) -> Vec<Key> {
        self.unread.extend_from_slice(bytes);
        let (keys, used) = keys::keys(&self.unread, bytes.is_empty());
        self.unread.drain(..used);
        keys
    }

    /// Shows another answer, unless the display is paused. Rates are always those since the answer before.
    fn take(&mut self, snapshot: Snapshot) {
        if !self.view.is_paused {
            self.activity = Activity::new(Some(&self.last), &snapshot);
        }
        self.last = snapshot;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::Record;

    fn at(second: f64, rx: u64) -> Snapshot {
        let port = Record::default().with("name", "mem:0").with_all([("rx", rx)]);
        Snapshot::new(second, &vec![("ports".into(), vec![port])])
    }

    #[test]
    fn a_paused_screen_stays_and_resumes_with_the_rates_of_that_time() {
        let mut watch = Watch::new(at(0.0, 0), String::new());
        watch.take(at(1.0, 100));
        assert_eq!(watch.activity.run.rx, Some(100.0));
        watch.view.is_paused = true;
        watch.take(at(2.0, 1_000));
        assert_eq!(watch.activity.run.rx, Some(100.0), "the screen stands still");
        watch.view.is_paused = false;
        watch.take(at(4.0, 1_200));
        assert_eq!(watch.activity.run.rx, Some(100.0), "since the answer before");
        watch.take(at(5.0, 1_700));
        assert_eq!(watch.activity.run.rx, Some(500.0));
    }

    #[test]
    fn a_key_that_comes_in_two_reads_is_one() {
        let mut watch = Watch::new(at(0.0, 0), String::new());
        assert_eq!(watch.keys(b"s\x1b"), [Key::Char('s')]);
        assert_eq!(watch.keys(b"[6~"), [Key::PageDown]);
        assert_eq!(watch.keys(b"\x1b"), []);
        assert_eq!(watch.keys(b""), [Key::Escape]);
    }
}
