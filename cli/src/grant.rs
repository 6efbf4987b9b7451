//! `netmem grant`: grants queues of an interface to servers without privileges.

use crate::args::GrantArgs;
use crate::failure::Failure;
use crate::log::{self, Level};
use crate::{sandbox, stop};
use netmem::port::xdp::{GrantListener, GrantRequest, Take, XdpGrant, XdpModePreference};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// The maximum delay until a signal is noticed.
const LOOK: Duration = Duration::from_millis(200);

/// Gives a grant to each client that asks, if the one before has ended.
///
/// # Errors
/// [`Failure::Input`] if the socket cannot be opened, if the queue is not available now, or if privileges are left.
pub fn run(args: &GrantArgs) -> Result<(), Failure> {
    let stop = stop::on_signal()?;
    let take = args.port.take.clone().unwrap_or_default();
    // Tried once, so that an error is reported now, and not to the first client.
    drop(grant(args, &take).map_err(Failure::Input)?);
    let at = args.to.display();
    let listener = GrantListener::open(&args.to, args.mode, args.group).map_err(|errno| {
        Failure::input(format!(
            "--to {at}: {errno}: choose another path, or end the program that listens there"
        ))
    })?;
    sandbox::enter_as_broker()?;
    log::say(Level::Info, format_args!("{} is granted at {at}", args.port));
    while !stop.load(Relaxed) {
        match listener.accept() {
            Some(request) => answer(args, &take, &request),
            None => listener.wait(LOOK),
        }
    }
    Ok(())
}

fn grant(args: &GrantArgs, take: &Take) -> Result<XdpGrant, String> {
    let (interface, queue) = (&args.port.interface, args.port.queue);
    XdpGrant::new(interface, queue, XdpModePreference::default(), take).map_err(|error| error.to_string())
}

fn answer(args: &GrantArgs, take: &Take, request: &GrantRequest) {
    let user = request.user().map_or("?".to_owned(), |user| user.to_string());
    match grant(args, take) {
        Ok(grant) => match request.give(&grant) {
            Ok(()) => log::say(Level::Info, format_args!("user {user} has {}", args.port)),
            Err(errno) => {
                log::say(Level::Warning, format_args!("user {user} did not take its grant: {errno}"))
            }
        },
        Err(reason) => {
            log::say(Level::Warning, format_args!("user {user} was refused: {reason}"));
            request.refuse(&reason);
        }
    }
}
