//! The row that refers to a missing row, as `densite_insert_orphan` finds it.

use super::target::{Target, same};
use crate::set::Registered;
use crate::{MissingParent, Result};
use rusqlite::{Connection, params};

/// The first row whose parent is missing, and its reference.
pub(super) fn find(
    con: &Connection,
    target: &Target,
    columns: &Registered,
) -> Result<Option<(u64, MissingParent)>> {
    let mut find = con.prepare(
        "SELECT position, parent, child, referred FROM densite_insert_orphan(?1, ?2, ?3)",
    )?;
    let mut rows = find.query(params![columns.handle(), target.name, target.schema])?;
    let mut found = None;
    while let Some(row) = rows.next()? {
        let (_, missing) = found.get_or_insert((
            row.get::<_, i64>(0)?,
            MissingParent {
                columns: Vec::new(),
                values: Vec::new(),
                parent: row.get(1)?,
                parent_columns: Vec::new(),
            },
        ));
        missing.columns.push(row.get(2)?);
        missing.parent_columns.push(row.get(3)?);
    }
    let Some((position, mut missing)) = found else {
        return Ok(None);
    };
    let given = columns.names();
    let places = missing.columns.iter();
    let places = places.filter_map(|name| given.iter().position(|known| same(known, name)));
    // This reads up to that row and no further, so it is the row that was read last.
    let sql = format!("SELECT * FROM {} LIMIT 1 OFFSET ?1", columns.table());
    missing.values = con.query_row(&sql, [position], |row| {
        places.map(|place| row.get(place)).collect()
    })?;
    let row = columns.ask(densite_bulk::Set::last_row)?;
    Ok(Some((row, missing)))
}
