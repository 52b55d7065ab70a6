//! Writing to a value in place (`sqlite3_blob_write`).

use super::Connection;
use crate::{Code, Error, Result};
use std::ffi::{CStr, c_int, c_void};
use std::ptr::NonNull;

impl Connection {
    /// Overwrites the first bytes of a blob, in the connection's transaction. No row is inserted,
    /// updated or deleted, so the counts of changes do not change.
    ///
    /// # Errors
    /// SQLite's: there is no such row, or its value is not a blob or is shorter than `bytes`.
    pub fn write_blob(
        &self,
        (schema, table, column): (&CStr, &CStr, &CStr),
        row: i64,
        bytes: &[u8],
    ) -> Result<()> {
        let len = c_int::try_from(bytes.len()).map_err(|_| Error::from(Code::TOOBIG))?;
        let mut blob = std::ptr::null_mut();
        // SAFETY: an open connection, terminated strings, a place for the handle.
        let rc = unsafe {
            (self.api.raw().blob_open)(
                self.as_ptr(),
                schema.as_ptr(),
                table.as_ptr(),
                column.as_ptr(),
                row,
                1,
                &raw mut blob,
            )
        };
        self.check(rc)?;
        let blob = NonNull::new(blob).ok_or_else(|| Error::from(Code::NOMEM))?;
        // SAFETY: the handle was just opened and is closed once; `bytes` has `len` bytes.
        let (written, closed) = unsafe {
            let bytes = bytes.as_ptr().cast::<c_void>();
            let written = (self.api.raw().blob_write)(blob.as_ptr(), bytes, len, 0);
            (written, (self.api.raw().blob_close)(blob.as_ptr()))
        };
        Code(written).ok()?;
        self.check(closed)
    }
}
