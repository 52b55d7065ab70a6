//! Parquet and Arrow files, written batch by batch.
//!
//! A file has one result. Each column has one type, by the rules of
//! [`Batcher`](densite_bulk::Batcher). A file that stops at an error gets no footer, so that no
//! program takes it for a whole one.

use super::{Column, Sink, Style, value_text};
use arrow_array::{
    ArrayRef, BinaryArray, Float64Array, Int64Array, NullArray, RecordBatch, RecordBatchOptions,
    StringArray,
};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_ipc::writer::FileWriter;
use arrow_schema::{ArrowError, Field, Schema};
use densite_bulk::{Batcher, OwnedColumn, Values};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use rusqlite::Connection;
use rusqlite::types::ValueRef;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

/// Rows of a row group, which the writer keeps in memory, encoded.
const GROUP_ROWS: usize = 1 << 18;
/// Encoded bytes after which a row group ends.
const GROUP_BYTES: usize = 64 << 20;

/// Bytes that a writer of a format wrote, and that the output does not have yet. The writers own
/// their output; a sink is only lent one.
#[derive(Clone, Default)]
pub(super) struct Encoded(Arc<Mutex<Vec<u8>>>);

impl Encoded {
    fn drain(&self, out: &mut dyn Write) -> io::Result<()> {
        let bytes = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        out.write_all(&bytes)
    }
}

impl Write for Encoded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes batches in one of the formats.
pub(super) trait Writer {
    fn write(&mut self, batch: &RecordBatch) -> io::Result<()>;
    /// Writes the footer.
    fn finish(self: Box<Self>) -> io::Result<()>;
}

impl Writer for ArrowWriter<Encoded> {
    fn write(&mut self, batch: &RecordBatch) -> io::Result<()> {
        ArrowWriter::write(self, batch).map_err(io::Error::other)
    }

    fn finish(self: Box<Self>) -> io::Result<()> {
        self.close().map(drop).map_err(io::Error::other)
    }
}

impl Writer for FileWriter<Encoded> {
    fn write(&mut self, batch: &RecordBatch) -> io::Result<()> {
        FileWriter::write(self, batch).map_err(io::Error::other)
    }

    fn finish(mut self: Box<Self>) -> io::Result<()> {
        FileWriter::finish(&mut self).map_err(io::Error::other)
    }
}

/// Makes a writer for columns with these types.
type Open = fn(Encoded, &Arc<Schema>) -> io::Result<Box<dyn Writer>>;

/// Parquet, compressed with zstd.
pub(super) fn parquet(out: Encoded, schema: &Arc<Schema>) -> io::Result<Box<dyn Writer>> {
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_max_row_group_row_count(Some(GROUP_ROWS))
        .set_max_row_group_bytes(Some(GROUP_BYTES))
        .build();
    let writer = ArrowWriter::try_new(out, Arc::clone(schema), Some(properties));
    Ok(Box::new(writer.map_err(io::Error::other)?))
}

/// The file format of Arrow, which is also Feather version 2.
pub(super) fn arrow(out: Encoded, schema: &Arc<Schema>) -> io::Result<Box<dyn Writer>> {
    Ok(Box::new(
        FileWriter::try_new(out, schema).map_err(io::Error::other)?,
    ))
}

/// A result as a file of columns.
pub(super) struct Columnar {
    open: Open,
    encoded: Encoded,
    names: Vec<String>,
    as_text: bool,
    batcher: Option<Batcher>,
    /// Made with the first batch, which decides the types.
    writer: Option<(Arc<Schema>, Box<dyn Writer>)>,
    /// A connection that converts numbers to text, made when a column needs it.
    text: Option<Connection>,
}

impl Columnar {
    pub(super) fn new(style: &Style, open: Open) -> Columnar {
        Columnar {
            open,
            encoded: Encoded::default(),
            names: Vec::new(),
            as_text: style.as_text,
            batcher: None,
            writer: None,
            text: None,
        }
    }

    fn write(&mut self, out: &mut dyn Write) -> io::Result<()> {
        let Some(batcher) = &mut self.batcher else {
            return Ok(());
        };
        let text = &mut self.text;
        let mut text_of = |x| text_of(x, text).map_err(|e| e.to_string());
        let batch = batcher.take(&mut text_of).map_err(refused)?;
        let rows = batch.rows;
        let arrays = batch.into_columns().into_iter().map(|c| array(c, rows));
        let arrays = arrays
            .collect::<Result<Vec<_>, _>>()
            .map_err(io::Error::other)?;
        let (schema, writer) = match &mut self.writer {
            Some(writer) => writer,
            None => {
                let field = |(name, array): (&String, &ArrayRef)| {
                    Field::new(name, array.data_type().clone(), true)
                };
                let fields: Vec<Field> = self.names.iter().zip(&arrays).map(field).collect();
                let schema = Arc::new(Schema::new(fields));
                let writer = (self.open)(self.encoded.clone(), &schema)?;
                self.writer.insert((schema, writer))
            }
        };
        if rows > 0 {
            let options = RecordBatchOptions::new().with_row_count(Some(rows));
            let batch = RecordBatch::try_new_with_options(Arc::clone(schema), arrays, &options);
            writer.write(&batch.map_err(io::Error::other)?)?;
        }
        self.encoded.drain(out)
    }
}

