//! The privileges that a run drops once its ports are open: `netmem forward`, `netmem gen`, `netmem sink`.

use clap::Args;
use std::fs;

/// Flags about privileges.
#[derive(Debug, Args)]
#[command(next_help_heading = "Run and control")]
pub struct SandboxArgs {
    /// Change to this user when the ports are open: NAME, UID, or UID:GID. Needs root.
    ///
    /// All processes except the broker run as this user, with its rights to files. With netmem forward, the user must be able to
    /// write to the folder of --record-to, and the control socket belongs to the user. With --no-sandbox the user cannot change.
    #[arg(long, value_name = "USER", value_parser = user, hide_short_help = true)]
    pub user: Option<User>,

    /// Keep all capabilities and system calls.
    ///
    /// Without this option, when the ports are open, all threads give up every capability and the system calls that they do not need.
    /// A worker that opens a file or a socket, or runs a program, is then ended (SIGSYS). A small process, netmem-broker, keeps the
    /// capabilities and opens what comes back later.
    #[arg(long, hide_short_help = true)]
    pub no_sandbox: bool,
}

/// A user and its group, by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct User {
    pub user: u32,
    pub group: u32,
}

/// Reads `NAME`, `UID` or `UID:GID`; the group of a user is the one of /etc/passwd.
fn user(text: &str) -> Result<User, String> {
    user_in(text, || fs::read_to_string("/etc/passwd").unwrap_or_default())
}

fn user_in(text: &str, passwd: impl FnOnce() -> String) -> Result<User, String> {
    // For the kernel the last number stands for the user that the process has, which would stay root.
    let number = |text: &str| text.parse().ok().filter(|&number| number != u32::MAX);
    let wrong = || format!("{text:?} is not a user: give one of /etc/passwd by name or number, or UID:GID");
    if let Some((user, group)) = text.split_once(':') {
        let pair = number(user).zip(number(group)).map(|(user, group)| User { user, group });
        return pair.ok_or_else(wrong);
    }
    let passwd = passwd();
    let mut known = passwd.lines().filter_map(|line| {
        let mut fields = line.split(':');
        let (name, user) = (fields.next()?, fields.nth(1)?);
        let group = number(fields.next()?)?;
        (name == text || user == text).then_some(User { user: number(user)?, group })
    });
    known.next().ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_one_of_the_list_by_name_or_number_or_two_numbers() {
        let passwd = || {
            "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65533:nobody:/:/bin/false\nlast:x:4294967295:0::/:/bin/false\n".to_owned()
        };
        let nobody = Ok(User { user: 65534, group: 65533 });
        assert_eq!((user_in("nobody", passwd), user_in("65534", passwd)), (nobody.clone(), nobody));
        assert_eq!(user_in("7:8", passwd), Ok(User { user: 7, group: 8 }));
        for wrong in [
            "",
            "some",
            "7",
            "7:",
            ":8",
            "-1:0",
            "4294967295:0",
            "7:4294967295",
            "4294967295",
            "nobody:nobody",
        ] {
            let said = user_in(wrong, passwd).unwrap_err();
            assert!(said.contains("is not a user: give one of /etc/passwd"), "{said}");
        }
    }
}
