//! Chroma directories, made up: every rule of `densite::chroma` has a test here that fails without it.
//! (Directories that Chroma itself made are tried in `crates/cli/tests/chroma_real.rs`.)

mod made;
mod model;
mod names;
mod rules;
mod settings;
mod versions;

use densite_sqlite::{Api, Connection};
use std::path::Path;
use std::sync::OnceLock;

/// The linked SQLite.
fn api() -> Api {
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
                drop(rusqlite::Connection::open_in_memory().expect("open"));
                rusqlite::auto_extension::cancel_auto_extension(entry);
            })
        };
        let api = api.expect("a table");
        densite_vfs::register(api, densite_vfs::NAME, None, false).expect("registered");
        api
    })
}

/// A connection as the vacuum has one.
fn connect(path: &Path) -> Connection {
    let flags = densite_sqlite::ffi::OPEN_READWRITE;
    let name = path.to_str().expect("UTF-8");
    Connection::open(api(), name, flags, None).expect("open")
}
