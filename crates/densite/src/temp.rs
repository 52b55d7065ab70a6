//! An unfinished copy: a file that removes itself unless it is finished.

use crate::error::{Error, Result, parent_of};
use crate::paths::{TEMP_MARK, beside};
use densite_disk::{self as disk, Dir, File, OpenMode, RealDir, RealFile, SyncKind};
use std::hash::{BuildHasher, Hasher};
use std::path::{Path, PathBuf};

/// How many names are tried before giving up.
const TRIES: u32 = 16;

/// What SQLite may leave beside a database.
pub(crate) const COMPANIONS: [&str; 3] = ["-journal", "-wal", "-shm"];

/// A temporary file beside the file it will become. Dropped unfinished it is removed, with everything
/// SQLite may have put beside it.
#[derive(Debug)]
pub(crate) struct Temp {
    path: PathBuf,
    dir: RealDir,
    live: bool,
}

impl Temp {
    /// Creates an empty file `WANTED-densite-tmp-XXXX`, with owner and mode of `like` when it will replace
    /// that file, with its mode alone (less what the umask takes) when it will stand beside it.
    ///
    /// The mode is set before anything is written: a private database stays private.
    pub(crate) fn create(wanted: &Path, like: &Path, replaces: bool) -> Result<(Temp, RealFile)> {
        let dir_path = parent_of(wanted);
        for _ in 0..TRIES {
            let path = beside(wanted, &format!("{TEMP_MARK}{}", random_name()));
            let file = match RealFile::open(&path, OpenMode::CreateNew) {
                Ok(file) => file,
                Err(e) if e.kind == disk::ErrorKind::Exists => continue,
                Err(e) if e.kind == disk::ErrorKind::Permission => {
                    return Err(Error::Permission {
                        path: dir_path,
                        doing: "create a file in it".into(),
                    });
                }
                Err(e) => return Err(Error::from_disk(&path, "create", &e)),
            };
            let temp = Temp {
                dir: RealDir::new(&dir_path),
                path,
                live: true,
            };
            if replaces {
                disk::copy_owner_and_mode(like, &temp.path).map_err(|e| match e.kind {
                    disk::ErrorKind::Permission => Error::Permission {
                        path: like.to_path_buf(),
                        doing: "give its copy the same owner and mode (its owner or root may)"
                            .into(),
                    },
                    _ => Error::from_disk(&temp.path, "copy the mode to", &e),
                })?;
            } else {
                narrow_mode(like, &temp.path)?;
            }
            return Ok((temp, file));
        }
        Err(Error::Io {
            path: dir_path,
            doing: "create a temporary file in".into(),
            message: "every name tried exists".into(),
        })
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Makes it the new content of `target`, whose lock the caller holds, durably: what SQLite left beside
    /// the old file goes first, for it would be taken for the new file's own.
    pub(crate) fn replace(mut self, target: &Path) -> Result<()> {
        let failed = |doing: &'static str| {
            let path = target.to_path_buf();
            move |e: disk::Error| Error::from_disk(&path, doing, &e)
        };
        for suffix in COMPANIONS {
            match self.dir.remove(&name_of(&beside(target, suffix))?) {
                Err(e) if e.kind != disk::ErrorKind::NotFound => {
                    return Err(Error::from_disk(&beside(target, suffix), "remove", &e));
                }
                _ => {}
            }
        }
        self.dir.sync().map_err(failed("sync the directory of"))?;
        self.dir
            .rename(&name_of(&self.path)?, &name_of(target)?)
            .map_err(failed("replace"))?;
        self.live = false;
        // The file has its new content; which of the two a power cut would leave is open, and both hold the same.
        self.dir.sync().map_err(failed(
            "sync the directory, after its content was replaced, of",
        ))
    }

    /// Gives it the name `dst`, which must still be free, durably. If that fails, the name is free again.
    pub(crate) fn place(mut self, dst: &Path) -> Result<()> {
        // A hard link never replaces a file, as a rename would. Where the file system has none, the name
        // is looked at once more.
        match std::fs::hard_link(&self.path, dst) {
            Ok(()) => {}
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {
                return Err(Error::Exists {
                    path: dst.to_path_buf(),
                });
            }
            Err(_) => {
                crate::paths::must_be_free(dst)?;
                self.dir
                    .rename(&name_of(&self.path)?, &name_of(dst)?)
                    .map_err(|e| Error::from_disk(dst, "create", &e))?;
            }
        }
        match self.leave_only(dst) {
            Ok(()) => {
                self.live = false;
                Ok(())
            }
            // Who is told of a failure does not look for a result, and would find the name taken when trying again.
            Err(e) => match std::fs::remove_file(dst) {
                Ok(()) => Err(e),
                Err(_) => Err(Error::Io {
                    path: dst.to_path_buf(),
                    doing: "finish".into(),
                    message: format!("it is complete, but not yet proof against a power cut ({e})"),
                }),
            },
        }
    }

    /// Makes `dst`, which it is called already, its only name, durably.
    fn leave_only(&self, dst: &Path) -> Result<()> {
        match self.dir.remove(&name_of(&self.path)?) {
            Err(e) if e.kind != disk::ErrorKind::NotFound => {
                return Err(Error::from_disk(&self.path, "remove", &e));
            }
            _ => {}
        }
        self.dir
            .sync()
            .map_err(|e| Error::from_disk(dst, "sync the directory of", &e))
    }

