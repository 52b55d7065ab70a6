//! Device and inode of a file, and whether it is one, asked for alone.
//!
//! Linux, since 6.13, gives a file that was asked for its times a finer one with its next write, which changes the inode: where each write is synced, one that is asked for with all else that `stat` tells takes half as long
//! again.

use std::fs::File;
use std::io;
use std::path::Path;

#[cfg(target_os = "linux")]
mod asked {
    use super::{File, Path, io};
    use rustix::fs::{AtFlags, CWD, FileType, Statx, StatxFlags, makedev, statx};

    fn number(told: rustix::io::Result<Statx>) -> io::Result<(u64, u64)> {
        let told = told?;
        Ok((
            makedev(told.stx_dev_major, told.stx_dev_minor),
            told.stx_ino,
        ))
    }

    pub(crate) fn of_path(path: &Path) -> io::Result<(u64, u64)> {
        number(statx(CWD, path, AtFlags::empty(), StatxFlags::INO))
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
    use super::{File, Path, io};
    use std::os::unix::fs::MetadataExt;

    pub(crate) fn of_path(path: &Path) -> io::Result<(u64, u64)> {
        let meta = std::fs::metadata(path)?;
        Ok((meta.dev(), meta.ino()))
    }

    pub(crate) fn of_file(file: &File) -> io::Result<(u64, u64)> {
        let meta = file.metadata()?;
        Ok((meta.dev(), meta.ino()))
    }

    pub(crate) fn is_regular(file: &File) -> io::Result<bool> {
        Ok(file.metadata()?.is_file())
    }
}

pub(crate) use asked::{is_regular, of_file, of_path};
