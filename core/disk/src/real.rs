//! The real disk: positioned reads and writes, `fdatasync`, `fsync`, `statvfs`; permissions and sizes
//! of an open file.
//!
//! Invariant: if a signal interrupts a call or the call does only part of its work, it is continued
//! here. The caller sees all of it done, or an error. Every descriptor is opened with `O_CLOEXEC`,
//! and a forked child has none of them ([`crate::apart`]).

use crate::apart::Apart;
use crate::file_name::check_name;
use crate::rights::Rights;
use crate::{
    Dir, Error, ErrorKind, File, LockKind, Op, OpenMode, Result, Stamp, SyncKind, Watch, number,
};
use rustix::fs::{AtFlags, Mode, OFlags, statat};
use rustix::io::{Errno, retry_on_intr};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use std::{fs, io};

const EINVAL: i32 = Errno::INVAL.raw_os_error();
/// The system's errors for opening a link, a directory, a socket or a pipe without a reader as a
/// file.
const NOT_FILES: [Errno; 3] = [Errno::LOOP, Errno::ISDIR, Errno::NXIO];
/// How to open a directory only to resolve names in it.
#[cfg(target_os = "linux")]
const ONLY_ENTER: OFlags = OFlags::PATH;
#[cfg(not(target_os = "linux"))]
const ONLY_ENTER: OFlags = OFlags::RDONLY;
/// Permission bits of a new file, less the umask.
const BITS: u32 = 0o644;

/// Wraps a failed standard-library call.
pub(crate) fn failed(op: Op) -> impl Fn(io::Error) -> Error {
    move |e| Error::from_io(op, &e)
}

/// Opens a file. A new file gets the permissions of the file at `like`.
fn open_like(dir: &OwnedFd, name: &str, mode: OpenMode, like: &Path) -> Result<RealFile> {
    if mode == OpenMode::Create {
        match RealFile::entry(dir, name, OpenMode::Write, 0) {
            Err(e) if e.kind == ErrorKind::NotFound => {}
            opened => return opened,
        }
    }
    let Some(rights) = Rights::beside(like) else {
        return RealFile::entry(dir, name, mode, BITS);
    };
    match RealFile::entry(dir, name, OpenMode::CreateNew, rights.mode()) {
        Ok(file) => {
            rights.give(&file.file, rights.mode());
            Ok(file)
        }
        // Another process created it first.
        Err(e) if e.kind == ErrorKind::Exists && mode == OpenMode::Create => {
            RealFile::entry(dir, name, OpenMode::Write, 0)
        }
        Err(e) => Err(e),
    }
}

/// Checks that a file that was opened again is the file that this process has just created.
fn same(file: fs::File, made: &fs::File) -> io::Result<fs::File> {
    match number::of_file(&file)? == number::of_file(made)? {
        true => Ok(file),
        false => Err(io::ErrorKind::AlreadyExists.into()),
    }
}

/// An open file of the host.
#[derive(Debug)]
pub struct RealFile {
    file: Apart,
}

impl RealFile {
    /// Opens the file at `path`; a new file gets mode 0644 less the umask.
    ///
    /// # Errors
    /// `NotFound`, `Exists` or `Permission`, depending on `mode` and the host; `Io` for anything
    /// else, including a directory opened for writing.
    pub fn open(path: impl AsRef<Path>, mode: OpenMode) -> Result<RealFile> {
        use std::os::unix::fs::OpenOptionsExt;
        let path = path.as_ref();
        let mut options = fs::OpenOptions::new();
        options.read(true).mode(BITS);
        match mode {
            OpenMode::Read => &mut options,
            OpenMode::Write => options.write(true),
            OpenMode::Create => options.write(true).create(true).truncate(false),
            OpenMode::CreateNew => options.write(true).create_new(true),
        };
        RealFile::opened(|before| match before {
            Some(made) if mode == OpenMode::CreateNew => {
                let again = fs::OpenOptions::new().read(true).write(true).open(path);
                same(again?, made)
            }
            _ => options.open(path),
        })
    }

    /// Another handle on the same open file, even if its name now leads to another file.
    ///
    /// # Errors
    /// `Io` with [`Op::Open`].
    pub fn again(&self) -> Result<RealFile> {
        RealFile::opened(|_| self.file.try_clone())
    }

    /// The file that `open` opens; see [`Apart::open`].
    pub(crate) fn opened(
        open: impl FnMut(Option<&fs::File>) -> io::Result<fs::File>,
    ) -> Result<RealFile> {
        let file = Apart::open(open).map_err(failed(Op::Open))?;
        Ok(RealFile { file })
    }

