//! Root runs the command on the database of another user, who exchanges names in its directory at
//! the same time. No file of a third user is changed, and a user without permission to read a
//! database reads none of it.

use crate::common::*;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The environment variable with the role of a copy of this program: see [`helper`].
const ROLE: &str = "DENSITE_TEST_OTHER_USER";

/// Number of runs of each verb.
fn runs() -> u32 {
    5
}

fn is_root() -> bool {
    let here = temp();
    fs::metadata(here.path()).expect("metadata").uid() == 0
}

/// A directory of a non-root user with a database, and a file and a directory of root.
struct Stage {
    base: tempfile::TempDir,
    bin: tempfile::TempDir,
}

impl Stage {
    fn new() -> Stage {
        let stage = Stage {
            base: temp(),
            bin: temp(),
        };
        for path in [stage.base.path(), stage.bin.path()] {
            chmod(path, 0o755);
        }
        let theirs = stage.theirs();
        fs::create_dir(&theirs).expect("mkdir");
        chown(&theirs, Some(NOBODY), Some(NOBODY)).expect("chown");
        fs::write(stage.victim(), b"root:secret").expect("write");
        chmod(stage.victim(), 0o600);
        let me = std::env::current_exe().expect("this program");
        fs::copy(me, stage.helper()).expect("copy");
        chmod(stage.helper(), 0o755);
        stage
    }

    fn theirs(&self) -> PathBuf {
        self.base.path().join("theirs")
    }

    fn victim(&self) -> PathBuf {
        self.base.path().join("victim")
    }

    fn helper(&self) -> PathBuf {
        self.bin.path().join("helper")
    }

    fn db(&self) -> String {
        let db = self.theirs().join("a.db");
        db.to_str().expect("UTF-8").to_string()
    }

    /// Restores the database, and removes all other files.
    fn reset(&self, bytes: &[u8], mode: u32) {
        for name in names(&self.theirs()) {
            fs::remove_file(self.theirs().join(name)).expect("remove");
        }
        fs::write(self.db(), bytes).expect("write");
        chown(self.db(), Some(NOBODY), Some(NOBODY)).expect("chown");
        chmod(self.db(), mode);
    }

    /// Starts this program as another user in a role of [`helper`]. It runs until it is dropped.
    fn other(&self, role: &str, user: u32) -> Helper {
        let mut command = Command::new(self.helper());
        command
            .args(["--exact", "other_user::helper", "--nocapture"])
            .env(ROLE, role)
            .env(format!("{ROLE}_DIR"), self.theirs())
            .env(format!("{ROLE}_VICTIM"), self.victim())
            .uid(user)
            .gid(user)
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        let helper = Helper(command.spawn().expect("the helper runs"));
        let begun = Instant::now();
        while !self.began(user) {
            assert!(
                begun.elapsed() < Duration::from_secs(60),
                "the helper never began"
            );
            std::thread::sleep(Duration::from_millis(1));
        }
        helper
    }

    fn began(&self, user: u32) -> bool {
        let mark = began(user);
        fs::remove_file(mark).is_ok()
    }

    fn assert_victim_is_untouched(&self, after: &str) {
        let meta = fs::metadata(self.victim()).expect("metadata");
        let rights = (meta.uid(), meta.gid(), meta.mode() & 0o7777);
        assert_eq!(rights, (0, 0, 0o600), "after {after}");
        let content = fs::read(self.victim()).expect("read");
        assert!(content == b"root:secret", "its content changed: {after}");
    }
}

/// A file that a helper creates when it has started.
fn began(user: u32) -> PathBuf {
    std::env::temp_dir().join(format!("densite-test-helper-{user}"))
}

struct Helper(Child);

impl Drop for Helper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Not a test itself: the work of another user, until it is killed.
#[test]
fn helper() {
    let Ok(role) = std::env::var(ROLE) else {
        return;
    };
    let path = |what: &str| PathBuf::from(std::env::var_os(format!("{ROLE}_{what}")).expect("set"));
    let (dir, victim) = (path("DIR"), path("VICTIM"));
    let user = fs::metadata("/proc/self").expect("metadata").uid();
    fs::write(began(user), b"").expect("write");
    let deadline = Instant::now() + Duration::from_secs(3600);
    while Instant::now() < deadline {
        match &*role {
            "racer" => exchange_names(&dir, &victim),
            _ => open_what_is_new(&dir),
        }
    }
}

