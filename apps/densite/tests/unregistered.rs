//! A connection that was opened before registration. It is a test program of its own, because
//! registration applies to a whole process.

use densite::rusqlite::Connection;
use densite::{Columns, Error};

#[test]
fn a_connection_opened_before_registration_gets_an_error() {
    let con = Connection::open_in_memory().expect("opens");
    con.execute_batch("CREATE TABLE t(a)").expect("a table");
    let refused = |error: Error| assert!(matches!(error, Error::NotRegistered), "{error:?}");
    let columns = || Columns::new().integers("a", [1]);
    refused(densite::insert(&con, "t", columns()).expect_err("no function"));
    refused(densite::query(&con, "SELECT 1", []).expect_err("no function"));
    let keyed = densite::QueryOptions::new().keys(columns());
    let keyed = keyed.query(&con, "SELECT a FROM keys", []);
    refused(keyed.expect_err("no function"));
    refused(densite::ingest(&con, "t").expect_err("no function"));
    refused(densite::subscribe(&con, "x", densite::Start::Now).expect_err("no function"));
    densite::register().expect("registers");
    refused(densite::insert(&con, "t", columns()).expect_err("no function"));
    let con = Connection::open_in_memory().expect("opens");
    con.execute_batch("CREATE TABLE t(a)").expect("a table");
    assert_eq!(densite::insert(&con, "t", columns()).expect("inserts"), 1);
}
