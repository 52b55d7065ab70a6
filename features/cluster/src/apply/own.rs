//! The database that applies the messages of a stream.

use crate::member::{Body, Digests, Message, Running, of_stream};
use densite_sqlite::Result;
use densite_stream::Name;

/// See the module.
pub(super) trait Own: Send + Sync {
    /// The name of this member: it tells messages of the database itself.
    fn origin(&self) -> &str;

    /// Checks that the log of the database has the rows of a message of this origin.
    fn check(&self, origin: &Name, message: &Message) -> Result<()>;

    /// Sends the digests of the tables.
    fn answer(&self, digests: Digests);
}

impl Own for Running {
    fn origin(&self) -> &str {
        self.membership().origin.as_str()
    }

    fn check(&self, origin: &Name, message: &Message) -> Result<()> {
        let checked = self.own_log().check(origin, message);
        checked.map_err(of_stream)
    }

    fn answer(&self, digests: Digests) {
        self.compares();
        self.send(Body::Digests(digests));
    }
}
