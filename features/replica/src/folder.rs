//! A bucket in a directory: another disk, or a mounted one.
//!
//! A directory has no conditional requests. So a writer holds the lock of a file in it, and checks
//! and renames under that lock. File systems whose locks do not work are refused.

use crate::bucket::{Bucket, Listed, RemoteObject, Stored, Upload};
use crate::error::{Error, Result};
use densite_disk::hash::xxh3_128;
use densite_disk::sync::{Mutex, MutexGuard};
use densite_disk::{Dir, ErrorKind, File, LockKind, OpenMode, SyncKind};
use std::sync::Arc;

/// The file whose lock a writer holds.
const LOCK: &str = "densite-replica-lock";
/// The ending of files that are being written.
const UNFINISHED: &str = ".densite-tmp";

/// See the module's documentation.
pub struct Folder {
    dir: Mutex<Box<dyn Dir>>,
    /// Held by a writer.
    lock: Option<Mutex<Box<dyn File>>>,
}

impl Folder {
    /// A directory to read from. Errors do not name it.
    pub fn reader(dir: Box<dyn Dir>) -> Folder {
        Folder {
            dir: Mutex::new(dir),
            lock: None,
        }
    }

    /// A directory to write to. One writer at a time has it.
    ///
    /// # Errors
    /// [`Error::AnotherWriter`] if another process writes to it; [`Error::Bucket`], also if its file
    /// system has no working locks.
    pub fn writer(dir: Box<dyn Dir>) -> Result<Folder> {
        let mut folder = Folder::reader(dir);
        let open = || folder.dir().open(LOCK, OpenMode::Create);
        let lock = open().map_err(failed)?;
        if !lock.try_lock(LockKind::Exclusive).map_err(failed)? {
            return Err(Error::AnotherWriter {
                object: LOCK.to_owned(),
            });
        }
        let second = open().map_err(failed)?;
        if second.try_lock(LockKind::Exclusive).map_err(failed)? {
            return Err(Error::Bucket(
                "locks do not work on this file system, so two writers could destroy the replica; use another directory".to_owned(),
            ));
        }
        folder.lock = Some(Mutex::new(lock));
        Ok(folder)
    }

    fn dir(&self) -> MutexGuard<'_, Box<dyn Dir>> {
        self.dir.lock()
    }

    /// Whether this may write.
    fn may_write(&self) -> Result<()> {
        match &self.lock {
            Some(_) => Ok(()),
            None => Err(Error::Bucket(
                "the directory is open for reading only; open it for writing".to_owned(),
            )),
        }
    }

    fn open(&self, name: &str) -> Result<Option<(Box<dyn File>, u64)>> {
        let file = match self.dir().open(name, OpenMode::Read) {
            Ok(file) => file,
            Err(e) if e.kind == ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(failed(e)),
        };
        let len = file.len().map_err(failed)?;
        Ok(Some((file, len)))
    }

    fn read(&self, file: &dyn File, offset: u64, len: u64) -> Result<Vec<u8>> {
        let mut bytes = vec![0; usize::try_from(len).unwrap_or_default()];
        let n = file.read_at(&mut bytes, offset).map_err(failed)?;
        match n == bytes.len() {
            true => Ok(bytes),
            false => Err(Error::Bucket(
                "an object became shorter while it was read; if this is a copy of the replica, wait until it is complete"
                    .to_owned(),
            )),
        }
    }

    fn put(&self, name: &str, bytes: &[u8]) -> Result<String> {
        let mut upload = self.begin(name)?;
        upload.write(bytes)?;
        upload.end()?;
        Ok(version(bytes))
    }

    fn begin(&self, name: &str) -> Result<FolderUpload<'_>> {
        self.may_write()?;
        let temporary = format!("{name}{UNFINISHED}");
        let file = self.dir().open(&temporary, OpenMode::Create);
        let file = file.map_err(failed)?;
        file.set_len(0).map_err(failed)?;
        Ok(FolderUpload {
            folder: self,
            file,
            temporary,
            name: name.to_owned(),
            len: 0,
            is_finished: false,
        })
    }
}

/// What is wrong with the directory, and what to do.
fn failed(e: densite_disk::Error) -> Error {
    let advice = match e.kind {
        ErrorKind::Permission => "; check its owner and mode",
        ErrorKind::Full => "; free some disk space",
        ErrorKind::NotFound => "; check the path",
        _ => "",
    };
    Error::Bucket(format!("{}{advice}", e.problem()))
}

/// What a version of a small object is called: a hash of its bytes.
fn version(bytes: &[u8]) -> String {
    format!("{:032x}", xxh3_128(bytes))
}

