//! Permissions and sizes of an open file.

use super::{RealFile, failed};
use crate::rights::Rights;
use crate::{File as _, Op, Result};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};

impl RealFile {
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
