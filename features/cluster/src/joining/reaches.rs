//! Whether the stream still has what a database needs behind its place.

use super::Joining;
use crate::member::tables::of_stream;
use crate::trimming::has_place;
use densite_ingest::parts::{StreamPlace, refused};
use densite_sqlite::Result;

impl Joining<'_> {
    /// Refuses a copy that could apply nothing: the messages behind it were removed, or the stream
    /// lost what it has applied.
    pub(super) fn has_messages_behind(&self, place: &StreamPlace) -> Result<()> {
        self.is_not_removed(place)?;
        let extent = self.stream.extent().map_err(of_stream)?;
        if place.message + 1 == extent.first {
            // Its own message is removed, and the next one is not.
            return Ok(());
        }
        has_place(&*self.stream, *place).map_err(|e| {
            refused(format!(
                "{}: {e}; join a copy of a member that goes on after that (docs/guides/cluster.md, A stream that lost messages)",
                self.file.path
            ))
        })
    }

    /// Refuses a database that needs messages that were removed.
    pub(super) fn is_not_removed(&self, place: &StreamPlace) -> Result<()> {
        let first = self.stream.extent().map_err(of_stream)?.first;
        if first <= place.message + 1 {
            return Ok(());
        }
        Err(refused(format!(
            "{}: this database is older than the beginning of the stream: it has applied the messages up to {}, and the stream begins at {first}; join a newer copy, or a newer replica, of a member",
            self.file.path, place.message
        )))
    }
}