    pub(crate) fn inner(&self) -> &fs::File {
        &self.file
    }

    /// Opens a regular file of a directory and nothing else. A new file gets these permission bits,
    /// less the umask.
    fn entry(dir: &OwnedFd, name: &str, mode: OpenMode, bits: u32) -> Result<RealFile> {
        let guards = OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let open = |how: OFlags| -> io::Result<fs::File> {
            let bits = Mode::from_raw_mode(bits);
            let opened = retry_on_intr(|| rustix::fs::openat(dir, name, how | guards, bits));
            Ok(opened?.into())
        };
        let file = RealFile::opened(|before| match (before, mode) {
            (Some(made), OpenMode::CreateNew) => same(open(OFlags::RDWR)?, made),
            (_, OpenMode::Read) => open(OFlags::RDONLY),
            (_, OpenMode::Write) => open(OFlags::RDWR),
            (_, OpenMode::Create) => open(OFlags::RDWR | OFlags::CREATE),
            (_, OpenMode::CreateNew) => open(OFlags::RDWR | OFlags::CREATE | OFlags::EXCL),
        });
        let is_else = match &file {
            Ok(file) => !number::is_regular(&file.file).map_err(failed(Op::Open))?,
            Err(e) => NOT_FILES
                .map(|no| Some(no.raw_os_error()))
                .contains(&e.code),
        };
        match is_else {
            true => Err(Error::new(ErrorKind::NotAFile, Op::Open)),
            false => file,
        }
    }

    /// Owner, group and permission bits now.
    ///
    /// # Errors
    /// `Io` with [`Op::Len`].
    pub fn rights(&self) -> Result<Rights> {
        let meta = self.inner().metadata().map_err(failed(Op::Len))?;
        Ok(Rights::of_meta(&meta))
    }

    /// The permission bits now.
    ///
    /// # Errors
    /// As [`RealFile::rights`].
    pub fn mode(&self) -> Result<u32> {
        Ok(self.rights()?.mode())
    }

    /// Sets owner, group and permission bits of this file, even if its name now leads to another
    /// file.
    ///
    /// Owner and group are not changed if they are already equal, so users can do this with their
    /// own files.
    ///
    /// # Errors
    /// `Permission` if the owner cannot be changed; `Io`; all with [`Op::Open`].
    pub fn give(&self, rights: &Rights) -> Result<()> {
        let file = self.inner();
        let now = self.rights()?;
        let owner = (now.owner() != rights.owner()).then_some(rights.owner());
        let group = (now.group() != rights.group()).then_some(rights.group());
        if owner.is_some() || group.is_some() {
            fchown(file, owner, group).map_err(failed(Op::Open))?;
        }
        // This comes last, because chown clears bits.
        let mode = fs::Permissions::from_mode(rights.mode());
        file.set_permissions(mode).map_err(failed(Op::Open))
    }

    /// The length and the space that the file takes on the disk (its blocks), in bytes.
    ///
    /// # Errors
    /// `Io` with [`Op::Len`].
    pub fn sizes(&self) -> Result<(u64, u64)> {
        let meta = self.inner().metadata().map_err(failed(Op::Len))?;
        Ok((self.len()?, meta.blocks() * 512))
    }
}

