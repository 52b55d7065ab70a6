//! The SQLite that is linked into the command, with our VFS registered.

use crate::failure::Failure;
use densite_tools::Api;
use serde_json::json;
use std::sync::OnceLock;

/// The VFS for all databases.
pub(crate) const VFS: &str = "densite";

/// The functions of the linked SQLite. The first call registers the VFS, and our SQL functions for
/// every connection.
pub(crate) fn api() -> Result<Api, Failure> {
    static REGISTERED: OnceLock<Result<(), String>> = OnceLock::new();
    let registered = REGISTERED.get_or_init(|| {
        densite_linked::for_every_connection(densite_tools::create_functions)
            .map_err(|e| e.to_string())
    });
    registered.clone().map_err(failed)?;
    api_for_pages()
}

/// The same for verbs that read and write pages, and run no SQL of the user's: without our SQL
/// functions.
pub(crate) fn api_for_pages() -> Result<Api, Failure> {
    static API: OnceLock<Result<Api, String>> = OnceLock::new();
    API.get_or_init(|| {
        let api = densite_linked::api().map_err(|e| e.to_string())?;
        densite_vfs::register(api, densite_vfs::NAME, None, false).map_err(|e| e.to_string())?;
        densite_linked::for_every_connection(densite_vfs::init).map_err(|e| e.to_string())?;
        Ok(api)
    })
    .clone()
    .map_err(failed)
}

fn failed(why: String) -> Failure {
    Failure::Other("sqlite", 1, why, json!({}))
}
