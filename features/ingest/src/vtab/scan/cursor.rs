//! A scan: merges base table and overlay by key.

use super::Reading;
use super::scan_plan::{APART, GUARD, ORDERED, POINT};
use crate::error::refused;
use crate::read::{Applied, Bounds, Item, Name, Overlay, Row, Run, name};
use crate::schema::affinity::Affinity;
use crate::schema::collation::Collation;
use crate::schema::key_code::Code;
use densite_log::Seq;
use densite_sqlite::{
    Arguments, Connection, OwnedStatement, Result, TableCursor, TxnState, Value, ValueRef,
};
use std::cmp::Ordering;
use std::collections::VecDeque;
use std::sync::Arc;

/// Where the current row is.
enum Now {
    End,
    /// In the base table, unchanged.
    Base,
    /// Only in the log, as a single complete insert. Its values are looked up when they are needed.
    Lone(Lone),
    Row(Vec<Value>),
    /// A row of the log without a key, and its number.
    Loose(Vec<Value>, Seq),
}

struct Lone {
    run: Arc<Run>,
    item: Item,
    /// Whatever the base table has for this key, these are the row's values. If false, only the
    /// row's existence and its key are known.
    is_whole: bool,
    /// The log's column for each column of the target.
    columns: Arc<[usize]>,
}

impl Lone {
    fn value(&self, column: usize) -> Option<ValueRef<'_>> {
        let row = self.run.row(self.item)?;
        Some(row.value(*self.columns.get(column)?))
    }
}

/// See the module.
pub(crate) struct Cursor {
    reading: Arc<Reading>,
    /// Holds the base table's snapshot while the cursor exists (rule L4).
    guard: Option<OwnedStatement>,
    applied: Applied,
    /// The plan's number and the statement.
    base: Option<(i32, OwnedStatement)>,
    /// The base statement is on a row.
    has_base: bool,
    /// The code of its key, once it is computed.
    base_code: Option<Code>,
    overlay: Overlay,
    /// Rows of the log without a key, which come before the others, and their numbers.
    loose: VecDeque<(Vec<Value>, Seq)>,
    /// The values that the first columns of the key are equal to.
    equal: Vec<Value>,
    now: Now,
    /// The current row's identity, once it is computed.
    name: Vec<u8>,
}

impl Cursor {
    pub(crate) fn new(reading: Arc<Reading>) -> Cursor {
        reading.session.cursor_opened();
        Cursor {
            reading,
            guard: None,
            applied: Applied::default(),
            base: None,
            has_base: false,
            base_code: None,
            overlay: Overlay::default(),
            loose: VecDeque::new(),
            equal: Vec::new(),
            now: Now::End,
            name: Vec::new(),
        }
    }

    fn pin(&mut self, connection: &Connection) -> Result<()> {
        if self.guard.is_some() {
            return Ok(());
        }
        let mut guard = self.reading.statement(connection, GUARD)?;
        guard.step()?;
        self.applied = Applied::of(&guard, 0).ok_or_else(unnamed)?;
        self.guard = Some(guard);
        Ok(())
    }

    fn clear(&mut self) {
        if let Some((number, statement)) = self.base.take() {
            self.reading.give_back(number, statement);
        }
        self.has_base = false;
        self.base_code = None;
        self.overlay = Overlay::default();
        self.loose.clear();
        self.equal.clear();
        self.now = Now::End;
    }

