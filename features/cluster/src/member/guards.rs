//! The tables of a member are written by its worker alone, in the order of the stream: triggers
//! refuse every other write. A program without Densite lacks their function, which refuses it too.

use densite_ingest::parts::{GUARDS, tables_of};
use densite_sqlite::{Connection, Result, Value, quoted};

const OPERATIONS: [&str; 3] = ["INSERT", "UPDATE", "DELETE"];

/// Makes the triggers that are missing, within the connection's transaction.
///
/// # Errors
/// SQLite's.
pub(crate) fn make(connection: &Connection) -> Result<()> {
    for table in tables_of(connection)? {
        for op in OPERATIONS {
            let known = format!(
                "SELECT 1 FROM main.sqlite_schema WHERE type = 'trigger' AND tbl_name = ?1 COLLATE NOCASE AND {GUARDS} AND sql LIKE '% BEFORE {op} %'"
            );
            let known = connection.query_row(&known, &[Value::from(table.as_str())])?;
            if known.is_some() {
                continue;
            }
            let trigger = quoted(&format!("densite_member_{}_{table}", op.to_lowercase()));
            let said = format!(
                "{table} belongs to a member of a stream: write it through its ingest table, as all members do (docs/guides/cluster.md)"
            );
            connection.exec(&format!(
                "CREATE TRIGGER main.{trigger} BEFORE {op} ON {} WHEN densite_applies() IS NOT 1 BEGIN SELECT RAISE(ABORT, '{}'); END",
                quoted(&table),
                said.replace('\'', "''")
            ))?;
        }
    }
    Ok(())
}

/// Removes all of them, within the connection's transaction.
///
/// # Errors
/// SQLite's.
pub(crate) fn remove(connection: &Connection) -> Result<()> {
    let listed = format!("SELECT name FROM main.sqlite_schema WHERE type = 'trigger' AND {GUARDS}");
    let mut names = Vec::new();
    let mut statement = connection.prepare(&listed)?;
    while statement.step()? {
        names.push(statement.column(0).as_str().unwrap_or_default().to_owned());
    }
    drop(statement);
    for name in names {
        connection.exec(&format!("DROP TRIGGER main.{}", quoted(&name)))?;
    }
    Ok(())
}
