//! The API table of the SQLite that the tests link.

pub(crate) mod watching;

use densite_sqlite::Api;

/// The linked library's table.
pub(crate) fn api() -> Api {
    densite_linked::api().expect("the linked SQLite is new enough")
}
