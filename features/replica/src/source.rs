//! The database that is shipped.

use crate::error::{Error, Result};
use densite_log::Image;
use densite_store::{CommitId, Handle, Written};

/// A database file that is shipped. Other connections and processes use it meanwhile.
pub trait Source {
    /// Takes a restore point: a commit that is the state of a transaction. `None` if readers hold it
    /// back now, or the database is empty.
    ///
    /// # Errors
    /// [`Error::Source`], as all calls.
    fn restore_point(&mut self) -> Result<Option<CommitId>>;
    /// The log of the database as of the last call of [`Source::restore_point`]: held before the
    /// point was taken, and settled after it, even if readers held back the point. `None` if there
    /// is no log, or if it was taken already. Its segments are not recycled before it is dropped.
    fn take_log(&mut self) -> Option<Image>;
    /// The newest commit, whether or not it is a restore point.
    ///
    /// # Errors
    /// As [`Source::restore_point`].
    fn newest(&mut self) -> Result<Option<CommitId>>;
    /// What was written after `from`, up to `to`.
    ///
    /// # Errors
    /// As [`Source::restore_point`].
    fn written(&mut self, from: &CommitId, to: &CommitId) -> Result<Written>;
    /// The length of the file as of a commit; `None` if it is not known any more.
    ///
    /// # Errors
    /// As [`Source::restore_point`].
    fn image_len(&mut self, mark: &CommitId) -> Result<Option<u64>>;
    /// Reads stored bytes. Returns how many were read before the end of the file.
    ///
    /// # Errors
    /// As [`Source::restore_point`].
    fn read(&mut self, buf: &mut [u8], offset: u64) -> Result<usize>;
    /// Verifies the checksums of some stored pages from `first` on (1 is the first), and with the
    /// first ones those of everything else that the newest commit needs. Returns the page after
    /// them; `None` at the end.
    ///
    /// # Errors
    /// [`Error::SourceDamaged`]; otherwise as
    /// [`Source::restore_point`].
    fn check_stored(&mut self, first: u32) -> Result<Option<u32>>;
    /// Ranges of bytes, start and end, that readers need first, up to `most` bytes. Others can
    /// write over them meanwhile.
    ///
    /// # Errors
    /// As [`Source::restore_point`].
    fn first_places(&mut self, most: u64) -> Result<Vec<(u64, u64)>>;
    /// Whether every byte that `mark` needs is still in its place.
    ///
    /// # Errors
    /// As [`Source::restore_point`].
    fn is_kept(&mut self, mark: &CommitId) -> Result<bool>;
}

/// A handle of the store as a source. Each of its commits counts as a restore point, so it is for
/// files that are written without SQLite.
pub struct HandleSource<'a>(pub &'a mut Handle);

impl Source for HandleSource<'_> {
    fn restore_point(&mut self) -> Result<Option<CommitId>> {
        Ok(self.0.mark()?)
    }

    fn take_log(&mut self) -> Option<Image> {
        None
    }

    fn newest(&mut self) -> Result<Option<CommitId>> {
        Ok(self.0.mark()?)
    }

    fn written(&mut self, from: &CommitId, to: &CommitId) -> Result<Written> {
        Ok(self.0.written(from, to)?)
    }

    fn image_len(&mut self, mark: &CommitId) -> Result<Option<u64>> {
        Ok(self.0.image_len(mark)?)
    }

    fn read(&mut self, buf: &mut [u8], offset: u64) -> Result<usize> {
        Ok(self.0.read_stored(buf, offset)?)
    }

    fn check_stored(&mut self, first: u32) -> Result<Option<u32>> {
        self.0.check_stored(first).map_err(|e| match e {
            densite_store::Error::Corrupt(damage) => Error::SourceDamaged(damage.to_string()),
            e => e.into(),
        })
    }

    fn first_places(&mut self, most: u64) -> Result<Vec<(u64, u64)>> {
        Ok(self.0.first_places(&[1], most)?)
    }

    fn is_kept(&mut self, mark: &CommitId) -> Result<bool> {
        Ok(self.0.is_kept(mark)?)
    }
}