    fn begin(&mut self, connection: &Connection, number: i32, bounds: Bounds) -> Result<()> {
        let reading = self.reading.clone();
        let keys = reading.key.1.len();
        // One statement reads position and row, and holds the snapshot. It moves to the row when
        // the row is needed.
        let is_point = self.guard.is_none() && keys > 0 && bounds.equal.len() == keys;
        if is_point {
            let mut base = self.bound(connection, number | POINT, &bounds)?;
            base.step()?;
            let applied = Applied::of(&base, reading.target.columns.len());
            self.applied = applied.ok_or_else(unnamed)?;
            self.base = Some((number | POINT, base));
        } else {
            self.pin(connection)?;
        }
        let snapshot = reading.snapshot(connection, self.applied)?;
        let own = reading.own_runs()?;
        let runs = snapshot.runs.iter().chain(&own);
        self.overlay = Overlay::new(runs, snapshot.visibility, &bounds, &reading.key.1);
        self.equal = bounds.equal.clone();
        if is_point {
            if let Some(lone) = self.lone() {
                self.overlay = Overlay::default();
                self.now = Now::Lone(lone);
                return Ok(());
            }
            self.find_base()?;
        } else {
            // Merging needs the key's order.
            let ordered = if self.overlay.is_empty() { 0 } else { ORDERED };
            let apart = match connection.txn_state(Some(c"main")) {
                TxnState::Write => APART,
                _ => 0,
            };
            let number = number | ordered | apart;
            let mut base = self.bound(connection, number, &bounds)?;
            self.has_base = base.step()?;
            self.base = Some((number, base));
        }
        self.seek_next_row()
    }

    /// Searches for the base row with the whole key. The statement is on the base's position
    /// before.
    fn find_base(&mut self) -> Result<()> {
        let key = self.reading.target.key.as_ref();
        if let (Some((_, base)), Some(first)) =
            (&mut self.base, key.and_then(|k| k.columns.first()))
        {
            self.has_base = base.step()? && base.column(*first) != ValueRef::Null;
        }
        Ok(())
    }

    /// Combines a row of the log with the base row of its key, if there is one.
    fn complete(&mut self) -> Result<()> {
        self.find_base()?;
        let Now::Lone(lone) = &mut self.now else {
            return Ok(());
        };
        lone.is_whole = true;
        if !self.has_base {
            return Ok(());
        }
        let (run, item) = (lone.run.clone(), lone.item);
        let mut state = Some(self.base_row());
        if let Some(row) = run.row(item) {
            let mut folder = self.reading.folder.lock();
            let connection = self.base.as_ref().map(|(_, base)| base.connection());
            folder.apply(connection, &self.reading.target, &mut state, &row)?;
        }
        self.has_base = false;
        self.now = state.map_or(Now::End, Now::Row);
        Ok(())
    }

    /// The base statement of this number, bound to the bounds' values.
    fn bound(
        &self,
        connection: &Connection,
        number: i32,
        bounds: &Bounds,
    ) -> Result<OwnedStatement> {
        let mut base = self.reading.statement(connection, number)?;
        let ranges = [&bounds.lower, &bounds.upper].into_iter().flatten();
        let values = bounds.equal.iter().chain(ranges.map(|(v, _)| v));
        for (i, value) in values.enumerate() {
            base.bind(i + 1, value.as_ref())?;
        }
        Ok(base)
    }

    /// Moves to the next row, from where base and overlay are.
    fn seek_next_row(&mut self) -> Result<()> {
        if self.loose.is_empty() && self.overlay.is_empty() {
            self.now = if self.has_base { Now::Base } else { Now::End };
            return Ok(());
        }
        let reading = self.reading.clone();
        let key = &reading.key.1;
        loop {
            if let Some((row, seq)) = self.loose.pop_front() {
                self.now = Now::Loose(row, seq);
                return Ok(());
            }
            let side = self.side(&reading);
            if side == Ordering::Greater {
                // Without a key, rows of the log come last.
                self.now = if self.has_base { Now::Base } else { Now::End };
                return Ok(());
            }
            let (mut touched, is_loose) = (false, self.is_loose());
            if side == Ordering::Less
                && !is_loose
                && let Some(lone) = self.lone()
            {
                self.overlay.pass(key);
                self.now = Now::Lone(Lone {
                    is_whole: true,
                    ..lone
                });
                return Ok(());
            }
            let mut state = (side == Ordering::Equal).then(|| self.base_row());
            let (target, loose) = (&reading.target, &mut self.loose);
            let connection = self.base.as_ref().map(|(_, base)| base.connection());
            let (mut folder, mut folded) = (reading.folder.lock(), Ok(()));
            self.overlay.take(key, |row| {
                touched = true;
                let mut one = None;
                let state = if is_loose { &mut one } else { &mut state };
                if folded.is_ok() {
                    folded = folder.apply(connection, target, state, row);
                }
                loose.extend(one.map(|one| (one, row.seq())));
            });
            drop(folder);
            folded?;
            if side == Ordering::Equal {
                if !touched {
                    self.now = Now::Base;
                    return Ok(());
                }
                self.step_base()?;
            }
            if let Some(row) = state.filter(|_| touched && !is_loose) {
                self.now = Now::Row(row);
                return Ok(());
            }
        }
    }

