//! Rows of a Parquet file. Dates and times become ISO 8601 text, which SQLite's date functions read; decimals text, exact; nested values JSON.

use super::{Bad, Column, Row, Source};
use parquet::basic::{ConvertedType, LogicalType, Type as Physical};
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{Field, reader::RowIter};
use parquet::schema::types::Type;
use rusqlite::types::Value;
use std::fs::File;

/// Days from 1970 to the years 0001 and 9999, which is what SQLite's and everybody's dates reach.
const DAYS: std::ops::RangeInclusive<i64> = -719_162..=2_932_896;

pub(super) struct Parquet {
    rows: RowIter<'static>,
    columns: Vec<Column>,
    at: u64,
    total: u64,
    bytes: u64,
}

fn failed(e: &ParquetError) -> Bad {
    Bad::file(format!("cannot be read as Parquet: {e}"))
}

impl Parquet {
    pub(super) fn new(file: File) -> Result<Parquet, Bad> {
        let bytes = file.metadata().map_or(0, |m| m.len());
        let reader = SerializedFileReader::new(file).map_err(|e| failed(&e))?;
        let meta = reader.metadata().file_metadata();
        let total = u64::try_from(meta.num_rows()).unwrap_or(0);
        let fields = meta.schema().get_fields();
        let column = |field: &std::sync::Arc<Type>| Column {
            name: field.name().to_owned(),
            declared: declared(field),
        };
        let columns = fields.iter().map(column).collect();
        let rows = RowIter::from_file_into(Box::new(reader));
        Ok(Parquet {
            rows,
            columns,
            at: 0,
            total,
            bytes,
        })
    }
}

/// The type of a column in a table that is made for it.
fn declared(field: &Type) -> &'static str {
    if !field.is_primitive() {
        return "TEXT";
    }
    let info = field.get_basic_info();
    // Older files have only the one, newer ones both.
    match (info.logical_type_ref(), info.converted_type()) {
        (Some(LogicalType::Integer { .. }), _) => return "INTEGER",
        (Some(LogicalType::Decimal { .. }), _) | (_, ConvertedType::DECIMAL) => return "NUMERIC",
        (Some(LogicalType::String | LogicalType::Json | LogicalType::Enum), _)
        | (_, ConvertedType::UTF8 | ConvertedType::JSON | ConvertedType::ENUM)
        | (Some(LogicalType::Date | LogicalType::Time { .. } | LogicalType::Timestamp { .. }), _) =>
        {
            return "TEXT";
        }
        _ => {}
    }
    match field.get_physical_type() {
        Physical::BOOLEAN | Physical::INT32 | Physical::INT64 => "INTEGER",
        Physical::FLOAT | Physical::DOUBLE => "REAL",
        Physical::INT96 => "TEXT",
        Physical::BYTE_ARRAY | Physical::FIXED_LEN_BYTE_ARRAY => "BLOB",
    }
}

/// A value, or why there is none.
fn value_of(field: &Field) -> Result<Value, &'static str> {
    const OUT_OF_RANGE: &str = "is a date outside the years 1 to 9999";
    let date = |days: i64| match DAYS.contains(&days) {
        // In UTC: that is what SQLite's date functions take text without a zone for.
        true => Ok(Value::Text(field.to_string().replace(" +00:00", ""))),
        false => Err(OUT_OF_RANGE),
    };
    Ok(match field {
        Field::Null => Value::Null,
        Field::Bool(b) => Value::Integer(i64::from(*b)),
        Field::Byte(n) => Value::Integer(i64::from(*n)),
        Field::Short(n) => Value::Integer(i64::from(*n)),
        Field::Int(n) => Value::Integer(i64::from(*n)),
        Field::Long(n) => Value::Integer(*n),
        Field::UByte(n) => Value::Integer(i64::from(*n)),
        Field::UShort(n) => Value::Integer(i64::from(*n)),
        Field::UInt(n) => Value::Integer(i64::from(*n)),
        Field::ULong(n) => Value::Integer(
            i64::try_from(*n).map_err(|_| "is larger than SQLite's largest integer")?,
        ),
        Field::Float16(x) => Value::Real(f64::from(*x)),
        Field::Float(x) => Value::Real(f64::from(*x)),
        Field::Double(x) => Value::Real(*x),
        Field::Str(text) => Value::Text(text.clone()),
        Field::Bytes(bytes) => Value::Blob(bytes.data().to_vec()),
        Field::Decimal(_) | Field::TimeMillis(_) | Field::TimeMicros(_) => {
            Value::Text(field.to_string())
        }
        Field::Date(days) => date(i64::from(*days))?,
        Field::TimestampMillis(ms) => date(ms.div_euclid(86_400_000))?,
        Field::TimestampMicros(us) => date(us.div_euclid(86_400_000_000))?,
        Field::Group(_) | Field::ListInternal(_) | Field::MapInternal(_) => {
            Value::Text(field.to_json_value().to_string())
        }
    })
}

impl Source for Parquet {
    fn unit(&self) -> &'static str {
        "row"
    }

    fn columns(&self) -> &[Column] {
        &self.columns
    }

    fn next(&mut self) -> Result<Option<Row>, Bad> {
        let Some(row) = self.rows.next() else {
            return Ok(None);
        };
        self.at += 1;
        let at = self.at;
        let row = row.map_err(|e| Bad {
            at: Some(at),
            ..failed(&e)
        })?;
        let value = |(name, field): (&String, &Field)| {
            let value = value_of(field);
            value.map(Some).map_err(|problem| {
                let shown = match field {
                    Field::ULong(n) => n.to_string(),
                    Field::Date(n) => format!("{n} days from 1970"),
                    Field::TimestampMillis(n) => format!("{n} ms from 1970"),
                    Field::TimestampMicros(n) => format!("{n} us from 1970"),
                    other => other.to_string(),
                };
                Bad::row(at, problem).with(name, Some(shown))
            })
        };
        let values = row.get_column_iter().map(value).collect::<Result<_, _>>()?;
        Ok(Some(Row { at, values }))
    }

    fn bytes_read(&self) -> u64 {
        // Of row groups nobody says where they are read; rows tell as much.
        match self.total {
            0 => self.bytes,
            total => (u128::from(self.bytes) * u128::from(self.at) / u128::from(total)) as u64,
        }
    }
}