impl Bucket for Folder {
    fn get(&self, name: &str) -> Result<Option<Stored>> {
        let Some((file, len)) = self.open(name)? else {
            return Ok(None);
        };
        let bytes = self.read(&*file, 0, len)?;
        let version = version(&bytes);
        Ok(Some(Stored {
            bytes,
            version,
            len,
        }))
    }

    fn get_end(&self, name: &str, len: u64) -> Result<Option<Stored>> {
        let Some((file, whole)) = self.open(name)? else {
            return Ok(None);
        };
        let from = whole.saturating_sub(len);
        let bytes = self.read(&*file, from, whole - from)?;
        Ok(Some(Stored {
            version: String::new(),
            bytes,
            len: whole,
        }))
    }

    fn get_range(&self, name: &str, offset: u64, len: u64) -> Result<Vec<u8>> {
        match self.open(name)? {
            Some((file, _)) => self.read(&*file, offset, len),
            None => Err(Error::Missing(name.to_owned())),
        }
    }

    fn create(&self, name: &str, bytes: &[u8]) -> Result<Option<String>> {
        self.may_write()?;
        let exists = self.dir().exists(name).map_err(failed)?;
        match exists {
            true => Ok(None),
            false => self.put(name, bytes).map(Some),
        }
    }

    fn replace(&self, name: &str, bytes: &[u8], version: &str) -> Result<Option<String>> {
        self.may_write()?;
        match self.get(name)? {
            Some(now) if now.version == version => self.put(name, bytes).map(Some),
            _ => Ok(None),
        }
    }

    fn upload(&self, name: &str, _: u64) -> Result<Box<dyn Upload + '_>> {
        Ok(Box::new(self.begin(name)?))
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.may_write()?;
        let dir = self.dir();
        match dir.remove(name).and_then(|()| dir.sync()) {
            Err(e) if e.kind != ErrorKind::NotFound => Err(failed(e)),
            _ => Ok(()),
        }
    }

    fn object(&self, name: &str, _: u64, _: u64) -> Result<Option<Arc<dyn RemoteObject>>> {
        let Some((file, len)) = self.open(name)? else {
            return Ok(None);
        };
        Ok(Some(Arc::new(OpenObject {
            file: Mutex::new(file),
            len,
        })))
    }

    fn list(&self, prefix: &str, after: &str) -> Result<Vec<Listed>> {
        let mut names = match self.dir().list() {
            // A directory that does not exist has no replica.
            Err(e) if e.kind == ErrorKind::NotFound && self.lock.is_none() => Vec::new(),
            listed => listed.map_err(failed)?,
        };
        names.retain(|name| {
            name.starts_with(prefix)
                && name.as_str() > after
                && name != LOCK
                && !name.ends_with(UNFINISHED)
        });
        let mut listed = Vec::with_capacity(names.len());
        for name in names {
            let file = self.dir().open(&name, OpenMode::Read);
            match file.and_then(|file| file.len()) {
                Ok(len) => listed.push(Listed { name, len }),
                // It was removed just now, or is a directory, which is no object.
                Err(e) if matches!(e.kind, ErrorKind::NotFound | ErrorKind::NotAFile) => {}
                Err(e) => return Err(failed(e)),
            }
        }
        Ok(listed)
    }
}

/// An object that stays readable when its name is removed.
struct OpenObject {
    file: Mutex<Box<dyn File>>,
    len: u64,
}

impl RemoteObject for OpenObject {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        let read = self.file.lock().read_at(buf, offset);
        read.map_err(failed)
    }

    fn len(&self) -> u64 {
        self.len
    }
}

struct FolderUpload<'a> {
    folder: &'a Folder,
    file: Box<dyn File>,
    temporary: String,
    name: String,
    len: u64,
    is_finished: bool,
}

impl FolderUpload<'_> {
    fn end(&mut self) -> Result<()> {
        let done = self.file.sync(SyncKind::Full).and_then(|()| {
            let dir = self.folder.dir();
            dir.rename(&self.temporary, &self.name)?;
            self.is_finished = true;
            dir.sync()
        });
        done.map_err(failed)
    }
}

impl Upload for FolderUpload<'_> {
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let done = self.file.write_at(bytes, self.len);
        done.map_err(failed)?;
        self.len += bytes.len() as u64;
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<()> {
        self.end()
    }
}

impl Drop for FolderUpload<'_> {
    fn drop(&mut self) {
        if !self.is_finished {
            // The next writer of this name begins by cutting what remains.
            let _ = self.folder.dir().remove(&self.temporary);
        }
    }
}
