//! What is said about a kernel that does not answer when all tables are requested, and answers again later.

use crate::log::Level;
use netmem_rtnetlink::FollowError;

/// The lines about requests of all tables that failed.
#[derive(Debug, Default)]
pub struct Resyncs {
    /// The last failure that was said, and the number of resyncs until then. None while the kernel answers.
    failure: Option<(String, u64)>,
}

impl Resyncs {
    /// Returns the line about a turn of the follower, if there is one. `resyncs` returns the number of resyncs by now.
    ///
    /// # Errors
    /// One line if no further turn will succeed.
    pub fn after_turn(
        &mut self,
        turn: Result<(), FollowError>,
        resyncs: impl FnOnce() -> u64,
    ) -> Result<Option<(Level, String)>, String> {
        match turn {
            Ok(()) => Ok(self.went_on(resyncs).map(|news| (Level::Info, news.to_owned()))),
            Err(error @ FollowError::Request { .. }) => {
                Ok(self.failed(&error.to_string(), resyncs()).map(|news| (Level::Warning, news)))
            }
            Err(error) => Err(format!("routes can no longer be updated, so the run ends: {error}")),
        }
    }

    /// Notes a failure, after this number of resyncs. Returns a line, unless it was said before.
    pub fn failed(&mut self, error: &str, resyncs: u64) -> Option<String> {
        let is_known = self.failure.as_ref().is_some_and(|(known, _)| known == error);
        self.failure = Some((error.to_owned(), resyncs));
        let line = format!("routes are not updated until the kernel answers: {error}");
        (!is_known).then_some(line)
    }

    /// Returns a line if the kernel answers again. `resyncs` returns their number by now. Between two requests nothing
    /// fails, so that alone says nothing.
    pub fn went_on(&mut self, resyncs: impl FnOnce() -> u64) -> Option<&'static str> {
        let (_, before) = self.failure.as_ref()?;
        if resyncs() <= *before {
            return None;
        }
        self.failure = None;
        Some("the kernel answers again: routes are updated")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    /// Seen in a review: the follower ended with a line, and the router forwarded by stale routes for good.
    #[test]
    fn a_socket_that_does_not_work_any_more_is_an_error_and_a_request_without_an_answer_is_a_line() {
        let error = || io::Error::from_raw_os_error(5);
        let mut resyncs = Resyncs::default();
        let request = FollowError::Request { what: "routes", why: error() };
        let (level, line) = resyncs.after_turn(Err(request), || 1).unwrap().unwrap();
        assert!(level == Level::Warning && line.starts_with("routes are not updated until"), "{line}");
        let (level, line) = resyncs.after_turn(Ok(()), || 2).unwrap().unwrap();
        assert!(level == Level::Info && line.contains("again"), "{line}");
        assert_eq!(resyncs.after_turn(Ok(()), || 2), Ok(None));
        let line = resyncs.after_turn(Err(FollowError::Events(error())), || 2).unwrap_err();
        assert!(line.starts_with("routes can no longer be updated") && line.contains("os error 5"), "{line}");
    }

    /// Seen: of a kernel that answered again after a failure nothing was said, nor of the next failure of the same kind.
    #[test]
    fn a_failure_is_said_once_until_the_kernel_answers_and_again_when_it_fails_again() {
        let mut resyncs = Resyncs::default();
        assert_eq!(resyncs.went_on(|| panic!("nothing has failed")), None);
        let line = "routes are not updated until the kernel answers: ENOBUFS";
        for times in 1..3 {
            assert_eq!(resyncs.failed("ENOBUFS", times).as_deref(), Some(line));
            // A turn without a request, then a further request in vain.
            assert_eq!(resyncs.went_on(|| times), None);
            assert_eq!(resyncs.failed("ENOBUFS", times), None);
            let answers = resyncs.went_on(|| times + 1);
            assert!(answers.is_some_and(|line| line.contains("again")), "{answers:?}");
            assert_eq!(resyncs.went_on(|| times + 1), None);
        }
        assert!(resyncs.failed("ENOBUFS", 3).is_some() && resyncs.failed("EPERM", 3).is_some());
    }
}
