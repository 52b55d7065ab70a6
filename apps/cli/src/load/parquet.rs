//! Rows of a Parquet file. Dates, times and decimals become exact text, in the same form as
//! `densite.insert` writes. Nested values become JSON.
//!
//! The reader panics on some damaged files. Such a panic becomes an error about the file.

mod int96;
mod wide;

use super::spelled::Spelling;
use super::{Bad, Column, Row, Source, input};
use densite_bulk::Unit;
use densite_bulk::text::{date, decimal, time, timestamp};
use int96::Int96s;
use parquet::basic::{ConvertedType, LogicalType, TimeUnit, Type as Physical};
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{Field, Row as Read, reader::RowIter};
use parquet::schema::types::Type;
use rusqlite::types::Value;
use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use wide::WideColumns;

pub(super) struct Parquet {
    rows: Box<dyn Iterator<Item = Result<Read, ParquetError>>>,
    columns: Vec<Column>,
    kinds: Vec<Kind>,
    at: u64,
    total: u64,
    bytes: u64,
}

/// The meaning of a column's numbers.
enum Kind {
    /// Plain numbers.
    Own,
    Time(Unit),
    /// The flag says whether the column has a time zone; its values are then in UTC.
    Timestamp(Unit, bool),
    /// Integers of 128 bits as bytes, the lowest one first. The flag says whether they have a sign.
    Wide(bool),
    /// Timestamps of 96 bits.
    Int96(Box<Int96s>),
}

/// Converts an error of the reader. It means that the file is damaged or not Parquet, unless the
/// system failed to read the file or the reader lacks a feature.
fn failed(e: &ParquetError) -> Bad {
    let is_damaged = match e {
        ParquetError::NYI(_) => false,
        // The file is encrypted, or its compression is not built in. The reader has no other error
        // for these.
        ParquetError::General(said) => !said.contains("feature"),
        ParquetError::External(e) => {
            let e = e.downcast_ref::<std::io::Error>();
            e.is_none_or(|e| e.raw_os_error().is_none())
        }
        _ => true,
    };
    let advice = match (is_damaged, e) {
        (true, ParquetError::EOF(_)) => {
            return Bad::damaged(
                "cannot be read as Parquet: a part of it is missing, or it is another format; get a whole copy",
            );
        }
        (true, _) => "; get a whole copy, or create it again",
        (false, _) => "",
    };
    Bad {
        is_damaged,
        ..Bad::file(format!("cannot be read as Parquet: {e}{advice}"))
    }
}

/// Runs the reader, and turns a panic into an error.
fn caught<T>(read: impl FnOnce() -> Result<T, Bad>) -> Result<T, Bad> {
    // The half-finished state of the reader is not used again: this error is the last one of the
    // file.
    catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|_| {
        Err(Bad::damaged(
            "is damaged: the Parquet reader fails on it; create the file again",
        ))
    })
}

impl Parquet {
    pub(super) fn new(file: File) -> Result<Parquet, Bad> {
        caught(|| Parquet::open(file))
    }

