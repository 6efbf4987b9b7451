//! A routing daemon: BIRD.

use crate::testbed::{Namespace, scratch, wait_until};
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// BIRD in a namespace, in its own folder. When dropped, it is killed and the folder is removed.
pub struct Bird {
    folder: PathBuf,
    child: Child,
}

impl Bird {
    /// Starts it with this configuration, and waits until it answers.
    pub fn start(place: &Namespace, configuration: &str) -> Bird {
        let folder = scratch("bird");
        fs::create_dir(&folder).expect("a folder");
        let [file, socket, said] = ["bird.conf", "ctl", "said"].map(|name| folder.join(name));
        fs::write(&file, configuration).expect("its configuration");
        let mut command = place.command("bird");
        command.arg("-f").arg("-c").arg(&file).arg("-s").arg(&socket);
        command.stderr(File::create(&said).expect("a file"));
        let mut bird = Bird { folder, child: command.spawn().expect("bird") };
        wait_until("bird answers", || {
            if let Some(status) = bird.child.try_wait().expect("wait") {
                panic!("bird ended, {status}: {}", fs::read_to_string(&said).unwrap_or_default());
            }
            bird.ask("show status").is_some()
        });
        bird
    }

    /// Has it do something.
    ///
    /// # Panics
    /// If its answer is not `answer`.
    pub fn do_as(&self, words: &str, answer: &str) {
        let said = self.ask(words).expect("an answer");
        assert!(said.contains(answer), "birdc {words}: {said}");
    }

    fn ask(&self, words: &str) -> Option<String> {
        let mut command = Command::new("birdc");
        command.arg("-s").arg(self.folder.join("ctl")).args(words.split_whitespace());
        let out = command.stdin(Stdio::null()).output().expect("birdc");
        out.status.success().then(|| String::from_utf8_lossy(&out.stdout).into_owned())
    }
}

impl Drop for Bird {
    fn drop(&mut self) {
        self.child.kill().and_then(|()| self.child.wait()).map(drop).ok();
        fs::remove_dir_all(&self.folder).ok();
    }
}
