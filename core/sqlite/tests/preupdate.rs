//! Observers of changed rows.

use crate::common::api;
use densite_sqlite::{
    Connection, Observation, Observer, PreupdateFaults, RowChange, ffi, preupdate_faults,
};
use std::sync::Arc;

struct Panics;

impl Observer for Panics {
    fn changes(&self, _: &RowChange<'_>) {
        panic!("a fault of the observer");
    }
}

/// The panic does not cross into SQLite, and the change that the observer lacks is not forgotten.
#[test]
fn an_observer_that_panics_has_missed_a_change() {
    let flags = ffi::OPEN_READWRITE | ffi::OPEN_CREATE;
    let connection = Connection::open(api(), ":memory:", flags, None).expect("opens");
    connection.exec("CREATE TABLE t(a)").expect("a table");
    let observation = Observation::begin(&connection, Arc::new(Panics), true).expect("a hook");
    observation.check(&connection).expect("nothing has changed");
    connection
        .exec("INSERT INTO t VALUES (1)")
        .expect("inserts");
    let error = observation.check(&connection).expect_err("it panicked");
    assert_eq!(error.message, densite_sqlite::INTERNAL_ERROR);
    drop(observation);
    let observation = Observation::begin(&connection, Arc::new(Panics), true).expect("a hook");
    observation.check(&connection).expect("a new observer");
}

/// `python/tests/test_changes.py` tests libraries with faults.
#[test]
fn the_newest_library_has_no_faults() {
    let faults = preupdate_faults(api()).expect("a database in memory");
    assert_eq!(faults, PreupdateFaults::default());
}
