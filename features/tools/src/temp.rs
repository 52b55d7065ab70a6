//! An unfinished copy: a file that removes itself unless it is finished.
//!
//! The directory can belong to another user, who can exchange any name in it at any moment. So the
//! file is created, and gets its permissions, through its own descriptor. Code that needs the file
//! open gets that descriptor ([`Temp::open`]). The name is checked before and after the file gets
//! another name. Names are relative to the directory that was opened first ([`Anchor`]). Until the
//! file is finished, only its owner can open it, so other users cannot read it early.

use crate::error::{Error, Result, parent_of};
use crate::progress::Progress;
use crate::target::{COMPANIONS, TEMP_MARK, Target, beside, replaced_meanwhile};
use densite_disk::{self as disk, Anchor, LockKind, RealFile, Rights, SyncKind};
use std::hash::{BuildHasher, Hasher};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// What the names of files begin with that [`Temp::resume_own`] opens again.
pub(crate) const RESUMABLE: &str = "-densite-tmp-restore-";

/// A file of fewer bytes is not left.
const LARGE: u64 = 16 << 20;

/// The letters and digits in a name that make it one of its own.
const RANDOM: usize = 8;

/// How many names are tried.
const TRIES: u32 = 16;

/// A temporary file beside its final path. Dropping an unfinished one removes it.
#[derive(Debug)]
pub(crate) struct Temp {
    path: PathBuf,
    name: String,
    dir: Anchor,
    file: RealFile,
    identity: (u64, u64),
    /// The permission bits of the finished file if it does not replace the source.
    mode: u32,
    /// Those of the finished file, in the place of its own.
    rights: Option<Rights>,
    live: bool,
}

impl Temp {
    /// Creates an empty file `WANTED-densite-tmp-XXXX` that only its owner can open. The owner is
    /// that of `like` if the file will replace `like`, and the caller otherwise.
    pub(crate) fn create(wanted: &Path, like: &Target, replaces: bool) -> Result<Temp> {
        let dir = open_parent(wanted)?;
        let rights = match replaces {
            true => Some(rights_of(&dir, like)?),
            false => None,
        };
        let temp = Temp::create_in(dir, wanted, like.rights.mode(), replaces)?;
        if let Some(rights) = rights {
            // This reports a missing permission before the work begins.
            temp.give(&rights.with_mode(0o600), like)?;
        }
        Ok(temp)
    }

    /// The same for a file of the caller that is no copy, and not more open than `most`. The
    /// permission bits are otherwise those of any new file.
    pub(crate) fn create_own(wanted: &Path, most: u32) -> Result<Temp> {
        Temp::create_in(open_parent(wanted)?, wanted, most, false)
    }

    /// As [`Temp::create_own`], with the name `WANTED-densite-tmp-restore-NAME`. If an earlier run left such
    /// a file, opens that one. Those of other names are removed.
    ///
    /// # Errors
    /// [`Error::Locked`] if another process has it.
    pub(crate) fn resume_own(wanted: &Path, most: u32, name: &str) -> Result<Temp> {
        let dir = open_parent(wanted)?;
        let path = beside(wanted, &format!("{RESUMABLE}{name}"));
        for other in crate::target::leftovers(wanted) {
            let name = other.to_string_lossy();
            let is_beside = COMPANIONS.iter().any(|end| name.ends_with(end));
            if other != path && name.contains(RESUMABLE) && !is_beside {
                remove_unused(&dir, &other)?;
            }
        }
        let failed = |e: disk::Error| Error::from_disk(&path, "open", &e);
        let file_name = name_of(&path)?;
        let probe = name_of(&beside(wanted, &format!("{TEMP_MARK}{}", random_name())))?;
        let usual = dir.usual_mode(&probe).map_err(failed)?;
        let file = match dir.reopen_private(&file_name).map_err(failed)? {
            Some(file) => file,
            None => {
                remove_complete(&dir, &file_name).map_err(failed)?;
                dir.create_private(&file_name).map_err(failed)?
            }
        };
        if !disk::File::try_lock(&file, LockKind::Exclusive).map_err(failed)? {
            let by = crate::holders::holders(&path);
            return Err(Error::Locked { path, by });
        }
        let temp = Temp {
            identity: disk::File::identity(&file).map_err(failed)?,
            mode: usual & (most | 0o600),
            name: file_name,
            path: path.clone(),
            dir,
            file,
            rights: None,
            live: true,
        };
        // The process that had the lock can have finished it since.
        temp.must_be(&temp.name)?;
        for end in COMPANIONS {
            match temp.dir.remove(&format!("{}{end}", temp.name)) {
                Err(e) if e.kind != disk::ErrorKind::NotFound => {
                    return Err(Error::from_disk(&beside(&path, end), "remove", &e));
                }
                _ => {}
            }
        }
        Ok(temp)
    }