impl File for RealFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        let mut done = 0usize;
        while let Some(rest) = buf.get_mut(done..).filter(|rest| !rest.is_empty()) {
            match self.file.read_at(rest, offset.saturating_add(done as u64)) {
                Ok(0) => break,
                Ok(n) => done += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(Error::from_io(Op::Read, &e)),
            }
        }
        Ok(done)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> Result<()> {
        let mut done = 0usize;
        while let Some(rest) = buf.get(done..).filter(|rest| !rest.is_empty()) {
            match self.file.write_at(rest, offset.saturating_add(done as u64)) {
                // A host that writes nothing and returns no error has no space left.
                Ok(0) => return Err(Error::new(ErrorKind::Full, Op::Write)),
                Ok(n) => done += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(Error::from_io(Op::Write, &e)),
            }
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> Result<()> {
        // The standard library repeats an interrupted ftruncate.
        self.file.set_len(len).map_err(failed(Op::Truncate))
    }

    fn sync(&self, kind: SyncKind) -> Result<()> {
        match kind {
            SyncKind::Data => self.file.sync_data(),
            SyncKind::Full => self.file.sync_all(),
        }
        .map_err(failed(Op::Sync))
    }

    fn len(&self) -> Result<u64> {
        Ok(self.file.metadata().map_err(failed(Op::Len))?.len())
    }

    fn try_lock(&self, kind: LockKind) -> Result<bool> {
        let taken = match kind {
            LockKind::Shared => self.file.try_lock_shared(),
            LockKind::Exclusive => self.file.try_lock(),
        };
        match taken {
            Ok(()) => Ok(true),
            Err(fs::TryLockError::WouldBlock) => Ok(false),
            Err(fs::TryLockError::Error(e)) => Err(Error::from_io(Op::Lock, &e)),
        }
    }

    fn lock(&self, kind: LockKind) -> Result<()> {
        loop {
            let taken = match kind {
                LockKind::Shared => self.file.lock_shared(),
                LockKind::Exclusive => self.file.lock(),
            };
            match taken {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                taken => return taken.map_err(failed(Op::Lock)),
            }
        }
    }

    fn unlock(&self) -> Result<()> {
        self.file.unlock().map_err(failed(Op::Lock))
    }

    fn identity(&self) -> Result<(u64, u64)> {
        number::of_file(&self.file).map_err(failed(Op::Len))
    }
}

/// A directory of the host.
///
/// Only the path is kept, so a directory that is moved away is no longer found.
#[derive(Debug, Clone)]
pub struct RealDir {
    path: PathBuf,
    /// New files here get the permissions of this file.
    like: Option<PathBuf>,
}

impl RealDir {
    /// The directory at `path`; nothing is opened or checked until it is used.
    pub fn new(path: impl Into<PathBuf>) -> RealDir {
        let path = path.into();
        // The parent of a bare file name is "", which no system call accepts.
        let path = if path.as_os_str().is_empty() {
            PathBuf::from(".")
        } else {
            path
        };
        RealDir { path, like: None }
    }

    /// The directory beside the file at `like` that belongs to it. New files get the permission
    /// bits of that file, and its owner and group where allowed, if it exists at that time.
    ///
    /// Its owner can be another user, who could replace the directory by a link. So links are not
    /// followed: the name must be that of a directory.
    #[must_use]
    pub fn like(self, like: impl Into<PathBuf>) -> RealDir {
        let like = Some(like.into());
        RealDir { like, ..self }
    }

    /// The directory at `path`, created if it is missing; its name is then durable too. A new
    /// directory gets mode 0777 less the umask.
    ///
    /// # Errors
    /// `NotFound` if the parent directory is missing, `Permission`, `Io`; all with [`Op::Open`] or
    /// [`Op::Sync`].
    pub fn create(path: impl Into<PathBuf>) -> Result<RealDir> {
        RealDir::new(path).made()
    }

    /// As [`RealDir::create`], for this directory. With [`RealDir::like`], users who can read that
    /// file can enter the directory.
    ///
    /// # Errors
    /// As [`RealDir::create`].
    pub fn made(self) -> Result<RealDir> {
        use std::os::unix::fs::DirBuilderExt;
        let rights = self.like.as_deref().and_then(Rights::beside);
        let mode = rights.as_ref().map_or(0o777, Rights::of_directory);
        match fs::DirBuilder::new().mode(mode).create(&self.path) {
            Ok(()) => {
                let how = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let made = rustix::fs::open(&self.path, how, Mode::empty());
                if let (Some(rights), Ok(made)) = (rights, made) {
                    rights.give(&made.into(), mode);
                }
                RealDir::new(self.path.parent().unwrap_or(Path::new("/"))).sync()?;
            }
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => drop(self.enter(Op::Open)?),
            Err(e) => return Err(Error::from_io(Op::Open, &e)),
        }
        Ok(self)
    }

    /// A descriptor of the directory that has the path now, to resolve names in it.
    fn enter(&self, op: Op) -> Result<OwnedFd> {
        self.opened(ONLY_ENTER, op)
    }

    /// As [`RealDir::enter`]; `None` if there is no directory at the path.
    fn enter_if_there(&self, op: Op) -> Result<Option<OwnedFd>> {
        match self.enter(op) {
            Ok(dir) => Ok(Some(dir)),
            Err(e) if e.kind == ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// The directory that has the path now, opened with these flags.
    fn opened(&self, how: OFlags, op: Op) -> Result<OwnedFd> {
        let links = match self.like {
            Some(_) => OFlags::NOFOLLOW,
            None => OFlags::empty(),
        };
        let how = how | links | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = retry_on_intr(|| rustix::fs::open(&self.path, how, Mode::empty()));
        opened.map_err(|e| match e {
            Errno::NOTDIR | Errno::LOOP => Error::new(ErrorKind::NotADirectory, op),
            e => failed(op)(e.into()),
        })
    }

    /// Where the directory is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Dir for RealDir {
    fn open(&self, name: &str, mode: OpenMode) -> Result<Box<dyn File>> {
        check_name(name, Op::Open)?;
        let dir = self.enter(Op::Open)?;
        let file = match (&self.like, mode) {
            (Some(like), OpenMode::Create | OpenMode::CreateNew) => {
                open_like(&dir, name, mode, like)
            }
            _ => RealFile::entry(&dir, name, mode, BITS),
        };
        Ok(Box::new(file?))
    }

    fn exists(&self, name: &str) -> Result<bool> {
        check_name(name, Op::List)?;
        let Some(dir) = self.enter_if_there(Op::List)? else {
            return Ok(false);
        };
        // A link is not followed: a dangling one still occupies its name.
        match statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(_) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(e) => Err(failed(Op::List)(e.into())),
        }
    }

    fn identity(&self, name: &str) -> Result<Option<(u64, u64)>> {
        check_name(name, Op::List)?;
        let Some(dir) = self.enter_if_there(Op::List)? else {
            return Ok(None);
        };
        match number::of_name(&dir, name) {
            Ok(number) => Ok(Some(number)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(Error::from_io(Op::List, &e)),
        }
    }

    fn stamp(&self) -> Result<Option<Stamp>> {
        let told = match self.like {
            Some(_) => fs::symlink_metadata(&self.path),
            None => fs::metadata(&self.path),
        };
        // The ctime changes with each change of names too, and it cannot be set.
        match told {
            Ok(meta) => Ok(Some(Stamp {
                identity: (meta.dev(), meta.ino()),
                changed: (meta.ctime(), meta.ctime_nsec()),
            })),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(Error::from_io(Op::List, &e)),
        }
    }

    fn remove(&self, name: &str) -> Result<()> {
        check_name(name, Op::Remove)?;
        let dir = self.enter(Op::Remove)?;
        rustix::fs::unlinkat(dir, name, AtFlags::empty()).map_err(|e| failed(Op::Remove)(e.into()))
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        check_name(from, Op::Rename)?;
        check_name(to, Op::Rename)?;
        let dir = self.enter(Op::Rename)?;
        rustix::fs::renameat(&dir, from, &dir, to).map_err(|e| failed(Op::Rename)(e.into()))
    }

    /// Names that are not UTF-8 are left out: this trait cannot name them.
    fn list(&self) -> Result<Vec<String>> {
        let failed = |e: Errno| failed(Op::List)(e.into());
        let mut names = Vec::new();
        let dir = self.opened(OFlags::RDONLY, Op::List)?;
        for entry in rustix::fs::Dir::new(dir).map_err(failed)? {
            match entry.map_err(failed)?.file_name().to_str() {
                Ok("." | "..") | Err(_) => {}
                Ok(name) => names.push(name.to_owned()),
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    fn sync(&self) -> Result<()> {
        let dir = fs::File::from(self.opened(OFlags::RDONLY, Op::Open)?);
        match dir.sync_all() {
            // Some file systems do not support fsync on directories, and their entries do not need
            // it.
            Err(e) if e.raw_os_error() == Some(EINVAL) => Ok(()),
            other => other.map_err(failed(Op::Sync)),
        }
    }

    fn watch(&self) -> Option<Watch> {
        Watch::of(&self.path)
    }

    fn free_space(&self) -> Result<u64> {
        let stat = rustix::fs::statvfs(&self.path).map_err(|e| failed(Op::List)(e.into()))?;
        // f_bavail, not f_bfree: blocks reserved for root are not available to other users.
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }
}

/// Exchanges two files or directories atomically: both names exist at all times. Durable once their
/// directory is synced.
///
/// # Errors
/// `NotFound` if one of them is missing, `Permission`, `Io`, also if the file system cannot
/// exchange; all with [`Op::Rename`].
pub fn exchange(a: impl AsRef<Path>, b: impl AsRef<Path>) -> Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    renameat_with(CWD, a.as_ref(), CWD, b.as_ref(), RenameFlags::EXCHANGE)
        .map_err(|e| failed(Op::Rename)(e.into()))
}
