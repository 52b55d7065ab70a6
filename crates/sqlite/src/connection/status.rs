//! What SQLite counts for a connection (`sqlite3_db_status`).

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

    /// Whether a foreign key is open that COMMIT would refuse.
    pub fn owes_foreign_keys(&self) -> bool {
        self.status(ffi::DBSTATUS_DEFERRED_FKS)
            .is_some_and(|owes| owes != 0)
    }

    /// Whether another connection may be at this one's open file: they share a cache, or would.
    pub fn shares_cache(&self, schema: &CStr) -> bool {
        let asked = self.uri_parameters(schema);
        let is_asked = |(key, value): &(String, String)| key == "cache" && value == "shared";
        // Of a cache that is shared each connection has its part.
        asked.iter().any(is_asked)
            || self.status(ffi::DBSTATUS_CACHE_USED) != self.status(ffi::DBSTATUS_CACHE_USED_SHARED)
    }
}
