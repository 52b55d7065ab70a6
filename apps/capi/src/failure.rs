//! The result of a function: a code, and a message that is kept for the thread.

use densite_bulk as bulk;
use densite_tools::ErrorClass;
use serde_json::json;
use std::cell::RefCell;
use std::ffi::{CString, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

pub(crate) type Result<T> = std::result::Result<T, Failure>;

/// A failure. The function returns its `code`.
#[derive(Debug, Clone)]
pub(crate) struct Failure {
    code: u8,
    kind: &'static str,
    /// SQLite's code if there is one, otherwise 0.
    sqlite_code: i32,
    message: String,
    details: serde_json::Value,
}

/// The codes of include/densite.h.
const ERROR: u8 = 1;
const MISUSE: u8 = 2;
const LOCKED: u8 = 3;
const NO_SPACE: u8 = 4;
const DAMAGED: u8 = 5;
const INTERRUPTED: u8 = 6;

impl Failure {
    /// A call that the contract does not allow.
    pub(crate) fn misuse(message: impl Into<String>) -> Failure {
        Failure {
            code: MISUSE,
            kind: "misuse",
            sqlite_code: densite_sqlite::Code::MISUSE.0,
            message: message.into(),
            details: json!({}),
        }
    }

    /// As JSON.
    pub(crate) fn json(&self) -> String {
        let error = densite_tools::json::error(self.kind, &self.message, self.details.clone());
        json!({ "error": error }).to_string()
    }
}

impl From<densite_tools::Error> for Failure {
    fn from(e: densite_tools::Error) -> Failure {
        let sqlite_code = match &e {
            densite_tools::Error::Sqlite { code, .. } => *code,
            _ => 0,
        };
        Failure {
            code: of_class(e.class()),
            kind: e.kind(),
            sqlite_code,
            message: e.to_string(),
            details: densite_tools::json::details(&e),
        }
    }
}

impl From<bulk::Error> for Failure {
    fn from(e: bulk::Error) -> Failure {
        let (code, kind, sqlite_code) = match &e {
            bulk::Error::Value { .. } => (ERROR, "value", densite_sqlite::Code::MISMATCH.0),
            bulk::Error::Type(_) => (ERROR, "type", densite_sqlite::Code::MISMATCH.0),
            bulk::Error::Misuse(_) => (MISUSE, "misuse", densite_sqlite::Code::MISUSE.0),
            bulk::Error::Busy(_) => (LOCKED, "busy", densite_sqlite::Code::BUSY.0),
            bulk::Error::Source(_) => (ERROR, "source", densite_sqlite::Code::ERROR.0),
            bulk::Error::Sqlite(e) => (of_sqlite(e), "sqlite", e.code.0),
        };
        Failure {
            code,
            kind,
            sqlite_code,
            message: e.to_string(),
            details: json!({}),
        }
    }
}

fn of_class(class: ErrorClass) -> u8 {
    match class {
        ErrorClass::Locked => LOCKED,
        ErrorClass::NoSpace => NO_SPACE,
        ErrorClass::Damaged => DAMAGED,
        ErrorClass::Interrupted => INTERRUPTED,
        _ => ERROR,
    }
}

/// The code for a SQLite error.
fn of_sqlite(e: &densite_sqlite::Error) -> u8 {
    use densite_sqlite::Code;
    match e.code.primary() {
        Code::BUSY | Code::LOCKED => LOCKED,
        Code::FULL => NO_SPACE,
        Code::CORRUPT | Code::NOTADB => DAMAGED,
        Code::INTERRUPT => INTERRUPTED,
        _ => ERROR,
    }
}

struct Last {
    kind: CString,
    sqlite_code: i32,
    message: CString,
}

thread_local! {
    static LAST: RefCell<Option<Last>> = const { RefCell::new(None) };
}

/// Runs a function's body. A failure becomes the thread's newest one, and its code is returned.
pub(crate) fn answer(body: impl FnOnce() -> Result<()>) -> c_int {
    value_or(|_| (), body).err().unwrap_or(0)
}

/// The same for a function that returns a number: -1 for a failure.
pub(crate) fn number(body: impl FnOnce() -> Result<i64>) -> i64 {
    value_or(|_| (), body).unwrap_or(-1)
}

/// Runs a body. Calls `told` with its failure before the code is returned.
pub(crate) fn value_or<T>(
    told: impl FnOnce(&Failure),
    body: impl FnOnce() -> Result<T>,
) -> std::result::Result<T, c_int> {
    // After a panic, the state of the body is not read.
    let done = catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|payload| {
        // Dropping a payload can run code that panics, so it is leaked.
        std::mem::forget(payload);
        Err(Failure {
            code: ERROR,
            kind: "internal",
            sqlite_code: densite_sqlite::Code::INTERNAL.0,
            message: densite_sqlite::INTERNAL_ERROR.to_owned(),
            details: json!({}),
        })
    });
    done.map_err(|failure| {
        told(&failure);
        remember(&failure);
        c_int::from(failure.code)
    })
}

fn remember(failure: &Failure) {
    let text = |text: &str| CString::new(text.replace('\0', "\u{fffd}")).unwrap_or_default();
    let last = Last {
        kind: text(failure.kind),
        sqlite_code: failure.sqlite_code,
        message: text(&failure.message),
    };
    // A thread that is ending cannot keep it.
    let _ = LAST.try_with(|cell| *cell.borrow_mut() = Some(last));
}

/// Reads the thread's newest failure; `otherwise` if there is none.
fn last<T>(otherwise: T, ask: impl FnOnce(&Last) -> T) -> T {
    LAST.try_with(|cell| cell.borrow().as_ref().map(ask))
        .ok()
        .flatten()
        .unwrap_or(otherwise)
}

/// `densite_errmsg`: the message of this thread's newest failure, valid until its next one.
#[unsafe(no_mangle)]
pub extern "C" fn densite_errmsg() -> *const c_char {
    last(c"no error".as_ptr(), |last| last.message.as_ptr())
}

/// `densite_errkind`: the name of that failure's kind.
#[unsafe(no_mangle)]
pub extern "C" fn densite_errkind() -> *const c_char {
    last(c"none".as_ptr(), |last| last.kind.as_ptr())
}

/// `densite_sqlite_errcode`: SQLite's code for that failure; 0 if there is none.
#[unsafe(no_mangle)]
pub extern "C" fn densite_sqlite_errcode() -> c_int {
    last(0, |last| last.sqlite_code)
}
