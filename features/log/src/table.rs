//! The table of a batch's rows.

use crate::rows::Value;
use crate::{Error, Result};
use densite_disk::Fields;
use std::sync::Arc;

/// Bytes of a record's header in a value of [`pack_records`](crate::pack_records).
pub(crate) const PACKED_HEADER_LEN: usize = 20;

/// A table as it was when the batch was written. Each segment has a record of it before its first
/// batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    name: String,
    columns: Vec<String>,
    key_columns: u16,
    note: Vec<u8>,
    /// All of the above as stored.
    encoded: Arc<[u8]>,
}

impl Table {
    /// A table of these columns, the first `key_columns` of which identify a row. The note is for
    /// the layers above (conflict policy, schema version) and comes back with each batch.
    ///
    /// # Errors
    /// `Limit` for more than 32767 columns, names longer than 65535 bytes, or a note longer than
    /// 1 MiB.
    pub fn new(
        name: impl Into<String>,
        columns: impl IntoIterator<Item = impl Into<String>>,
        key_columns: usize,
        note: impl Into<Vec<u8>>,
    ) -> Result<Arc<Table>> {
        let (name, note) = (name.into(), note.into());
        let columns: Vec<String> = columns.into_iter().map(Into::into).collect();
        if columns.len() > 32767 || key_columns > columns.len() {
            return Err(Error::Limit("a table in the log has at most 32767 columns"));
        }
        if note.len() > 1 << 20 || columns.iter().chain([&name]).any(|n| n.len() > 0xFFFF) {
            return Err(Error::Limit("a name in the log has at most 65535 bytes"));
        }
        let mut out = Vec::new();
        put_text(&name, &mut out);
        out.extend_from_slice(&(key_columns as u16).to_le_bytes());
        out.extend_from_slice(&(columns.len() as u16).to_le_bytes());
        columns.iter().for_each(|c| put_text(c, &mut out));
        out.extend_from_slice(&note);
        Ok(Arc::new(Table {
            name,
            columns,
            key_columns: key_columns as u16,
            note,
            encoded: out.into(),
        }))
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Names of the columns, in the order of a row's values.
    pub fn columns(&self) -> &[String] {
        &self.columns
    }

    /// Number of first columns that identify a row.
    pub fn key_columns(&self) -> usize {
        usize::from(self.key_columns)
    }

    /// The note of the writer.
    pub fn note(&self) -> &[u8] {
        &self.note
    }

    /// Checks that a row has as many values as there are columns.
    pub(crate) fn check(&self, row: &[Value<'_>]) -> Result<()> {
        let (expected, found) = (self.columns.len(), row.len());
        match found == expected {
            true => Ok(()),
            false => Err(Error::WrongColumns {
                table: self.name.clone(),
                expected,
                found,
            }),
        }
    }

    /// The most bytes that rows of this table with these bytes take in a value of
    /// [`pack_records`](crate::pack_records).
    pub(crate) fn packed_max(&self, bytes: usize) -> usize {
        PACKED_HEADER_LEN + bytes + 4 + self.encoded.len()
    }

    pub(crate) fn encoded(&self) -> &Arc<[u8]> {
        &self.encoded
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Arc<Table>> {
        let mut take = Fields::new(bytes);
        let name = take_text(&mut take)?;
        let (key_columns, n) = (take.u16()?, take.u16()?);
        let columns: Option<Vec<String>> = (0..n).map(|_| take_text(&mut take)).collect();
        Table::new(name, columns?, usize::from(key_columns), take.rest()).ok()
    }
}

fn put_text(text: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(&(text.len() as u16).to_le_bytes());
    out.extend_from_slice(text.as_bytes());
}

fn take_text(take: &mut Fields<'_>) -> Option<String> {
    let len = take.u16()?;
    String::from_utf8(take.bytes(usize::from(len))?.to_vec()).ok()
}
