//! Why rows are not sent or do not come at the moment.

use densite_disk::sync::Mutex;
use densite_stream::Error as StreamError;

/// See the module.
#[derive(Default)]
pub(crate) struct Troubles(Mutex<[Option<String>; 2]>);

impl Troubles {
    fn set(&self, place: usize, error: Option<&StreamError>) {
        if let Some(slot) = self.0.lock().get_mut(place) {
            *slot = error.map(ToString::to_string);
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
        troubles.iter().flatten().next().cloned()
    }
}
