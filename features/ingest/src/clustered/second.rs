//! The other index whose pages neighbouring rows share.

use super::Second;
use crate::schema::collation::Collation;
use densite_sqlite::{Connection, Result, quoted};

impl Second {
    /// The first column of the first index that is not the primary key, not partial, and does not
    /// begin with the key's first column. `None` if there is none with a plain column. It affects
    /// only the speed.
    ///
    /// # Errors
    /// SQLite's.
    pub(crate) fn of(
        connection: &Connection,
        table: &str,
        key: Option<&String>,
    ) -> Result<Option<Second>> {
        let mut list = connection.prepare(&format!("PRAGMA main.index_list({})", quoted(table)))?;
        while list.step()? {
            let is_key = list.column(3).as_str() == Some("pk");
            let is_partial = list.column(4).as_i64() == Some(1);
            if is_key || is_partial {
                continue;
            }
            let index = list.column(1).as_str().unwrap_or_default().to_owned();
            let mut columns =
                connection.prepare(&format!("PRAGMA main.index_xinfo({})", quoted(&index)))?;
            if !columns.step()? {
                continue;
            }
            let column = columns.column(2).as_str().map(str::to_owned);
            let collation = columns.column(4).as_str().and_then(Collation::of);
            if let (Some(column), Some(collation)) = (column, collation)
                && key.is_none_or(|key| !key.eq_ignore_ascii_case(&column))
            {
                return Ok(Some(Second { column, collation }));
            }
        }
        Ok(None)
    }
}
