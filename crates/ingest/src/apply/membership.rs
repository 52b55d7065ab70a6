//! The member of a stream at work: it exists while this process applies.

use super::Applying;
use crate::database::position::StreamPlace;
use crate::member::{Membership, Running};
use densite_sqlite::Result;
use std::sync::Arc;

impl Applying {
    /// The member at work, which is started if it is not.
    ///
    /// # Errors
    /// As [`Running::start`].
    pub(super) fn begin_member(
        &self,
        membership: Membership,
        place: StreamPlace,
    ) -> Result<Arc<Running>> {
        let mut member = self.member.lock();
        if let Some(running) = &*member
            && *running.membership() == membership
        {
            return Ok(Arc::clone(running));
        }
        let running = Running::start(&self.open, membership, place)?;
        Ok(Arc::clone(member.insert(Arc::new(running))))
    }

    /// Ends the member at work, if there is one. The worker starts it again as the database has it.
    pub(crate) fn end_member(&self) {
        *self.member.lock() = None;
    }
}
