//! What a replica needs of a place for objects.

use crate::error::Result;
use std::sync::Arc;

/// Bytes that [`Bucket::stream`] reads at once where it costs nothing to read again.
const PIECE: u64 = 1 << 20;

/// An object as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// Its bytes, or those that were asked for.
    pub bytes: Vec<u8>,
    /// What the bucket calls this version of it.
    pub version: String,
    /// Its length in bytes.
    pub len: u64,
}

/// An object in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Its name.
    pub name: String,
    /// Its length in bytes.
    pub len: u64,
}

/// A place for objects of one replica. Names have no slashes. An object appears as a whole or not
/// at all, and what was acknowledged is durable.
pub trait Bucket: Send + Sync {
    /// Reads a whole object; `None` if there is none of this name.
    ///
    /// # Errors
    /// [`Error::Bucket`](crate::Error::Bucket), as all calls.
    fn get(&self, name: &str) -> Result<Option<Stored>>;
    /// Reads so many bytes at the end of an object, or all of it if it is shorter.
    ///
    /// # Errors
    /// As [`Bucket::get`].
    fn get_end(&self, name: &str, len: u64) -> Result<Option<Stored>>;
    /// Reads exactly `len` bytes from `offset` on. The object must exist and have them.
    ///
    /// # Errors
    /// As [`Bucket::get`].
    fn get_range(&self, name: &str, offset: u64, len: u64) -> Result<Vec<u8>>;
    /// The same for a range that is too large for memory: `sink` gets the bytes in their order, as
    /// they arrive. It ends the call by an error.
    ///
    /// # Errors
    /// As [`Bucket::get`]; those of `sink`.
    fn stream(
        &self,
        name: &str,
        offset: u64,
        len: u64,
        sink: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let (mut at, end) = (offset, offset + len);
        while at < end {
            let part = PIECE.min(end - at);
            sink(&self.get_range(name, at, part)?)?;
            at += part;
        }
        Ok(())
    }
    /// Creates an object. Returns its version; `None` if there is one of this name. Of several
    /// writers at once, one at most creates it. If the answer gets lost, a repetition can find the
    /// object that this call created.
    ///
    /// # Errors
    /// As [`Bucket::get`]. The object can exist then.
    fn create(&self, name: &str, bytes: &[u8]) -> Result<Option<String>>;
    /// Replaces an object of this version. Returns the new version; `None` if there is another
    /// version.
    ///
    /// # Errors
    /// As [`Bucket::create`].
    fn replace(&self, name: &str, bytes: &[u8], version: &str) -> Result<Option<String>>;
    /// Begins an object of about so many bytes, which appears when the upload is finished.
    ///
    /// # Errors
    /// As [`Bucket::get`].
    fn upload(&self, name: &str, about: u64) -> Result<Box<dyn Upload + '_>>;
    /// Removes an object. It is no error if there is none.
    ///
    /// # Errors
    /// As [`Bucket::get`].
    fn remove(&self, name: &str) -> Result<()>;
    /// Returns an error if the bucket itself does not exist. Asked when there is no replica.
    ///
    /// # Errors
    /// As [`Bucket::get`].
    fn must_exist(&self) -> Result<()> {
        Ok(())
    }
    /// How many objects are read at once: requests take time that is spent waiting.
    fn at_once(&self) -> usize {
        1
    }
    /// Whether [`Bucket::list`] works. A web server has no lists.
    fn has_lists(&self) -> bool {
        true
    }
    /// Opens an object to read it by ranges; `None` if there is none of this name. `len` is its
    /// length, and the last `end` bytes are read first.
    ///
    /// # Errors
    /// As [`Bucket::get`].
    fn object(&self, name: &str, len: u64, end: u64) -> Result<Option<Arc<dyn RemoteObject>>>;
    /// The objects whose names begin with `prefix` and come after `after`, in the order of their
    /// names.
    ///
    /// # Errors
    /// As [`Bucket::get`].
    fn list(&self, prefix: &str, after: &str) -> Result<Vec<Listed>>;
}

/// An object that is read by ranges.
pub trait RemoteObject: Send + Sync {
    /// Reads from `offset` on, until `buf` is full or the object ends. Returns the number of bytes.
    ///
    /// # Errors
    /// As [`Bucket::get`].
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize>;
    /// The length in bytes.
    fn len(&self) -> u64;
    /// Whether it has no bytes.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// An object that is being written. Dropping it unfinished removes what was written.
pub trait Upload {
    /// Appends bytes.
    ///
    /// # Errors
    /// As [`Bucket::get`].
    fn write(&mut self, bytes: &[u8]) -> Result<()>;
    /// Makes the object appear.
    ///
    /// # Errors
    /// As [`Bucket::create`].
    fn finish(self: Box<Self>) -> Result<()>;
}
