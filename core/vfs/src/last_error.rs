//! Error messages for users: SQLite shows only its own fixed text for a code that a VFS returns.

use densite_sqlite::{Api, Code, HostVfs};
use densite_store::Damage;
use std::cell::RefCell;

struct Said {
    message: String,
    /// What is damaged, if the message is about damage.
    damage: Option<String>,
}

thread_local! {
    static LAST: RefCell<Option<Said>> = const { RefCell::new(None) };
}

/// Writes a message to SQLite's error log and keeps it for [`take_last_error`].
pub(crate) fn report(api: Api, code: Code, message: &str) {
    api.log(code, &format!("densite: {message}"));
    keep(message);
}

/// Keeps a message that stands in the log already, because it is the reason once more.
pub(crate) fn keep(message: &str) {
    // A thread that is ending cannot keep it.
    let _ = LAST.try_with(|last| {
        *last.borrow_mut() = Some(Said {
            message: message.to_string(),
            damage: None,
        });
    });
}

/// Notes that the newest message is about this damage.
pub(crate) fn is_about(damage: &Damage) {
    let _ = LAST.try_with(|last| {
        if let Some(said) = &mut *last.borrow_mut() {
            said.damage = Some(damage.to_string());
        }
    });
}

/// Reports that the host could not open a file because too many are open. For other reasons SQLite's
/// own message is enough.
pub(crate) fn report_not_opened(host: HostVfs, path: &str, code: Code) {
    let reason = host.last_errno(code).and_then(densite_disk::too_many_files);
    if let Some(reason) = reason {
        report(host.api(), code, &format!("{path}: {reason}"));
    }
}

/// The newest message of this thread, which stays.
pub(crate) fn last_error() -> Option<String> {
    LAST.try_with(|last| last.borrow().as_ref().map(|said| said.message.clone()))
        .ok()
        .flatten()
}

/// What is damaged, if the newest message of this thread is about damage: without the path, and
/// without what to do.
pub fn last_damage() -> Option<String> {
    LAST.try_with(|last| last.borrow().as_ref().and_then(|said| said.damage.clone()))
        .ok()
        .flatten()
}

/// Takes the newest message of this thread. It is one sentence that says what went wrong in the
/// VFS; SQLite's own message is only a few words.
pub fn take_last_error() -> Option<String> {
    LAST.try_with(|last| last.borrow_mut().take())
        .ok()
        .flatten()
        .map(|said| said.message)
}
