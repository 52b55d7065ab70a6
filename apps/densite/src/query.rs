//! Bulk query: the rows of a statement as batches of columns.

use crate::keys::Keyed;
use crate::set::Registered;
use crate::{Columns, Error, RecordBatch, Result};
use densite_bulk::{ONE_THREAD, Query, queries};
use rusqlite::{Connection, Params};
use std::marker::PhantomData;

/// Runs a statement that only reads. Returns its rows as batches of columns, each column with
/// values of one type.
///
/// A batch has up to 65,536 rows. A column's type depends on the rows of the first batch:
///
/// | these rows have | the column has |
/// |---|---|
/// | integers and floating point | floating point, if that is exact for every integer |
/// | numbers and text | text: SQLite's text of the numbers |
/// | text and blobs | blobs: the bytes of the text |
/// | numbers and blobs | an error |
/// | only NULLs | the declared type |
///
/// A later value that does not fit is an [`Error::Value`]. A `CAST` in the statement fixes the
/// type.
///
/// ```
/// use densite::Values;
/// # let dir = tempfile::tempdir()?;
/// # let con = densite::open(dir.path().join("app.db"))?;
/// con.execute_batch(
///     "CREATE TABLE vote(user INTEGER, score REAL);
///      INSERT INTO vote VALUES (1, 0.5), (2, NULL)",
/// )?;
/// let mut total = 0.0;
/// for batch in densite::query(&con, "SELECT user, score FROM vote WHERE user >= ?1", [1])? {
///     let batch = batch?;
///     let [user, score] = batch.columns() else { panic!("two columns") };
///     assert_eq!(user.integers(), Some(&[1, 2][..]));
///     if let Values::Reals(scores) = score.values() {
///         total += scores.iter().sum::<f64>();
///     }
///     assert!(score.is_null(1));
/// }
/// assert_eq!(total, 0.5);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// The result holds a read transaction until it ends or is dropped.
///
/// # Errors
/// [`Error::Sqlite`] if the statement does not compile or changes the database, or if there is more
/// than one statement.
pub fn query<'c>(con: &'c Connection, sql: &str, params: impl Params) -> Result<QueryResult<'c>> {
    QueryOptions::new().query(con, sql, params)
}

/// How to query: with a table of keys.
///
/// Many values to look up are keys. They are the rows of the table `keys` in the statement. They
/// are sorted by their columns in order, so that a lookup reads an index from one end to the other.
/// Give the columns of the index in its order.
///
/// SQLite usually reads the keys first, and then the rows of the result come in the order of the
/// keys. It can also read the other table first, for example because of a condition on that table.
/// `keys k CROSS JOIN t ON ...` always reads the keys first. `ORDER BY` sorts the rows of every plan.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let con = densite::open(dir.path().join("app.db"))?;
/// con.execute_batch(
///     "CREATE TABLE result(a INTEGER, b INTEGER, val REAL, PRIMARY KEY (a, b)) WITHOUT ROWID;
///      INSERT INTO result VALUES (1, 1, 0.5), (1, 2, 1.5), (2, 1, 2.5)",
/// )?;
/// let keys = densite::Columns::new()
///     .integers("a", vec![2, 1, 9])
///     .integers("b", vec![1, 2, 9]);
/// let sql = "SELECT k.a, k.b, r.val FROM keys k JOIN result r USING (a, b)";
/// for batch in densite::QueryOptions::new().keys(keys).query(&con, sql, [])? {
///     let batch = batch?;
///     assert_eq!(batch.columns()[0].integers(), Some(&[1, 2][..]));
///     assert_eq!(batch.columns()[2].reals(), Some(&[1.5, 2.5][..]));
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Keys compare like the columns of `CREATE TABLE keys(a, b)`, which have no type: they take the
/// affinity of the column that they are compared with. In `keys k JOIN t USING (a)`, they do not
/// take the collation of `t.a`; `ON t.a = k.a` uses it. A key that is given twice is two rows. A
/// NULL equals nothing, as always in SQL.
#[derive(Debug, Clone, Default)]
#[must_use = "options do nothing until `query` is called"]
pub struct QueryOptions {
    keys: Option<Columns>,
}

