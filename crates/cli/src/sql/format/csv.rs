//! Comma-separated values.

use super::values::text;
use super::{Column, Sink, Style};
use rusqlite::types::ValueRef;
use std::io::{self, Write};

/// Comma-separated values with a header line for each result.
pub(super) struct Csv {
    has_header: bool,
    null: String,
    delimiter: u8,
}

impl Csv {
    /// `usual` stands between values if no other separator was set. One that is not one byte is not
    /// used.
    pub(super) fn new(style: &Style, usual: u8) -> Csv {
        let delimiter = match style.separators.0.as_deref().map(str::as_bytes) {
            Some([delimiter]) => *delimiter,
            _ => usual,
        };
        Csv {
            has_header: style.header.unwrap_or(true),
            null: style.null.clone(),
            delimiter,
        }
    }

    /// NULL and the empty text must differ, so this function quotes the fields, and the crate does
    /// not.
    fn record<'a>(
        &self,
        out: &mut dyn Write,
        fields: impl Iterator<Item = (bool, String)> + 'a,
    ) -> io::Result<()> {
        let mut writer = csv::WriterBuilder::new()
            .quote_style(csv::QuoteStyle::Never)
            .delimiter(self.delimiter)
            .from_writer(out);
        for (null, text) in fields {
            let special = [char::from(self.delimiter), '"', '\n', '\r'];
            let quote = !null && (text.is_empty() || text.contains(special));
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
        self.record(out, columns.iter().map(|c| (false, c.name.clone())))
    }

    fn row(&mut self, out: &mut dyn Write, values: &[ValueRef<'_>]) -> io::Result<()> {
        let null = &self.null;
        self.record(
            out,
            values
                .iter()
                .map(|v| (matches!(v, ValueRef::Null), text(*v, null))),
        )
    }

    fn end(&mut self, _out: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }
}
