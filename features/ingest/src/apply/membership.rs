//! The member of a stream at work: it exists while this process applies.

use super::Applying;
use super::stream::Member;
use std::sync::Arc;

impl Applying {
    /// The member of a stream that is at work in this process.
    pub fn member(&self) -> Option<Arc<dyn Member>> {
        self.member.lock().clone()
    }

    /// This member is at work from now on.
    pub(super) fn begin_member(&self, member: &Arc<dyn Member>) {
        *self.member.lock() = Some(Arc::clone(member));
    }

    /// Ends the member at work, if there is one. The worker starts it again as the database has it.
    pub fn end_member(&self) {
        *self.member.lock() = None;
    }
}
