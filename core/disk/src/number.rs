//! Device and inode of a file, and whether it is a regular file, without its other metadata.
//!
//! Since 6.13, Linux gives a file whose times were queried a finer timestamp at its next write,
//! which changes the inode. If each write is synced, a full `stat` makes a sync take half as long
//! again. So these calls do not query times.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;

#[cfg(target_os = "linux")]
mod asked {
    use super::{File, OwnedFd, io};
    use rustix::fs::{AtFlags, FileType, Statx, StatxFlags, makedev, statx};

    fn number(told: rustix::io::Result<Statx>) -> io::Result<(u64, u64)> {
        let told = told?;
        Ok((
            makedev(told.stx_dev_major, told.stx_dev_minor),
            told.stx_ino,
        ))
    }

    /// Of a link: the link's own.
    pub(crate) fn of_name(dir: &OwnedFd, name: &str) -> io::Result<(u64, u64)> {
        number(statx(dir, name, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::INO))
    }

    pub(crate) fn of_file(file: &File) -> io::Result<(u64, u64)> {
        number(statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::INO))
    }

    pub(crate) fn is_regular(file: &File) -> io::Result<bool> {
        let told = statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::TYPE)?;
        Ok(FileType::from_raw_mode(told.stx_mode.into()).is_file())
    }
}

#[cfg(not(target_os = "linux"))]
mod asked {
    use super::{File, OwnedFd, io};
    use std::os::unix::fs::MetadataExt;

    /// Of a link: the link's own.
    #[allow(clippy::unnecessary_cast, reason = "other systems have other types")]
    pub(crate) fn of_name(dir: &OwnedFd, name: &str) -> io::Result<(u64, u64)> {
        let stat = rustix::fs::statat(dir, name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW)?;
        Ok((stat.st_dev as u64, stat.st_ino as u64))
    }

    pub(crate) fn of_file(file: &File) -> io::Result<(u64, u64)> {
        let meta = file.metadata()?;
        Ok((meta.dev(), meta.ino()))
    }

    pub(crate) fn is_regular(file: &File) -> io::Result<bool> {
        Ok(file.metadata()?.is_file())
    }
}

pub(crate) use asked::{is_regular, of_file, of_name};
