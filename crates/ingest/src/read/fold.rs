//! Applies the log's operations on a key in order, and gives the resulting row.

use super::run::Row;
use crate::policy::OnConflict;
use crate::target::Target;
use densite_log::{Op, Table};
use densite_sqlite::Value;
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
}

/// See the module.
#[derive(Default)]
pub(crate) struct Folder(Vec<Mapped>);

impl Folder {
    fn mapped(&mut self, target: &Target, table: &Arc<Table>) -> Option<&Mapped> {
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
                });
                self.0.len() - 1
            }
        };
        self.0.get(place)
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

    /// Applies one operation.
    pub(crate) fn apply(&mut self, target: &Target, state: &mut Option<Vec<Value>>, row: &Row<'_>) {
        let Some(mapped) = self.mapped(target, row.table()) else {
            return;
        };
        let Some(places) = &mapped.places else {
            return;
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
                if let Some(state) = state {
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
                (Some(_), _) => {}
            },
        }
    }
}
