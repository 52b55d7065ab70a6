//! Finds the row that refers to a missing row. SQLite counts such references and checks the count
//! when the statement ends, so its error does not name the row.

use super::list;
use super::target::{Target, same};
use crate::set::Registered;
use crate::{MissingParent, Result};
use densite_sqlite::quoted;
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, params};

/// A foreign key of the target.
struct ForeignKey {
    id: i64,
    parent: String,
    /// Pairs of a column and the column that it refers to. Without the second, it refers to the
    /// primary key.
    columns: Vec<(String, Option<String>)>,
}

/// The first row whose parent is missing, and its reference. The failed statement has left nothing,
/// so the tables are as they were before it.
pub(super) fn find(
    con: &Connection,
    target: &Target,
    columns: &Registered,
) -> Result<Option<(u64, MissingParent)>> {
    for key in foreign_keys(con, target)? {
        // If a parent table is missing or has other columns, SQLite's own error says so.
        if let Ok(Some(found)) = find_by(con, target, columns, &key) {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// The foreign keys, in the order in which they were declared.
fn foreign_keys(con: &Connection, target: &Target) -> Result<Vec<ForeignKey>> {
    let mut statement = con.prepare(
        "SELECT id, \"table\", \"from\", \"to\" FROM pragma_foreign_key_list(?1, ?2) ORDER BY id DESC, seq",
    )?;
    let mut rows = statement.query(params![target.name, target.schema])?;
    let mut keys: Vec<ForeignKey> = Vec::new();
    while let Some(row) = rows.next()? {
        let id = row.get(0)?;
        let pair = (row.get(2)?, row.get(3)?);
        match keys.last_mut().filter(|key| key.id == id) {
            Some(key) => key.columns.push(pair),
            None => keys.push(ForeignKey {
                id,
                parent: row.get(1)?,
                columns: vec![pair],
            }),
        }
    }
    Ok(keys)
}

fn find_by(
    con: &Connection,
    target: &Target,
    columns: &Registered,
    key: &ForeignKey,
) -> Result<Option<(u64, MissingParent)>> {
    let Some(referred) = referred(con, target, key)? else {
        return Ok(None);
    };
    let given = |name: &str| columns.names().iter().position(|known| same(known, name));
    // A column that is not given has its default, which is not among the given values.
    let places: Option<Vec<usize>> = key.columns.iter().map(|(name, _)| given(name)).collect();
    let Some(places) = places else {
        return Ok(None);
    };
    let equal = places.iter().zip(&referred);
    let equal = equal.map(|(place, referred)| format!("p.{} = k.c{place}", quoted(referred)));
    let mut terms: Vec<String> = places
        .iter()
        .map(|place| format!("k.c{place} IS NOT NULL"))
        .collect();
    terms.push(format!(
        "NOT EXISTS (SELECT 1 FROM {}.{} p WHERE {})",
        quoted(&target.schema),
        quoted(&key.parent),
        equal.collect::<Vec<_>>().join(" AND ")
    ));
    if same(&key.parent, &target.name) {
        // The parent can be another of these rows.
        let ([place], [referred]) = (places.as_slice(), referred.as_slice()) else {
            return Ok(None);
        };
        let Some(parent) = given(referred) else {
            return Ok(None);
        };
        terms.push(format!(
            "k.c{place} NOT IN (SELECT c{parent} FROM {} WHERE c{parent} IS NOT NULL)",
            columns.table()
        ));
    }
    let sql = format!(
        "SELECT k.rowid, {} FROM {} k WHERE {} LIMIT 1",
        list(places.iter().map(|place| format!("k.c{place}"))),
        columns.table(),
        terms.join(" AND ")
    );
    let found = con.query_row(&sql, [], |row| {
        let values = (1..=places.len()).map(|i| row.get(i));
        let values: rusqlite::Result<Vec<Value>> = values.collect();
        Ok((row.get::<_, i64>(0)?, values?))
    });
    let Some((position, values)) = found.optional()? else {
        return Ok(None);
    };
    let missing = MissingParent {
        columns: key.columns.iter().map(|(name, _)| name.clone()).collect(),
        values,
        parent: key.parent.clone(),
        parent_columns: referred,
    };
    Ok(Some((number(con, columns, position)?, missing)))
}

/// The columns of the parent that a foreign key refers to; `None` if they do not match it.
fn referred(con: &Connection, target: &Target, key: &ForeignKey) -> Result<Option<Vec<String>>> {
    let mut statement =
        con.prepare("SELECT name FROM pragma_table_info(?1, ?2) WHERE pk ORDER BY pk")?;
    let names = statement.query_map(params![key.parent, target.schema], |row| row.get(0))?;
    let primary: Vec<String> = names.collect::<rusqlite::Result<_>>()?;
    let named = key.columns.iter().enumerate();
    let named = named.map(|(i, (_, to))| to.clone().or_else(|| primary.get(i).cloned()));
    Ok(named.collect())
}

/// The caller's number of the row at a position in reading order.
fn number(con: &Connection, columns: &Registered, position: i64) -> Result<u64> {
    // This reads up to that row and no further, so it is the row that was read last.
    let sql = format!("SELECT 1 FROM {} LIMIT 1 OFFSET ?1", columns.table());
    con.query_row(&sql, [position], |_| Ok(()))?;
    columns.ask(densite_bulk::Set::last_row)
}
