//! Describes a model in words, for users.

use super::{COLUMN_STREAMS, Column, ColumnStream, Form, Model, PAGE_STREAMS, PageStream};
use crate::class::Class;
use crate::ints::{DefaultParameters, Shape};

/// What a [`ColumnDescription`] describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Subject {
    /// Child page numbers of interior pages.
    Child,
    /// Row ids of tables.
    Rowid,
    /// A column of the record; 1 is the first.
    Column(usize),
}

/// How a model codes one column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnDescription {
    /// The column.
    pub subject: Subject,
    /// One phrase for each kind of value in it, such as "date: frame of reference, 12 bits,
    /// relative to column 11". Empty if pages with this model have no such values.
    pub encodings: Vec<String>,
}

impl Model {
    /// How children, row ids and each column are coded, in this order. Columns are those of the
    /// record: a column that is an alias of the row id is NULL there.
    pub fn describe(&self) -> Vec<ColumnDescription> {
        let mut all = Vec::with_capacity(2 + self.columns.len());
        for (subject, stream) in [
            (Subject::Child, PageStream::Child),
            (Subject::Rowid, PageStream::Rowid),
        ] {
            let defaults = self.defaults(stream as usize);
            // A stream that no sample page has counts as zeros.
            let encodings = if defaults.constant_value() == Some(0) {
                Vec::new()
            } else {
                vec![format!("integers: {}", self.in_words(&defaults))]
            };
            all.push(ColumnDescription { subject, encodings });
        }
        let mut first = PAGE_STREAMS;
        for (column, number) in self.columns.iter().zip(1..) {
            all.push(ColumnDescription {
                subject: Subject::Column(number),
                encodings: self.column_in_words(column, first),
            });
            first += COLUMN_STREAMS + column.form.streams();
        }
        all
    }

    /// The phrases of a column whose streams begin at `first`.
    fn column_in_words(&self, column: &Column, first: usize) -> Vec<String> {
        let stream = |s: ColumnStream| self.defaults(first + s as usize);
        let classes = stream(ColumnStream::Class);
        let only = classes.constant_value();
        // Whether values of this class are described. A stream that no sample page has counts as
        // zeros.
        let is_described = |class: Class, defaults: &DefaultParameters| match only {
            Some(only) => only == class as i64,
            None => can_occur(&classes, class) && defaults.constant_value() != Some(0),
        };
        let mut out = Vec::new();
        match only.and_then(Class::of) {
            Some(Class::Null) => out.push("NULL".to_owned()),
            Some(Class::Absent) => out.push("not in the record".to_owned()),
            Some(_) => {}
            None => out.push(format!("types and NULLs: {}", self.in_words(&classes))),
        }
        for (class, s) in [
            (Class::Number, ColumnStream::Number),
            (Class::Integer, ColumnStream::Integer),
            (Class::Real, ColumnStream::Real),
        ] {
            let defaults = stream(s);
            if is_described(class, &defaults) {
                let what = match (class, column.scale) {
                    (Class::Number, 0) => "integers".to_owned(),
                    (Class::Number, scale) => format!("decimals, scale {scale}"),
                    (Class::Integer, _) => "large integers".to_owned(),
                    _ => "REAL".to_owned(),
                };
                out.push(format!("{what}: {}", self.in_words(&defaults)));
            }
        }
        if let Some(phrase) = self.formed_in_words(column, first + ColumnStream::Formed as usize)
            && can_occur(&classes, Class::Formed)
        {
            out.push(phrase);
        }
        let length = stream(ColumnStream::Length);
        let what = match (
            is_described(Class::Text, &length),
            is_described(Class::Blob, &length),
        ) {
            (false, false) => return out,
            (true, false) => "text",
            (false, true) => "blobs",
            (true, true) => "text or blobs",
        };
        let how = match &column.symbols {
            Some(s) => format!("symbols of {} bits ({})", s.width(), s.count()),
            None => "unchanged".to_owned(),
        };
        let length = self.in_words(&length);
        out.push(format!("{what}: {how}; lengths: {length}"));
        out
    }

    fn formed_in_words(&self, column: &Column, first: usize) -> Option<String> {
        let what = match &column.form {
            Form::Free => return None,
            Form::Template(t) => t.describe(),
            Form::Repeated => "repeated text, each once".to_owned(),
            Form::Vector(v) => format!("vectors of {}-byte numbers", v.size()),
            Form::Dictionary(d) => format!("dictionary of {} values", d.places.len()),
        };
        let fields: Vec<String> = (first..first + column.form.streams())
            .map(|stream| self.in_words(&self.defaults(stream)))
            .collect();
        Some(if fields.is_empty() {
            what
        } else {
            format!("{what}: {}", fields.join("; "))
        })
    }

