//! Writes a file that is not a database, such as the page of `densite report`.
//!
//! The directory can belong to another user, or be open to all users. So the file is a new one of
//! the caller, which gets its name when it is complete ([`crate::temp`]). What has the name before
//! is never opened.

use crate::error::{Error, Result, parent_of};
use crate::temp::Temp;
use densite_disk::File;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Writes a new file. With `replace`, it takes the place of an ordinary file of this name, and is
/// not more open than that one. After an error, `path` is unchanged.
///
/// # Errors
/// [`Error::Exists`] if the name is taken; with `replace`, if by anything but an ordinary file: a
/// symbolic link is not followed. [`Error::NotFound`] for the directory, [`Error::Permission`],
/// [`Error::NoSpace`], [`Error::Io`].
pub fn write_file(path: &Path, bytes: &[u8], replace: bool) -> Result<()> {
    let exists = || Error::Exists {
        path: path.to_path_buf(),
    };
    if path.file_name().is_none_or(|name| name.to_str().is_none()) {
        return Err(Error::Setting(format!(
            "{}: the name of a new file must be UTF-8; choose another name",
            path.display()
        )));
    }
    let most = match std::fs::symlink_metadata(path) {
        Ok(old) if replace && old.is_file() => old.permissions().mode(),
        Ok(_) => return Err(exists()),
        Err(_) => 0o777,
    };
    let temp = Temp::create_own(path, most)?;
    temp.open()?.write_at(bytes, 0).map_err(|e| {
        let full = e.kind == densite_disk::ErrorKind::Full;
        match full {
            true => Error::NoSpace {
                dir: parent_of(path),
                needed: Some(bytes.len() as u64),
                available: None,
            },
            false => Error::from_disk(path, "write", &e),
        }
    })?;
    match replace {
        true => temp.rename_over(path),
        false => temp.rename_to(path),
    }
}
