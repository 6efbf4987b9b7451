//! Network namespaces: what a thread opens in one stays of it.

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::thread;

/// Runs `f` on a thread of its own inside the network namespace that ip-netns(8) calls `name`. A socket that it opens stays
/// of that namespace.
///
/// # Errors
/// When there is no such namespace, or this process may not enter it (CAP_SYS_ADMIN).
pub fn inside<T: Send>(name: &str, f: impl FnOnce() -> T + Send) -> io::Result<T> {
    let namespace = File::open(format!("/run/netns/{name}"))?;
    thread::scope(|scope| {
        let there = scope.spawn(|| {
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?;
            Ok(f())
        });
        there.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_run_inside_of_what_is_not_there() {
        let gone = inside("netmem-no-such-namespace", || panic!("it is run"));
        assert_eq!(gone.map_err(|error: io::Error| error.kind()), Err::<(), _>(io::ErrorKind::NotFound));
    }
}
