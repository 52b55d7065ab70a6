//! The plan of a scan, and the statements on the base table for it.

use super::Reading;
use crate::read::{APPLIED_COLUMNS, Bounds, transaction};
use crate::schema::affinity::Affinity;
use densite_sqlite::{Operator, Plan, ValueRef, quoted};

/// Bits of a plan's number: how many columns of the key are compared with `=`, and the comparisons
/// of the next column.
pub(super) const EQUALS: i32 = 0xFF;
pub(super) const LOWER: i32 = 0x100;
pub(super) const LOWER_STRICT: i32 = 0x200;
pub(super) const UPPER: i32 = 0x400;
pub(super) const UPPER_STRICT: i32 = 0x800;
/// Rows must come in the key's order.
pub(super) const ORDERED: i32 = 0x1000;
/// Returns the position, then the row with this key if there is one, then a row of NULLs. So the
/// statement holds its snapshot in any case.
pub(super) const POINT: i32 = 0x2000;
/// All rows are found before the first is returned. The outer statement may change the base table,
/// and would otherwise meet its own inserted rows forever.
pub(super) const APART: i32 = 0x4000;
/// Not a plan: the statement that holds the base table's snapshot and reads its position.
pub(super) const GUARD: i32 = -1;
/// Not a plan either: the statement that reads the number of the transaction.
pub(super) const NUMBER: i32 = -2;

impl Reading {
    /// Chooses a plan: by the first columns of the key, as far as the conditions use the key's
    /// collations.
    pub(crate) fn plan(&self, plan: &mut Plan<'_>) {
        let constraints = plan.constraints();
        let (mut number, mut columns) = (0, 0);
        let key = self
            .target
            .key
            .as_ref()
            .map(|k| k.columns.as_slice())
            .unwrap_or_default();
        let usable = |plan: &mut Plan<'_>,
                      column: usize,
                      place: usize,
                      wanted: &[Operator]|
         -> Option<usize> {
            let schema = self.target.columns.get(column)?;
            let how = self.key.1.get(place)?;
            if !schema.collation.eq_ignore_ascii_case(how.name()) {
                return None;
            }
            let alias = self.target.is_row_id(column);
            (0..constraints.len()).find(|i| {
                constraints.get(*i).is_some_and(|c| {
                    let same = c.column == Some(column) || (alias && c.column.is_none());
                    same && c.usable && wanted.contains(&c.operator)
                }) && plan.collation(*i).eq_ignore_ascii_case(&schema.collation)
            })
        };
        for (place, column) in key.iter().enumerate() {
            if let Some(found) = usable(plan, *column, place, &[Operator::Equal]) {
                plan.ask(found, false);
                columns += 1;
                continue;
            }
            let lower = [Operator::Greater, Operator::GreaterOrEqual];
            if let Some(found) = usable(plan, *column, place, &lower) {
                plan.ask(found, false);
                let strict = constraints
                    .get(found)
                    .is_some_and(|c| c.operator == Operator::Greater);
                number |= LOWER | if strict { LOWER_STRICT } else { 0 };
            }
            let upper = [Operator::Less, Operator::LessOrEqual];
            if let Some(found) = usable(plan, *column, place, &upper) {
                plan.ask(found, false);
                let strict = constraints
                    .get(found)
                    .is_some_and(|c| c.operator == Operator::Less);
                number |= UPPER | if strict { UPPER_STRICT } else { 0 };
            }
            break;
        }
        let order = plan.order();
        let by_key = order.iter().enumerate().all(|(i, (column, descends))| {
            !descends && column.is_some() && key.get(i).copied() == *column && {
                let schema = column.and_then(|c| self.target.columns.get(c));
                let how = self.key.1.get(i);
                schema
                    .zip(how)
                    .is_some_and(|(c, how)| c.collation.eq_ignore_ascii_case(how.name()))
            }
        });
        if !order.is_empty() && by_key {
            plan.is_ordered();
            number |= ORDERED;
        }
        let is_whole = columns == key.len() && columns > 0;
        match (is_whole, columns, number & (LOWER | UPPER)) {
            (true, ..) => {
                plan.cost(10.0, 1);
            }
            (false, 0, 0) => plan.cost(2e6, 1_000_000),
            (false, 0, _) => plan.cost(4e5, 200_000),
            (false, n, _) => plan.cost(2e4 / n as f64, 10_000 / n as i64),
        }
        plan.choose(number | i32::try_from(columns).unwrap_or(0), "");
    }

