//! Shared by the tests of the library: the linked SQLite, and connections through the VFS.
#![allow(dead_code, reason = "each test file uses a part of it")]

use densite_tools::Api;
use rusqlite::Connection;
use std::path::Path;
use std::sync::OnceLock;

/// The linked SQLite with the VFS registered.
pub(crate) fn api() -> Api {
    static API: OnceLock<Api> = OnceLock::new();
    *API.get_or_init(|| {
        let api = densite_linked::api().expect("the linked SQLite is new enough");
        densite_vfs::register(api, densite_vfs::NAME, None, false).expect("registered");
        api
    })
}

/// A connection to a database of either form.
pub(crate) fn open(path: &Path) -> Connection {
    api();
    Connection::open(format!("file:{}?vfs=densite", path.display())).expect("open")
}
