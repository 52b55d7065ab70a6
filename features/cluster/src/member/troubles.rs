//! Why rows are not sent or do not come at the moment.

use densite_disk::sync::Mutex;
use densite_stream::Error as StreamError;

/// See the module.
#[derive(Default)]
pub(crate) struct Troubles(Mutex<[Option<Trouble>; 2]>);

struct Trouble {
    said: String,
    /// Trying again does not end it.
    lasts: bool,
}

impl Troubles {
    fn set(&self, place: usize, error: Option<&StreamError>) {
        if let Some(slot) = self.0.lock().get_mut(place) {
            *slot = error.map(|error| Trouble {
                said: error.to_string(),
                // The others can end when the stream is brought back.
                lasts: matches!(error, StreamError::Refused(_)),
            });
        }
    }

    /// The result of the last read.
    pub(crate) fn reading(&self, error: Option<&StreamError>) {
        self.set(0, error);
    }

    /// The result of the last append.
    pub(crate) fn forwarding(&self, error: Option<&StreamError>) {
        self.set(1, error);
    }

    /// What the user should know.
    pub(crate) fn said(&self) -> Option<String> {
        let troubles = self.0.lock();
        let first = troubles.iter().flatten().next();
        first.map(|trouble| trouble.said.clone())
    }

    /// Why no row will be applied until the user has done something.
    pub(crate) fn lasting(&self) -> Option<String> {
        let troubles = self.0.lock();
        let first = troubles.iter().flatten().find(|trouble| trouble.lasts);
        first.map(|trouble| trouble.said.clone())
    }
}
