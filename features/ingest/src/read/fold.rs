//! Applies the log's operations on a key in order, and gives the resulting row.

use super::run::Row;
use super::upsert::Change;
use crate::schema::policy::OnConflict;
use crate::schema::target::Target;
use densite_log::{Op, Table};
use densite_sqlite::{Connection, Result, Value};
use std::sync::Arc;

/// How a table of the log maps to the target.
struct Mapped {
    table: Arc<Table>,
    /// The target's place of each column. `None` if one is missing there: then all these rows will
    /// be rejected.
    places: Option<Vec<usize>>,
    /// The log's column for each column of the target; `None` if one is missing.
    columns: Option<Arc<[usize]>>,
    policy: Option<OnConflict>,
    /// The compiled expressions of the policy, once they are needed. `None` within: the table
    /// refuses these rows.
    change: Option<Option<Change>>,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Folder(Vec<Mapped>);

impl Folder {
    fn mapped(&mut self, target: &Target, table: &Arc<Table>) -> Option<&mut Mapped> {
        let known = self
            .0
            .iter()
            .position(|m| Arc::ptr_eq(&m.table, table) || m.table == *table);
        let place = match known {
            Some(place) => place,
            None => {
                let places = table.columns().iter().map(|c| target.column(c)).collect();
                let column = |c| {
                    let places: &Option<Vec<usize>> = &places;
                    places.as_ref()?.iter().position(|place| *place == c)
                };
                self.0.push(Mapped {
                    table: table.clone(),
                    columns: (0..target.columns.len()).map(column).collect(),
                    places,
                    policy: OnConflict::of_note(table.note()),
                    change: None,
                });
                self.0.len() - 1
            }
        };
        self.0.get_mut(place)
    }

    /// For an insert that has all columns: if there is no conflict, the row is as the log has it.
    /// Returns the log's column for each column of the target, and whether the insert replaces a
    /// conflicting row.
    pub(crate) fn inserted(
        &mut self,
        target: &Target,
        (table, op): (&Arc<Table>, Op),
    ) -> Option<(Arc<[usize]>, bool)> {
        let mapped = self.mapped(target, table)?;
        let columns = mapped.columns.clone().filter(|_| op == Op::Insert)?;
        Some((columns, mapped.policy == Some(OnConflict::Replace)))
    }

    /// Applies one operation. Expressions of a conflict policy are evaluated by `connection`.
    ///
    /// # Errors
    /// SQLite's.
    pub(crate) fn apply(
        &mut self,
        connection: Option<&Connection>,
        target: &Target,
        state: &mut Option<Vec<Value>>,
        row: &Row<'_>,
    ) -> Result<()> {
        let Some(mapped) = self.mapped(target, row.table()) else {
            return Ok(());
        };
        let Some(places) = &mapped.places else {
            return Ok(());
        };
        let set = |to: &mut Vec<Value>, from: usize, only: Option<&[String]>| {
            for (i, place) in places.iter().enumerate().skip(from) {
                let named = |names: &[String]| {
                    let name = target.columns.get(*place).map(|c| c.name.as_str());
                    names
                        .iter()
                        .any(|n| name.is_some_and(|name| name.eq_ignore_ascii_case(n)))
                };
                if only.is_none_or(named)
                    && let Some(value) = to.get_mut(*place)
                {
                    *value = row.value(i).to_owned();
                }
            }
        };
        match row.op() {
            Op::Delete => *state = None,
            Op::Update => {
                // The key keeps the row's own bytes: equal keys can differ in them.
                let keys = mapped.table.key_columns();
                let from = if places.len() > keys { keys } else { 0 };
                let Some(state) = state else {
                    return Ok(());
                };
                let sets = match (&mapped.policy, connection) {
                    (Some(OnConflict::Set(upsert)), Some(connection)) => {
                        let change = match &mut mapped.change {
                            Some(change) => change,
                            none => none.insert(Change::new(connection, target, upsert)?),
                        };
                        match change {
                            Some(change) => change.apply(target, state, Vec::new())?,
                            None => false,
                        }
                    }
                    (Some(OnConflict::Set(_)), None) => false,
                    _ => true,
                };
                if sets {
                    set(state, from, None);
                }
            }
            Op::Insert => match (state.as_mut(), &mapped.policy) {
                (None, _) | (Some(_), Some(OnConflict::Replace)) => {
                    // Columns that the log's row lacks were added to the table later.
                    let mut fresh = target.defaults();
                    set(&mut fresh, 0, None);
                    *state = Some(fresh);
                }
                (Some(state), Some(OnConflict::Update(columns))) => set(state, 0, Some(columns)),
                (Some(state), Some(OnConflict::Set(upsert))) => {
                    let Some(connection) = connection else {
                        return Ok(());
                    };
                    let mut new = target.defaults();
                    set(&mut new, 0, None);
                    let change = match &mut mapped.change {
                        Some(change) => change,
                        none => none.insert(Change::new(connection, target, upsert)?),
                    };
                    if let Some(change) = change {
                        change.apply(target, state, new)?;
                    }
                }
                (Some(_), _) => {}
            },
        }
        Ok(())
    }
}
