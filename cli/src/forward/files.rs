//! Checks the files of all ports against each other: a file that one port writes may not be read or written by
//! another.

use crate::failure::Failure;
use netmem_ports::PortSpec;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Maximum number of symbolic links to missing files that are followed. It is the kernel's own limit.
const LINKS_MAX: usize = 40;

/// The file that a path leads to, however the path is written.
#[derive(Debug, PartialEq, Eq)]
enum FrameState {
    /// A file that exists: its device and inode.
    There(u64, u64),
    /// A file that is to be created: its folder and name.
    ToCome(PathBuf),
}

/// Checks that no two ports write the same file, and that none writes a file that a port reads. Also checks that at
/// most one port reads standard input and one writes standard output.
///
/// # Errors
/// [`Failure::Input`] with the file.
pub fn check(ports: &[PortSpec]) -> Result<(), Failure> {
    let is_standard = |path: &Path| path == Path::new("-");
    let (inputs, read): (Vec<_>, Vec<_>) =
        ports.iter().filter_map(PortSpec::input).partition(|path| is_standard(path));
    let read: Vec<FrameState> = read.into_iter().map(|path| place(path)).collect();
    if inputs.len() > 1 {
        return Err(Failure::Input("standard input would be read twice: give it to one port".to_owned()));
    }
    if ports.iter().filter(|port| port.writes_standard_output()).count() > 1 {
        return Err(Failure::Input("standard output would be written twice: give it to one port".to_owned()));
    }
    let mut written = Vec::new();
    for path in ports.iter().flat_map(PortSpec::files).filter(|path| !is_standard(path)) {
        let (at, shown) = (place(&path), path.display());
        if read.contains(&at) {
            return Err(Failure::Input(format!("{shown} would be read and written: give two files")));
        }
        if written.contains(&at) {
            return Err(Failure::Input(format!(
                "{shown} would be written twice: give each port and each trace its own file"
            )));
        }
        written.push(at);
    }
    Ok(())
}

fn place(path: &Path) -> FrameState {
    let mut path = path.to_owned();
    for _ in 0..LINKS_MAX {
        if let Ok(file) = path.metadata() {
            return FrameState::There(file.dev(), file.ino());
        }
        let folder = match path.parent() {
            Some(folder) if folder != Path::new("") => folder,
            _ => Path::new("."),
        };
        match path.read_link() {
            Ok(target) => path = folder.join(target),
            Err(_) => {
                let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
                return FrameState::ToCome(folder.join(path.file_name().unwrap_or_default()));
            }
        }
    }
    FrameState::ToCome(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use netmem_ports::port_spec;
    use std::fs;
    use std::os::unix::fs::symlink;

    /// Returns the error for these ports. `@` stands for a folder with `a`, a link `to-a`, a hard link `also-a`, a
    /// link `to-new` to a missing file `new`, and a folder `sub`.
    fn said(folder: &Path, ports: &[&str]) -> Option<String> {
        let at = folder.display().to_string();
        let specs: Vec<_> = ports.iter().map(|port| port_spec(&port.replace('@', &at)).unwrap()).collect();
        check(&specs).err().map(|failure| format!("{failure:?}"))
    }

    #[test]
    fn a_file_is_known_again_however_its_path_is_written() {
        let folder = std::env::temp_dir().join(format!("netmem-files-{}", std::process::id()));
        fs::create_dir_all(folder.join("sub")).unwrap();
        fs::write(folder.join("a"), "a").unwrap();
        symlink("a", folder.join("to-a")).unwrap();
        symlink("new", folder.join("to-new")).unwrap();
        fs::hard_link(folder.join("a"), folder.join("also-a")).unwrap();
        for ports in [
            &["pcap:in=@/a,out=@/a"][..],
            &["trace:file=@/a,format=pcap/pcap:in=@/a"],
            &["pcap:in=@/a,out=@/b", "pcap:in=@/c,out=@/a"],
            &["pcap:in=@/a", "pcap:out=@/./sub/../a"],
            &["pcap:in=@/a", "pcap:out=@/to-a"],
            &["pcap:in=@/to-a", "pcap:out=@/also-a"],
        ] {
            let said = said(&folder, ports).unwrap_or_default();
            assert!(said.contains("would be read and written: give two files"), "{ports:?}: {said}");
        }
        for ports in [
            &["pcap:out=@/x", "pcap:out=@/./x"][..],
            &["pcap:out=@/x", "pcap:out=@/sub/../x"],
            &["pcap:out=@/new", "pcap:out=@/to-new"],
            &["trace:file=@/x/pcap:out=@/x"],
            &["trace:file=@/x/trace:file=@/sub/../x/xdp:eth0"],
            &["pcap:out=netmem-none", "pcap:out=./netmem-none"],
        ] {
            let said = said(&folder, ports).unwrap_or_default();
            assert!(said.contains("would be written twice"), "{ports:?}: {said}");
        }
        let twice = said(&folder, &["pcap:in=-", "pcap:in=-,out=@/b"]).unwrap_or_default();
        assert!(twice.contains("standard input would be read twice"), "{twice}");
        for ports in [
            &["pcap:in=-", "pcap:out=@/b"][..],
            &["pcap:in=@/a", "pcap:in=@/a,out=@/b"],
            &["trace:file=@/t/pcap:in=@/a,out=@/sub/a", "pcap:out=@/x"],
        ] {
            assert_eq!(said(&folder, ports), None, "{ports:?}");
        }
        fs::remove_dir_all(folder).unwrap();
    }
}
