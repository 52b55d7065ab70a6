//! The parts of one connection: its open file, its reading, and its training of dictionaries.

mod sync;

pub use sync::SyncFailed;

use crate::open_file::OpenFile;
use crate::reader::Reader;
use crate::training::Training;

/// See the module's documentation. Each part guards its own state.
pub(crate) struct Connection {
    pub(crate) open: OpenFile,
    pub(crate) reader: Reader,
    pub(crate) training: Training,
}

impl Connection {
    pub(crate) fn new(open: OpenFile) -> Connection {
        Connection {
            open,
            reader: Reader::default(),
            training: Training::default(),
        }
    }
}