    /// Makes the content durable, whoever wrote it.
    pub(crate) fn sync(&self) -> Result<()> {
        let failed = |e: disk::Error| Error::from_disk(&self.path, "sync", &e);
        let file = RealFile::open(&self.path, OpenMode::Write).map_err(failed)?;
        file.sync(SyncKind::Full).map_err(failed)
    }
}

impl Drop for Temp {
    fn drop(&mut self) {
        if !self.live {
            return;
        }
        // Nobody is left to tell; what stays is named as a leftover by the next run.
        for suffix in ["", COMPANIONS[0], COMPANIONS[1], COMPANIONS[2]] {
            let path = beside(&self.path, suffix);
            if let Ok(name) = name_of(&path) {
                let _ = self.dir.remove(&name);
            }
        }
    }
}

/// The last component of a path; SQLite's names are UTF-8, and so are ours.
pub(crate) fn name_of(path: &Path) -> Result<String> {
    match path.file_name().and_then(|n| n.to_str()) {
        Some(name) => Ok(name.to_string()),
        None => Err(Error::Setting(format!(
            "{}: SQLite needs file names in UTF-8; rename it first",
            path.display()
        ))),
    }
}

/// Takes from `to` every permission that `from` does not give.
fn narrow_mode(from: &Path, to: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let mode = |path: &Path| -> Result<u32> {
        let meta = std::fs::metadata(path).map_err(|e| Error::from_std(path, "look at it", &e))?;
        Ok(meta.permissions().mode() & 0o777)
    };
    let (want, have) = (mode(from)?, mode(to)?);
    // The owner of the new file may always use it, whatever the old one's mode says.
    let narrowed = have & (want | 0o600);
    if narrowed == have {
        return Ok(());
    }
    std::fs::set_permissions(to, std::fs::Permissions::from_mode(narrowed))
        .map_err(|e| Error::from_std(to, "set its mode", &e))
}

/// Eight letters and digits that no other run is likely to choose.
fn random_name() -> String {
    // The standard library seeds its hash maps from the system's randomness.
    let mut hasher = std::hash::RandomState::new().build_hasher();
    hasher.write_u32(std::process::id());
    let mut n = hasher.finish();
    let mut name = String::new();
    for _ in 0..8 {
        let digit = u32::try_from(n % 36).unwrap_or(0);
        name.extend(char::from_digit(digit, 36));
        n /= 36;
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn an_unfinished_copy_goes_with_its_companions() {
        let dir = tempfile::tempdir().expect("a directory");
        let like = dir.path().join("a.db");
        fs::write(&like, b"x").expect("write");
        fs::set_permissions(&like, fs::Permissions::from_mode(0o600)).expect("mode");
        let (temp, _file) = Temp::create(&like, &like, false).expect("a temporary file");
        let mode = fs::metadata(temp.path())
            .expect("metadata")
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
        fs::write(beside(temp.path(), "-wal"), b"y").expect("write");
        assert_eq!(crate::paths::leftovers(&like).len(), 2);
        drop(temp);
        assert_eq!(fs::read_dir(dir.path()).expect("list").count(), 1);
    }

    #[test]
    fn placing_never_replaces() {
        let dir = tempfile::tempdir().expect("a directory");
        let dst = dir.path().join("b.db");
        let (temp, _file) = Temp::create(&dst, dir.path(), false).expect("a temporary file");
        fs::write(&dst, b"mine").expect("write");
        assert!(matches!(temp.place(&dst), Err(Error::Exists { .. })));
        assert_eq!(fs::read(&dst).expect("read"), b"mine");
        assert_eq!(fs::read_dir(dir.path()).expect("list").count(), 1);
    }

    #[test]
    fn a_placing_that_fails_leaves_the_name_free() {
        let dir = tempfile::tempdir().expect("a directory");
        let dst = dir.path().join("b.db");
        let (mut temp, _file) = Temp::create(&dst, dir.path(), false).expect("a temporary file");
        let path = temp.path().to_path_buf();
        // A directory in which nothing can be removed or synced.
        temp.dir = RealDir::new(dir.path().join("b.db-journal"));
        fs::write(dir.path().join("b.db-journal"), b"").expect("write");
        let failed = temp.place(&dst).expect_err("no directory");
        assert!(failed.to_string().contains("cannot remove"), "{failed}");
        assert!(!dst.exists(), "{failed}");
        // The same without the failure; that the first name is gone already is none.
        fs::remove_file(dir.path().join("b.db-journal")).expect("remove");
        let temp = Temp {
            path,
            dir: RealDir::new(dir.path()),
            live: true,
        };
        temp.place(&dst).expect("placed");
        let names: Vec<_> = fs::read_dir(dir.path()).expect("list").flatten().collect();
        assert_eq!(names.len(), 1, "{names:?}");
        assert!(dst.exists());
    }

    #[test]
    fn replacing_removes_what_would_be_taken_for_its_own() {
        let dir = tempfile::tempdir().expect("a directory");
        let target = dir.path().join("c.db");
        fs::write(&target, b"old").expect("write");
        fs::write(beside(&target, "-wal"), b"").expect("write");
        let (temp, file) = Temp::create(&target, &target, true).expect("a temporary file");
        file.write_at(b"new", 0).expect("write");
        temp.replace(&target).expect("replace");
        assert_eq!(fs::read(&target).expect("read"), b"new");
        assert_eq!(fs::read_dir(dir.path()).expect("list").count(), 1);
    }
}
