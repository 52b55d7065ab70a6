//! Reading table and log as one.
//!
//! A cursor first opens a statement on `densite_applied`, which holds a snapshot of the base and tells its position; then the log's end is taken, once per transaction. The rows
//! between are merged with the base by key. Rows of the connection's own transaction come last.

mod cursor;
mod fold;
mod overlay;
mod run;
mod unapplied;

pub(crate) use cursor::Cursor;
pub(crate) use run::{Run, push};
pub(crate) use unapplied::Unapplied;

use crate::collation::Collation;
use crate::error::refused;
use crate::home::Home;
use crate::session::Session;
use crate::target::{Key, Target, quoted};
use densite_log::Seq;
use densite_sqlite::{Connection, Operator, OwnedStatement, Plan, Result, Value, ValueRef};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use unapplied::Snapshot;

/// In a plan's number: how many columns of the key are compared with `=`; then what the next one is compared with.
const EQUALS: i32 = 0xFF;
const LOWER: i32 = 0x100;
const LOWER_STRICT: i32 = 0x200;
const UPPER: i32 = 0x400;
const UPPER_STRICT: i32 = 0x800;
/// Rows are to come in the key's order.
const ORDERED: i32 = 0x1000;
/// No plan: the statement that holds the base's snapshot and tells its position.
const GUARD: i32 = -1;

#[derive(Default)]
struct State {
    snapshot: Option<Arc<Snapshot>>,
    /// Statements that no cursor uses at the moment, by the plan's number.
    idle: HashMap<i32, Vec<OwnedStatement>>,
    /// Keys of rows that were handed out; the row id is the place.
    keys: Vec<Vec<Value>>,
    /// Rows without an id that were handed out; they have the least row ids there are.
    unnamed: i64,
}

/// What the cursors of one table share.
pub(crate) struct Reading {
    home: Arc<Home>,
    session: Arc<Session>,
    target: Arc<Target>,
    /// The table itself, for joining its transaction.
    name: String,
    /// Names of the key's columns and how they compare.
    key: (Vec<String>, Vec<Collation>),
    state: Mutex<State>,
}

impl Reading {
    pub(crate) fn new(
        home: Arc<Home>,
        session: Arc<Session>,
        target: Arc<Target>,
        name: &str,
    ) -> Reading {
        let named = |key: &Key| {
            let names = key.columns.iter().filter_map(|c| target.columns.get(*c));
            names.map(|c| c.name.clone()).collect()
        };
        let key = target.key.as_ref();
        let key = key
            .map(|k| (named(k), k.collations.clone()))
            .unwrap_or_default();
        Reading {
            home,
            session,
            target,
            name: name.to_owned(),
            key,
            state: Mutex::default(),
        }
    }

    /// Chooses how to scan: by the first columns of the key, as far as conditions compare as the key does.
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

    /// The base's rows, or the part of them that the plan is about.
    fn sql(&self, number: i32) -> String {
        if number == GUARD {
            return "SELECT seq FROM main.densite_applied".to_owned();
        }
        let columns: Vec<String> = self
            .target
            .columns
            .iter()
            .map(|c| quoted(&c.name))
            .collect();
        let mut sql = format!(
            "SELECT {} FROM main.{}",
            columns.join(", "),
            quoted(&self.target.name)
        );
        let key: Vec<String> = self.key.0.iter().map(|c| quoted(c)).collect();
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
        if !terms.is_empty() {
            sql.push_str(&format!(" WHERE {}", terms.join(" AND ")));
        }
        if number & ORDERED != 0 && equals < key.len() {
            // The overlay's order, which is that of the key's index and need not be that of the columns.
            let terms = key.iter().zip(&self.key.1);
            let terms: Vec<String> = terms
                .map(|(column, how)| format!("{column} COLLATE {}", how.name()))
                .collect();
            sql.push_str(&format!(" ORDER BY {}", terms.join(", ")));
        }
        sql
    }