    /// Lets the finished file have the owner, group and mode that the file at `dst` has now.
    pub(crate) fn take_rights_of(&mut self, dst: &Path) {
        let meta = std::fs::symlink_metadata(dst).ok();
        let meta = meta.filter(std::fs::Metadata::is_file);
        self.rights = meta.map(|meta| Rights::of_meta(&meta));
    }

    /// Ends what an interrupted [`Temp::rename_to`] began: the finished file keeps `dst` as its only
    /// name.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(crate) fn finish_interrupted(dst: &Path) -> Result<()> {
        let Some(own) = identity_of(dst) else {
            return Ok(());
        };
        for other in crate::target::leftovers(dst) {
            if identity_of(&other) == Some(own) {
                let removed = std::fs::remove_file(&other);
                removed.map_err(|e| Error::from_std(&other, "remove it", &e))?;
            }
        }
        Ok(())
    }

    /// Device and inode of the file.
    pub(crate) fn identity(&self) -> (u64, u64) {
        self.identity
    }

    /// Removes the file.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(crate) fn discard(mut self) -> Result<()> {
        self.live = false;
        let removed = self.dir.remove(&self.name);
        removed.map_err(|e| Error::from_disk(&self.path, "remove", &e))
    }

    /// Whether it has bytes that are worth keeping.
    pub(crate) fn is_large(&self) -> bool {
        self.sizes().is_ok_and(|(len, _)| len >= LARGE)
    }

    /// Removes what an earlier run left in it.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(crate) fn emptied(self) -> Result<Temp> {
        let emptied = disk::File::set_len(&self.file, 0);
        emptied.map_err(|e| Error::from_disk(&self.path, "empty", &e))?;
        Ok(self)
    }

    /// Leaves the file for a later [`Temp::resume_own`].
    pub(crate) fn leave(mut self) {
        self.live = false;
    }

    fn create_in(dir: Anchor, wanted: &Path, most: u32, replaces: bool) -> Result<Temp> {
        let dir_path = parent_of(wanted);
        for _ in 0..TRIES {
            let path = beside(wanted, &format!("{TEMP_MARK}{}", random_name()));
            let name = name_of(&path)?;
            let usual = match replaces {
                true => Ok(0o600),
                false => dir.usual_mode(&name),
            };
            let made = usual.and_then(|usual| Ok((usual, dir.create_private(&name)?)));
            let (usual, file) = match made {
                Ok(made) => made,
                Err(e) if e.kind == disk::ErrorKind::Exists => continue,
                Err(e) if e.kind == disk::ErrorKind::Permission => {
                    return Err(no_permission(dir_path));
                }
                Err(e) => return Err(Error::from_disk(&path, "create", &e)),
            };
            // The next run removes a file that no run has locked ([`clear_leftovers`]). Without
            // locks, it only names the file.
            let _ = disk::File::try_lock(&file, LockKind::Exclusive);
            let looked = disk::File::identity(&file).and_then(|own| Ok((own, dir.lookup(&name)?)));
            let (identity, found) = looked.map_err(|e| Error::from_disk(&path, "look at", &e))?;
            if found.is_none() {
                // Another run took it for left over before it was locked.
                continue;
            }
            return Ok(Temp {
                identity,
                // The owner of the new file always has access, whatever the mode of the old file.
                mode: usual & (most | 0o600),
                path,
                name,
                dir,
                file,
                rights: None,
                live: true,
            });
        }
        Err(Error::Io {
            path: dir_path,
            doing: "create a temporary file in".into(),
            message: "all tried names exist; try again".into(),
        })
    }

    /// The path, for messages.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Opens the file through its descriptor, independent of its name.
    pub(crate) fn open(&self) -> Result<RealFile> {
        let again = self.file.again();
        again.map_err(|e| Error::from_disk(&self.path, "open", &e))
    }

    /// Length and allocated bytes.
    pub(crate) fn sizes(&self) -> Result<(u64, u64)> {
        let sizes = self.file.sizes();
        sizes.map_err(|e| Error::from_disk(&self.path, "look at", &e))
    }

    /// Makes its content and its mode durable.
    fn sync(&self) -> Result<()> {
        let synced = disk::File::sync(&self.file, SyncKind::Full);
        synced.map_err(|e| Error::from_disk(&self.path, "sync", &e))
    }

    fn give(&self, rights: &Rights, like: &Target) -> Result<()> {
        self.file.give(rights).map_err(|e| match e.kind {
            disk::ErrorKind::Permission => Error::Permission {
                path: like.path.clone(),
                doing: "give its copy the same owner and mode (only its owner or root can)".into(),
            },
            _ => Error::from_disk(&self.path, "copy the mode to", &e),
        })
    }

    /// Returns an error if `name` leads to another file.
    fn must_be(&self, name: &str) -> Result<()> {
        let found = self.dir.lookup(name);
        let found = found.map_err(|e| Error::from_disk(&self.path, "look at", &e))?;
        match found.is_some_and(|found| found.identity == self.identity) {
            true => Ok(()),
            false => Err(Error::Io {
                path: self.path.clone(),
                doing: "finish".into(),
                message: format!(
                    "another program put something else in its place; make sure that no other program writes to {}, and try again",
                    parent_of(&self.path).display()
                ),
            }),
        }
    }

    /// Makes the file the new content of `target`, durably. The caller holds the lock of `target`.
    /// The file gets the owner, group and mode that `target` has now. Files that SQLite left beside
    /// the old file are removed first: SQLite would take them for the new file's own.
    pub(crate) fn replace(mut self, target: &Target) -> Result<()> {
        let failed = |doing: &'static str| {
            let path = target.path.clone();
            move |e: disk::Error| Error::from_disk(&path, doing, &e)
        };
        let name = name_of(&target.path)?;
        for suffix in COMPANIONS {
            match self.dir.remove(&format!("{name}{suffix}")) {
                Err(e) if e.kind != disk::ErrorKind::NotFound => {
                    return Err(Error::from_disk(
                        &beside(&target.path, suffix),
                        "remove",
                        &e,
                    ));
                }
                _ => {}
            }
        }
        self.dir.sync().map_err(failed("sync the directory of"))?;
        self.must_be(&self.name)?;
        self.give(&rights_of(&self.dir, target)?, target)?;
        self.sync()?;
        self.dir
            .rename(&self.name, &name)
            .map_err(failed("replace"))?;
        self.live = false;
        self.must_be(&name)?;
        // The path has its new content. After a power cut it can have the old or the new file; both
        // have the same content.
        self.dir.sync().map_err(failed(
            "sync the directory, after its content was replaced, of",
        ))
    }

    /// Gives the file the name `dst`, durably. The name must still be free. After an error the name
    /// is free again.
    pub(crate) fn rename_to(&mut self, dst: &Path) -> Result<()> {
        let name = name_of(dst)?;
        self.complete(dst)?;
        // Unlike a rename, a hard link never replaces a file. If the file system has no hard links,
        // the name is checked once more.
        match self.dir.link(&self.name, &name) {
            Ok(()) => {}
            Err(e) if e.kind == disk::ErrorKind::Exists => {
                return Err(Error::Exists {
                    path: dst.to_path_buf(),
                });
            }
            Err(_) => {
                crate::target::must_be_free(dst)?;
                self.dir
                    .rename(&self.name, &name)
                    .map_err(|e| Error::from_disk(dst, "create", &e))?;
            }
        }
        match self.leave_only(dst, &name) {
            Ok(()) => {
                self.live = false;
                Ok(())
            }
            // A caller that gets an error does not expect a result, and a retry would find the name
            // taken.
            Err(e) => match self.dir.remove(&name) {
                Ok(()) => Err(e),
                Err(_) => Err(Error::Io {
                    path: dst.to_path_buf(),
                    doing: "finish".into(),
                    message: format!(
                        "it is complete, but not yet durable ({e}); check the disk, remove it and run this again"
                    ),
                }),
            },
        }
    }

    /// Gives the file the name `dst`, durably. Anything else but a directory loses that name: it is
    /// neither opened nor changed, and a link is not followed.
    pub(crate) fn rename_over(&mut self, dst: &Path) -> Result<()> {
        let name = name_of(dst)?;
        self.complete(dst)?;
        self.must_be(&self.name)?;
        self.dir
            .rename(&self.name, &name)
            .map_err(|e| Error::from_disk(dst, "replace it", &e))?;
        self.live = false;
        self.must_be(&name)?;
        self.dir
            .sync()
            .map_err(|e| Error::from_disk(dst, "sync the directory of", &e))
    }

    /// Gives the file its final mode, and makes it durable.
    fn complete(&self, dst: &Path) -> Result<()> {
        let own = self.file.rights();
        let rights = own.map(|own| self.rights.unwrap_or(own.with_mode(self.mode)));
        rights
            .and_then(|rights| self.file.give(&rights))
            .map_err(|e| Error::from_disk(dst, "set the mode of", &e))?;
        self.sync()
    }

    /// Makes `dst`, which is already a name of the file, its only name, durably.
    fn leave_only(&self, dst: &Path, name: &str) -> Result<()> {
        self.must_be(name)?;
        match self.dir.remove(&self.name) {
            Err(e) if e.kind != disk::ErrorKind::NotFound => {
                return Err(Error::from_disk(&self.path, "remove", &e));
            }
            _ => {}
        }
        self.dir
            .sync()
            .map_err(|e| Error::from_disk(dst, "sync the directory of", &e))
    }
}

