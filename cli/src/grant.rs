//! `netmem grant`: grants queues of an interface to servers without privileges.

use crate::args::GrantArgs;
use crate::bucket::Bucket;
use crate::failure::{Failure, is_xdp_for_now};
use crate::log::{self, Level};
use crate::{sandbox, stop};
use netmem::port::xdp::{GrantListener, GrantRequest, Take, XdpGrant, XdpModePreference};
use std::collections::HashMap;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// The maximum delay until a signal is noticed.
const LOOK: Duration = Duration::from_millis(200);

/// Said once, when it begins.
const REFUSES_ALL: &str = "no user gets a grant until the descriptors that others sent are closed, which waits for their \
                           programs: end those, or start this program again";

/// The number of requests of one user that are answered at once, and of lines that are printed. After that one in each
/// [`INTERVAL`]. With `@NAME`, any process of the network namespace may ask.
const AT_ONCE: u32 = 32;
const INTERVAL: Duration = Duration::from_secs(1);
/// The same of all users together, because one person may have 65,536 of them (subuid(5)).
const AT_ONCE_OF_ALL: u32 = 128;
const INTERVAL_OF_ALL: Duration = Duration::from_millis(125);

/// How often users ask, and how many lines are printed about it.
struct Limits {
    /// The users that were answered a while ago. There are few of them, because all together are limited.
    users: HashMap<u32, Bucket>,
    all: Bucket,
    lines: Bucket,
    /// Lines that were not printed since the last one.
    left_out: u64,
}

impl Limits {
    fn new(now: Instant) -> Limits {
        Limits {
            users: HashMap::new(),
            all: Bucket::new(AT_ONCE_OF_ALL, INTERVAL_OF_ALL, now),
            lines: Bucket::new(AT_ONCE, INTERVAL, now),
            left_out: 0,
        }
    }

    /// Counts the request of a user that is answered now. Users that have not asked for a while are forgotten.
    ///
    /// # Errors
    /// One line if the user is to ask again later.
    fn admit(&mut self, user: u32, now: Instant) -> Result<(), String> {
        self.users.retain(|_, bucket| !bucket.is_full(now));
        if self.users.get_mut(&user).is_some_and(|bucket| bucket.is_empty(now)) {
            return Err(format!(
                "user {user} has asked more than {AT_ONCE} times within some seconds: ask again in a second"
            ));
        }
        if !self.all.take(now) {
            return Err(format!(
                "user {user} and others have asked more than {AT_ONCE_OF_ALL} times within some seconds: ask again in a second"
            ));
        }
        self.users.entry(user).or_insert_with(|| Bucket::new(AT_ONCE, INTERVAL, now)).take(now);
        Ok(())
    }

    /// Returns a line if it may be printed now, with the number of lines that were not.
    fn line(&mut self, line: String, now: Instant) -> Option<String> {
        if !self.lines.take(now) {
            self.left_out += 1;
            return None;
        }
        match std::mem::take(&mut self.left_out) {
            0 => Some(line),
            n => Some(format!("{line} (lines left out before this one: {n})")),
        }
    }

    fn say(&mut self, level: Level, line: String) {
        self.line(line, Instant::now()).into_iter().for_each(|line| log::say(level, line));
    }
}

/// Gives a grant to each client that asks, if the one before has ended.
///
/// # Errors
/// [`Failure::NotNow`] if another program listens there or has the queues, or no descriptor is left. [`Failure::Input`] if the
/// socket or the queues cannot be opened for another reason, or if privileges are left.
pub fn run(args: &GrantArgs) -> Result<(), Failure> {
    let stop = stop::on_signal()?;
    let take = args.port.take.clone().unwrap_or_default();
    // Tried once, so that an error is reported now, and not to the first client.
    drop(grant(args, &take)?);
    let at = args.to.display();
    let listener = GrantListener::open(&args.to, args.mode, args.group).map_err(|errno| {
        let line = format!("--to {at}: {errno}: choose another path, or end the program that listens there");
        Failure::of_call(&errno.into(), line)
    })?;
    sandbox::enter_as_broker()?;
    log::say(Level::Info, format_args!("{} is granted at {at}", args.port));
    let (mut limits, mut refused_all) = (Limits::new(Instant::now()), false);
    while !stop.load(Relaxed) {
        match listener.accept() {
            Some(request) => answer(args, &take, &request, &mut limits),
            None => {
                let refuses_all = listener.refuses_all();
                if refuses_all && !refused_all {
                    limits.say(Level::Warning, REFUSES_ALL.to_owned());
                }
                refused_all = refuses_all;
                listener.wait(LOOK);
            }
        }
    }
    Ok(())
}

