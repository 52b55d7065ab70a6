//! Where the integers of a split leaf lie, and which streams they are: those of the general split,
//! in the same order.

use super::shape::Shape;
use super::{COLUMNS_MAX, SplitLeaf};
use crate::class::Class;
use crate::model::{COLUMN_STREAMS, ColumnStream, Model, PAGE_STREAMS, PageStream};
use crate::stream::{Stream, Tail};
use densite_sqlite_format::page::Page;

/// Where values lie in the integers of a split.
pub(super) struct Room {
    /// The first of them: how the cells are coded.
    pub(super) start: usize,
    /// The row ids, if the leaf is a table's.
    pub(super) rowids: usize,
    /// The values of each column; its classes lie before them.
    pub(super) values: [usize; COLUMNS_MAX],
    cells: usize,
    is_table: bool,
}

impl Room {
    /// Makes room in `ints`, as zeros. A column that is NULL needs none for values.
    pub(super) fn make(page: &Page, shape: &Shape, ints: &mut Vec<i64>) -> Room {
        let (n, is_table) = (page.count(), page.kind.is_table());
        let start = ints.len();
        let rowids = start + n;
        let mut end = rowids + if is_table { n } else { 0 };
        let mut values = [0; COLUMNS_MAX];
        for (c, at) in values.iter_mut().enumerate().take(shape.columns) {
            *at = end + n;
            end = *at + if shape.is_null(c) { 0 } else { n };
        }
        ints.resize(end, 0);
        Room {
            start,
            rowids,
            values,
            cells: n,
            is_table,
        }
    }

    /// Lists the streams. Their values and row ids are already there; the classes are filled in.
    pub(super) fn list_streams(
        &self,
        shape: &Shape,
        model: &Model,
        long: bool,
        ints: &mut [i64],
        streams: &mut Vec<Stream>,
    ) -> Option<SplitLeaf> {
        let n = self.cells;
        let mut put = |number: usize, from: usize| {
            streams.push(Stream {
                number,
                from,
                to: from + n,
                tail: Tail::Nothing,
            });
        };
        put(PageStream::Opaque as usize, self.start);
        if self.is_table {
            put(PageStream::Rowid as usize, self.rowids);
        }
        let mut number = PAGE_STREAMS;
        for (c, at) in self.values.iter().enumerate().take(shape.columns) {
            put(number + ColumnStream::Class as usize, at - n);
            if !shape.is_null(c) {
                ints.get_mut(at - n..*at)?.fill(Class::Number as i64);
                put(number + ColumnStream::Number as usize, *at);
            }
            number += COLUMN_STREAMS + model.column(c).form.streams();
        }
        Some(SplitLeaf {
            columns: shape.columns,
            long,
        })
    }
}