impl Drop for Temp {
    fn drop(&mut self) {
        if self.live {
            // There is no caller to report an error to. The next run reports the file as a
            // leftover.
            let _ = self.dir.remove(&self.name);
        }
    }
}

/// Device and inode of the file with this name. A link is not followed.
pub(crate) fn identity_of(path: &Path) -> Option<(u64, u64)> {
    let meta = std::fs::symlink_metadata(path).ok()?;
    Some((meta.dev(), meta.ino()))
}

/// Removes the copies beside `wanted` that killed runs of this user left, and says so. Names those
/// that stay: they can belong to a run that still works, or a restore can continue them.
pub(crate) fn clear_leftovers(wanted: &Path, progress: &mut dyn Progress) -> Result<()> {
    let found = crate::target::leftovers(wanted);
    if found.is_empty() {
        return Ok(());
    }
    let dir = open_parent(wanted)?;
    for left in found {
        let name = left.to_string_lossy();
        if is_of_random_name(&name) {
            remove_unused(&dir, &left)?;
        }
        let shown = left.display();
        progress.message(&match identity_of(&left) {
            None => format!("{shown} was left by a run that was killed; it was removed"),
            Some(_) if name.contains(RESUMABLE) => format!(
                "{shown} was left by an interrupted restore, which goes on with it when it is run again; otherwise remove it"
            ),
            Some(_) => format!(
                "{shown} was left by an interrupted run or belongs to one that is still running; remove it if no run is active"
            ),
        });
    }
    Ok(())
}