    fn statement(&self, connection: &Connection, number: i32) -> Result<OwnedStatement> {
        let idle = self.state.lock().idle.get_mut(&number).and_then(Vec::pop);
        match idle {
            Some(statement) => Ok(statement),
            None => OwnedStatement::prepare(connection, &self.sql(number)),
        }
    }

    fn give_back(&self, number: i32, mut statement: OwnedStatement) {
        statement.reset();
        let mut state = self.state.lock();
        let idle = state.idle.entry(number).or_default();
        if idle.len() < 4 {
            idle.push(statement);
        }
    }

    /// What this transaction sees of the log, its base being at `applied`.
    fn snapshot(&self, connection: &Connection, applied: Seq) -> Result<Arc<Snapshot>> {
        if !connection.is_autocommit() && !self.session.is_joined() {
            // A write that writes nothing: SQLite then tells this table when the transaction ends, and only then another end of the log is taken. Where writing is
            // forbidden, each statement has an end of its own.
            let _ = connection.exec(&format!("DELETE FROM temp.{} WHERE 0", quoted(&self.name)));
        }
        let end = self.session.read_end();
        let known = self.state.lock().snapshot.clone();
        if let Some(known) = known.filter(|s| Some(s.to) == end && s.from == applied) {
            return Ok(known);
        }
        let take = || {
            let log = self.home.log();
            let unapplied = self.home.unapplied();
            unapplied
                .snapshot(log, &self.target.name, &self.key, applied, end)
                .map_err(|e| self.home.failed(e))
        };
        let mut fresh = take()?;
        if let Some(own) = self.session.last_in(&self.home)
            && end.is_none()
            && fresh.to < own
        {
            self.home.wait_visible(own)?;
            fresh = take()?;
        }
        let fresh = Arc::new(fresh);
        self.session.set_read_end(fresh.to);
        self.state.lock().snapshot = Some(fresh.clone());
        Ok(fresh)
    }

    fn hand_out(&self, key: Vec<Value>) -> i64 {
        let mut state = self.state.lock();
        state.keys.push(key);
        i64::try_from(state.keys.len()).unwrap_or(i64::MAX) - 1
    }

    /// A row id for a row that gets its own when it is applied: no other row read has it, and [`Reading::key_of`] knows it.
    fn hand_out_unnamed(&self) -> i64 {
        let mut state = self.state.lock();
        state.unnamed += 1;
        i64::MIN.saturating_add(state.unnamed - 1)
    }

    /// The key of a row that was read.
    ///
    /// # Errors
    /// When the row has no key by which the log could name it.
    pub(crate) fn key_of(&self, target: &Target, row_id: ValueRef<'_>) -> Result<Vec<Value>> {
        let id = row_id.as_i64().unwrap_or(-1);
        let state = self.state.lock();
        if target.key.as_ref().is_some_and(|k| k.is_row_id) {
            if id < i64::MIN.saturating_add(state.unnamed) {
                return Err(refused(format!(
                    "a row of {} that was inserted without {} has no id yet, so it cannot be changed before it is applied; densite_wait() waits for that",
                    target.name,
                    self.key.0.first().map_or("its key", String::as_str)
                )));
            }
            return Ok(vec![Value::Integer(id)]);
        }
        let key = usize::try_from(id)
            .ok()
            .and_then(|id| state.keys.get(id))
            .cloned();
        let key = key.ok_or_else(|| {
            refused(format!(
                "there is no row {id} that was read from {}",
                self.name
            ))
        })?;
        if key.contains(&Value::Null) {
            return Err(refused(format!(
                "a row of {} has NULL in its primary key, so the log cannot name it; change it in {} itself",
                target.name, target.name
            )));
        }
        Ok(key)
    }

    /// The transaction is over.
    pub(crate) fn end(&self) {
        let mut state = self.state.lock();
        state.keys = Vec::new();
        state.unnamed = 0;
        state.snapshot = None;
    }
}
