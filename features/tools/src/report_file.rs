//! Writes a file that is not a database, such as the page of `densite report` or an export.
//!
//! The directory can belong to another user, or be open to all users. So the file is a new one of
//! the caller, which gets its name when it is complete ([`crate::temp`]). What has the name before
//! is never opened.

use crate::error::{Error, Result, parent_of};
use crate::progress::Silent;
use crate::temp::{Temp, clear_leftovers};
use densite_disk::{File, RealFile};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// A new file, which gets its name when it is finished. Dropping it before leaves nothing behind.
pub struct NewFile {
    path: PathBuf,
    replaces: bool,
    temp: Temp,
    file: RealFile,
    len: u64,
}

impl NewFile {
    /// Begins a new file. With `replace`, it takes the place of an ordinary file of this name, and
    /// is not more open than that one.
    ///
    /// # Errors
    /// [`Error::Exists`] if the name is taken; with `replace`, if by anything but an ordinary file:
    /// a symbolic link is not followed. [`Error::NotFound`] for the directory,
    /// [`Error::Permission`], [`Error::Io`].
    pub fn create(path: &Path, replace: bool) -> Result<NewFile> {
        if path.file_name().is_none_or(|name| name.to_str().is_none()) {
            return Err(Error::Setting(format!(
                "{}: the name of a new file must be UTF-8; choose another name",
                path.display()
            )));
        }
        let most = match std::fs::symlink_metadata(path) {
            Ok(old) if replace && old.is_file() => old.permissions().mode(),
            Ok(_) => {
                return Err(Error::Exists {
                    path: path.to_path_buf(),
                });
            }
            Err(_) => 0o777,
        };
        clear_leftovers(path, &mut Silent)?;
        let temp = Temp::create_own(path, most)?;
        Ok(NewFile {
            path: path.to_path_buf(),
            replaces: replace,
            file: temp.open()?,
            temp,
            len: 0,
        })
    }

    /// Appends bytes.
    ///
    /// # Errors
    /// [`Error::NoSpace`], [`Error::Io`].
    pub fn append(&mut self, bytes: &[u8]) -> Result<()> {
        let written = self.file.write_at(bytes, self.len);
        self.len += bytes.len() as u64;
        written.map_err(|e| match e.kind == densite_disk::ErrorKind::Full {
            true => Error::NoSpace {
                dir: parent_of(&self.path),
                needed: None,
                available: None,
            },
            false => Error::from_disk(&self.path, "write", &e),
        })
    }

    /// The bytes so far.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether nothing was appended.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Gives it its name, durably. After an error, `path` is unchanged.
    ///
    /// # Errors
    /// As [`NewFile::create`].
    pub fn finish(mut self) -> Result<()> {
        match self.replaces {
            true => self.temp.rename_over(&self.path),
            false => self.temp.rename_to(&self.path),
        }
    }
}

/// Writes a new file with these bytes.
///
/// # Errors
/// As [`NewFile::create`] and [`NewFile::append`].
pub fn write_file(path: &Path, bytes: &[u8], replace: bool) -> Result<()> {
    let mut file = NewFile::create(path, replace)?;
    file.append(bytes)?;
    file.finish()
}
