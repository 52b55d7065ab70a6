//! How rows of a table in the log become statements on the table as it is now.

use crate::apply::values;
use crate::schema::collation::Collation;
use crate::schema::member_tables;
use crate::schema::names::are_same;
use crate::schema::policy::OnConflict;
use crate::schema::target::{Key, Target};
use densite_log::{Op, Record, Table};
use densite_sqlite::{CompileError, Connection, OwnedStatement, Result, ValueRef, quoted};
use std::sync::Arc;

/// How rows of one table and operation are applied.
pub(super) enum Action {
    /// Each row is bound to this statement.
    Run(OwnedStatement),
    /// All rows are rejected, for this reason.
    Reject(String),
}

/// The statement that takes many rows from [`super::values`].
pub(super) enum Together {
    /// There is none: rows are run one by one.
    No,
    /// Its SQL, before the first use.
    Sql(String),
    Statement(OwnedStatement),
}

pub(super) struct Plan {
    pub(super) table: Arc<Table>,
    pub(super) op: Op,
    pub(super) action: Action,
    /// The statement that does the same for many rows at once.
    pub(super) together: Together,
    /// No other table's rows depend on this table, and its rows depend on no other table (rule L5).
    pub(super) independent: bool,
    /// How the columns of the key compare; empty if rows must not be sorted.
    pub(super) sort: Vec<Collation>,
    /// If the next row has the same key, this row has no effect: no reader sees it, and the table
    /// cannot refuse it, unless one of these columns of the log is NULL.
    pub(super) replaced: Option<Vec<usize>>,
    /// Each row runs within a savepoint: a failing row can leave half of a trigger's work.
    pub(super) guarded: bool,
    /// The query for a row with a key. An UPDATE that changes no row does not mean that there is
    /// none: a trigger can have ignored it, or its condition is false.
    exists: Option<String>,
}

impl Plan {
    /// Plans for a table of the log, with the current schema.
    pub(super) fn new(connection: &Connection, table: &Arc<Table>, op: Op) -> Result<Plan> {
        let mut plan = Plan {
            table: table.clone(),
            op,
            action: Action::Reject(String::new()),
            together: Together::No,
            independent: false,
            sort: Vec::new(),
            replaced: None,
            guarded: false,
            exists: None,
        };
        let target = match Target::read(connection, table.name()) {
            Ok(Some(target)) => target,
            Ok(None) => {
                member_tables::check_missing(connection, table.name())?;
                plan.action = Action::Reject(format!("there is no table {}", table.name()));
                return Ok(plan);
            }
            Err(e) if is_of_the_schema(&e) => {
                plan.action = Action::Reject(e.message);
                return Ok(plan);
            }
            Err(e) => return Err(e),
        };
        plan.guarded = target.has_triggers;
        plan.independent = target.sortable;
        plan.exists = (op == Op::Update && (plan.guarded || has_condition(table)))
            .then(|| exists(table, &target))
            .flatten();
        plan.action = match sql(table, op, &target) {
            Err(reason) => Action::Reject(reason),
            Ok((sql, together)) => match OwnedStatement::prepare(connection, &sql) {
                Ok(statement) => {
                    let together = together.filter(|_| plan.independent);
                    plan.together = together.map_or(Together::No, Together::Sql);
                    Action::Run(statement)
                }
                Err(e) if is_of_the_schema(&e) => Action::Reject(e.message),
                Err(e) => return Err(e),
            },
        };
        if let (true, Some(key)) = (target.sortable, &target.key) {
            let names = key.columns.iter().filter_map(|c| target.columns.get(*c));
            let logged = table.columns().iter().take(table.key_columns());
            let same = are_same(names.map(|c| &c.name), logged);
            if same {
                plan.sort = key.collations.clone();
            }
            let replaces =
                op == Op::Insert && OnConflict::of_note(table.note()) == Some(OnConflict::Replace);
            if same && replaces && target.takes_any {
                plan.replaced = Some(never_null(table, &target));
            }
        }
        Ok(plan)
    }

    /// Whether this plan applies to the rows of a record.
    pub(super) fn is_of(&self, record: &Record) -> bool {
        self.op == record.op
            && (Arc::ptr_eq(&self.table, &record.table) || self.table == record.table)
    }

