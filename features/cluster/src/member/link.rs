//! The open stream of a member, which its threads share.

use densite_disk::sync::Mutex;
use densite_stream::{Access, Address, Error, Identity, Result, Stream};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// An opening that failed is not repeated before. Each costs a connection, and the threads of a
/// member ask at once after each error.
const RETRY: Duration = Duration::from_secs(1);

/// See the module.
pub(crate) struct Link {
    address: Address,
    access: Access,
    /// The stream that the member joined.
    identity: Identity,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    stream: Option<Arc<dyn Stream>>,
    /// When the last opening failed, and why.
    failed: Option<(Instant, Error)>,
}

impl Link {
    /// Of the stream with this identity. Nothing is opened yet.
    pub(crate) fn new(address: Address, access: Access, identity: [u8; 16]) -> Link {
        Link {
            address,
            access,
            identity: Identity(identity),
            state: Mutex::default(),
        }
    }

    /// The stream, which is opened if it is not. Blocks while it connects.
    ///
    /// # Errors
    /// The stream's; [`Error::IdentityChanged`] if another stream is at its address; the error of
    /// the last opening, for a second.
    pub(crate) fn stream(&self) -> Result<Arc<dyn Stream>> {
        let mut state = self.state.lock();
        if let Some(stream) = &state.stream {
            return Ok(Arc::clone(stream));
        }
        if let Some((at, error)) = &state.failed
            && at.elapsed() < RETRY
        {
            return Err(error.clone());
        }
        match self.open() {
            Ok(stream) => {
                state.failed = None;
                Ok(Arc::clone(state.stream.insert(stream)))
            }
            Err(error) => {
                state.failed = Some((Instant::now(), error.clone()));
                Err(error)
            }
        }
    }

    fn open(&self) -> Result<Arc<dyn Stream>> {
        let stream = self.address.find(&self.access)?;
        let found = stream.identity();
        match found == self.identity {
            true => Ok(stream),
            false => Err(Error::IdentityChanged {
                expected: self.identity,
                found: Some(found),
            }),
        }
    }

    /// Forgets the open stream after an error that another opening can end.
    pub(crate) fn failed(&self, error: &Error) {
        if matches!(error, Error::IdentityChanged { .. } | Error::Forked) {
            self.state.lock().stream = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_opening_that_failed_is_not_repeated_at_once() {
        let dir = tempfile::tempdir().expect("a directory");
        let place = dir.path().join("stream");
        densite_directory_stream::register();
        let address = Address::parse(&format!("directory://{}", place.display()));
        let address = address.expect("an address");
        let link = Link::new(address, Access::default(), [1; 16]);
        let first = link.stream().map(drop).expect_err("there is none");
        densite_directory_stream::Directory::open(&place).expect("a stream");
        let second = link.stream().map(drop).expect_err("too early");
        assert_eq!(second, first);
        std::thread::sleep(RETRY);
        let third = link.stream().map(drop).expect_err("another stream");
        assert!(matches!(third, Error::IdentityChanged { .. }), "{third}");
    }
}
