use super::*;
use crate::args::Cli;
use clap::CommandFactory;
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// A file that is gone with the test.
struct Written(PathBuf);

impl Written {
    fn new(text: impl AsRef<[u8]>) -> Written {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("netmem-config-{}-{}.toml", std::process::id(), NEXT.fetch_add(1, Relaxed));
        let path = std::env::temp_dir().join(name);
        fs::write(&path, text).expect("a file");
        Written(path)
    }
}

impl Drop for Written {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// What the file stands for beside these words.
fn words_beside(text: &str, typed: &[&str]) -> Result<Vec<String>, String> {
    let file = Written::new(text);
    let mut root = Cli::command();
    root.build();
    let given = root.clone().get_matches_from([&["netmem", "forward"], typed].concat());
    let forward = root.find_subcommand("forward").expect("forward");
    let given = given.subcommand_matches("forward").expect("forward");
    match read(&file.0).and_then(|text| words(&file.0, &text, forward, given)) {
        Ok((words, _)) => Ok(words.into_iter().map(|word| word.into_string().expect("UTF-8")).collect()),
        Err(Failure::Input(line)) => Err(line.replace(&*file.0.to_string_lossy(), "FILE")),
        Err(other) => panic!("{other:?}"),
    }
}

#[test]
fn keys_are_options_and_what_is_typed_counts() {
    let text = "workers = 3\nseconds = 1.5\nroute = [\"10.0.0.0/8,1,02:00:00:00:00:01\"]\nmode = 'ip'\n";
    let sorted = |typed: &[&str]| {
        let mut words = words_beside(text, typed).unwrap();
        words.sort();
        words
    };
    let route = "--route=10.0.0.0/8,1,02:00:00:00:00:01";
    assert_eq!(sorted(&[]), ["--mode=ip", route, "--seconds=1.5", "--workers=3"]);
    assert_eq!(sorted(&["--workers", "2"]), ["--mode=ip", route, "--seconds=1.5"]);
    assert_eq!(sorted(&["--packets", "7"]), ["--mode=ip", route, "--workers=3"], "they exclude each other");
    assert_eq!(
        sorted(&["--route", "10.1.0.0/16,1,02:00:00:00:00:01"]),
        ["--mode=ip", "--seconds=1.5", "--workers=3"]
    );
    assert_eq!(words_beside("", &[]).unwrap(), Vec::<String>::new());
}

#[test]
fn a_former_key_is_refused_with_its_form_in_steer() {
    let text = "steer = \"hash,inbox=128,batch=8,linger=50,tx-queue=fwd-worker,flow-limit=off\"\n";
    assert_eq!(words_beside(text, &[]).unwrap().len(), 1);
    for (text, form) in [
        ("inbox = 128\nsteer = \"hash\"\n", "--steer POLICY,inbox=128"),
        ("list = 8\n", "--steer POLICY,batch=8"),
        ("tx-queue = \"second\"\n", "--steer POLICY,tx-queue=fwd-worker"),
    ] {
        let line = words_beside(text, &[]).unwrap_err();
        assert!(line.starts_with("FILE:1: ") && line.contains(form), "{line}");
    }
}

#[test]
fn text_without_quotes_and_a_mistyped_key_are_refused_with_the_right_form() {
    for (text, said) in [
        ("workers = 2\nmode = ip\n", "FILE:2: mode: put text in quotes: mode = \"ip\""),
        ("packets = 10k # many\n", "FILE:1: packets: put text in quotes: packets = \"10k\""),
        ("worker = 2\n", "FILE:1: no key \"worker\": did you mean workers?"),
        ("frame_size = 4096\n", "FILE:1: no key \"frame_size\": did you mean frame-size?"),
        ("workers = 1\nworkers = 2\n", "FILE:2: duplicate key workers: give it once"),
    ] {
        assert_eq!(words_beside(text, &[]).unwrap_err(), said);
    }
    assert_eq!(words_beside("packets = \"10k\"\n", &[]).unwrap(), ["--packets=10k"]);
    assert_eq!(words_beside("frame-size = \"4k\"\n", &[]).unwrap(), ["--frame-size=4k"]);
}

/// Seen: `no-sandbox` was named among the keys, and neither true nor false nor a text was a value of it.
#[test]
fn an_option_without_a_value_is_a_key_that_is_true_or_false() {
    assert_eq!(words_beside("no-sandbox = true\n", &[]).unwrap(), ["--no-sandbox"]);
    for (text, typed) in [("no-sandbox = false\n", &[][..]), ("no-sandbox = true\n", &["--no-sandbox"])] {
        assert_eq!(words_beside(text, typed).unwrap(), Vec::<String>::new(), "{text}");
    }
    for wrong in ["\"true\"", "1", "yes", "[true]", "TRUE", "1979-05-27"] {
        let line = words_beside(&format!("workers = 1\nno-sandbox = {wrong}\n"), &[]).unwrap_err();
        assert_eq!(line, "FILE:2: no-sandbox: write true or false", "{wrong}");
    }
}

/// Seen: `workers = ` was told that string values must be quoted, expected literal string.
#[test]
fn a_key_without_a_value_is_refused_with_the_line_that_it_needs_one() {
    for text in ["mode = 'ip'\nworkers = \n", "\nworkers=", "\nworkers = # how many\n\nmode = 'ip'\n"] {
        assert_eq!(words_beside(text, &[]).unwrap_err(), "FILE:2: write a value after workers =", "{text}");
    }
    assert_eq!(words_beside("no-sandbox =\n", &[]).unwrap_err(), "FILE:1: write a value after no-sandbox =");
}

#[test]
fn every_wrong_key_type_and_value_gets_one_line_with_its_place() {
    for (text, said) in [
        ("workers = 2\nworkerz = 3\n", "FILE:2: no key \"workerz\": did you mean workers?"),
        ("[team]\nworkers = 3\n", "FILE:1: no key \"team\": there are "),
        ("config = \"other\"\n", "FILE:1: no key \"config\": --config is for the command line alone"),
        ("json = true\n", "FILE:1: no key \"json\": --json is for the command line alone"),
        ("check = true\n", "FILE:1: no key \"check\": --check is for the command line alone"),
        ("\n\nworkers = 99\n", "FILE:3: invalid value '99' for '--workers <N>'"),
        ("workers = true\n", "FILE:1: workers: write a text or a decimal number"),
        ("workers = [1]\n", "FILE:1: workers: write a text or a decimal number"),
        ("workers = 0x2\n", "FILE:1: workers: write a text or a decimal number"),
        ("workers = 1979-05-27\n", "FILE:1: workers: write a text or a decimal number"),
        ("workers.most = 3\n", "FILE:1: workers: write a text or a decimal number"),
        ("mode = 3\n", "FILE:1: invalid value '3' for '--mode <MODE>'"),
        ("mode = 'bridge'\n", "FILE:1: invalid value 'bridge' for '--mode <MODE>' [possible values: ip"),
        ("port = \"xdp:eth0\"\n", "FILE:1: port: write a list, as in port = ["),
        ("port = [\n  \"xdp:eth0\",\n  \"usb:eth1\",\n]\n", "FILE:3: invalid value 'usb:eth1' for '--port"),
        ("port = [[\"xdp:eth0\"]]\n", "FILE:1: port: write a text or a decimal number"),
        ("route = [\"10.0.0.1/8,0,02:00:00:00:00:01\"]\n", "write 10.0.0.0/8"),
        ("workers = 1\nworkers = 2\n", "FILE:2: duplicate key"),
        ("workers = \n", "FILE:1: "),
        ("mode = 'ip\n", "FILE:1: "),
    ] {
        let line = words_beside(text, &[]).expect_err(text);
        assert!(line.contains(said) && !line.contains('\n'), "{text}: {line}");
    }
}

/// Seen: forward.toml says that each key is an option, `log-time` was refused, and no list of keys had `json` and `check`.
#[test]
fn the_documented_file_names_the_options_that_are_no_keys() {
    let documented = include_str!("../../../../docs/forward.toml").replace("\n# ", " ");
    let (_, names) = documented.split_once("without its dashes, except ").expect("the sentence");
    let names = names.split_once(". ").expect("its end").0.replace(" and ", ", ");
    let names: Vec<_> = names.split(", ").collect();
    let mut no_keys: Vec<_> = NO_KEYS.into_iter().filter(|key| *key != "help").collect();
    no_keys.sort_unstable();
    assert_eq!(names, no_keys);
    for key in NO_KEYS {
        let line = words_beside(&format!("{key} = true\n"), &[]).expect_err(key);
        assert!(line.ends_with(&format!("--{key} is for the command line alone")), "{line}");
    }
}

#[test]
fn a_conflict_of_options_is_reported_at_the_first_of_them_in_the_file() {
    let key_lines = KeyLines(
        [("mode", 3), ("local-queue", 5), ("route", 7)].map(|(key, at)| (key.to_owned(), at)).into(),
    );
    for (line, said) in [
        ("--mode ip without a --route", "FILE:3: --mode ip without a --route"),
        ("--martians is for --mode ip", "FILE:3: --martians is for --mode ip"),
        ("--local-queue and --mirror keep 7", "FILE:5: --local-queue and --mirror keep 7"),
        ("the argument '--local-queue <N>' cannot", "FILE:5: the argument '--local-queue <N>' cannot"),
        ("give --route=7", "FILE:7: give --route=7"),
        ("route port 2: there are 2", "FILE:7: route port 2: there are 2"),
        ("there is no mode", "there is no mode (each key of FILE counts as an option)"),
        ("--steer needs --workers", "--steer needs --workers (each key of FILE counts as an option)"),
    ] {
        let located = key_lines.locate(Path::new("FILE"), Failure::Input(line.to_owned()));
        assert_eq!(located, Failure::Input(said.to_owned()));
    }
    let other = || Failure::run("died");
    assert_eq!(key_lines.locate(Path::new("FILE"), other()), other());
}

#[test]
fn a_wrong_value_is_wrong_also_where_the_command_line_takes_its_place() {
    assert!(words_beside("workers = 99\n", &["--workers", "1"]).is_err());
}

/// Seen on paper: a pipe kept the whole run waiting at SIGHUP, and a device without an end filled the memory.
#[test]
fn a_configuration_that_is_not_a_file_or_is_too_long_is_refused_unread() {
    let long = Written::new("#".repeat(BYTES_MAX as usize + 1));
    for (path, said) in [(Path::new("/dev/zero"), "this is not a file"), (&long.0, "this is too long")] {
        let error = text_of(path).expect_err("no configuration");
        assert!(error.starts_with(said), "{error}");
    }
    let longest = Written::new("#".repeat(BYTES_MAX as usize));
    assert_eq!(read(&longest.0).map(|text| text.len() as u64), Ok(BYTES_MAX));
}

/// Seen: "stream did not contain valid UTF-8", without a line.
#[test]
fn a_file_that_is_not_utf_8_is_refused_with_the_line_that_is_not() {
    let file = Written::new(b"workers = 1\n# gr\xfc\xdfe\n");
    let refused = read(&file.0).unwrap_err();
    assert!(refused.lines()[0].ends_with(": line 2 is not UTF-8: save the file in UTF-8"), "{refused:?}");
}