    /// The statement for many rows, if there is one.
    pub(super) fn together(&mut self, connection: &Connection) -> Option<&mut OwnedStatement> {
        if let Together::Sql(sql) = &self.together {
            let statement = OwnedStatement::prepare(connection, sql);
            self.together = statement.map_or(Together::No, Together::Statement);
        }
        match &mut self.together {
            Together::Statement(statement) => Some(statement),
            _ => None,
        }
    }

    /// Whether a trigger has ignored an update of this row, or its condition is false: the row exists. The key comes first in
    /// `row`.
    pub(super) fn is_passed_over<'v>(
        &self,
        connection: &Connection,
        row: impl Iterator<Item = ValueRef<'v>>,
    ) -> Result<bool> {
        let Some(sql) = &self.exists else {
            return Ok(false);
        };
        let mut statement = connection.prepare(sql)?;
        for (i, value) in row.take(self.table.key_columns()).enumerate() {
            statement.bind_ref(i + 1, value)?;
        }
        statement.step()
    }

    /// Runs one row. Returns whether it found a row to change.
    pub(super) fn run<'v>(
        &mut self,
        connection: &Connection,
        row: impl Iterator<Item = ValueRef<'v>>,
    ) -> Result<bool> {
        let Action::Run(statement) = &mut self.action else {
            return Ok(true);
        };
        for (i, value) in row.enumerate() {
            statement.bind(i + 1, value)?;
        }
        let done = statement.step();
        statement.reset();
        done?;
        Ok(self.op != Op::Update || connection.changes() > 0)
    }
}

/// Whether an update has a condition beside the key.
fn has_condition(table: &Table) -> bool {
    matches!(OnConflict::of_note(table.note()), Some(OnConflict::Set(upsert)) if upsert.only_if.is_some())
}

/// The query for a row with a key.
fn exists(table: &Table, target: &Target) -> Option<String> {
    let (key, name) = (target.key.as_ref()?, quoted(&target.name));
    let terms = key_terms(target, key);
    (table.key_columns() == key.columns.len())
        .then(|| format!("SELECT 1 FROM main.{name} WHERE {terms}"))
}

/// The condition that a row has the key given by the first values. The key's index decides what one
/// key is, and its collations can differ from those of the columns.
fn key_terms(target: &Target, key: &Key) -> String {
    let columns = key.columns.iter().filter_map(|c| target.columns.get(*c));
    let terms = columns.zip(&key.collations).enumerate();
    let terms: Vec<String> = terms
        .map(|(i, (column, how))| {
            let equal = format!("{} = ?{}", quoted(&column.name), i + 1);
            match key.is_row_id {
                true => equal,
                false => format!("{equal} COLLATE {}", how.name()),
            }
        })
        .collect();
    terms.join(" AND ")
}

/// The index of a record's plan. Makes the plan if there is none.
pub(super) fn plan_index(
    connection: &Connection,
    plans: &mut Vec<Plan>,
    record: &Record,
) -> Result<usize> {
    if let Some(known) = plans.iter().position(|p| p.is_of(record)) {
        return Ok(known);
    }
    let plan = Plan::new(connection, &record.table, record.op)?;
    plans.push(plan);
    Ok(plans.len() - 1)
}

/// Columns of the log that are NOT NULL in the table.
fn never_null(table: &Table, target: &Target) -> Vec<usize> {
    let is_one = |name: &str| {
        let column = target.column(name).and_then(|c| target.columns.get(c));
        column.is_some_and(|c| c.not_null)
    };
    let columns = table.columns().iter().enumerate();
    columns
        .filter(|(_, name)| is_one(name))
        .map(|(i, _)| i)
        .collect()
}

/// Whether the rows or the schema cause the error: trying again does not help. A missing function
/// or collation is not such an error: the application can have it, and only this connection lacks
/// it.
fn is_of_the_schema(e: &densite_sqlite::Error) -> bool {
    let lacking = e.compile_error();
    e.code == densite_sqlite::Code::ERROR
        && !lacking.is_some_and(|l| l.is_of_the_connection() || l == CompileError::NotTrusted)
}

/// The columns of the key, for ON CONFLICT; or the reason for a reject.
fn conflict_key(
    target: &Target,
    column: impl Fn(&usize) -> String,
) -> std::result::Result<String, String> {
    let key = target.key.as_ref();
    let key = key.ok_or_else(|| format!("table {} has no primary key any more", target.name))?;
    let names: Vec<String> = key.columns.iter().map(column).collect();
    Ok(names.join(", "))
}