    fn open(file: File) -> Result<Parquet, Bad> {
        let about = file.metadata();
        if about.as_ref().is_ok_and(|m| !m.is_file()) {
            return Err(Bad::file(
                "cannot be read as Parquet, which needs random access; give a regular file",
            ));
        }
        let file = input::plain(file)?;
        let bytes = file.metadata().map_or(0, |m| m.len());
        let again = file
            .try_clone()
            .map_err(|e| Bad::file(format!("cannot be read: {e}")))?;
        let reader = SerializedFileReader::new(file).map_err(|e| failed(&e))?;
        let meta = reader.metadata().file_metadata();
        let total = u64::try_from(meta.num_rows()).unwrap_or(0);
        let fields = meta.schema().get_fields();
        for field in fields {
            if let Some(what) = unreadable(field) {
                return Err(Bad::file(format!(
                    "has a column that cannot be loaded: {:?} has {what}; leave it out, or write it as text",
                    field.name()
                )));
            }
        }
        let wide = WideColumns::of(meta.key_value_metadata());
        if let Some(name) = &wide.nested {
            return Err(Bad::file(format!(
                "has a column that cannot be loaded: {name:?} has integers of 128 bits within; leave it out, or write it as text"
            )));
        }
        let column = |field: &Arc<Type>| Column {
            name: field.name().to_owned(),
            declared: match wide.sign(field.name()) {
                Some(_) => "TEXT",
                None => declared(field),
            },
        };
        let columns = fields.iter().map(column).collect();
        let mut leaf = 0;
        let mut kinds = Vec::with_capacity(fields.len());
        for field in fields {
            kinds.push(match wide.sign(field.name()) {
                Some(is_signed) => Kind::Wide(is_signed),
                None => kind_of(field, leaf, &again)?,
            });
            leaf += leaves(field);
        }
        Ok(Parquet {
            rows: Box::new(RowIter::from_file_into(Box::new(reader))),
            columns,
            kinds,
            at: 0,
            total,
            bytes,
        })
    }

    fn row(&mut self) -> Result<Option<Row>, Bad> {
        let Some(row) = self.rows.next() else {
            return Ok(None);
        };
        self.at += 1;
        let at = self.at;
        let row = row.map_err(|e| Bad {
            at: Some(at),
            ..failed(&e)
        })?;
        let value = |((name, field), kind): ((&String, &Field), &mut Kind)| {
            value_of(field, kind)
                .map(Some)
                .map_err(|problem| match problem {
                    Problem::Value(what, shown) => Bad::row(at, what).with(name, Some(shown)),
                    Problem::File(bad) => bad,
                })
        };
        let columns = row.get_column_iter().zip(&mut self.kinds);
        let values = columns.map(value).collect::<Result<_, _>>()?;
        Ok(Some(Row { at, values }))
    }
}

/// The type in a field that the reader has no values for.
fn unreadable(field: &Type) -> Option<&'static str> {
    let info = field.get_basic_info();
    if info.converted_type() == ConvertedType::INTERVAL {
        return Some("intervals");
    }
    if matches!(info.logical_type_ref(), Some(LogicalType::Variant(_))) {
        return Some("values of the type VARIANT");
    }
    let parts = match field.is_primitive() {
        true => &[],
        false => field.get_fields(),
    };
    parts.iter().find_map(|part| unreadable(part))
}

/// The number of leaf columns of a field.
fn leaves(field: &Type) -> usize {
    match field.is_primitive() {
        true => 1,
        false => field.get_fields().iter().map(|field| leaves(field)).sum(),
    }
}

/// The meaning of the numbers of a field; `leaf` is its index among the leaf columns of the file.
fn kind_of(field: &Type, leaf: usize, file: &File) -> Result<Kind, Bad> {
    if !field.is_primitive() {
        return Ok(Kind::Own);
    }
    let unit = |unit: &TimeUnit| match unit {
        TimeUnit::MILLIS => Unit::Milli,
        TimeUnit::MICROS => Unit::Micro,
        TimeUnit::NANOS => Unit::Nano,
    };
    let info = field.get_basic_info();
    // Older files have only the converted type, whose timestamps are in UTC. Newer files can have
    // only the logical type.
    Ok(match (info.logical_type_ref(), info.converted_type()) {
        (Some(LogicalType::Timestamp(of)), _) => {
            Kind::Timestamp(unit(&of.unit), of.is_adjusted_to_u_t_c)
        }
        (Some(LogicalType::Time(of)), _) => Kind::Time(unit(&of.unit)),
        (_, ConvertedType::TIMESTAMP_MILLIS) => Kind::Timestamp(Unit::Milli, true),
        (_, ConvertedType::TIMESTAMP_MICROS) => Kind::Timestamp(Unit::Micro, true),
        (_, ConvertedType::TIME_MILLIS) => Kind::Time(Unit::Milli),
        (_, ConvertedType::TIME_MICROS) => Kind::Time(Unit::Micro),
        _ if field.get_physical_type() == Physical::INT96 => {
            Kind::Int96(Box::new(Int96s::new(file, leaf)?))
        }
        _ => Kind::Own,
    })
}

