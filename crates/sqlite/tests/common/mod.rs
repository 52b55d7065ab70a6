//! The API table of the SQLite that the tests link.
#![allow(dead_code, reason = "each test file uses a part of it")]

use densite_sqlite::{Api, EntryPoint};
use rusqlite::auto_extension::{RawAutoExtension, cancel_auto_extension, register_auto_extension};

/// The linked library's table.
pub(crate) fn api() -> Api {
    // One at a time: the list of automatic extensions is the library's.
    static ONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _one = ONE
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    // SAFETY: only the linked library calls the entry point.
    unsafe {
        Api::capture(|entry| {
            let entry = std::mem::transmute::<EntryPoint, RawAutoExtension>(entry);
            register_auto_extension(entry).expect("registers");
            drop(rusqlite::Connection::open_in_memory().expect("opens"));
            assert!(cancel_auto_extension(entry));
        })
    }
    .expect("the linked SQLite is new enough")
}