    /// The only row of the overlay's next key, if it is an insert with all columns.
    fn lone(&self) -> Option<Lone> {
        let (run, item) = self.overlay.lone()?;
        let mut folder = self.reading.folder.lock();
        let (columns, is_whole) = folder.inserted(&self.reading.target, run.kind(item)?)?;
        Some(Lone {
            run: run.clone(),
            item,
            is_whole,
            columns,
        })
    }

    /// A column's index in the key, and whether equal numbers in it are identical. They are in
    /// columns that store integral reals as integers, except a real equal to the least integer.
    fn place_in_key(&self, column: usize) -> Option<(usize, bool)> {
        let target = &self.reading.target;
        let mut columns = target.key.as_ref()?.columns.iter();
        let affinity = target.columns.get(column)?.affinity;
        let is_integer = matches!(affinity, Affinity::Integer | Affinity::Numeric);
        Some((columns.position(|c| *c == column)?, is_integer))
    }

    /// A value of the key that is the searched value in every row that is found, so it needs no
    /// lookup.
    fn asked(&self, column: usize) -> Option<ValueRef<'_>> {
        let (place, is_integer) = self.place_in_key(column)?;
        let value = self.equal.get(place)?.as_ref();
        let is_same = match value {
            ValueRef::Integer(n) => is_integer && n != i64::MIN,
            ValueRef::Text(_) => self.reading.key.1.get(place) == Some(&Collation::Binary),
            _ => false,
        };
        is_same.then_some(value)
    }

    /// A value of the current row that is known from the search or from its code.
    fn known(&self, column: usize) -> Option<ValueRef<'_>> {
        match &self.now {
            Now::Base => self.asked(column),
            Now::Lone(lone) => self.asked(column).or_else(|| {
                let (place, is_integer) = self.place_in_key(column)?;
                let number = lone.item.code.integer(self.reading.key.1.len(), place);
                number.filter(|_| is_integer).map(ValueRef::Integer)
            }),
            Now::End | Now::Row(_) | Now::Loose(..) => None,
        }
    }

    fn value(&self, column: usize) -> ValueRef<'_> {
        match (&self.now, &self.base) {
            (Now::Base, Some((_, base))) => base.column(column),
            (Now::Lone(lone), _) => lone.value(column).unwrap_or(ValueRef::Null),
            (Now::Row(row) | Now::Loose(row, _), _) => {
                row.get(column).map_or(ValueRef::Null, Value::as_ref)
            }
            _ => ValueRef::Null,
        }
    }

    /// Whether the overlay's next row has no key, or one that contains NULL, which conflicts with
    /// nothing.
    fn is_loose(&self) -> bool {
        let columns = self.reading.key.1.len();
        let is_null = |row: Row<'_>| (0..columns).any(|c| row.value(c) == ValueRef::Null);
        match self.overlay.code() {
            Some(code) if columns > 0 => {
                code.may_have_null(columns)
                    && self.overlay.peek().is_some_and(|(_, row)| is_null(row))
            }
            _ => columns == 0,
        }
    }

    /// Compares the overlay's next key with the base row.
    fn side(&mut self, reading: &Reading) -> Ordering {
        if self.overlay.is_empty() {
            return Ordering::Greater;
        }
        if !self.has_base {
            return Ordering::Less;
        }
        let (Some(key), Some((_, base))) = (reading.target.key.as_ref(), &self.base) else {
            return Ordering::Greater;
        };
        let is_loose = self.is_loose();
        let column = |i: usize| {
            let column = key.columns.get(i);
            column.map_or(ValueRef::Null, |c| {
                self.asked(*c).unwrap_or_else(|| base.column(*c))
            })
        };
        let code = self.base_code;
        let code = code.unwrap_or_else(|| Code::of(&key.collations, column));
        let side = self.overlay.compare(&key.collations, column, code);
        self.base_code = Some(code);
        match side {
            // NULL does not conflict with NULL.
            Ordering::Equal if is_loose => Ordering::Less,
            side => side,
        }
    }

    /// The identity of the current row.
    fn present_name(&mut self) -> Result<Name> {
        if let Now::Loose(_, seq) = &self.now {
            return Ok(Name::Log(*seq));
        }
        let reading = self.reading.clone();
        let key = reading.target.key.as_ref();
        let columns = key.map(|k| k.columns.as_slice()).unwrap_or_default();
        let values = columns.iter().map(|c| Ok(self.column(*c)?.to_owned()));
        let values = values.collect::<Result<Vec<Value>>>()?;
        if !values.is_empty() && !values.contains(&Value::Null) {
            return Ok(Name::Key(values));
        }
        let place = reading.target.columns.len();
        let id = match &self.base {
            Some((_, base)) if reading.target.row_id.is_some() => base.column(place).as_i64(),
            _ => None,
        };
        id.map(Name::Base).ok_or_else(|| no_name(&reading))
    }

    fn base_row(&self) -> Vec<Value> {
        let columns = 0..self.reading.target.columns.len();
        let value = |i| {
            self.base
                .as_ref()
                .map_or(Value::Null, |(_, b)| b.column(i).to_owned())
        };
        columns.map(value).collect()
    }

    fn step_base(&mut self) -> Result<()> {
        if let Some((number, base)) = &mut self.base {
            self.has_base = *number & POINT == 0 && base.step()?;
            self.base_code = None;
        }
        Ok(())
    }
}

