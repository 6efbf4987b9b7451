//! Sockets in the file system on which a process listens.

use std::fs;
use std::path::Path;

/// Whether a process of this thread's network namespace listens at `path`. A socket's file stands there before it
/// listens, and before it has its mode.
pub fn listens(path: &Path) -> bool {
    const ACCEPTS: &str = "00010000";
    let sockets = fs::read_to_string("/proc/thread-self/net/unix").expect("the kernel lists its sockets");
    sockets.lines().any(|socket| {
        let mut fields = socket.split_whitespace().skip(3);
        fields.next() == Some(ACCEPTS) && fields.nth(3).is_some_and(|name| Path::new(name) == path)
    })
}