impl Sink for Columnar {
    fn begin(&mut self, _out: &mut dyn Write, columns: &[Column]) -> io::Result<()> {
        if !self.names.is_empty() {
            return Err(io::Error::other(
                "a Parquet or Arrow file has one result; choose another file for the next one",
            ));
        }
        let columns: Vec<_> = value_text::keys_plain(columns)
            .into_iter()
            .zip(columns)
            .map(|(name, column)| (name, column.declared.clone().filter(|_| !self.as_text)))
            .collect();
        self.names = columns.iter().map(|(name, _)| name.clone()).collect();
        self.batcher = Some(Batcher::new(&columns));
        Ok(())
    }

    fn row(&mut self, out: &mut dyn Write, values: &[ValueRef<'_>]) -> io::Result<()> {
        let texts: Vec<Option<String>> = match self.as_text {
            true => values.iter().map(|value| plain(*value)).collect(),
            false => Vec::new(),
        };
        let row: Vec<_> = match self.as_text {
            true => texts.iter().map(as_text).collect(),
            false => values.iter().map(|value| ours(*value)).collect(),
        };
        let Some(batcher) = &mut self.batcher else {
            return Ok(());
        };
        match batcher.push(&row).map_err(refused)? {
            true => self.write(out),
            false => Ok(()),
        }
    }

    fn end(&mut self, out: &mut dyn Write) -> io::Result<()> {
        self.write(out)?;
        self.batcher = None;
        if let Some((_, writer)) = self.writer.take() {
            writer.finish()?;
        }
        self.encoded.drain(out)
    }

    fn stop(&mut self, _out: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }
}

/// The error of a value, with rows counted from 1.
fn refused(e: densite_bulk::Error) -> io::Error {
    io::Error::other(match e {
        densite_bulk::Error::Value { column, row, what } => {
            format!(
                "row {}, column {column}: {what}, or give export --text, by which all values become text",
                row + 1
            )
        }
        e => e.to_string(),
    })
}

/// The text of a value in CSV; `None` for NULL.
fn plain(value: ValueRef<'_>) -> Option<String> {
    (!matches!(value, ValueRef::Null)).then(|| value_text::text(value, ""))
}

fn as_text(text: &Option<String>) -> densite_sqlite::ValueRef<'_> {
    text.as_ref()
        .map_or(densite_sqlite::ValueRef::Null, |text| {
            densite_sqlite::ValueRef::Text(text.as_bytes())
        })
}

fn ours(value: ValueRef<'_>) -> densite_sqlite::ValueRef<'_> {
    use densite_sqlite::ValueRef as Ours;
    match value {
        ValueRef::Null => Ours::Null,
        ValueRef::Integer(n) => Ours::Integer(n),
        ValueRef::Real(x) => Ours::Real(x),
        ValueRef::Text(text) => Ours::Text(text),
        ValueRef::Blob(bytes) => Ours::Blob(bytes),
    }
}

/// SQLite's text of a floating-point number; its digits depend on SQLite's version.
fn text_of(x: f64, db: &mut Option<Connection>) -> rusqlite::Result<String> {
    let db = match db {
        Some(db) => db,
        None => db.insert(Connection::open_in_memory()?),
    };
    let mut statement = db.prepare_cached("SELECT CAST(?1 AS TEXT)")?;
    statement.query_row([x], |row| row.get(0))
}

/// A column as an array of Arrow.
fn array(column: OwnedColumn, rows: usize) -> Result<ArrayRef, ArrowError> {
    let valid = column.valid.map(|bits| {
        let bits = BooleanBuffer::new(Buffer::from_vec(bits), 0, rows);
        NullBuffer::new(bits)
    });
    Ok(match column.values {
        Values::Nulls(rows) => Arc::new(NullArray::new(rows)),
        Values::Integers(values) => Arc::new(Int64Array::try_new(values.into(), valid)?),
        Values::Reals(values) => Arc::new(Float64Array::try_new(values.into(), valid)?),
        Values::Strings { ends, bytes, text } => {
            let ends = OffsetBuffer::new(ScalarBuffer::from(ends));
            let bytes = Buffer::from_vec(bytes);
            match text {
                true => Arc::new(StringArray::try_new(ends, bytes, valid)?),
                false => Arc::new(BinaryArray::try_new(ends, bytes, valid)?),
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::Array;
    use arrow_schema::DataType;

    #[test]
    fn arrays_have_the_values_and_the_nulls() {
        let column = OwnedColumn {
            values: Values::Strings {
                ends: vec![0, 1, 1],
                bytes: b"x".to_vec(),
                text: true,
            },
            valid: Some(vec![0b01]),
        };
        let array = array(column, 2).expect("an array");
        assert_eq!(array.data_type(), &DataType::Utf8);
        assert!(array.is_valid(0) && array.is_null(1));
    }
}