fn unnamed() -> densite_sqlite::Error {
    refused("the database no longer names a log")
}

fn no_name(reading: &Reading) -> densite_sqlite::Error {
    refused(format!(
        "rows of {} without a primary key cannot be told apart: its columns hide its row id; rename one of rowid, _rowid_ and oid",
        reading.target.name
    ))
}

impl TableCursor for Cursor {
    fn filter(
        &mut self,
        connection: &Connection,
        number: i32,
        _: &str,
        arguments: Arguments<'_>,
    ) -> Result<()> {
        if self.base.is_some() {
            // The next scan of this cursor uses the snapshot of the previous one.
            self.pin(connection)?;
        }
        self.clear();
        let found = match number & !ORDERED {
            0 => Some((number, Bounds::default())),
            _ => arguments.with(|values| self.reading.bounds(number, values)),
        };
        match found {
            Some((number, bounds)) => self.begin(connection, number, bounds),
            None => Ok(()),
        }
    }

    fn next(&mut self) -> Result<()> {
        if matches!(self.now, Now::Base) {
            self.step_base()?;
        }
        self.seek_next_row()
    }

    fn is_at_end(&self) -> bool {
        matches!(self.now, Now::End)
    }

    fn column(&mut self, column: usize) -> Result<ValueRef<'_>> {
        if column == self.reading.target.columns.len() {
            let name = self.present_name()?;
            name.write(&mut self.name);
            return Ok(ValueRef::Blob(&self.name));
        }
        if matches!(&self.now, Now::Lone(lone) if !lone.is_whole) && self.known(column).is_none() {
            self.complete()?;
        }
        let known = self.known(column);
        Ok(known.unwrap_or_else(|| self.value(column)))
    }

    /// Called only if the key is the row id.
    fn row_id(&mut self) -> Result<i64> {
        match (self.present_name()?, &self.reading) {
            (Name::Key(key), reading) => match key.as_slice() {
                [Value::Integer(id)] => reading.told_apart(*id),
                _ => Err(no_name(reading)),
            },
            (Name::Log(seq), _) => Ok(name::row_id(seq)),
            (Name::Base(_), reading) => Err(no_name(reading)),
        }
    }
}

impl Drop for Cursor {
    fn drop(&mut self) {
        self.clear();
        if let Some(guard) = self.guard.take() {
            self.reading.give_back(GUARD, guard);
        }
        self.reading.session.cursor_closed();
    }
}
