//! Columns of 128-bit integers. Parquet has no such type, so Polars writes their bytes, the lowest
//! one first, and names the type only in the schema of Arrow that the file's metadata has
//! (`ARROW:schema`: base64 of an encapsulated message,
//! <https://arrow.apache.org/docs/format/Columnar.html>).

use arrow_ipc::{Field, root_as_message};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use parquet::file::metadata::KeyValue;

const BITS: i32 = 128;
/// What precedes a message: a marker and its length.
const PREFIX: usize = 8;

/// The columns of 128-bit integers in the schema of Arrow.
#[derive(Debug, Default)]
pub(super) struct WideColumns {
    /// Names, and whether the integers have a sign.
    of: Vec<(String, bool)>,
    /// The first column that has some within.
    pub(super) nested: Option<String>,
}

impl WideColumns {
    /// Reads the metadata of a file; a schema that cannot be read has no such columns.
    pub(super) fn of(metadata: Option<&Vec<KeyValue>>) -> WideColumns {
        let encoded = metadata
            .and_then(|all| all.iter().find(|pair| pair.key == "ARROW:schema"))
            .and_then(|pair| BASE64_STANDARD.decode(pair.value.as_deref()?).ok());
        let message = encoded.as_ref().and_then(|bytes| {
            let is_marked = bytes.starts_with(&[0xff; 4]);
            root_as_message(bytes.get(if is_marked { PREFIX } else { 0 }..)?).ok()
        });
        let fields = message.and_then(|message| message.header_as_schema()?.fields());
        let mut found = WideColumns::default();
        for field in fields.iter().flatten() {
            let name = field.name().unwrap_or_default().to_owned();
            match sign(&field) {
                Some(is_signed) => found.of.push((name, is_signed)),
                None if within(&field) => {
                    found.nested.get_or_insert(name);
                }
                None => {}
            }
        }
        found
    }

    /// Whether the integers of a column have a sign; `None`: it has no such integers.
    pub(super) fn sign(&self, column: &str) -> Option<bool> {
        let (_, is_signed) = self.of.iter().find(|(name, _)| name == column)?;
        Some(*is_signed)
    }
}

fn sign(field: &Field<'_>) -> Option<bool> {
    let int = field.type_as_int().filter(|int| int.bitWidth() == BITS)?;
    Some(int.is_signed())
}

fn within(field: &Field<'_>) -> bool {
    let mut parts = field.children().into_iter().flatten();
    parts.any(|part| sign(&part).is_some() || within(&part))
}
