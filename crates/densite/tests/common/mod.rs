//! What the tests of the library share: the linked SQLite, and connections through the VFS.
#![allow(dead_code, reason = "each test file uses a part of it")]

use densite::Api;
use rusqlite::Connection;
use std::path::Path;
use std::sync::OnceLock;

/// The linked SQLite with the VFS registered.
pub(crate) fn api() -> Api {
    static API: OnceLock<Api> = OnceLock::new();
    *API.get_or_init(|| {
        // SAFETY: the entry point goes to the linked SQLite alone, which is never unloaded.
        let api = unsafe {
            Api::capture(|entry| {
                let entry = std::mem::transmute::<
                    densite_sqlite::EntryPoint,
                    rusqlite::auto_extension::RawAutoExtension,
                >(entry);
                rusqlite::auto_extension::register_auto_extension(entry).expect("registered");
                drop(Connection::open_in_memory().expect("open"));
                rusqlite::auto_extension::cancel_auto_extension(entry);
            })
        };
        let api = api.expect("a table");
        densite_vfs::register(api, densite_vfs::NAME, None, false).expect("registered");
        api
    })
}

/// A connection to a database of either form.
pub(crate) fn open(path: &Path) -> Connection {
    api();
    Connection::open(format!("file:{}?vfs=densite", path.display())).expect("open")
}
