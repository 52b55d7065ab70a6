//! Rights and sizes of an open file.

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

    /// Gives this file, whatever its name leads to now, owner, group and permission bits.
    ///
    /// Where owner and group are equal already neither is changed, so that everybody may do it with their own files.
    ///
    /// # Errors
    /// `Permission` when the owner may not be changed; `Io`; all with [`Op::Open`].
    pub fn give(&self, rights: &Rights) -> Result<()> {
        let file = self.inner();
        let now = self.rights()?;
        let owner = (now.owner() != rights.owner()).then_some(rights.owner());
        let group = (now.group() != rights.group()).then_some(rights.group());
        if owner.is_some() || group.is_some() {
            fchown(file, owner, group).map_err(failed(Op::Open))?;
        }
        // Last, since chown clears bits.
        let mode = fs::Permissions::from_mode(rights.mode());
        file.set_permissions(mode).map_err(failed(Op::Open))
    }

    /// Length, and what the file takes on the disk (its blocks), in bytes.
    ///
    /// # Errors
    /// `Io` with [`Op::Len`].
    pub fn sizes(&self) -> Result<(u64, u64)> {
        let meta = self.inner().metadata().map_err(failed(Op::Len))?;
        Ok((self.len()?, meta.blocks() * 512))
    }
}
