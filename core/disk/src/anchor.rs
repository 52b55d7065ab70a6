//! An open directory that stays the same one, even if its path later leads elsewhere.
//!
//! In another user's directory, that user can replace any name between two calls. So names are
//! resolved relative to a descriptor, and links are never followed. A name counts only if its
//! device and inode are those of the intended file. A new file is changed only through its own
//! descriptor ([`RealFile`]).

use crate::file_name::check_name;
use crate::real::{RealFile, failed};
use crate::rights::Rights;
use crate::{Error, ErrorKind, Op, Result};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags};
use std::path::Path;
use std::{fs, io};

/// The file that a name leads to: its identity and its permissions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Named {
    /// Device and inode, as [`crate::File::identity`] gives them.
    pub identity: (u64, u64),
    /// Owner, group and permission bits.
    pub rights: Rights,
    /// Whether it is a regular file: not a directory, link, device or pipe.
    pub is_file: bool,
}

/// An open directory. Names are single components.
#[derive(Debug)]
pub struct Anchor {
    dir: fs::File,
}

fn named(op: Op) -> impl Fn(rustix::io::Errno) -> Error {
    move |e| failed(op)(e.into())
}

impl Anchor {
    /// Opens the directory that `path` leads to now.
    ///
    /// # Errors
    /// `NotFound`, `Permission`, `Io`; all with [`Op::Open`].
    pub fn open(path: impl AsRef<Path>) -> Result<Anchor> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = rustix::fs::openat(CWD, path.as_ref(), flags, Mode::empty());
        Ok(Anchor {
            dir: dir.map_err(named(Op::Open))?.into(),
        })
    }

    /// The entry with this name. A link is not followed: the entry is the link itself. `None` if
    /// there is no such name.
    ///
    /// # Errors
    /// `Permission`, `Io`; all with [`Op::List`].
    #[allow(clippy::unnecessary_cast, reason = "other systems have other types")]
    pub fn lookup(&self, name: &str) -> Result<Option<Named>> {
        check_name(name, Op::List)?;
        match rustix::fs::statat(&self.dir, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(Named {
                identity: (stat.st_dev as u64, stat.st_ino as u64),
                rights: Rights::from_stat(stat.st_uid, stat.st_gid, stat.st_mode as u32),
                is_file: FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile,
            })),
            Err(rustix::io::Errno::NOENT) => Ok(None),
            Err(e) => Err(named(Op::List)(e)),
        }
    }

    /// Creates a file with mode 0600, less the umask. The name must be free: a link counts as
    /// taken.
    ///
    /// # Errors
    /// `Exists`, `Permission`, `Full`, `Io`; all with [`Op::Open`].
    pub fn create_private(&self, name: &str) -> Result<RealFile> {
        self.create(name, 0o600)
    }

    /// Opens a file that [`Anchor::create_private`] created in an earlier run. `None` if there is no
    /// such file: a regular file of this user, with this name alone, that no other user can open.
    ///
    /// # Errors
    /// `Permission`, `Io`; all with [`Op::Open`].
    pub fn reopen_private(&self, name: &str) -> Result<Option<RealFile>> {
        check_name(name, Op::Open)?;
        let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = RealFile::opened(|before| match before {
            Some(made) => made.try_clone(),
            None => Ok(rustix::fs::openat(&self.dir, name, flags, Mode::empty())?.into()),
        });
        let file = match opened {
            Ok(file) => file,
            Err(e) if e.kind == ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(e),
        };
        let stat = rustix::fs::fstat(file.inner()).map_err(named(Op::Open))?;
        let is_own = Rights::from_stat(stat.st_uid, stat.st_gid, stat.st_mode as u32).owner()
            == Rights::own(0).owner();
        let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        let is_private = stat.st_mode as u32 & 0o077 == 0 && stat.st_nlink == 1;
        Ok((is_own && is_file && is_private).then_some(file))
    }

    /// The permission bits that a new file of mode 0644 gets here, after the umask and the
    /// directory's own rules. Creates an empty file with this name and removes it again.
    ///
    /// # Errors
    /// As [`Anchor::create_private`]; `Exists` if `name` is taken.
    pub fn usual_mode(&self, name: &str) -> Result<u32> {
        // The file is empty, so a process that opens it now never reads anything from it.
        let probe = self.create(name, 0o644)?;
        let mode = probe.mode();
        self.remove(name)?;
        mode
    }

    fn create(&self, name: &str, mode: u32) -> Result<RealFile> {
        check_name(name, Op::Open)?;
        let flags =
            OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        RealFile::opened(|before| match before {
            // A child that was forked meanwhile shares this open file. That is harmless: it is
            // never locked.
            Some(made) => made.try_clone(),
            None => {
                let made = rustix::fs::openat(&self.dir, name, flags, Mode::from_raw_mode(mode));
                Ok(made?.into())
            }
        })
    }

    /// Removes a name. If it is a link, removes the link, not its target.
    ///
    /// # Errors
    /// `NotFound`, `Permission`, `Io`; all with [`Op::Remove`].
    pub fn remove(&self, name: &str) -> Result<()> {
        check_name(name, Op::Remove)?;
        rustix::fs::unlinkat(&self.dir, name, AtFlags::empty()).map_err(named(Op::Remove))
    }

    /// Renames a file within the directory atomically, replacing any file that has the new name.
    ///
    /// # Errors
    /// `NotFound`, `Permission`, `Io`; all with [`Op::Rename`].
    pub fn rename(&self, from: &str, to: &str) -> Result<()> {
        check_name(from, Op::Rename)?;
        check_name(to, Op::Rename)?;
        rustix::fs::renameat(&self.dir, from, &self.dir, to).map_err(named(Op::Rename))
    }

    /// Adds a second name (a hard link) to a file. The new name must be free. A link is not
    /// followed.
    ///
    /// # Errors
    /// `Exists`, `NotFound`, `Permission`, `Io`, also if the file system has no hard links; all
    /// with [`Op::Rename`].
    pub fn link(&self, from: &str, to: &str) -> Result<()> {
        check_name(from, Op::Rename)?;
        check_name(to, Op::Rename)?;
        rustix::fs::linkat(&self.dir, from, &self.dir, to, AtFlags::empty())
            .map_err(named(Op::Rename))
    }

    /// Makes creations, removals and renames durable.
    ///
    /// # Errors
    /// `Io`, with [`Op::Sync`].
    pub fn sync(&self) -> Result<()> {
        match self.dir.sync_all() {
            // Some file systems do not support fsync on directories, and their entries do not need
            // it.
            Err(e) if e.kind() == io::ErrorKind::InvalidInput => Ok(()),
            other => other.map_err(failed(Op::Sync)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::File;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn dirs() -> (tempfile::TempDir, std::path::PathBuf) {
        let tmp = tempfile::tempdir().expect("a directory");
        let dir = tmp.path().join("dir");
        fs::create_dir(&dir).expect("mkdir");
        (tmp, dir)
    }

    #[test]
    fn a_directory_whose_name_leads_elsewhere_is_still_the_one_used() {
        let (tmp, dir) = dirs();
        let elsewhere = tmp.path().join("elsewhere");
        fs::create_dir(&elsewhere).expect("mkdir");
        for name in ["a", "b"] {
            fs::write(elsewhere.join(name), b"theirs").expect("write");
        }
        let anchor = Anchor::open(&dir).expect("open");
        fs::rename(&dir, tmp.path().join("moved")).expect("rename");
        symlink("elsewhere", &dir).expect("symlink");
        let made = anchor.create_private("a").expect("created");
        made.write_at(b"ours", 0).expect("written");
        anchor.rename("a", "b").expect("renamed");
        anchor.link("b", "c").expect("linked");
        anchor.remove("b").expect("removed");
        anchor.sync().expect("synced");
        let moved = tmp.path().join("moved");
        assert_eq!(fs::read(moved.join("c")).expect("read"), b"ours");
        assert_eq!(fs::read_dir(&moved).expect("list").count(), 1);
        for name in ["a", "b"] {
            assert_eq!(fs::read(elsewhere.join(name)).expect("read"), b"theirs");
        }
    }

    #[test]
    fn only_a_private_file_of_this_user_is_opened_again() {
        let (_tmp, dir) = dirs();
        let anchor = Anchor::open(&dir).expect("open");
        let exists = |name| anchor.reopen_private(name).expect("looked").is_some();
        assert!(!exists("a"));
        drop(anchor.create_private("a").expect("created"));
        assert!(exists("a"));
        anchor.link("a", "b").expect("linked");
        assert!(!exists("a"), "it has another name");
        anchor.remove("b").expect("removed");
        fs::set_permissions(dir.join("a"), fs::Permissions::from_mode(0o640)).expect("changed");
        assert!(!exists("a"), "others can open it");
        fs::create_dir(dir.join("d")).expect("made");
        anchor.reopen_private("d").expect_err("a directory");
        symlink("a", dir.join("l")).expect("symlink");
        anchor.reopen_private("l").expect_err("a link");
    }

    #[test]
    fn links_are_neither_followed_nor_taken_for_files() {
        let (tmp, dir) = dirs();
        let victim = tmp.path().join("victim");
        fs::write(&victim, b"x").expect("write");
        fs::set_permissions(&victim, fs::Permissions::from_mode(0o640)).expect("chmod");
        let anchor = Anchor::open(&dir).expect("open");
        symlink(&victim, dir.join("a")).expect("symlink");
        let kind = |done: Result<RealFile>| done.map(|_| ()).expect_err("refused").kind;
        assert_eq!(kind(anchor.create_private("a")), ErrorKind::Exists);
        symlink("nowhere", dir.join("b")).expect("symlink");
        assert_eq!(kind(anchor.create_private("b")), ErrorKind::Exists);
        assert!(!dir.join("nowhere").exists());
        let link = anchor.lookup("a").expect("lookup").expect("a link");
        assert!(!link.is_file);
        anchor.link("a", "c").expect("linked");
        assert!(
            fs::symlink_metadata(dir.join("c"))
                .expect("stat")
                .is_symlink()
        );
        for name in ["a", "b", "c"] {
            anchor.remove(name).expect("removed");
        }
        assert_eq!(anchor.lookup("a").expect("lookup"), None);
        assert_eq!(fs::read(&victim).expect("read"), b"x");
        // A path is not a name.
        assert!(anchor.create_private("../x").is_err() && anchor.remove("..").is_err());
    }

    #[test]
    fn a_file_is_the_same_by_name_and_by_descriptor() {
        let (_tmp, dir) = dirs();
        let anchor = Anchor::open(&dir).expect("open");
        let made = anchor.create_private("a").expect("created");
        let named = anchor.lookup("a").expect("lookup").expect("a file");
        assert!(named.is_file);
        assert_eq!(named.identity, made.identity().expect("identity"));
        assert_eq!(named.rights.mode(), 0o600);
        anchor.remove("a").expect("removed");
        anchor.create_private("a").expect("created");
        let other = anchor.lookup("a").expect("lookup").expect("a file");
        assert_ne!(other.identity, made.identity().expect("identity"));
        // The change goes through the descriptor, so it does not matter which file has the name.
        let wide = Rights::from_stat(
            made.rights().expect("rights").owner(),
            made.rights().expect("rights").group(),
            0o644,
        );
        made.give(&wide).expect("given");
        assert_eq!(made.mode().expect("mode"), 0o644);
        let other = anchor.lookup("a").expect("lookup").expect("a file");
        assert_eq!(other.rights.mode(), 0o600);
        let usual = anchor.usual_mode("b").expect("a mode");
        assert_eq!(usual & !0o644, 0);
        assert_eq!(anchor.lookup("b").expect("lookup"), None);
    }
}