/// The type of a column in a new table.
fn declared(field: &Type) -> &'static str {
    if !field.is_primitive() {
        return "TEXT";
    }
    let info = field.get_basic_info();
    // Older files have only the converted type, newer ones have both. Decimals are text, because
    // NUMERIC would convert them to floating point.
    match (info.logical_type_ref(), info.converted_type()) {
        (Some(LogicalType::Integer(_)), _) => return "INTEGER",
        (
            Some(
                LogicalType::Decimal(_)
                | LogicalType::String
                | LogicalType::Json
                | LogicalType::Enum
                | LogicalType::Date
                | LogicalType::Time(_)
                | LogicalType::Timestamp(_),
            ),
            _,
        )
        | (
            _,
            ConvertedType::DECIMAL
            | ConvertedType::UTF8
            | ConvertedType::JSON
            | ConvertedType::ENUM
            | ConvertedType::DATE
            | ConvertedType::TIME_MILLIS
            | ConvertedType::TIME_MICROS
            | ConvertedType::TIMESTAMP_MILLIS
            | ConvertedType::TIMESTAMP_MICROS,
        ) => {
            return "TEXT";
        }
        (Some(LogicalType::Float16), _) => return "REAL",
        _ => {}
    }
    match field.get_physical_type() {
        Physical::BOOLEAN | Physical::INT32 | Physical::INT64 => "INTEGER",
        Physical::FLOAT | Physical::DOUBLE => "REAL",
        Physical::INT96 => "TEXT",
        Physical::BYTE_ARRAY | Physical::FIXED_LEN_BYTE_ARRAY => "BLOB",
    }
}

/// Why a value cannot be loaded.
enum Problem {
    /// What is wrong with the value, and the value.
    Value(&'static str, String),
    File(Bad),
}

fn text(write: impl FnOnce(&mut String)) -> Value {
    let mut text = String::new();
    write(&mut text);
    Value::Text(text)
}

/// Converts a value for SQLite, according to the kind of its column.
fn value_of(field: &Field, kind: &mut Kind) -> Result<Value, Problem> {
    let number = match field {
        Field::Int(n) | Field::TimeMillis(n) => Some(i64::from(*n)),
        Field::Long(n)
        | Field::TimeMicros(n)
        | Field::TimestampMillis(n)
        | Field::TimestampMicros(n) => Some(*n),
        _ => None,
    };
    if let Some(n) = number {
        match kind {
            Kind::Own | Kind::Wide(_) => {}
            Kind::Time(unit) => return Ok(text(|out| time(out, n, *unit))),
            Kind::Timestamp(unit, utc) => return Ok(text(|out| timestamp(out, n, *unit, *utc))),
            Kind::Int96(values) => {
                let (days, nanos) = values.next().map_err(Problem::File)?;
                return Ok(text(|out| {
                    date(out, days);
                    out.push(' ');
                    time(out, nanos, Unit::Nano);
                }));
            }
        }
    }
    if let (Field::Bytes(bytes), Kind::Wide(is_signed)) = (field, &kind)
        && let Ok(bytes) = bytes.data().try_into()
    {
        return Ok(Value::Text(match is_signed {
            true => i128::from_le_bytes(bytes).to_string(),
            false => u128::from_le_bytes(bytes).to_string(),
        }));
    }
    Ok(match field {
        Field::Null => Value::Null,
        Field::Bool(b) => Value::Integer(i64::from(*b)),
        Field::Byte(n) => Value::Integer(i64::from(*n)),
        Field::Short(n) => Value::Integer(i64::from(*n)),
        Field::Int(n) | Field::TimeMillis(n) => Value::Integer(i64::from(*n)),
        Field::Long(n)
        | Field::TimeMicros(n)
        | Field::TimestampMillis(n)
        | Field::TimestampMicros(n) => Value::Integer(*n),
        Field::UByte(n) => Value::Integer(i64::from(*n)),
        Field::UShort(n) => Value::Integer(i64::from(*n)),
        Field::UInt(n) => Value::Integer(i64::from(*n)),
        Field::ULong(n) => Value::Integer(i64::try_from(*n).map_err(|_| {
            Problem::Value(
                "is larger than the largest integer of SQLite",
                n.to_string(),
            )
        })?),
        Field::Float16(x) => Value::Real(f64::from(*x)),
        Field::Float(x) => Value::Real(f64::from(*x)),
        Field::Double(x) => Value::Real(*x),
        Field::Str(text) => Value::Text(text.clone()),
        Field::Bytes(bytes) => Value::Blob(bytes.data().to_vec()),
        Field::Decimal(given) => {
            let digits: Vec<u8> = given.data().iter().rev().copied().collect();
            text(|out| decimal(out, &digits, given.scale()))
        }
        Field::Date(days) => text(|out| date(out, i64::from(*days))),
        Field::Group(_) | Field::ListInternal(_) | Field::MapInternal(_) => {
            Value::Text(field.to_json_value().to_string())
        }
    })
}

impl Source for Parquet {
    fn unit(&self) -> &'static str {
        "row"
    }

