//! The real disk: positioned reads and writes, `fdatasync`, `fsync`, `statvfs`.
//!
//! Invariant: a call that was interrupted by a signal or did only part of its work is
//! continued here; the caller sees all of it done, or an error.
//! Every descriptor is opened with `O_CLOEXEC`, and a forked child has none of them ([`crate::apart`]).

use std::fs;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::apart::Apart;
use crate::number;
use crate::rights::Rights;
use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::{Dir, Error, ErrorKind, File, LockKind, Op, OpenMode, Result, Stamp, SyncKind, Watch};

const EINVAL: i32 = Errno::INVAL.raw_os_error();
/// What the system answers who opens a link, a directory, a socket or a pipe without a reader as a file.
const NOT_FILES: [Errno; 3] = [Errno::LOOP, Errno::ISDIR, Errno::NXIO];
/// Permission bits of a new file, less the umask.
const BITS: u32 = 0o644;

/// Wraps a failed standard-library call.
pub(crate) fn failed(op: Op) -> impl Fn(io::Error) -> Error {
    move |e| Error::from_io(op, &e)
}

/// Opens a file, which is made with the rights of the one at `like`.
fn open_like(path: &Path, mode: OpenMode, like: &Path) -> Result<RealFile> {
    if mode == OpenMode::Create {
        match RealFile::entry(path, OpenMode::Write, 0) {
            Err(e) if e.kind == ErrorKind::NotFound => {}
            opened => return opened,
        }
    }
    let Some(rights) = Rights::beside(like) else {
        return RealFile::entry(path, mode, BITS);
    };
    match RealFile::entry(path, OpenMode::CreateNew, rights.mode()) {
        Ok(file) => {
            rights.give(&file.file, rights.mode());
            Ok(file)
        }
        // Somebody was first.
        Err(e) if e.kind == ErrorKind::Exists && mode == OpenMode::Create => {
            RealFile::entry(path, OpenMode::Write, 0)
        }
        Err(e) => Err(e),
    }
}

