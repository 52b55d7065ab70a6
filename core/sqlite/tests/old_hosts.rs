//! An unsuitable host gets an error with the reason; no missing function is called.

use crate::common;

use densite_sqlite::routines::{Routines, entries};
use densite_sqlite::{Api, Code, OLDEST_VERSION};
use std::ffi::{c_int, c_void};

/// A copy of the linked library's table as words, to be changed by tests.
fn table() -> Vec<usize> {
    let real = common::api().as_ptr().cast::<usize>();
    // SAFETY: the linked library's table has all these entries.
    (0..entries().len())
        .map(|i| unsafe { *real.add(i) })
        .collect()
}

fn refusal(table: &[usize]) -> String {
    // SAFETY: called entries are correct or absent.
    let error = unsafe { Api::from_raw(table.as_ptr().cast::<c_void>()) }.expect_err("refused");
    assert_eq!(error.code, Code::ERROR);
    error.message
}

unsafe extern "C" fn just_too_old() -> c_int {
    OLDEST_VERSION - 1
}

#[test]
fn an_older_library_is_refused_by_version() {
    let mut words = table();
    words[std::mem::offset_of!(Routines, libversion_number) / size_of::<usize>()] =
        just_too_old as *const () as usize;
    // An old table is shorter: no entry after its end may be read.
    let end = std::mem::offset_of!(Routines, mprintf) / size_of::<usize>();
    let message = refusal(&words[..=end]);
    assert!(
        message.contains("3.37.2") && message.contains("3.37.1"),
        "{message}"
    );
}

#[test]
fn a_library_that_omits_a_function_is_refused_by_name() {
    let mut words = table();
    words[std::mem::offset_of!(Routines, vfs_find) / size_of::<usize>()] = 0;
    assert!(refusal(&words).contains("sqlite3_vfs_find"));
}

#[test]
fn a_library_without_extensions_has_no_table() {
    // SAFETY: null is allowed.
    let error = unsafe { Api::from_raw(std::ptr::null()) }.expect_err("refused");
    assert!(error.message.contains("extensions"));
}

#[test]
fn an_old_library_still_gets_the_message() {
    // SAFETY: the linked library's table.
    unsafe {
        let text = densite_sqlite::string_of_any_version(table().as_ptr().cast(), "100% %s %n");
        let copy = std::ffi::CStr::from_ptr(text)
            .to_string_lossy()
            .into_owned();
        common::api().free(text.cast());
        assert_eq!(copy, "100% %s %n", "the text is not used as a format");
    }
}

unsafe extern "C" fn just_new_enough() -> c_int {
    OLDEST_VERSION
}

/// The linked library, presented as the oldest version: its table ends after the described entries.
#[test]
fn schemas_of_an_old_library_are_listed_by_a_statement() {
    let mut words = table();
    words[std::mem::offset_of!(Routines, libversion_number) / size_of::<usize>()] =
        just_new_enough as *const () as usize;
    let words: &'static [usize] = words.leak();
    // SAFETY: the entries of the linked library.
    let old = unsafe { Api::from_raw(words.as_ptr().cast()) }.expect("new enough");
    for api in [common::api(), old] {
        let con = rusqlite::Connection::open_in_memory().expect("opens");
        // SAFETY: an open connection of the linked library.
        let lent = unsafe { densite_sqlite::Connection::borrow(api, con.handle().cast()) };
        let lent = lent.expect("a connection");
        let written = |sql: &str| {
            con.execute_batch(sql).expect("runs");
            lent.written_schema().expect("asks")
        };
        let all = "CREATE TABLE a(x); ATTACH ':memory:' AS \"a side\"; CREATE TABLE \"a side\".b(x); CREATE TEMP TABLE c(x)";
        assert_eq!(written(all), None);
        assert_eq!(written("BEGIN; INSERT INTO c VALUES (1)"), None);
        let aside = written("INSERT INTO \"a side\".b VALUES (1)");
        assert_eq!(aside.as_deref(), Some("a side"));
        let main = written("INSERT INTO a VALUES (1)");
        assert_eq!(main.as_deref(), Some("main"));
        assert_eq!(written("COMMIT"), None);
    }
}
