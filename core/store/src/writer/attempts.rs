//! Numbers of commits, and the epoch that distinguishes attempts of different writers (rule S8).

use crate::error::Result;

/// See the module's documentation.
pub(crate) struct Attempts {
    /// Marks the trailers of this writer; renewed after each failure.
    epoch: u64,
    /// The highest commit number ever tried. A number is never used twice, because versions of
    /// pages must be unique.
    last: u64,
    /// Whether this process published anything.
    published: bool,
}

impl Attempts {
    /// `highest`: the highest number ever seen.
    ///
    /// # Errors
    /// If the system gives no random bytes.
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

    /// Notes that a writer tried this number.
    pub(crate) fn tried(&mut self, number: u64) {
        self.last = self.last.max(number);
    }

    /// Notes that an attempt failed or was given up. Its bytes may look like a commit of this
    /// writer.
    pub(crate) fn failed(&mut self) {
        self.epoch = densite_disk::random::random_u64()
            .unwrap_or(self.epoch.wrapping_add(0x9E37_79B9_7F4A_7C15));
    }

    /// Notes that an attempt succeeded.
    pub(crate) fn succeeded(&mut self) {
        self.published = true;
    }

    /// Whether this process published anything.
    pub(crate) fn has_published(&self) -> bool {
        self.published
    }
}
