//! Numbers of commits, and what tells one writer's attempts from another's (rule 8).

use crate::error::Result;

/// See the module's documentation.
pub(crate) struct Attempts {
    /// Marks the trailers of this writer; renewed after each failure.
    epoch: u64,
    /// The highest commit number that was ever tried: a number is never used twice, for versions of pages must not be.
    last: u64,
    /// Whether this process published anything.
    published: bool,
}

impl Attempts {
    /// `highest`: the highest number that was ever seen.
    ///
    /// # Errors
    /// The system gives no random bytes.
    pub(crate) fn new(highest: u64) -> Result<Attempts> {
        Ok(Attempts {
            epoch: densite_disk::random::random_u64()?,
            last: highest,
            published: false,
        })
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The highest number that was tried.
    pub(crate) fn last(&self) -> u64 {
        self.last
    }

    /// Somebody tried this number.
    pub(crate) fn tried(&mut self, number: u64) {
        self.last = self.last.max(number);
    }

    /// An attempt failed or was given up. What lies in its places may look like a commit of this writer.
    pub(crate) fn failed(&mut self) {
        self.epoch = densite_disk::random::random_u64()
            .unwrap_or(self.epoch.wrapping_add(0x9E37_79B9_7F4A_7C15));
    }

    /// An attempt succeeded.
    pub(crate) fn succeeded(&mut self) {
        self.published = true;
    }

    /// Whether this process published anything.
    pub(crate) fn has_published(&self) -> bool {
        self.published
    }
}