/// Replaces every new file of the directory by a link to the victim.
fn exchange_names(dir: &Path, victim: &Path) {
    for entry in fs::read_dir(dir).expect("list").flatten() {
        let is_db = entry.file_name() == "a.db";
        let is_link = entry.file_type().is_ok_and(|kind| kind.is_symlink());
        if !is_db && !is_link && fs::remove_file(entry.path()).is_ok() {
            let _ = std::os::unix::fs::symlink(victim, entry.path());
        }
    }
}

/// Reads new files in the directory while it can, and stores what it reads beside its start file.
fn open_what_is_new(dir: &Path) {
    use std::io::Read;
    for entry in fs::read_dir(dir).expect("list").flatten() {
        if entry.file_name() == "a.db" {
            continue;
        }
        let Ok(mut file) = fs::File::open(entry.path()) else {
            continue;
        };
        // A process that has the file open reads all later writes.
        let until = Instant::now() + Duration::from_secs(2);
        let mut all = Vec::new();
        while Instant::now() < until && all.is_empty() {
            let _ = file.read_to_end(&mut all);
        }
        if !all.is_empty() {
            fs::write(format!("{}-got", began(READER).display()), &all).expect("write");
        }
    }
}

/// A third user.
const READER: u32 = 65533;

/// A plain and a compressed database.
fn both_forms() -> [Vec<u8>; 2] {
    let dir = temp();
    let (a, b) = (at(&dir, "a.db"), at(&dir, "b.db"));
    plain(&a, 4096, 2000);
    densite(&["compress", &a, &b]).expect(0);
    [a, b].map(|path| fs::read(path).expect("read"))
}

fn race(runs: u32) {
    if !is_root() {
        return densite_testing::skip("only root changes the owner of a file");
    }
    let stage = Stage::new();
    let [plain, compressed] = both_forms();
    let _racer = stage.other("racer", NOBODY);
    for run in 0..runs {
        let db = stage.db();
        for (args, bytes) in [
            (&["compress", &*db][..], &plain),
            (&["decompress", &db], &compressed),
            (&["vacuum", "--yes", &db], &compressed),
            (&["vacuum", "--yes", &db], &plain),
            (&["compress", "--archive", &db], &plain),
            (&["compress", "--page-size", "1024", &db], &plain),
        ] {
            stage.reset(bytes, 0o666);
            let ran = densite(args);
            // The command fails with a message, or it was faster than the helper.
            let told = ran.code == 0 || ran.code < 100 && ran.err.starts_with("densite: ");
            assert!(told, "{run}: {ran:?}");
            stage.assert_victim_is_untouched(&format!("{args:?}, run {run}: {ran:?}"));
        }
    }
}

#[test]
fn a_racer_in_its_own_directory_gets_no_file_of_root() {
    race(runs());
}

#[test]
#[ignore = "takes DENSITE_MINUTES"]
fn long_crash_a_racer_in_its_own_directory_gets_no_file_of_root() {
    densite_testing::long_run("commands", |_| {
        race(10);
        60
    });
}

#[test]
fn a_private_database_is_never_readable_while_it_is_rewritten() {
    if !is_root() {
        return densite_testing::skip("another user is needed");
    }
    let stage = Stage::new();
    let [plain, compressed] = both_forms();
    let got = PathBuf::from(format!("{}-got", began(READER).display()));
    fs::remove_file(&got).ok();
    let _reader = stage.other("reader", READER);
    for _ in 0..runs() {
        let db = stage.db();
        let copy = stage.theirs().join("copy.db");
        let copy = copy.to_str().expect("UTF-8");
        for (args, bytes) in [
            (&["compress", &*db][..], &plain),
            (&["compress", &db, copy], &plain),
            (&["decompress", &db], &compressed),
            (&["decompress", &db, copy], &compressed),
            (&["vacuum", "--yes", &db], &plain),
            (&["vacuum", "--yes", &db], &compressed),
        ] {
            stage.reset(bytes, 0o600);
            densite(args).expect(0);
            assert!(!got.exists(), "{args:?}");
            assert_eq!(
                fs::metadata(&db).expect("metadata").permissions().mode() & 0o777,
                0o600
            );
        }
    }
}