/// Whether [`Temp::create`] chose this name.
fn is_of_random_name(name: &str) -> bool {
    name.rsplit_once(TEMP_MARK).is_some_and(|(_, random)| {
        random.len() == RANDOM
            && random
                .bytes()
                .all(|b| b.is_ascii_digit() || b.is_ascii_lowercase())
    })
}

/// Removes a file that an interrupted run of this user left.
fn remove_unused(dir: &Anchor, path: &Path) -> Result<()> {
    let name = name_of(path)?;
    if let Ok(Some(file)) = dir.reopen_private(&name)
        && disk::File::try_lock(&file, LockKind::Exclusive).is_ok_and(|locked| locked)
    {
        // The log first: without the file, it would not be found again.
        let _ = std::fs::remove_dir_all(beside(path, "-log"));
        for end in COMPANIONS {
            let _ = dir.remove(&format!("{name}{end}"));
        }
        let _ = dir.remove(&name);
    }
    Ok(())
}

/// Removes a file that an interrupted run of this user left after it got its final mode. It is
/// written again: other users can have opened it since.
fn remove_complete(dir: &Anchor, name: &str) -> disk::Result<()> {
    match dir.lookup(name)? {
        Some(found) if found.is_file && found.rights.owner() == Rights::own(0).owner() => {
            dir.remove(name)
        }
        _ => Ok(()),
    }
}

/// Opens the directory in which `wanted` will be.
fn open_parent(wanted: &Path) -> Result<Anchor> {
    let path = parent_of(wanted);
    Anchor::open(&path).map_err(|e| match e.kind {
        disk::ErrorKind::Permission => no_permission(path),
        _ => Error::from_disk(&path, "open", &e),
    })
}

fn no_permission(dir: PathBuf) -> Error {
    Error::Permission {
        path: dir,
        doing: "create a file in it".into(),
    }
}

/// The permissions of `target` now, if its name in `dir` still leads to it.
fn rights_of(dir: &Anchor, target: &Target) -> Result<Rights> {
    let found = dir.lookup(&name_of(&target.path)?);
    let found = found.map_err(|e| Error::from_disk(&target.path, "look at", &e))?;
    match found.filter(|found| found.is_file && found.identity == target.inode) {
        Some(found) => Ok(found.rights),
        None => Err(replaced_meanwhile(target)),
    }
}

/// The last component of a path. It must be UTF-8, as SQLite requires.
pub(crate) fn name_of(path: &Path) -> Result<String> {
    match path.file_name().and_then(|n| n.to_str()) {
        Some(name) => Ok(name.to_string()),
        None => Err(Error::Setting(format!(
            "{}: SQLite needs file names in UTF-8; rename it first",
            path.display()
        ))),
    }
}

/// Eight letters and digits that no other run is likely to choose.
fn random_name() -> String {
    // The standard library seeds its hash maps with random numbers of the system.
    let mut hasher = std::hash::RandomState::new().build_hasher();
    hasher.write_u32(std::process::id());
    let mut n = hasher.finish();
    let mut name = String::new();
    for _ in 0..RANDOM {
        let digit = u32::try_from(n % 36).unwrap_or(0);
        name.extend(char::from_digit(digit, 36));
        n /= 36;
    }
    name
}

#[cfg(test)]
mod tests;
