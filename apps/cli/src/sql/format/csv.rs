//! Comma-separated values.

use super::value_text::text;
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
    /// not. `always` says which texts it quotes without need.
    fn record<'a>(
        &self,
        out: &mut dyn Write,
        fields: impl ExactSizeIterator<Item = (bool, String)> + 'a,
        always: impl Fn(&str) -> bool,
    ) -> io::Result<()> {
        let is_one = fields.len() == 1;
        let mut writer = csv::WriterBuilder::new()
            .quote_style(csv::QuoteStyle::Never)
            .delimiter(self.delimiter)
            .from_writer(out);
        for (null, text) in fields {
            let special = [char::from(self.delimiter), '"', '\n', '\r'];
            let quote = !null && (text.is_empty() || text.contains(special) || always(&text));
            let field = if quote {
                format!("\"{}\"", text.replace('"', "\"\""))
            } else {
                text
            };
            if is_one && field.is_empty() {
                // The crate would write quotes, as for the empty text.
                return writer
                    .into_inner()
                    .map_err(csv::IntoInnerError::into_error)?
                    .write_all(b"\n");
            }
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
        // Without quotes, the name of a single column would look like names that something else
        // separates.
        let always = |name: &str| columns.len() == 1 && name.contains([',', ';', '\t', '|']);
        let names = columns.iter().map(|c| (false, c.name.clone()));
        self.record(out, names, always)
    }

    fn row(&mut self, out: &mut dyn Write, values: &[ValueRef<'_>]) -> io::Result<()> {
        let null = &self.null;
        let values = values.iter();
        let values = values.map(|v| (matches!(v, ValueRef::Null), text(*v, null)));
        self.record(out, values, |_| false)
    }

    fn end(&mut self, _out: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }
}