/// Opens a file again that this process has just made.
fn open_made(path: &Path, made: &fs::File) -> io::Result<fs::File> {
    let file = fs::OpenOptions::new().read(true).write(true).open(path)?;
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
    /// `NotFound`, `Exists` or `Permission` as `mode` and the host say; `Io` for anything
    /// else, a directory opened for writing included.
    pub fn open(path: impl AsRef<Path>, mode: OpenMode) -> Result<RealFile> {
        RealFile::open_with(path.as_ref(), mode, BITS, OFlags::empty())
    }

    /// The same open file once more: what its name leads to by now does not matter.
    ///
    /// # Errors
    /// `Io` with [`Op::Open`].
    pub fn again(&self) -> Result<RealFile> {
        RealFile::opened(|_| self.file.try_clone())
    }

    /// What `open` opens; see [`Apart::open`].
    pub(crate) fn opened(
        open: impl FnMut(Option<&fs::File>) -> io::Result<fs::File>,
    ) -> Result<RealFile> {
        let file = Apart::open(open).map_err(failed(Op::Open))?;
        Ok(RealFile { file })
    }

    pub(crate) fn inner(&self) -> &fs::File {
        &self.file
    }

    /// Opens a directory's file, and nothing else that has its name; a new one gets these permission bits, less the umask.
    fn entry(path: &Path, mode: OpenMode, bits: u32) -> Result<RealFile> {
        let file = RealFile::open_with(path, mode, bits, OFlags::NONBLOCK | OFlags::NOFOLLOW);
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

    fn open_with(path: &Path, mode: OpenMode, bits: u32, flags: OFlags) -> Result<RealFile> {
        use std::os::unix::fs::OpenOptionsExt;
        let mut options = fs::OpenOptions::new();
        options.read(true).mode(bits);
        options.custom_flags(flags.bits().cast_signed());
        match mode {
            OpenMode::Read => &mut options,
            OpenMode::Write => options.write(true),
            OpenMode::Create => options.write(true).create(true).truncate(false),
            OpenMode::CreateNew => options.write(true).create_new(true),
        };
        RealFile::opened(|before| match before {
            Some(made) if mode == OpenMode::CreateNew => open_made(path, made),
            _ => options.open(path),
        })
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
                // A host that takes nothing and names no error has no room left.
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
    /// Who may use that file may use those that are made here.
    like: Option<PathBuf>,
}

impl RealDir {
    /// The directory at `path`; nothing is opened or checked until it is used.
    pub fn new(path: impl Into<PathBuf>) -> RealDir {
        let path = path.into();
        // The parent of a bare file name is "", which no call accepts.
        let path = if path.as_os_str().is_empty() {
            PathBuf::from(".")
        } else {
            path
        };
        RealDir { path, like: None }
    }

    /// The same directory; files that are made there get the permission bits, and as far as may be the owner and the group, of the file at `like` at that time, if there is one.
    #[must_use]
    pub fn like(self, like: impl Into<PathBuf>) -> RealDir {
        let like = Some(like.into());
        RealDir { like, ..self }
    }

    /// The directory at `path`, made when it is missing; then its name is durable too. A new one gets mode 0755 less the umask.
    ///
    /// # Errors
    /// `NotFound` when the directory above it is missing, `Permission`, `Io`; all with [`Op::Open`] or [`Op::Sync`].
    pub fn create(path: impl Into<PathBuf>) -> Result<RealDir> {
        RealDir::new(path).made()
    }

    /// As [`RealDir::create`], of this directory. One that is [`RealDir::like`] a file can be entered by who may read that.
    ///
    /// # Errors
    /// As [`RealDir::create`].
    pub fn made(self) -> Result<RealDir> {
        use rustix::fs::Mode;
        use std::os::unix::fs::DirBuilderExt;
        let rights = self.like.as_deref().and_then(Rights::beside);
        let mode = rights.as_ref().map_or(0o777, Rights::of_directory);
        match fs::DirBuilder::new().mode(mode).create(&self.path) {
            Ok(()) => {
                let made = rustix::fs::open(
                    &self.path,
                    OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC,
                    Mode::empty(),
                );
                if let (Some(rights), Ok(made)) = (rights, made) {
                    rights.give(&made.into(), mode);
                }
                RealDir::new(self.path.parent().unwrap_or(Path::new("/"))).sync()?;
            }
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists && self.path.is_dir() => {}
            Err(e) => return Err(Error::from_io(Op::Open, &e)),
        }
        Ok(self)
    }

    /// Where the directory is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The full path of `name`, which must be a single component.
    fn at(&self, name: &str, op: Op) -> Result<PathBuf> {
        check_name(name, op)?;
        Ok(self.path.join(name))
    }
}

/// Refuses what is not a single path component (`Io` with `EINVAL`).
pub(crate) fn check_name(name: &str, op: Op) -> Result<()> {
    if matches!(name, "" | "." | "..") || name.contains(['/', '\0']) {
        return Err(Error {
            kind: ErrorKind::Io,
            op,
            code: Some(EINVAL),
        });
    }
    Ok(())
}

impl Dir for RealDir {
    fn open(&self, name: &str, mode: OpenMode) -> Result<Box<dyn File>> {
        let path = self.at(name, Op::Open)?;
        let file = match (&self.like, mode) {
            (Some(like), OpenMode::Create | OpenMode::CreateNew) => open_like(&path, mode, like),
            _ => RealFile::entry(&path, mode, BITS),
        };
        Ok(Box::new(file?))
    }

    fn exists(&self, name: &str) -> Result<bool> {
        // Not following a link: a dangling one still occupies its name.
        match fs::symlink_metadata(self.at(name, Op::List)?) {
            Ok(_) => Ok(true),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(e) => Err(Error::from_io(Op::List, &e)),
        }
    }

    fn identity(&self, name: &str) -> Result<Option<(u64, u64)>> {
        match number::of_path(&self.at(name, Op::List)?) {
            Ok(number) => Ok(Some(number)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(Error::from_io(Op::List, &e)),
        }
    }

    fn stamp(&self) -> Result<Option<Stamp>> {
        // Its ctime changes with its names, too, and cannot be set.
        match fs::metadata(&self.path) {
            Ok(meta) => Ok(Some(Stamp {
                identity: (meta.dev(), meta.ino()),
                changed: (meta.ctime(), meta.ctime_nsec()),
            })),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(Error::from_io(Op::List, &e)),
        }
    }

    fn remove(&self, name: &str) -> Result<()> {
        fs::remove_file(self.at(name, Op::Remove)?).map_err(failed(Op::Remove))
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        let from = self.at(from, Op::Rename)?;
        let to = self.at(to, Op::Rename)?;
        fs::rename(from, to).map_err(failed(Op::Rename))
    }

    /// Names that are not UTF-8 are left out: no call of this trait could name them.
    fn list(&self) -> Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.path).map_err(failed(Op::List))? {
            let entry = entry.map_err(failed(Op::List))?;
            if let Ok(name) = entry.file_name().into_string() {
                names.push(name);
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    fn sync(&self) -> Result<()> {
        let dir = fs::File::open(&self.path).map_err(failed(Op::Open))?;
        match dir.sync_all() {
            // Some file systems have no fsync for directories; their entries need none.
            Err(e) if e.raw_os_error() == Some(EINVAL) => Ok(()),
            other => other.map_err(failed(Op::Sync)),
        }
    }

    fn watch(&self) -> Option<Watch> {
        Watch::of(&self.path)
    }

    fn free_space(&self) -> Result<u64> {
        let stat = rustix::fs::statvfs(&self.path).map_err(|e| failed(Op::List)(e.into()))?;
        // f_bavail, not f_bfree: what is reserved for root is of no use to others.
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }
}

/// Two directories, or files, change places: at no time is either name without one. Durable once the directory they are in is synced.
///
/// # Errors
/// `NotFound` when one of them is missing, `Permission`, `Io`, also where the file system cannot do it; all with [`Op::Rename`].
pub fn exchange(a: impl AsRef<Path>, b: impl AsRef<Path>) -> Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    renameat_with(CWD, a.as_ref(), CWD, b.as_ref(), RenameFlags::EXCHANGE)
        .map_err(|e| failed(Op::Rename)(e.into()))
}
