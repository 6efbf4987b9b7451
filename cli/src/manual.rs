//! `netmem completions` and `netmem man`: completions for shells and pages for man(1), made from the definition of
//! the arguments.

use crate::failure::Failure;
use crate::output;
use clap::Command;
use clap_complete::Shell;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// Prints the completions for `shell`.
///
/// # Errors
/// [`Failure::Run`] if they cannot be written.
pub fn completions(mut program: Command, shell: Shell) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut program, "netmem", &mut script);
    output::print(&String::from_utf8_lossy(&script))
}

/// Writes a page for each command into `folder`: netmem.1, netmem-forward.1 and so on.
///
/// # Errors
/// [`Failure::Input`] if they cannot be written there.
pub fn man(program: Command, folder: &Path) -> Result<(), Failure> {
    let written = clap_mangen::generate_to(program.disable_help_subcommand(true), folder);
    let written = written.and_then(|()| pages(folder)?.iter().try_for_each(|page| align_left(page)));
    written.map_err(|error| Failure::input(format!("{}: {error}: give a writable folder", folder.display())))
}

/// Returns the paths of netmem's pages in the folder.
fn pages(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let paths = fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.path()));
    let is_page = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.starts_with("netmem") && name.ends_with(".1")
    };
    paths.filter(|path| path.as_ref().map_or(true, is_page)).collect()
}

/// Aligns a page to the left only. The form of a port has no space in it, and man(1) warns of a line that it cannot align to
/// both sides.
fn align_left(page: &Path) -> io::Result<()> {
    let text = fs::read_to_string(page)?;
    let lines = text.lines().map(|line| {
        let title = if line.starts_with(".TH ") { ".ad l\n" } else { "" };
        format!("{line}\n{title}")
    });
    fs::write(page, lines.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args;
    use std::{env, process};

    #[test]
    fn every_command_that_help_shows_has_a_page_and_what_it_is_to_be() {
        let folder = env::temp_dir().join(format!("netmem-man-{}", process::id()));
        fs::create_dir(&folder).unwrap();
        man(args::program(), &folder).unwrap();
        for command in args::program().get_subcommands().filter(|command| !command.is_hide_set()) {
            let page = fs::read_to_string(folder.join(format!("netmem-{}.1", command.get_name()))).unwrap();
            assert!(page.contains(".SH SYNOPSIS") && page.contains(".SH DESCRIPTION"), "{page}");
            // Seen: man(1) and lintian warned of netmem-forward(1): "cannot adjust line".
            assert_eq!(page.matches("\n.ad l\n.SH NAME\n").count(), 1, "{page}");
        }
        assert!(!folder.join("netmem-man.1").exists(), "it is hidden");
        fs::remove_dir_all(&folder).unwrap();
        let missing = man(args::program(), &folder).unwrap_err();
        assert!(missing.lines()[0].ends_with(": give a writable folder"), "{missing:?}");
    }
}
