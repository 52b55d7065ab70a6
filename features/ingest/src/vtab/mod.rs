//! The virtual table `densite_ingest`: rows that are written to it go to the log.

mod arguments;
mod retry_create;
mod scan;
pub(crate) mod session;
mod update;

use crate::error::refused;
use crate::log::database_log::DatabaseLog;
use crate::log::ids::TableIds;
use crate::read::{name, transaction};
use crate::rows::json_row;
use crate::schema::affinity::{Cell, to_log};
use crate::schema::own_tables::refuse_foreign;
use crate::schema::policy::OnConflict;
use crate::schema::target::Target;
use crate::vtab::scan::{Cursor, Reading};
use crate::vtab::session::Session;
use crate::vtab::update::Updates;
pub(crate) use arguments::Arguments;
use densite_log::{Op, Table};
use densite_sqlite::{
    Change, Code, Conflict, Connection, Error, Existence, Origin, Plan, Result, Value, ValueRef,
    VirtualTable, quoted,
};
use retry_create::RetryCreate;
use std::sync::Arc;

/// What the `densite_ingest` tables of a connection share.
pub(crate) struct Tables {
    session: Arc<Session>,
    retry: RetryCreate,
}

impl Tables {
    /// Without tables yet, for the connection of this session.
    pub(crate) fn new(session: Arc<Session>) -> Tables {
        Tables {
            session,
            retry: RetryCreate::default(),
        }
    }
}

/// A `densite_ingest` table of a connection.
pub(crate) struct Ingest {
    session: Arc<Session>,
    database_log: Arc<DatabaseLog>,
    target: Arc<Target>,
    /// For each column of the log, its index among the declared columns.
    order: Vec<usize>,
    /// New rows, by conflict policy: that of the table, OR IGNORE, OR REPLACE.
    inserts: [Arc<Table>; 3],
    updates: Option<Arc<Table>>,
    deletes: Option<Arc<Table>>,
    /// The statements that update rows.
    statements: Updates,
    /// The name of the ingest table.
    visible: String,
    /// The ids of new rows, if they are given out at INSERT.
    ids: Option<Arc<TableIds>>,
    fail_when_full: bool,
    /// The connection cannot write to the database.
    reads_only: bool,
    reading: Arc<Reading>,
}

/// The table in the log for an operation.
fn log_table(
    database_log: &DatabaseLog,
    target: &Target,
    keys_only: bool,
    note: Vec<u8>,
) -> Result<Arc<Table>> {
    let keys = target.key.as_ref().map_or(0, |k| k.columns.len());
    let order = target.log_order();
    let some = if keys_only { keys } else { order.len() };
    let names = order
        .iter()
        .take(some)
        .filter_map(|c| target.columns.get(*c))
        .map(|c| c.name.clone());
    Table::new(target.name.clone(), names, keys, note).map_err(|e| database_log.failed(e))
}

fn declaration(target: &Target) -> String {
    let columns = target.declared_columns();
    match target.key.as_ref().is_some_and(|k| k.is_row_id) {
        true => format!("CREATE TABLE x({columns})"),
        false => {
            let name = name::column(target.columns.iter().map(|c| c.name.as_str()));
            format!(
                "CREATE TABLE x({columns}, {} BLOB HIDDEN PRIMARY KEY) WITHOUT ROWID",
                quoted(&name)
            )
        }
    }
}

/// Makes SQLite read the schema of main first. The schema then stays unchanged until the statement
/// that makes or opens this table ends.
///
/// If another connection had changed the schema, SQLite forgets everything that this one knew,
/// including the entry of the table that is being made. SQLite 3.40.1 continues to use that entry,
/// which is a crash unless this call fails. So it fails, and SQLite begins the statement again,
/// with the current schema.
fn read_schema(connection: &Connection) -> Result<()> {
    let mut statement = connection.prepare("SELECT 1 FROM main.sqlite_schema")?;
    statement.step()?;
    match statement.was_prepared_again() {
        true => Err(Error::new(
            Code::SCHEMA,
            "the schema was changed by another connection; try again",
        )),
        false => Ok(()),
    }
}

