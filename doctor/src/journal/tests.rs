//! Tests of the journal.

use super::*;
use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::net::UnixListener;
use std::thread;
use std::time::{Duration, Instant};

/// Returns a folder for this test alone, without files of an earlier run.
fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("netmem-journal-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// A journal that takes any change, because these tests make files.
fn of_any(path: &Path) -> Journal {
    Journal { is_known: |_| true, ..Journal::at(path) }
}

/// A change that makes a file, and is undone by the file's removal.
fn file_made(path: &Path) -> Change {
    Change::run(&format!("touch {}", path.display()), &format!("rm {}", path.display()))
}

#[test]
fn changes_are_undone_in_reverse_order_and_the_journal_is_removed() {
    let folder = folder("back");
    let journal = of_any(&folder.join("journal"));
    let (outer, within) = (folder.join("outer"), folder.join("outer/within"));
    let made = Change::run(
        &format!("mkdir {}", outer.display()),
        // Fails while the folder is not empty.
        &format!("rmdir {}", outer.display()),
    );
    journal.make(&made).unwrap();
    journal.make(&file_made(&within)).unwrap();
    assert!(within.exists() && journal.changes().unwrap().len() == 2);
    let undone = journal.undo().unwrap();
    assert_eq!((undone.done.len(), undone.failed.len()), (2, 0));
    assert!(!outer.exists() && !journal.path.exists());
    assert_eq!(journal.undo().unwrap().done.len(), 0);
    fs::remove_dir_all(folder).unwrap();
}

/// Seen: `--undo` of a service that was refused turned the kernel's forwarding on under the live run whose journal it was, and of
/// two `--fix` at once one lost its changes.
#[test]
fn a_journal_that_another_process_uses_is_neither_undone_nor_written() {
    let folder = folder("in-use");
    let (one, other) = (of_any(&folder.join("journal")), of_any(&folder.join("journal")));
    let [first, second] = ["first", "second"].map(|name| folder.join(name));
    one.make(&file_made(&first)).unwrap();
    for refused in [other.undo().map(drop), other.make(&file_made(&second)), other.lock()] {
        assert!(matches!(refused, Err(JournalError::InUse { .. })), "{refused:?}");
    }
    assert_eq!((first.exists(), second.exists()), (true, false));
    assert_eq!(one.changes().unwrap(), [file_made(&first)]);
    // As when its process has ended, in any way. A program that another test is about to start may have the lock as well
    // for a moment, from fork(2) to execve(2).
    drop(one);
    let end = Instant::now() + Duration::from_secs(120);
    let undone = loop {
        match other.undo() {
            Err(JournalError::InUse { .. }) if Instant::now() < end => {
                thread::sleep(Duration::from_millis(10))
            }
            done => break done.unwrap(),
        }
    };
    assert_eq!(undone.done.len(), 1);
    assert!(!first.exists() && !other.path.exists());
    let third = of_any(&folder.join("journal"));
    third.lock().unwrap();
    assert!(matches!(other.lock(), Err(JournalError::InUse { .. })));
    third.unlock();
    assert!(!third.path.exists(), "it has no changes");
    // The lock was on a file that has been removed. A process that still has that file open does not lock the new one.
    other.lock().unwrap();
    drop(other);
    fs::remove_dir_all(folder).unwrap();
}

/// Found in a review: after its first undo a qualification undid the changes that another `--fix` had written there.
#[test]
fn a_journal_stays_locked_when_its_last_change_was_undone_or_was_not_made() {
    let folder = folder("between");
    let (one, other) = (of_any(&folder.join("journal")), of_any(&folder.join("journal")));
    let [first, second] = ["first", "second"].map(|name| folder.join(name));
    let is_refused = || {
        let made = other.make(&file_made(&second));
        assert!(matches!(made, Err(JournalError::InUse { .. })), "{made:?}");
    };
    one.make(&file_made(&first)).unwrap();
    assert_eq!(one.undo_to(0).unwrap().done.len(), 1);
    is_refused();
    assert!(matches!(one.make(&Change::run("false", "true")), Err(JournalError::Change(_))));
    is_refused();
    assert_eq!(one.undo_to(0).unwrap().done.len(), 0);
    is_refused();
    assert!(!first.exists() && !second.exists());
    drop(one);
    assert!(!other.path.exists(), "it has no changes");
    fs::remove_dir_all(folder).unwrap();
}

/// Seen on a full disk: one of two changes was undone, the other stayed, and an empty file was left beside the
/// journal.
#[test]
fn where_the_journal_cannot_be_written_all_changes_are_taken_back_all_the_same() {
    let folder = folder("full");
    let mut journal = of_any(&folder.join("journal"));
    let [first, second, third] = ["first", "second", "third"].map(|name| folder.join(name));
    for path in [&first, &second, &third] {
        journal.make(&file_made(path)).unwrap();
    }
    // No file can be written beside the journal: its name would be too long.
    let long = folder.join("j".repeat(255));
    fs::rename(&journal.path, &long).unwrap();
    journal.path = long;
    // The last write removes the journal, which works.
    assert_eq!(journal.undo().unwrap().done.len(), 3);
    assert!(![&first, &second, &third].iter().any(|path| path.exists()) && !journal.path.exists());
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn the_first_changes_last_while_those_behind_them_are_taken_back() {
    let folder = folder("lasting");
    let journal = of_any(&folder.join("journal"));
    let [first, second, third] = ["first", "second", "third"].map(|name| folder.join(name));
    for file in [&first, &second, &third] {
        journal.make(&file_made(file)).unwrap();
    }
    assert_eq!(journal.undo_to(1).unwrap().done.len(), 2);
    assert_eq!([&first, &second, &third].map(|file| file.exists()), [true, false, false]);
    assert_eq!(journal.undo_to(1).unwrap().done.len(), 0);
    assert_eq!(journal.changes().unwrap(), [file_made(&first)]);
    assert_eq!(journal.undo().unwrap().done.len(), 1);
    assert!(!journal.path.exists());
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_change_that_cannot_be_taken_back_stays_and_the_others_are() {
    let folder = folder("stays");
    let journal = of_any(&folder.join("journal"));
    let (first, second) = (folder.join("first"), folder.join("second"));
    journal.make(&file_made(&first)).unwrap();
    journal.make(&file_made(&second)).unwrap();
    fs::remove_file(&second).unwrap();
    let undone = journal.undo().unwrap();
    assert_eq!((undone.done.len(), undone.failed.len()), (1, 1));
    assert!(!first.exists());
    assert_eq!(journal.changes().unwrap(), [file_made(&second)]);
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_change_that_fails_is_not_written_down_and_a_torn_line_is_refused() {
    let folder = folder("fails");
    let journal = of_any(&folder.join("journal"));
    assert!(matches!(journal.make(&Change::run("false", "true")), Err(JournalError::Change(_))));
    assert_eq!(journal.changes().unwrap(), []);
    journal.unlock();
    assert!(!journal.path.exists());
    fs::write(&journal.path, "{\"setting\": {").unwrap();
    fs::set_permissions(&journal.path, Permissions::from_mode(0o600)).unwrap();
    let error = journal.undo().unwrap_err().to_string();
    assert!(error.contains("line 1 is not a change"), "{error}");
    fs::remove_dir_all(folder).unwrap();
}

/// Found in a review: ip(8) was ended by Ctrl-C after its change, which was then in no journal.
#[test]
fn a_change_whose_program_a_signal_ends_stays_in_the_journal_and_is_undone() {
    let folder = folder("killed");
    let (journal, made) = (of_any(&folder.join("journal")), folder.join("made"));
    let script = format!("touch {}; kill -TERM $$", made.display());
    let command = ["sh", "-c", &script].map(str::to_owned).to_vec();
    let undo = ["rm".to_owned(), made.display().to_string()].to_vec();
    let change = Change::Run { command, undo };
    let error = journal.make(&change).unwrap_err();
    assert!(matches!(error, JournalError::Killed { .. }), "{error}");
    let line = error.to_string();
    assert!(line.contains("ended by signal 15: ") && line.contains("it stays in the journal /"), "{line}");
    assert!(made.exists());
    assert_eq!(journal.changes().unwrap(), [change]);
    assert_eq!(journal.undo().unwrap().done.len(), 1);
    assert!(!made.exists() && !journal.path.exists());
    fs::remove_dir_all(folder).unwrap();
}

/// Seen: with a link that led nowhere, `netmem doctor --fix` looked for the file and made it, without end.
#[test]
fn a_journal_that_is_a_symbolic_link_is_refused_with_one_line() {
    let folder = folder("link");
    let (link, file) = (folder.join("journal"), folder.join("file"));
    std::os::unix::fs::symlink(&file, &link).unwrap();
    for contents in [None, Some("")] {
        contents.iter().for_each(|text| fs::write(&file, text).unwrap());
        let journal = of_any(&link);
        let made = folder.join("made");
        for refused in [journal.lock(), journal.make(&file_made(&made)), journal.undo().map(drop)] {
            let line = refused.unwrap_err().to_string();
            assert!(
                line.contains("journal: it is a symbolic link, which is not followed: remove it"),
                "{line}"
            );
        }
        assert_eq!((made.exists(), file.exists()), (false, contents.is_some()));
    }
    fs::remove_dir_all(folder).unwrap();
}

/// Seen: `netmem doctor --undo --journal` and `netmem forward --fix` removed a device node and another user's empty file, which they
/// refused, and replaced a device of mode 600.
#[test]
fn what_is_no_file_of_this_user_alone_is_refused_and_left_alone() {
    let folder = folder("no-file");
    let path = |name: &str| folder.join(name);
    fs::create_dir(path("folder")).unwrap();
    let _socket = UnixListener::bind(path("socket")).unwrap();
    let node = |name: &str, kind, mode| {
        let made = mknodat(CWD, path(name), kind, Mode::from_raw_mode(mode), makedev(1, 3));
        made.map(|()| path(name))
    };
    let mut no_files = vec![path("folder"), path("socket"), node("pipe", FileType::Fifo, 0o600).unwrap()];
    // Only root makes devices.
    no_files.extend(node("device", FileType::CharacterDevice, 0o600));
    no_files.extend(node("open-device", FileType::CharacterDevice, 0o666));
    let writable = path("writable");
    fs::write(&writable, "").unwrap();
    fs::set_permissions(&writable, Permissions::from_mode(0o666)).unwrap();
    let mut of_others = vec![writable, path("other")];
    fs::write(path("other"), "").unwrap();
    if chown(path("other"), Some(65534), None).is_err() {
        of_others.pop();
    }
    let made = path("made");
    for (paths, why) in
        [(no_files, "it is a folder, a device, a pipe"), (of_others, "another user may write it")]
    {
        for path in paths {
            let number = || fs::symlink_metadata(&path).map(|state| (state.ino(), state.mode())).unwrap();
            let before = number();
            let journal = of_any(&path);
            for refused in [journal.lock(), journal.make(&file_made(&made)), journal.undo().map(drop)] {
                let line = refused.unwrap_err().to_string();
                assert!(line.contains(why), "{line}");
            }
            journal.unlock();
            assert_eq!(number(), before, "{}", path.display());
        }
    }
    assert!(!made.exists());
    fs::remove_dir_all(folder).unwrap();
}

/// Seen: an empty file of the user was removed, and so was a file whose name is the journal's with `.new` behind it.
#[test]
fn files_that_this_process_has_not_made_stay() {
    let folder = folder("not-made");
    let (journal, beside) = (of_any(&folder.join("journal")), folder.join("journal.new"));
    fs::write(&beside, "the user's").unwrap();
    fs::write(&journal.path, "").unwrap();
    fs::set_permissions(&journal.path, Permissions::from_mode(0o600)).unwrap();
    assert_eq!(journal.undo().unwrap().done.len(), 0);
    journal.lock().unwrap();
    journal.unlock();
    assert!(journal.path.exists());
    journal.make(&file_made(&folder.join("made"))).unwrap();
    assert_eq!(journal.undo().unwrap().done.len(), 1);
    assert_eq!(fs::read_to_string(&beside).unwrap(), "the user's");
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "the journal was used and removed");
    fs::remove_dir_all(folder).unwrap();
}

/// Seen: `--fix /nonexistent/dir/j` made the folders and left them. The line named `--journal`, which `netmem forward` does not have.
#[test]
fn a_journal_in_a_missing_folder_is_refused_and_the_folder_is_not_made() {
    let folder = folder("missing");
    let journal = of_any(&folder.join("dir/journal"));
    for refused in [journal.lock(), journal.make(&file_made(&folder.join("made")))] {
        let line = refused.unwrap_err().to_string();
        assert!(line.ends_with("(os error 2): make its folder first, or give another file"), "{line}");
    }
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn commands_that_others_may_have_written_are_not_run() {
    let folder = folder("other-users");
    let (journal, planted) = (of_any(&folder.join("journal")), folder.join("planted"));
    journal.make(&Change::run("true", &format!("touch {}", planted.display()))).unwrap();
    fs::set_permissions(&journal.path, Permissions::from_mode(0o622)).unwrap();
    assert!(matches!(journal.undo(), Err(JournalError::OtherUsers { .. })));
    assert!(!planted.exists());
    fs::remove_dir_all(folder).unwrap();
}

/// Found in a review: a process of the same user wrote a command into the journal, and root ran it.
#[test]
fn a_journal_with_a_line_that_netmem_does_not_write_is_refused_as_a_whole() {
    let folder = folder("foreign");
    let (path, planted) = (folder.join("journal"), folder.join("planted"));
    let line = |undo: &str| serde_json::to_string(&Change::run("true", undo)).unwrap();
    // There is no such interface.
    let key = "net.ipv4.conf.netmem-none.forwarding".to_owned();
    let ours = Change::Setting { key, from: "1".into(), to: "0".into() };
    let text = serde_json::to_string(&ours).unwrap() + "\n" + &line(&format!("touch {}", planted.display()));
    fs::write(&path, &text).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    let journal = Journal::at(&path);
    for refused in [journal.undo().map(drop), journal.undo_to(1).map(drop), journal.make(&ours)] {
        let error = refused.unwrap_err().to_string();
        let wanted = format!("journal {}: line 2 is no change that netmem makes", path.display());
        assert!(error.starts_with(&wanted), "{error}");
    }
    assert_eq!((fs::read_to_string(&path).unwrap(), planted.exists()), (text, false));
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_change_of_a_form_that_would_not_be_undone_is_not_made() {
    let folder = folder("form");
    let (journal, planted) = (Journal::at(&folder.join("journal")), folder.join("planted"));
    let error = journal.make(&file_made(&planted)).unwrap_err().to_string();
    assert!(error.starts_with("not made, ") && error.contains("touch "), "{error}");
    assert!(!planted.exists() && !journal.path.exists());
    fs::remove_dir_all(folder).unwrap();
}

/// As above.
#[test]
fn only_the_changes_that_are_given_are_undone_whatever_stands_in_the_file() {
    let folder = folder("these");
    let journal = of_any(&folder.join("journal"));
    let [first, second, planted] = ["first", "second", "planted"].map(|name| folder.join(name));
    let mut changes = vec![file_made(&first), file_made(&second)];
    for change in &changes {
        journal.make(change).unwrap();
    }
    let foreign = Change::run("true", &format!("touch {}", planted.display()));
    fs::write(&journal.path, serde_json::to_string(&foreign).unwrap()).unwrap();
    // One of them cannot be undone at first.
    fs::remove_file(&second).unwrap();
    let undone = journal.undo_these(&mut changes).unwrap();
    assert_eq!((undone.done.len(), undone.failed.len()), (1, 1));
    assert_eq!((&changes, &journal.changes().unwrap()), (&vec![file_made(&second)], &changes));
    fs::write(&second, "").unwrap();
    assert_eq!(journal.undo_these(&mut changes).unwrap().done.len(), 1);
    assert!(![&first, &second, &planted, &journal.path].iter().any(|path| path.exists()));
    assert_eq!(journal.undo_these(&mut changes).unwrap().done.len(), 0);
    fs::remove_dir_all(folder).unwrap();
}

/// Seen: the change of an interface that was removed could never be undone, and each later start was refused because of it.
#[test]
fn changes_of_an_interface_that_is_gone_leave_the_journal_and_the_others_are_undone_or_stay() {
    let folder = folder("gone");
    let journal = Journal::at(&folder.join("journal"));
    let setting =
        |key: &str| Change::Setting { key: key.to_owned(), from: "1".to_owned(), to: "0".to_owned() };
    let gone = [
        setting("net.ipv4.conf.netmem-none.forwarding"),
        Change::run("ip link set dev netmem-none up", "ip link set dev netmem-none down"),
        Change::run("ethtool -L netmem-none combined 2", "ethtool -L netmem-none combined 1"),
    ];
    // This interface is there, and has no such setting.
    let stays = Change::run("ethtool -L lo combined 2", "ethtool -L lo combined 1");
    // As an older version wrote them, without a namespace.
    let lines = [&gone[..], std::slice::from_ref(&stays)].concat();
    let text: String = lines.iter().map(|line| serde_json::to_string(line).unwrap() + "\n").collect();
    fs::write(&journal.path, text).unwrap();
    fs::set_permissions(&journal.path, Permissions::from_mode(0o600)).unwrap();
    let undone = journal.undo().unwrap();
    let backwards: Vec<Change> = gone.iter().rev().map(Change::reversed).collect();
    assert_eq!((undone.done.len(), undone.gone, undone.failed.len()), (0, backwards, 1));
    assert_eq!(journal.changes().unwrap(), [stays]);
    fs::remove_dir_all(folder).unwrap();
}

/// Found in a review: in another network namespace `--undo` found no interface and dropped the changes.
#[test]
fn a_change_of_another_network_namespace_stays_in_the_journal_and_is_named() {
    let folder = folder("namespace");
    let journal = Journal::at(&folder.join("journal"));
    let change = Change::run("ip link set dev netmem-none up", "ip link set dev netmem-none down");
    let of = |change: &Change| Line { change: change.clone(), network_namespace: Some(7) };
    let text = serde_json::to_string(&of(&change)).unwrap();
    assert!(text.ends_with(",\"network_namespace\":7}"), "{text}");
    fs::write(&journal.path, text).unwrap();
    fs::set_permissions(&journal.path, Permissions::from_mode(0o600)).unwrap();
    let undone = journal.undo().unwrap();
    assert_eq!((undone.gone.len(), undone.failed.len()), (0, 1), "{undone:?}");
    let error = undone.failed[0].1.to_string();
    assert!(error.contains("another network namespace (net:[7] in lsns)"), "{error}");
    assert_eq!(journal.lines().unwrap(), [of(&change)]);
    let pages = Change::Setting { key: "vm.nr_hugepages".into(), from: "1".into(), to: "2".into() };
    assert_eq!((of(&pages).elsewhere(), Line::of(change).elsewhere()), (None, None));
    fs::remove_dir_all(folder).unwrap();
}
