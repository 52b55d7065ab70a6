//! The order of a clustered apply in the database: the table `densite_clustered` (docs/FORMAT.md,
//! What the database says of the log).
//!
//! `permutation` has the place of each row of the batch. `basis` has the table's name and how its
//! key compares, as they were when the order was made; it is empty for the order of the log. A row
//! of the table never changes: another order has another random id.

use super::Permutation;
use crate::error::refused;
use densite_sqlite::{Connection, Result, Value, ValueRef};

/// See the module.
#[derive(Debug, Clone)]
pub(crate) struct Definition {
    /// Random, and not 0.
    pub(crate) id: i64,
    pub(crate) basis: String,
    pub(crate) permutation: Permutation,
}

impl Definition {
    /// A new definition with a random id.
    ///
    /// # Errors
    /// An error if the host has no source of randomness.
    pub(crate) fn new(basis: String, permutation: Permutation) -> densite_log::Result<Definition> {
        let mut id = [0; 8];
        densite_disk::random::random_bytes(&mut id)?;
        Ok(Definition {
            id: (i64::from_le_bytes(id) & i64::MAX).max(1),
            basis,
            permutation,
        })
    }

    /// Stores it in place of any other, within the connection's transaction.
    pub(crate) fn store(&self, connection: &Connection) -> Result<()> {
        Definition::clear(connection)?;
        let mut insert = connection.prepare(
            "INSERT INTO main.densite_clustered(id, basis, permutation) VALUES (?1, ?2, ?3)",
        )?;
        insert.bind(1, &Value::Integer(self.id))?;
        insert.bind(2, &Value::from(self.basis.as_str()))?;
        // Freed before SQLite, which has its own copy, makes the row.
        let bytes: Vec<u8> = self
            .permutation
            .iter()
            .flat_map(|p| p.to_le_bytes())
            .collect();
        insert.bind_ref(3, ValueRef::Blob(&bytes))?;
        drop(bytes);
        insert.step()?;
        Ok(())
    }

    /// Deletes the stored definition, within the connection's transaction.
    pub(crate) fn clear(connection: &Connection) -> Result<()> {
        connection.exec("DELETE FROM main.densite_clustered")
    }

    /// The definition with this id, in the connection's current snapshot.
    ///
    /// # Errors
    /// SQLite's; an error if there is none.
    pub(crate) fn load(connection: &Connection, id: i64) -> Result<Definition> {
        let mut select = connection
            .prepare("SELECT basis, permutation FROM main.densite_clustered WHERE id = ?1")?;
        select.bind(1, &Value::Integer(id))?;
        if !select.step()? {
            return Err(refused(
                "the table densite_clustered lacks the order in which rows of the log are being applied: only Densite may change it; restore the database",
            ));
        }
        let basis = select.column(0).as_str().unwrap_or_default().to_owned();
        let bytes = match select.column(1) {
            ValueRef::Blob(bytes) => bytes,
            _ => &[],
        };
        let place = |bytes: &[u8]| bytes.try_into().map_or(super::NOWHERE, u32::from_le_bytes);
        Ok(Definition {
            id,
            basis,
            permutation: bytes.chunks_exact(4).map(place).collect(),
        })
    }
}