impl QueryOptions {
    /// The defaults: no keys.
    pub fn new() -> QueryOptions {
        QueryOptions::default()
    }

    /// The rows of the table `keys` in the statement.
    pub fn keys(mut self, keys: Columns) -> QueryOptions {
        self.keys = Some(keys);
        self
    }

    /// As [`query`](fn@query), with these options.
    ///
    /// # Errors
    /// The same; [`Error::Columns`] if the keys have no columns, a column twice, or columns that do
    /// not match each other.
    pub fn query<'c>(
        self,
        con: &'c Connection,
        sql: &str,
        params: impl Params,
    ) -> Result<QueryResult<'c>> {
        let Some(keys) = self.keys else {
            return result(con, &call(con, sql)?, params, None);
        };
        let keyed = Keyed::new(sql, keys)?;
        let call = call(con, keyed.sql());
        let call = call.map_err(|error| Error::of_function(keyed.explain(error, sql)))?;
        result(con, &call, params, Some(keyed.into_keys()))
    }
}

fn result<'c>(
    con: &'c Connection,
    call: &Call,
    params: impl Params,
    keys: Option<Registered>,
) -> Result<QueryResult<'c>> {
    let place = Place(queries::reserve());
    let call = call.for_place(place.0);
    con.query_row(&call, params, |_| Ok(()))
        .map_err(Error::of_function)?;
    let query = queries::take(place.0)?;
    Ok(QueryResult {
        names: query.names().to_vec(),
        query,
        _keys: keys,
        _connection: PhantomData,
    })
}

/// The rows of a statement: an iterator over its batches. See [`query`](fn@query).
pub struct QueryResult<'c> {
    query: Query,
    /// The statement reads them until it is dropped, so they come after it.
    _keys: Option<Registered>,
    names: Vec<String>,
    // The statement belongs to the connection. It ends before the connection does, and is read on
    // the thread that has the connection.
    _connection: PhantomData<&'c Connection>,
}

impl QueryResult<'_> {
    /// The names of the columns.
    pub fn names(&self) -> &[String] {
        &self.names
    }
}

impl Iterator for QueryResult<'_> {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Result<RecordBatch>> {
        match self.query.next_batch() {
            Ok(Some(batch)) => Some(RecordBatch::new(&self.names, batch)),
            Ok(None) => None,
            Err(error) => Some(Err(error.into())),
        }
    }
}

impl std::fmt::Debug for QueryResult<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("QueryResult")
            .field("names", &self.names)
            .finish_non_exhaustive()
    }
}

/// A handle for the prepared statement, released after the statement was taken or failed to
/// compile.
struct Place(i64);

impl Drop for Place {
    fn drop(&mut self) {
        let _ = queries::release(self.0);
    }
}

/// The call that prepares a statement.
struct Call {
    sql: String,
    parameters: String,
}

impl Call {
    fn for_place(&self, place: i64) -> String {
        format!(
            "SELECT densite_query({place}, {}, {ONE_THREAD}{})",
            self.sql, self.parameters
        )
    }
}

/// A call with the statement's own parameters, with the same numbers and names. So everything that
/// can be bound to the statement can be bound to the call.
fn call(con: &Connection, sql: &str) -> rusqlite::Result<Call> {
    // Here SQLite reports what does not compile, and where.
    let statement = con.prepare(sql)?;
    let mut parameters = String::new();
    for i in 1..=statement.parameter_count() {
        parameters.push_str(", ");
        match statement.parameter_name(i) {
            Some(name) => parameters.push_str(name),
            None => parameters.push_str(&format!("?{i}")),
        }
    }
    Ok(Call {
        sql: format!("'{}'", sql.replace('\'', "''")),
        parameters,
    })
}