    /// Default parameters, such as "delta, 5 bits".
    fn in_words(&self, defaults: &DefaultParameters) -> String {
        if let Some(value) = defaults.constant_value() {
            return format!("constant {value}");
        }
        let p = &defaults.params;
        let width = match (defaults.own_widths, p.shape, p.width) {
            (true, ..) => "width by page".to_owned(),
            (false, Shape::Frame, 0) if defaults.anchor_width.is_some() => {
                "constant in each page".to_owned()
            }
            (false, Shape::Frame, 0) => format!("constant {}", p.anchor),
            (false, _, 0) => format!("steps of {}", p.step),
            (false, _, 1) => "1 bit".to_owned(),
            (false, _, n) => format!("{n} bits"),
        };
        let shape = match (p.shape, defaults.anchor_width) {
            (Shape::Frame, _) if p.width == 0 && !defaults.own_widths => "",
            (Shape::Frame, None) => "bit-packed, ",
            (Shape::Frame, Some(_)) => "frame of reference, ",
            (Shape::Delta, _) => "delta, ",
            (Shape::Curve, _) => "delta of delta, ",
            (Shape::Runs, _) => "runs, ",
            (Shape::Ramps, _) => "ramps, ",
        };
        let relation = defaults
            .relation
            .map(|stream| {
                format!(
                    ", relative to {}",
                    self.stream_in_words(usize::from(stream))
                )
            })
            .unwrap_or_default();
        format!("{shape}{width}{relation}")
    }

    /// The name of the column that a stream belongs to.
    fn stream_in_words(&self, stream: usize) -> String {
        let mut end = PAGE_STREAMS;
        if stream == PageStream::Rowid as usize {
            return "the row id".to_owned();
        }
        if stream == PageStream::Child as usize {
            return "the child".to_owned();
        }
        for (column, number) in self.columns.iter().zip(1..) {
            let first = end;
            end += COLUMN_STREAMS + column.form.streams();
            if (first..end).contains(&stream) {
                let field = stream - first;
                let formed = ColumnStream::Formed as usize;
                return match &column.form {
                    Form::Template(t) if field >= formed && t.fields() > 1 => {
                        format!("field {} of column {number}", field - formed + 1)
                    }
                    _ => format!("column {number}"),
                };
            }
        }
        format!("stream {stream}")
    }
}

/// Whether a column can have this class, by the default parameters of its classes.
fn can_occur(classes: &DefaultParameters, class: Class) -> bool {
    let p = &classes.params;
    let open = p.shape != Shape::Frame
        || classes.anchor_width.is_some()
        || classes.own_widths
        || classes.relation.is_some();
    let class = class as i64;
    let range = 1i64.checked_shl(p.width).unwrap_or(i64::MAX);
    open || (class >= p.anchor && class < p.anchor.saturating_add(range))
}

#[cfg(test)]
mod tests {
    use super::{Model, Subject};
    use crate::Purpose;
    use rusqlite::Connection;

    /// The leaf pages of the only table that `sql` makes, without the first leaf.
    fn pages(sql: &str) -> Vec<Vec<u8>> {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("t.db");
        let db = Connection::open(&path).expect("open");
        db.execute_batch(sql).expect("fill");
        drop(db);
        let bytes = std::fs::read(&path).expect("read");
        let pages = bytes.chunks(4096).skip(2);
        pages.filter(|p| p[0] == 13).map(<[u8]>::to_vec).collect()
    }

    #[test]
    fn every_column_is_described() {
        let pages = pages(
            "CREATE TABLE t(id INTEGER PRIMARY KEY, day TEXT, price REAL, kind TEXT, one INTEGER, note TEXT, later TEXT);
             WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
             INSERT INTO t SELECT i, date('1992-01-01', (i * 37 % 2500) || ' days'), (i * 7919 % 100000) / 100.0,
                char(65 + i * i / 5 % 11 % 7) || ' kind', 5,
                CASE WHEN i % 3 > 0 THEN 'a note that is ' || (i * 7919 % 1000) || ' words long ' || hex(i * 31) END,
                date('1992-01-01', (i * 37 % 2500 + i % 9) || ' days') FROM n",
        );
        let pages: Vec<&[u8]> = pages.iter().map(Vec::as_slice).collect();
        let bytes = pages.len() as u64 * 4096;
        let model = Model::learn(&pages, &Purpose::whole(bytes)).expect("a model");
        let descriptions = model.describe();
        let of = |subject: Subject| {
            let found = descriptions.iter().find(|d| d.subject == subject);
            found.map(|d| d.encodings.join(" | ")).unwrap_or_default()
        };
        assert_eq!(descriptions.len(), 9, "{descriptions:#?}");
        assert_eq!(of(Subject::Child), "", "{descriptions:#?}");
        assert!(
            of(Subject::Rowid).starts_with("integers: "),
            "{descriptions:#?}"
        );
        assert_eq!(of(Subject::Column(1)), "NULL");
        assert!(
            of(Subject::Column(2)).starts_with("date: "),
            "{descriptions:#?}"
        );
        let price = of(Subject::Column(3));
        assert!(price.contains("decimals, scale 2: "), "{descriptions:#?}");
        let kind = of(Subject::Column(4));
        assert!(
            kind.ends_with("dictionary of 7 values: bit-packed, 3 bits"),
            "{descriptions:#?}"
        );
        assert_eq!(of(Subject::Column(5)), "integers: constant 5");
        let note = of(Subject::Column(6));
        assert!(
            note.contains("types and NULLs: ") && note.contains("text or blobs: symbols of "),
            "{descriptions:#?}"
        );
        let later = of(Subject::Column(7));
        assert!(later.contains("relative to column 2"), "{descriptions:#?}");
    }

    #[test]
    fn an_empty_model_has_no_descriptions() {
        let descriptions = Model::empty().describe();
        assert!(
            descriptions.iter().all(|d| d.encodings.is_empty()),
            "{descriptions:?}"
        );
    }
}
