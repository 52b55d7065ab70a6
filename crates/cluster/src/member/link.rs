//! The open stream of a member, which its threads share.

use densite_disk::sync::Mutex;
use densite_stream::{Access, Address, Error, Identity, Result, Stream};
use std::sync::Arc;

/// See the module.
pub(crate) struct Link {
    address: Address,
    access: Access,
    /// The stream that the member joined.
    identity: Identity,
    stream: Mutex<Option<Arc<dyn Stream>>>,
}

impl Link {
    /// Of the stream with this identity. Nothing is opened yet.
    pub(crate) fn new(address: Address, access: Access, identity: [u8; 16]) -> Link {
        Link {
            address,
            access,
            identity: Identity(identity),
            stream: Mutex::new(None),
        }
    }

    /// The stream, which is opened if it is not. Blocks while it connects.
    ///
    /// # Errors
    /// The stream's; [`Error::IdentityChanged`] if another stream is at its address.
    pub(crate) fn stream(&self) -> Result<Arc<dyn Stream>> {
        let mut open = self.stream.lock();
        if let Some(stream) = &*open {
            return Ok(Arc::clone(stream));
        }
        let stream = self.address.find(&self.access)?;
        let found = stream.identity();
        if found != self.identity {
            return Err(Error::IdentityChanged {
                expected: self.identity,
                found: Some(found),
            });
        }
        Ok(Arc::clone(open.insert(stream)))
    }

    /// Forgets the open stream after an error that another opening can end.
    pub(crate) fn failed(&self, error: &Error) {
        if matches!(error, Error::IdentityChanged { .. } | Error::Forked) {
            *self.stream.lock() = None;
        }
    }
}
