//! Comma-separated values.

use super::values::plain;
use super::{Column, Sink};
use rusqlite::types::ValueRef;
use std::io::{self, Write};

/// Comma-separated values with a header line for each result.
pub(super) struct Csv {
    pub(super) has_header: bool,
}

impl Csv {
    /// NULL and the empty text must differ, so this function quotes the fields, and the crate does
    /// not.
    fn record<'a>(
        out: &mut dyn Write,
        fields: impl Iterator<Item = (bool, String)> + 'a,
    ) -> io::Result<()> {
        let mut writer = csv::WriterBuilder::new()
            .quote_style(csv::QuoteStyle::Never)
            .from_writer(out);
        for (null, text) in fields {
            let quote = !null && (text.is_empty() || text.contains([',', '"', '\n', '\r']));
            let field = if quote {
                format!("\"{}\"", text.replace('"', "\"\""))
            } else {
                text
            };
            writer.write_field(field)?;
        }
        writer.write_record(None::<&[u8]>)?;
        writer.flush()
    }
}

impl Sink for Csv {
    fn begin(&mut self, out: &mut dyn Write, columns: &[Column]) -> io::Result<()> {
        if !self.has_header {
            return Ok(());
        }
        Csv::record(out, columns.iter().map(|c| (false, c.name.clone())))
    }

    fn row(&mut self, out: &mut dyn Write, values: &[ValueRef<'_>]) -> io::Result<()> {
        Csv::record(
            out,
            values
                .iter()
                .map(|v| (matches!(v, ValueRef::Null), plain(*v))),
        )
    }

    fn end(&mut self, _out: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }
}
