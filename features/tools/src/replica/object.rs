//! Whether a file is an object of a replica. A base begins with an image of a database, so it can be
//! opened as one, and writing to it would destroy the replica.

use crate::db::{Access, Through};
use crate::target;
use densite_disk::File as _;
use densite_sqlite::Api;
use std::path::Path;

/// See the module's documentation. A file that cannot be read is none.
pub(super) fn is_object(api: Api, path: &Path) -> bool {
    // As every access to a database, through the host: closing another descriptor would drop its
    // locks.
    let Ok(file) = target::resolve(path).and_then(|t| Through::Host.file(api, &t, Access::Read))
    else {
        return false;
    };
    let mut end = [0; densite_replica::OBJECT_END];
    let at = file
        .len()
        .ok()
        .and_then(|len| len.checked_sub(end.len() as u64));
    let read = at.and_then(|at| file.read_at(&mut end, at).ok());
    read == Some(end.len()) && densite_replica::is_object(&end)
}