/// The statement for one row, and the one for many rows if it is allowed; or the reason for a
/// reject.
fn sql(
    table: &Table,
    op: Op,
    target: &Target,
) -> std::result::Result<(String, Option<String>), String> {
    let name = format!("main.{}", quoted(&target.name));
    // ABORT is SQLite's default, except for conflict clauses of the declaration. Written in the
    // statement, it would also override the conflict clauses of statements in triggers.
    let or_abort = match target.has_conflict_clauses {
        true => " OR ABORT",
        false => "",
    };
    let mut places = Vec::new();
    for column in table.columns() {
        let place = target.column(column);
        places.push(place.ok_or_else(|| {
            format!(
                "table {} has no column {column} that can be set",
                target.name
            )
        })?);
    }
    let column = |place: &usize| {
        target
            .columns
            .get(*place)
            .map(|c| quoted(&c.name))
            .unwrap_or_default()
    };
    let key_columns = table.key_columns();
    let equal = |from: usize, to: usize| {
        let some = places.iter().enumerate().take(to).skip(from);
        let terms: Vec<String> = some
            .map(|(i, p)| format!("{} = ?{}", column(p), i + 1))
            .collect();
        terms.join(", ")
    };
    if op != Op::Insert {
        let key = target
            .key
            .as_ref()
            .filter(|k| places.iter().take(key_columns).eq(&k.columns))
            .ok_or_else(|| format!("the primary key of table {} has changed", target.name))?;
        let key = key_terms(target, key);
        let policy = OnConflict::of_note(table.note());
        let sql = match op {
            Op::Delete => format!("DELETE FROM {name} WHERE {key}"),
            _ if let Some(OnConflict::Set(upsert)) = &policy => {
                let values = equal(key_columns, places.len());
                let values = (!values.is_empty()).then_some(values);
                let set = upsert
                    .set
                    .iter()
                    .map(|(name, value)| format!("{} = {value}", quoted(name)));
                let set: Vec<String> = values.into_iter().chain(set).collect();
                let only_if = upsert.only_if.as_ref();
                let only_if = only_if.map_or(String::new(), |text| format!(" AND ({text})"));
                format!(
                    "UPDATE{or_abort} {name} SET {} WHERE {key}{only_if}",
                    set.join(", ")
                )
            }
            _ if places.len() == key_columns => {
                format!("UPDATE {name} SET {} WHERE {key}", equal(0, key_columns))
            }
            _ => format!(
                "UPDATE{or_abort} {name} SET {} WHERE {key}",
                equal(key_columns, places.len())
            ),
        };
        return Ok((sql, None));
    }
    let policy = OnConflict::of_note(table.note());
    let policy = policy.ok_or("a newer Densite wrote this row; use that one")?;
    let verb = match policy {
        OnConflict::Replace => " OR REPLACE",
        _ => or_abort,
    };
    let columns: Vec<String> = places.iter().map(column).collect();
    let columns = columns.join(", ");
    let values: Vec<String> = (1..=places.len()).map(|i| format!("?{i}")).collect();
    let mut sql = format!(
        "INSERT{verb} INTO {name}({columns}) VALUES ({})",
        values.join(", ")
    );
    // FAIL: the worker rolls back the whole transaction if the statement fails. A statement that
    // SQLite can undo by itself would keep a copy of each page.
    let together = values::select(places.len())
        .map(|rows| format!("INSERT OR FAIL INTO {name}({columns}) {rows}"));
    match policy {
        OnConflict::Abort => return Ok((sql, together)),
        OnConflict::Ignore => {
            let end = " ON CONFLICT DO NOTHING";
            return Ok((sql + end, together.map(|sql| sql + end)));
        }
        OnConflict::Replace => {}
        OnConflict::Set(upsert) => {
            let key = conflict_key(target, column)?;
            let set = upsert.sql();
            sql.push_str(&format!(" ON CONFLICT({key}) DO UPDATE SET {set}"));
        }
        OnConflict::Update(set) => {
            let key = conflict_key(target, column)?;
            let mut terms = Vec::new();
            for name in set {
                let place = target.column(&name);
                let place = place.ok_or_else(|| {
                    format!("table {} has no column {name} that can be set", target.name)
                })?;
                terms.push(format!("{0} = excluded.{0}", column(&place)));
            }
            sql.push_str(&format!(
                " ON CONFLICT({key}) DO UPDATE SET {}",
                terms.join(", ")
            ));
        }
    }
    Ok((sql, None))
}
