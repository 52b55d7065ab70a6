//! Runs every decoder on the saved corpus and on every seed. Also has the long run of `make fuzz`.

use densite_fuzz::MemFile;
use densite_store::{Handle, Options};
use std::process::{Command, Output};

fn fuzz(args: &[&str]) -> Output {
    let found = concat!(env!("CARGO_TARGET_TMPDIR"), "/fuzz");
    Command::new(env!("CARGO_BIN_EXE_densite-fuzz"))
        .args(args)
        .args(["--found", found])
        .output()
        .expect("the fuzzer starts")
}

fn text(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

const CORPUS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/corpus");

#[test]
fn corpus_replays() {
    let out = fuzz(&["--replay", CORPUS]);
    assert!(out.status.success(), "{}", text(&out));
    let targets = std::fs::read_dir(CORPUS).expect("the corpus").count();
    assert_eq!(
        targets,
        densite_fuzz::all().count(),
        "every target has a folder"
    );
}

/// The saved files have format 1. Each version of the program must read the same contents from
/// them.
#[test]
fn saved_files_are_read() {
    let dir = std::path::Path::new(CORPUS).join("file");
    let mut found = Vec::new();
    for (name, ..) in SAVED {
        let file = MemFile::new(std::fs::read(dir.join(name)).expect("a saved file"));
        let mut handle = Handle::open(Box::new(file), name, Options::default()).expect("it opens");
        let report = handle.check(&mut |_, _| true).expect("a check");
        assert_eq!((report.problems, report.cut), (vec![], None), "{name}");
        let stats = handle.stats().expect("figures");
        assert_eq!(stats.pages_typed > 10, name.starts_with("typed"), "{name}");
        let mut content = vec![0; handle.len().expect("a length") as usize];
        handle.read_at(&mut content, 0).expect("all of it");
        found.push((name, content.len(), densite_disk::hash::xxh3_64(&content)));
    }
    assert_eq!(found, SAVED);
}

/// Length and hash of the contents of the saved files.
const SAVED: [(&str, usize, u64); 8] = [
    ("one", 2560, 0xA244_A7F1_02CE_DE7C),
    ("open-end", 3584, 0x95C3_1631_A106_E7B6),
    ("folded", 1024100, 0xF6BA_0E5C_1C64_680B),
    ("dict", 61440, 0xE916_BAC1_96EE_B5B6),
    ("chains", 40960, 0x4BBB_93B0_34A8_DE0A),
    ("typed", 24576, 0xD020_5FB2_DF6B_5684),
    ("typed-run", 24576, 0xD020_5FB2_DF6B_5684),
    ("typed-archive", 24576, 0xD020_5FB2_DF6B_5684),
];

/// A short run, which finds frequent failures before the long one does.
#[test]
fn a_short_run_finds_no_failure() {
    let out = fuzz(&["--minutes", "0.1", "--seed", "1"]);
    assert!(out.status.success(), "{}", text(&out));
}

/// The fuzzer notices failures. These targets fail with a panic, a large allocation, an endless
/// loop, and an error of the encoder. Without the fuzzer, the encoder would only choose another
/// codec.
#[test]
fn every_kind_of_failure_is_noticed() {
    for (target, how) in [
        ("canary", "failed"),
        ("glutton", "signal"),
        ("sleeper", "did not end"),
        ("liar", "the encoder and the decoder disagree"),
    ] {
        let out = fuzz(&["--minutes", "1", "--seed", "7", "--patience", "2", target]);
        let text = text(&out);
        assert_eq!(out.status.code(), Some(1), "{target}: {text}");
        assert!(text.contains(how) && text.contains("seed 7"), "{text}");
        let saved = text
            .split("--replay ")
            .nth(1)
            .expect("it says how to replay")
            .trim();
        let again = fuzz(&["--replay", saved, "--patience", "2"]);
        assert_eq!(
            again.status.code(),
            Some(1),
            "{target}: the saved input fails again"
        );
    }
}

#[test]
fn seeds_can_be_written() {
    let dir = tempfile::tempdir().expect("dir");
    let path = dir.path().to_str().expect("a name");
    assert!(fuzz(&["--seeds", path]).status.success());
    assert!(fuzz(&["--replay", path]).status.success());
}

/// A part of `make fuzz`. It runs for DENSITE_MINUTES, from DENSITE_SEED if that is set.
#[test]
#[ignore = "runs for DENSITE_MINUTES; see `make fuzz`"]
fn long_fuzz() {
    let minutes = std::env::var("DENSITE_MINUTES")
        .ok()
        .filter(|m| !m.is_empty())
        .unwrap_or("10".to_owned());
    let mut command = Command::new(env!("CARGO_BIN_EXE_densite-fuzz"));
    command.args(["--minutes", &minutes]);
    if let Some(seed) = std::env::var("DENSITE_SEED").ok().filter(|s| !s.is_empty()) {
        command.args(["--seed", &seed]);
    }
    let status = command.status().expect("the fuzzer starts");
    assert!(status.success(), "an input failed; see above");
}
