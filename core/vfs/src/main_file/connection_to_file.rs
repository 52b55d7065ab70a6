//! Finds the open file of a connection, by a file control of our own.
//!
//! The argument holds the address of a static of this build. Another build of Densite in the same
//! process has another address and refuses the call. So it never accesses memory whose layout it
//! does not know.

use super::MainFile;
use crate::codes::code_of;
use crate::contents::State;
use crate::followed::Followed;
use densite_sqlite::{Code, Connection, Error, Result, ffi};
use densite_store::{CommitId, Handle};
use std::ffi::{CStr, c_void};

/// The operation: "DSNT".
pub(super) const OPCODE: i32 = 0x4453_4e54;

static THIS_BUILD: u8 = 0;

/// The argument of [`OPCODE`].
#[repr(C)]
pub(super) struct Query<'a> {
    build: *const u8,
    call: &'a mut dyn FnMut(&mut MainFile),
}

impl Query<'_> {
    /// Calls the query's function with `file`.
    ///
    /// # Safety
    /// `arg` is null or begins with an address. If that is this build's, `arg` is a `Query`.
    pub(super) unsafe fn answer(file: &mut MainFile, arg: *mut c_void) -> Code {
        // SAFETY: the caller guarantees it.
        unsafe {
            if arg.is_null() || *arg.cast::<*const u8>() != &raw const THIS_BUILD {
                return Code::NOTFOUND;
            }
            ((*arg.cast::<Query<'_>>()).call)(file);
        }
        Code::OK
    }
}

/// Runs `body` on the file of a schema; `None` if that is not a file of this VFS.
fn with_file<T>(
    connection: &Connection,
    schema: &CStr,
    body: impl FnOnce(&mut MainFile) -> T,
) -> Result<Option<T>> {
    let mut body = Some(body);
    let mut answer = None;
    let mut call = |file: &mut MainFile| {
        if let Some(body) = body.take() {
            answer = Some(body(file));
        }
    };
    let mut query = Query {
        build: &raw const THIS_BUILD,
        call: &mut call,
    };
    // SAFETY: our own operation with its argument. A VFS that does not know the operation does not
    // read the argument, and another build of ours reads only the address.
    let rc =
        unsafe { connection.file_control(Some(schema), OPCODE, (&raw mut query).cast::<c_void>()) };
    match rc {
        Code::OK => Ok(answer),
        Code::NOTFOUND => Ok(None),
        // There is no such schema, or it is "temp", which has no file before its first use.
        Code::ERROR if schema.to_bytes().eq_ignore_ascii_case(b"temp") => Ok(None),
        Code::ERROR => {
            let schema = schema.to_string_lossy();
            Err(Error::new(
                Code::ERROR,
                format!("there is no database {schema:?} here"),
            ))
        }
        code => Err(code.into()),
    }
}

/// Runs `body` on the store of a schema of a connection ("main", or the name given to ATTACH),
/// under at least a SHARED lock. `None` if the schema is not stored by Densite: plain, empty, in
/// memory, or open through another VFS.
///
/// `body` must not use the connection: its file is busy with this call.
///
/// # Errors
/// If there is no such schema, the database is locked, or the file cannot be read as a store. The
/// result of `body` is returned unchanged.
pub fn with_handle<T>(
    connection: &Connection,
    schema: &CStr,
    body: impl FnOnce(&mut Handle) -> T,
) -> Result<Option<T>> {
    let answer = with_file(connection, schema, |file| {
        let lock = file.role.level() == ffi::LOCK_NONE && !file.settings.unlocked;
        if lock {
            file.take_lock(ffi::LOCK_SHARED).map_err(Error::from)?;
        }
        file.judge_if_pending();
        let answer = match file.contents.store_mut() {
            Some(stored) => Ok(Some(body(stored.handle()))),
            None => unusable(file.contents.state()),
        };
        if lock {
            // Only this call took the lock. If it cannot be released, the next lock call reports
            // that.
            let _ = file.give_lock(ffi::LOCK_NONE);
        }
        answer
    })?;
    answer.unwrap_or(Ok(None))
}

/// The answer for a file that is not a Densite file: `None`, or the reason.
fn unusable<T>(state: &State) -> Result<Option<T>> {
    match state {
        State::Store(_) | State::Plain | State::Undecided => Ok(None),
        State::Broken(error) => Err(Error::new(code_of(error), error.to_string())),
        State::Refused(message) => Err(Error::new(Code::CANTOPEN, message.clone())),
    }
}

/// The newest commit when the connection's last checkpoint of its main database ended, if it was
/// not taken yet.
///
/// # Errors
/// SQLite's.
pub(crate) fn take_checkpoint_end(connection: &Connection) -> Result<Option<CommitId>> {
    let end = with_file(connection, c"main", |file| file.checkpoint.take_end())?;
    Ok(end.flatten())
}

/// What reading a schema's remote file has cost, by name; empty for other files.
///
/// # Errors
/// If there is no such schema.
pub(crate) fn remote_figures(
    connection: &Connection,
    schema: &CStr,
) -> Result<Vec<(&'static str, u64)>> {
    let figures = with_file(connection, schema, |file| {
        file.file
            .as_remote()
            .map(crate::remote::RemoteFile::figures)
    })?;
    Ok(figures.flatten().unwrap_or_default())
}

/// What a connection reads whose main database is a replica; `None` for another one. Sends nothing.
///
/// # Errors
/// SQLite's.
pub fn followed(connection: &Connection) -> Result<Option<Followed>> {
    let found = with_file(connection, c"main", |file| {
        let remote = file.file.as_remote();
        remote.and_then(crate::remote::RemoteFile::followed)
    })?;
    Ok(found.flatten())
}

/// Why the connection's main database cannot be used, if that is known at opening and will not
/// change.
pub(crate) fn refusal(connection: &Connection) -> Option<String> {
    with_file(connection, c"main", |file| file.refusal())
        .ok()
        .flatten()
        .flatten()
}
