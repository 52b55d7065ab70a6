//! Splitting a leaf of short records of integers, row by row.
//!
//! The headers of the records have one length, and mostly the types of the row before. Then only
//! the values are read, and the types need no second look.

use super::path::Path;
use super::room::Room;
use super::shape::{Shape, types_at};
use super::{COLUMNS_MAX, SplitLeaf};
use crate::model::Model;
use crate::record::Small;
use crate::stream::Stream;
use densite_sqlite_format::page::{Cell, Page};

/// Splits the cells of a parsed page as the general split does. `None`, with `ints` and `streams`
/// as they were, unless it is a leaf of such records.
pub(crate) fn split_rows(
    page: &Page,
    bytes: &[u8],
    model: &Model,
    ints: &mut Vec<i64>,
    streams: &mut Vec<Stream>,
) -> Option<SplitLeaf> {
    let leaf = !page.kind.has_child() && Path::Rows.is_on();
    let first = page.cells.first().filter(|_| leaf)?;
    let mut shape = Shape::of_first(bytes, first.local_at as usize, page.count(), model)?;
    let room = Room::make(page, &shape, ints);
    let small = read_values(bytes, &page.cells, &mut shape, &room.values, ints);
    let Some(small) = small.filter(|small| !small.short || !small.long) else {
        ints.truncate(room.start);
        return None;
    };
    if page.kind.is_table() {
        let rowids = ints.get_mut(room.rowids..).unwrap_or_default();
        let each = rowids.iter_mut().zip(&page.cells);
        each.for_each(|(to, c)| *to = c.rowid);
    }
    Path::Rows.count();
    room.list_streams(&shape, model, small.long, ints, streams)
}

/// Reads the values of all cells, those of a column to `ints` from its place in `places` on;
/// `shape` is that of the first one.
fn read_values(
    page: &[u8],
    cells: &[Cell],
    shape: &mut Shape,
    places: &[usize; COLUMNS_MAX],
    ints: &mut [i64],
) -> Option<Small> {
    let (mut small, mut shortest) = (Small::default(), true);
    for (i, cell) in cells.iter().enumerate() {
        let at = cell.local_at as usize;
        let types = types_at(page, at, shape.columns)?;
        if types != shape.types {
            let nulls = shape.nulls;
            *shape = Shape::of(types, shape.columns).filter(|shape| shape.nulls == nulls)?;
        }
        if cell.overflow != 0 || cell.local_len as usize != shape.end {
            return None;
        }
        small.short |= shape.short;
        for value in shape.values.iter().take(shape.count) {
            // There is a page's header before every record, so that there are always eight bytes to
            // load.
            let eight = page.get((at + value.end).checked_sub(8)?..)?;
            let read = i64::from_be_bytes(*eight.first_chunk()?) << value.unused >> value.unused;
            let v = read & value.keep | value.constant;
            shortest &= (((v ^ (v >> 63)) as u64 >> value.fewer) | value.least) != 0;
            small.long |= (v as u64) < 2 && value.keep != 0;
            *ints.get_mut(places.get(value.column)? + i)? = v;
        }
    }
    shortest.then_some(small)
}
