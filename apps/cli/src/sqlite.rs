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
    static API: OnceLock<Result<Api, String>> = OnceLock::new();
    API.get_or_init(|| {
        let api = densite_linked::api().map_err(|e| e.to_string())?;
        densite_vfs::register(api, densite_vfs::NAME, None, false).map_err(|e| e.to_string())?;
        densite_linked::for_every_connection(densite_tools::create_functions)
            .map_err(|e| e.to_string())?;
        densite_linked::for_every_connection(densite_vfs::init).map_err(|e| e.to_string())?;
        Ok(api)
    })
    .clone()
    .map_err(|e| Failure::Other("sqlite", 1, e, json!({})))
}