fn grant(args: &GrantArgs, take: &Take) -> Result<XdpGrant, Failure> {
    let queues = args.port.of_worker(0, 1, args.port.count(1).map_err(Failure::Input)?);
    XdpGrant::new(&args.port.interface, &queues, XdpModePreference::default(), take)
        .map_err(|error| if is_xdp_for_now(&error) { Failure::not_now(error) } else { Failure::input(error) })
}

fn answer(args: &GrantArgs, take: &Take, request: &GrantRequest, limits: &mut Limits) {
    // The number that no user has, if the kernel does not say.
    let user = request.user().unwrap_or(u32::MAX);
    if let Err(reason) = limits.admit(user, Instant::now()) {
        limits.say(Level::Warning, reason.clone());
        return request.refuse(&reason);
    }
    match grant(args, take) {
        Ok(grant) => match request.give(&grant) {
            Ok(()) => limits.say(Level::Info, format!("user {user} has {}", args.port)),
            Err(errno) => limits.say(Level::Warning, format!("user {user} did not take its grant: {errno}")),
        },
        Err(failure) => {
            let reason = failure.lines().join(" ");
            limits.say(Level::Warning, format!("user {user} was refused: {reason}"));
            request.refuse(&reason);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Found in a review: the limit was for each user, and one person may have 65,536 of them.
    #[test]
    fn users_that_are_one_person_are_limited_together_and_few_of_them_are_remembered() {
        let begun = Instant::now();
        let mut limits = Limits::new(begun);
        let answered = |limits: &mut Limits, at| {
            (100_000..165_536).filter(|user| limits.admit(*user, at).is_ok()).count()
        };
        assert_eq!(answered(&mut limits, begun), AT_ONCE_OF_ALL as usize);
        let line = limits.admit(1, begun).unwrap_err();
        assert!(line.contains("user 1 and others have asked") && line.ends_with("in a second"), "{line}");
        for second in 1..100 {
            let of_second = answered(&mut limits, begun + second * INTERVAL);
            assert_eq!(of_second, 8, "in second {second}");
            assert!(limits.users.len() <= AT_ONCE_OF_ALL as usize, "{}", limits.users.len());
        }
    }

    /// Found in a review: each connection loaded a program and printed a line, as often as any process liked.
    #[test]
    fn a_user_that_asks_all_the_time_is_put_off_and_others_are_answered() {
        let begun = Instant::now();
        let mut limits = Limits::new(begun);
        let answered =
            |limits: &mut Limits, user, at| (0..1000).filter(|_| limits.admit(user, at).is_ok()).count();
        assert_eq!(answered(&mut limits, 1, begun), AT_ONCE as usize);
        assert_eq!(answered(&mut limits, 2, begun), AT_ONCE as usize);
        assert_eq!(answered(&mut limits, 1, begun + INTERVAL), 1);
        assert!(limits.admit(3, begun + 100 * INTERVAL).is_ok());
        assert_eq!(limits.users.len(), 1, "the others have asked for nothing for a while");
        let mut line = |at| limits.line("it".to_owned(), at);
        assert_eq!((0..1000).filter_map(|_| line(begun)).collect::<Vec<_>>(), vec!["it"; AT_ONCE as usize]);
        let next = format!("it (lines left out before this one: {})", 1000 - AT_ONCE);
        assert_eq!([line(begun + INTERVAL), line(begun + INTERVAL)], [Some(next), None]);
        assert_eq!(line(begun + 3 * INTERVAL).as_deref(), Some("it (lines left out before this one: 1)"));
    }
}