    /// The usable bounds of the conditions. Values that SQLite would convert before comparing are
    /// left to SQLite. `None`: no row can match.
    pub(super) fn bounds(&self, number: i32, values: &[ValueRef<'_>]) -> Option<(i32, Bounds)> {
        let mut bounds = Bounds::default();
        let mut values = values.iter().copied();
        let equals = usize::try_from(number & EQUALS).unwrap_or(0);
        let key = self.target.key.as_ref()?;
        let fits = |place: usize, value: ValueRef<'_>| {
            let column = key
                .columns
                .get(place)
                .and_then(|c| self.target.columns.get(*c));
            let affinity = column.map_or(Affinity::Blob, |c| c.affinity);
            match value {
                ValueRef::Integer(_) | ValueRef::Real(_) => {
                    !matches!(affinity, Affinity::Blob | Affinity::Text)
                }
                ValueRef::Text(_) => affinity == Affinity::Text,
                _ => false,
            }
        };
        let mut used = number & ORDERED;
        for place in 0..equals {
            let value = values.next()?;
            if value == ValueRef::Null {
                return None;
            }
            if !fits(place, value) {
                return Some((used, bounds));
            }
            used += 1;
            bounds.equal.push(value.to_owned());
        }
        if number & LOWER != 0 {
            let value = values.next().filter(|v| *v != ValueRef::Null)?;
            if fits(equals, value) {
                used |= number & (LOWER | LOWER_STRICT);
                bounds.lower = Some((value.to_owned(), number & LOWER_STRICT != 0));
            }
        }
        if number & UPPER != 0 {
            let value = values.next().filter(|v| *v != ValueRef::Null)?;
            if fits(equals, value) {
                used |= number & (UPPER | UPPER_STRICT);
                bounds.upper = Some((value.to_owned(), number & UPPER_STRICT != 0));
            }
        }
        Some((used, bounds))
    }

    /// The SQL for the base rows of a plan.
    pub(super) fn sql(&self, number: i32) -> String {
        if number == GUARD {
            let columns = APPLIED_COLUMNS.join(", ");
            return format!("SELECT {columns} FROM main.densite_applied");
        }
        if number == NUMBER {
            return transaction::NUMBER.to_owned();
        }
        let columns = self.target.columns.iter();
        let columns: Vec<String> = columns.map(|c| format!("t.{}", quoted(&c.name))).collect();
        let columns = columns.join(", ");
        let table = format!("main.{} AS t", quoted(&self.target.name));
        let names = self.key.0.iter();
        let key: Vec<String> = names.map(|c| format!("t.{}", quoted(c))).collect();
        let equals = usize::try_from(number & EQUALS).unwrap_or(0);
        let mut terms: Vec<String> = Vec::new();
        for column in key.iter().take(equals) {
            terms.push(format!("{column} = ?{}", terms.len() + 1));
        }
        let ranged = key.get(equals);
        for (is, strict, sign) in [(LOWER, LOWER_STRICT, '>'), (UPPER, UPPER_STRICT, '<')] {
            if let Some(column) = ranged.filter(|_| number & is != 0) {
                let or_equal = if number & strict == 0 { "=" } else { "" };
                terms.push(format!("{column} {sign}{or_equal} ?{}", terms.len() + 1));
            }
        }
        let terms = terms.join(" AND ");
        if number & POINT != 0 {
            let applied = APPLIED_COLUMNS.join(", ");
            let none = |columns: usize| vec!["NULL"; columns].join(", ");
            let (all, told) = (self.target.columns.len(), APPLIED_COLUMNS.len());
            return format!(
                "SELECT {}, {applied} FROM main.densite_applied \
                 UNION ALL SELECT {columns}, {} FROM {table} WHERE {terms} \
                 UNION ALL SELECT {}",
                none(all),
                none(told),
                none(all + told)
            );
        }
        // It identifies rows without a key.
        let row_id = self.target.row_id.map(|id| format!(", t.{id}"));
        let row_id = row_id.unwrap_or_default();
        let mut sql = format!("SELECT {columns}{row_id} FROM {table}");
        if !terms.is_empty() {
            sql.push_str(&format!(" WHERE {terms}"));
        }
        // No index contains an expression with a plus, so SQLite has to sort.
        let plus = if number & APART != 0 { "+" } else { "" };
        if key.is_empty() && number & APART != 0 {
            sql.push_str(&format!(" ORDER BY +{columns}"));
        } else if number & (ORDERED | APART) != 0 && equals < key.len() {
            // The overlay's order. It is that of the key's index, which can differ from that of the
            // columns.
            let terms = key.iter().zip(&self.key.1);
            let terms: Vec<String> = terms
                .map(|(column, how)| format!("{plus}{column} COLLATE {}", how.name()))
                .collect();
            sql.push_str(&format!(" ORDER BY {}", terms.join(", ")));
        }
        sql
    }
}