    fn spelling(&self) -> Spelling {
        Spelling::None
    }

    fn columns(&self) -> &[Column] {
        &self.columns
    }

    fn next(&mut self) -> Result<Option<Row>, Bad> {
        caught(|| self.row())
    }

    fn bytes_read(&self) -> u64 {
        // The reader does not report its position in a row group, so the progress follows the
        // number of rows.
        match self.total {
            0 => self.bytes,
            total => (u128::from(self.bytes) * u128::from(self.at) / u128::from(total)) as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file whose reader panics at its second row.
    fn panicking() -> Parquet {
        let mut at = 0;
        let rows = std::iter::from_fn(move || {
            at += 1;
            assert!(at < 2, "a bug of the reader");
            Some(Ok(Read::new(vec![("a".into(), Field::Int(at))])))
        });
        Parquet {
            rows: Box::new(rows),
            columns: Vec::new(),
            kinds: vec![Kind::Own],
            at: 0,
            total: 2,
            bytes: 100,
        }
    }

    #[test]
    fn integers_of_128_bits_keep_their_digits() {
        let read = |bytes: [u8; 16], is_signed| {
            let field = Field::Bytes(bytes.to_vec().into());
            value_of(&field, &mut Kind::Wide(is_signed)).ok()
        };
        let text = |digits: &str| Some(Value::Text(digits.to_owned()));
        assert_eq!(read((-2_i128).to_le_bytes(), true), text("-2"));
        assert_eq!(
            read(i128::MIN.to_le_bytes(), true),
            text(&i128::MIN.to_string())
        );
        assert_eq!(
            read(u128::MAX.to_le_bytes(), false),
            text(&u128::MAX.to_string())
        );
    }

    #[test]
    fn a_file_on_which_the_reader_panics_is_damaged() {
        let _alone = crate::panics::ON_PURPOSE.lock();
        let mut file = panicking();
        let Ok(Some(row)) = file.next() else {
            panic!("the first row");
        };
        assert_eq!(row.values, [Some(Value::Integer(1))]);
        let Err(bad) = file.next() else {
            panic!("a second row");
        };
        assert!(bad.is_damaged);
        assert!(
            bad.problem.contains("the Parquet reader fails on it"),
            "{}",
            bad.problem
        );
        let opened: Result<Parquet, Bad> = caught(|| panic!("a bug of the reader"));
        assert!(opened.is_err_and(|bad| bad.is_damaged));
    }
}
