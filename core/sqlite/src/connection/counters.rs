//! SQLite's counters for a connection (`sqlite3_db_status`).

use super::Connection;
use crate::ffi;
use std::ffi::CStr;

impl Connection {
    fn status(&self, what: i32) -> Option<i32> {
        let (mut now, mut most) = (0, 0);
        // SAFETY: an open connection and places for two numbers.
        let rc = unsafe {
            (self.api.raw().db_status)(self.as_ptr(), what, &raw mut now, &raw mut most, 0)
        };
        (rc == 0).then_some(now)
    }

    /// Whether there is a foreign key violation that would make COMMIT fail.
    pub fn owes_foreign_keys(&self) -> bool {
        self.status(ffi::DBSTATUS_DEFERRED_FKS)
            .is_some_and(|owes| owes != 0)
    }

    /// Whether another connection can use this one's open file: they share a cache, or are allowed
    /// to.
    pub fn shares_cache(&self, schema: &CStr) -> bool {
        let asked = self.uri_parameters(schema);
        let is_asked = |(key, value): &(String, String)| key == "cache" && value == "shared";
        // With a shared cache, each connection counts only its part.
        asked.iter().any(is_asked)
            || self.status(ffi::DBSTATUS_CACHE_USED) != self.status(ffi::DBSTATUS_CACHE_USED_SHARED)
    }
}