impl Ingest {
    /// The values of these columns as the log has them.
    fn cells<'a>(
        &self,
        connection: &Connection,
        order: &[usize],
        columns: &[ValueRef<'a>],
        insert: bool,
    ) -> Result<Vec<Cell<'a>>> {
        let cell = |place: &usize| {
            let value = columns.get(*place).copied().unwrap_or(ValueRef::Null);
            self.target.cell(connection, *place, value, insert)
        };
        order.iter().map(cell).collect()
    }

    fn push(&self, table: &Arc<Table>, op: Op, cells: &[Cell<'_>]) -> Result<()> {
        if !json_row::fits(cells.iter().map(Cell::as_ref)) {
            let table = &self.target.name;
            return Err(Error::new(
                Code::TOOBIG,
                format!(
                    "{table}: the row is too long for densite_rejects, where it would go if the table refused it (a blob counts twice); insert it into {table} itself"
                ),
            ));
        }
        let values: Vec<densite_log::Value<'_>> =
            cells.iter().map(|c| to_log(c.as_ref())).collect();
        self.session
            .push(&self.database_log, table, op, &values, self.fail_when_full)
    }

    fn insert(
        &self,
        connection: &Connection,
        columns: &[ValueRef<'_>],
        conflict: Conflict,
    ) -> Result<i64> {
        let mut cells = self.cells(connection, &self.order, columns, true)?;
        let mut is_later = false;
        if let (Some(ids), Some(key)) = (&self.ids, cells.first_mut()) {
            match key.as_ref().as_i64() {
                Some(id) => ids.given(id),
                None => match ids.next(connection)? {
                    Some(id) => *key = Cell::Other(Value::Integer(id)),
                    // A single statement, as INSERT … SELECT, cannot insert before it reads.
                    None if connection.is_autocommit() || self.session.needs_no_ids() => {
                        is_later = true;
                    }
                    None => return Err(ids.blocked()),
                },
            }
        }
        let [own, ignore, replace] = &self.inserts;
        let table = match conflict {
            Conflict::Ignore => ignore,
            Conflict::Replace => replace,
            _ => own,
        };
        self.push(table, Op::Insert, &cells)?;
        let is_row_id = self.target.key.as_ref().is_some_and(|k| k.is_row_id);
        let key = cells.first().and_then(|c| c.as_ref().as_i64());
        if is_later {
            // No id is better than that of another row.
            return Ok(0);
        }
        // SQLite stores the result as the last row id. If none is known, it must not change.
        let known = key.filter(|_| is_row_id);
        Ok(known.unwrap_or_else(|| connection.last_insert_rowid()))
    }

    fn needs_key(&self) -> densite_sqlite::Error {
        refused(format!(
            "table {} has no primary key, so the log cannot name the row to change",
            self.target.name
        ))
    }

    fn update(
        &self,
        connection: &Connection,
        (row_id, new_row_id): (ValueRef<'_>, ValueRef<'_>),
        columns: &[ValueRef<'_>],
        conflict: Conflict,
    ) -> Result<()> {
        let table = self.updates.as_ref().ok_or_else(|| self.needs_key())?;
        if matches!(conflict, Conflict::Ignore | Conflict::Replace) {
            return Err(refused(
                "an UPDATE through densite_ingest can have neither OR IGNORE nor OR REPLACE; what the table refuses goes to densite_rejects",
            ));
        }
        let old = self.reading.key_of(row_id)?;
        let statement = (self.statements).of(connection, &self.target, &self.visible);
        let (table, order) = match &statement {
            Some(update) => (&update.table, &*update.order),
            None => (table, self.order.as_slice()),
        };
        let cells = self.cells(connection, order, columns, false)?;
        let new = cells.iter().take(old.len()).map(|c| c.as_ref().to_owned());
        if new_row_id != row_id || !new.eq(old.iter().cloned()) {
            return Err(refused(format!(
                "an UPDATE through densite_ingest cannot change the primary key of {}; delete the row and insert another",
                self.target.name
            )));
        }
        self.push(table, Op::Update, &cells)
    }

    fn delete(&self, row_id: ValueRef<'_>) -> Result<()> {
        let table = self.deletes.as_ref().ok_or_else(|| self.needs_key())?;
        let key: Vec<Value> = self.reading.key_of(row_id)?;
        let cells: Vec<Cell<'_>> = key.into_iter().map(Cell::Other).collect();
        self.push(table, Op::Delete, &cells)
    }
}

impl VirtualTable for Ingest {
    type Shared = Tables;
    type Cursor = Cursor;
    const EXISTENCE: Existence = Existence::Created;
    const WRITABLE: bool = true;
    const DIRECT_ONLY: bool = true;

    fn connect(
        Tables { session, retry }: &Tables,
        connection: &Connection,
        origin: &Origin,
    ) -> Result<(Self, String)> {
        if !origin.schema.eq_ignore_ascii_case("temp") {
            return Err(refused(format!(
                "densite_ingest tables are temporary: CREATE VIRTUAL TABLE temp.{} USING densite_ingest(…)",
                origin.table
            )));
        }
        let arguments = Arguments::parse(&origin.arguments)?;
        retry.wait();
        read_schema(connection)?;
        let target = Target::read(connection, &arguments.table)?;
        let target =
            target.ok_or_else(|| refused(format!("there is no table {} in the main database; densite_ingest takes the name of one of its tables, without the schema", arguments.table)))?;
        refuse_foreign(&target.name)?;
        let has_key = target.key.is_some();
        // Later, a column can be gone. Its rows are then rejected, and the table can be dropped.
        if origin.is_new {
            arguments.check(connection, &target)?;
        }
        if arguments.shadow().is_some() {
            return Err(refused(
                "shadow belongs to densite_config('ingest', …); name the table itself, as in CREATE VIRTUAL TABLE temp.vote USING densite_ingest(vote)",
            ));
        }
        let database_log = DatabaseLog::open_or_create(connection, session.storage());
        let database_log = retry.end(connection, database_log)?;
        database_log.worker().applying(connection)?;
        if origin.is_new {
            transaction::make_table(connection)?;
        }
        let insert = |policy: &OnConflict| log_table(&database_log, &target, false, policy.note());
        let inserts = [
            insert(&arguments.on_conflict)?,
            insert(&OnConflict::Ignore)?,
            insert(&OnConflict::Replace)?,
        ];
        let keyed = |keys_only| match has_key {
            true => {
                log_table(&database_log, &target, keys_only, OnConflict::Abort.note()).map(Some)
            }
            false => Ok(None),
        };
        let (updates, deletes) = (keyed(false)?, keyed(true)?);
        let key = target.key.as_ref().filter(|key| key.is_automatic);
        let key = key.and_then(|key| target.columns.get(*key.columns.first()?));
        let ids = key.map(|column| database_log.ids().of(&target.name, &column.name));
        let declaration = declaration(&target);
        let order = target.log_order();
        let target = Arc::new(target);
        let reading = Arc::new(Reading::new(
            database_log.clone(),
            session.clone(),
            target.clone(),
            &origin.table,
        ));
        let table = Ingest {
            session: session.clone(),
            database_log,
            target,
            order,
            inserts,
            updates,
            deletes,
            statements: Updates::default(),
            visible: origin.table.clone(),
            ids,
            fail_when_full: arguments.fail_when_full,
            reads_only: connection.is_readonly(c"main") == Some(true),
            reading,
        };
        Ok((table, declaration))
    }

    fn best_index(&self, plan: &mut Plan<'_>) -> Result<bool> {
        self.reading.plan(plan);
        Ok(true)
    }

    fn open(&self) -> Result<Cursor> {
        Ok(Cursor::new(self.reading.clone()))
    }

    fn update(&self, connection: &Connection, change: &Change<'_>) -> Result<i64> {
        if self.reads_only {
            return Err(Error::new(
                Code::READONLY,
                format!(
                    "{}: the database is open for reading only, so nothing is written to its log",
                    self.database_log.open().file().path
                ),
            ));
        }
        self.reading.join(connection)?;
        match *change {
            Change::Insert {
                row_id,
                columns,
                conflict,
            } => {
                let named = columns.get(self.target.columns.len());
                if row_id != ValueRef::Null || named.is_some_and(|n| *n != ValueRef::Null) {
                    return Err(refused(
                        "a row of densite_ingest cannot be given a rowid or the hidden column; set the key's columns",
                    ));
                }
                self.insert(connection, columns, conflict)
            }
            Change::Update {
                row_id,
                new_row_id,
                columns,
                conflict,
            } => self
                .update(connection, (row_id, new_row_id), columns, conflict)
                .map(|()| 0),
            Change::Delete { row_id } => self.delete(row_id).map(|()| 0),
        }
    }

    fn destroy(&self) -> Result<()> {
        // SQLite does not report COMMIT and ROLLBACK to a dropped table. It also drops the text of
        // this error, and keeps only the code.
        match self.session.is_in_transaction() {
            false => Ok(()),
            true => Err(Error::new(
                Code::LOCKED,
                "a densite_ingest table cannot be dropped within a transaction that has written to one; end it first",
            )),
        }
    }

    fn begin(&self, connection: &Connection) -> Result<()> {
        self.reading.check_transaction(connection);
        let waits = !self.fail_when_full && !self.reads_only && !self.session.is_in_transaction();
        let had_room = waits && self.database_log.backpressure().to_begin(connection)?;
        self.session.begin(had_room);
        Ok(())
    }

    fn sync(&self, connection: &Connection) -> Result<()> {
        self.session.sync(connection)
    }

    fn commit(&self) {
        self.reading.end();
        self.session.commit();
    }

    fn rollback(&self) {
        self.reading.end();
        self.session.rollback();
    }

    fn savepoint(&self, n: i32) -> Result<()> {
        self.session.savepoint(n);
        Ok(())
    }

    fn release(&self, n: i32) -> Result<()> {
        self.session.release(n);
        Ok(())
    }

    fn rollback_to(&self, n: i32) -> Result<()> {
        self.session.rollback_to(n)
    }
}
