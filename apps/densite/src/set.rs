//! Columns that a statement can read while it runs.

use crate::{Columns, Result};
use densite_bulk::{Progress, Set, SortKey, sets};

/// The number of columns up to which a smaller table-valued function is used, which SQLite declares
/// faster.
const FEW: usize = 16;

/// Registered columns. Dropping releases them.
pub(crate) struct Registered {
    handle: i64,
    names: Vec<String>,
}

impl Registered {
    pub(crate) fn new(columns: Columns) -> Result<Registered> {
        let set = columns.into_set()?;
        let names = set.names().to_vec();
        Ok(Registered {
            handle: sets::add(set),
            names,
        })
    }

    /// The number by which SQL names them.
    pub(crate) fn handle(&self) -> i64 {
        self.handle
    }

    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    /// The columns as a table expression for a statement.
    pub(crate) fn table(&self) -> String {
        let function = match self.names.len() {
            0..=FEW => "densite_columns_few",
            _ => "densite_columns",
        };
        format!("{function}({})", self.handle)
    }

    pub(crate) fn sort(&self, keys: &[SortKey]) -> Result<()> {
        Ok(sets::change(self.handle, |set| set.sort(keys)).map(drop)?)
    }

    /// Has a function called while a statement reads the columns.
    pub(crate) fn watch(&self, progress: Progress) -> Result<()> {
        self.set_progress(Some(progress))
    }

    /// Ends [`Registered::watch`].
    pub(crate) fn unwatch(&self) -> Result<()> {
        self.set_progress(None)
    }

    fn set_progress(&self, progress: Option<Progress>) -> Result<()> {
        let set = |set: &mut Set| {
            set.set_progress(progress);
            Ok(())
        };
        Ok(sets::change(self.handle, set)?)
    }

    /// Calls a function with the columns.
    pub(crate) fn ask<T>(&self, ask: impl FnOnce(&Set) -> T) -> Result<T> {
        Ok(ask(&*sets::get(self.handle)?))
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        // No statement reads them any longer.
        let _ = sets::release(self.handle);
    }
}
