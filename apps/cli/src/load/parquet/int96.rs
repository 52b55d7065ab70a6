//! Reads 96-bit timestamps of a Parquet file. The row reader would round them to milliseconds, so a
//! second reader reads the same column.

use super::failed;
use crate::load::Bad;
use parquet::column::reader::{ColumnReaderImpl, get_typed_column_reader};
use parquet::data_type::{Int96, Int96Type};
use parquet::file::reader::{FileReader, SerializedFileReader};
use std::collections::VecDeque;
use std::fs::File;

const DAY_NANOS: i64 = 86_400_000_000_000;
/// The Julian day of 1970-01-01.
const JULIAN_1970: i64 = 2_440_588;
/// Number of values that are read at a time.
const ROWS: usize = 1024;

/// The values of a column in order, without NULLs.
pub(super) struct Int96s {
    reader: SerializedFileReader<File>,
    column: usize,
    /// The next row group.
    group: usize,
    current: Option<ColumnReaderImpl<Int96Type>>,
    values: VecDeque<Int96>,
}

impl Int96s {
    pub(super) fn new(file: &File, column: usize) -> Result<Int96s, Bad> {
        let file = file
            .try_clone()
            .map_err(|e| Bad::file(format!("cannot be read: {e}")))?;
        Ok(Int96s {
            reader: SerializedFileReader::new(file).map_err(|e| failed(&e))?,
            column,
            group: 0,
            current: None,
            values: VecDeque::new(),
        })
    }

    /// The next value that is not NULL: days since 1970-01-01, and nanoseconds of that day.
    pub(super) fn next(&mut self) -> Result<(i64, i64), Bad> {
        let value = loop {
            if let Some(value) = self.values.pop_front() {
                break value;
            }
            self.fill()?;
        };
        let [low, high, day] = *value.data() else {
            return Err(Bad::damaged("has a timestamp that is not one of 96 bits"));
        };
        let nanos = (u64::from(high) << 32 | u64::from(low)).cast_signed();
        let days = i64::from(day.cast_signed()) - JULIAN_1970;
        Ok((
            days + nanos.div_euclid(DAY_NANOS),
            nanos.rem_euclid(DAY_NANOS),
        ))
    }

    /// Reads more values of the column.
    fn fill(&mut self) -> Result<(), Bad> {
        let Some(current) = &mut self.current else {
            if self.group >= self.reader.num_row_groups() {
                return Err(Bad::damaged("has a column with fewer values than rows"));
            }
            let group = self.reader.get_row_group(self.group);
            let column = group.and_then(|group| group.get_column_reader(self.column));
            self.current = Some(get_typed_column_reader(column.map_err(|e| failed(&e))?));
            self.group += 1;
            return Ok(());
        };
        let (mut values, mut levels) = (Vec::new(), Vec::new());
        let read = current.read_records(ROWS, Some(&mut levels), None, &mut values);
        let (records, ..) = read.map_err(|e| failed(&e))?;
        if records == 0 {
            self.current = None;
        }
        self.values.extend(values);
        Ok(())
    }
}
