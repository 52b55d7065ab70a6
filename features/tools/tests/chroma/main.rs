//! Made-up Chroma directories. Every rule of `densite_tools::chroma` has a test here that fails
//! without it. (`apps/cli/tests/servers/chroma_real.rs` tests directories that Chroma itself created.)

mod histories;
mod made;
mod names;
mod rules;
mod settings;
mod versions;

use densite_sqlite::{Api, Connection};
use std::path::Path;
use std::sync::OnceLock;

/// The linked SQLite with the VFS registered.
fn api() -> Api {
    static API: OnceLock<Api> = OnceLock::new();
    *API.get_or_init(|| {
        let api = densite_linked::api().expect("the linked SQLite is new enough");
        densite_vfs::register(api, densite_vfs::NAME, None, false).expect("registered");
        api
    })
}

/// A connection like the one of the vacuum.
fn connect(path: &Path) -> Connection {
    let flags = densite_sqlite::ffi::OPEN_READWRITE;
    let name = path.to_str().expect("UTF-8");
    Connection::open(api(), name, flags, None).expect("open")
}
