//! Error messages for users: SQLite shows only its own fixed text for a code that a VFS returns.

use densite_sqlite::{Api, Code};
use std::cell::RefCell;

thread_local! {
    static LAST: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Writes a message to SQLite's error log and keeps it for [`take_last_error`].
pub(crate) fn report(api: Api, code: Code, message: &str) {
    api.log(code, &format!("densite: {message}"));
    // A thread that is ending cannot keep it.
    let _ = LAST.try_with(|last| *last.borrow_mut() = Some(message.to_string()));
}

/// Takes the newest message of this thread. It is one sentence that says what went wrong in the
/// VFS; SQLite's own message is only a few words.
pub fn take_last_error() -> Option<String> {
    LAST.try_with(|last| last.borrow_mut().take())
        .ok()
        .flatten()
}
