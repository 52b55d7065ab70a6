//! What becomes of a row when the log's operations on its key are applied in order.

use super::run::Row;
use crate::policy::OnConflict;
use crate::target::Target;
use densite_log::{Op, Table};
use densite_sqlite::Value;
use std::sync::Arc;

/// How a table of the log maps to the target.
struct Mapped {
    table: Arc<Table>,
    /// The target's place of each column; `None` if one is missing there: all such rows will be rejected.
    places: Option<Vec<usize>>,
    /// Which of its columns each of the target's is; `None` if one is missing.
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

    /// Where no row is in the way, an inserted row is what the log has, if it has all columns: which of its columns each of the target's is; and whether a row in the way would go.
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
                // The key stays as the row has it: what compares equal need not be the same.
                let keys = mapped.table.key_columns();
                let from = if places.len() > keys { keys } else { 0 };
                if let Some(state) = state {
                    set(state, from, None);
                }
            }
            Op::Insert => match (state.as_mut(), &mapped.policy) {
                (None, _) | (Some(_), Some(OnConflict::Replace)) => {
                    // What the log's row does not have came to the table later.
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
