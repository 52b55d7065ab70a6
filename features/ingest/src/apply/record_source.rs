//! Where the rows of a queue come from: the log of the database, or a stream of which it is a
//! member. Each numbers its rows in its own way.

use crate::database::open_log::OpenLog;
use crate::database::position::Position;
use densite_log::{Next, Reader, Seq};
use densite_sqlite::{Connection, Result};
use std::fmt;
use std::sync::Arc;

/// The position behind some rows, and what has to be written with it.
#[derive(Debug, Clone)]
pub struct Reached {
    /// The position.
    pub position: Position,
    /// What else the source has to remember.
    pub state: Option<Arc<dyn SourceState>>,
}

impl Reached {
    /// A position that says everything.
    pub fn at(position: Position) -> Reached {
        Reached {
            position,
            state: None,
        }
    }
}

/// What a source has to remember with a position.
pub trait SourceState: fmt::Debug + Send + Sync {
    /// Writes it, within the transaction that moves the position.
    ///
    /// # Errors
    /// SQLite's.
    fn write(&self, connection: &Connection) -> Result<()>;
}

/// See the module.
pub trait RecordSource {
    /// The number of the last row that is applied at this position.
    fn applied(&self, named: &Position) -> Seq;

    /// Begins to read behind this position.
    ///
    /// # Errors
    /// The log's.
    fn restart(&mut self, named: &Position) -> Result<()>;

    /// The next record, unless its rows take more than `bytes`.
    ///
    /// # Errors
    /// The log's, the stream's.
    fn next_within(&mut self, bytes: usize) -> Result<Next>;

    /// The position behind row `last`, which was read.
    fn at(&self, named: &Position, last: Seq) -> Reached;

    /// The position behind everything that was read, if it is not `named`: all rows are applied,
    /// and numbers without rows follow.
    fn end(&self, named: &Position) -> Option<Reached>;

    /// Rows up to this position are applied.
    fn passed(&mut self, position: &Position);
}

/// The rows of the database's own log.
pub(super) struct LogRecords {
    open: Arc<OpenLog>,
    reader: Option<Reader>,
}

impl LogRecords {
    pub(super) fn of(open: &Arc<OpenLog>) -> LogRecords {
        LogRecords {
            open: Arc::clone(open),
            reader: None,
        }
    }
}

impl RecordSource for LogRecords {
    fn applied(&self, named: &Position) -> Seq {
        named.seq
    }

    fn restart(&mut self, named: &Position) -> Result<()> {
        let reader = self.open.log().read_after(named.seq);
        self.reader = Some(reader.map_err(|e| self.open.failed(e))?);
        Ok(())
    }

    fn next_within(&mut self, bytes: usize) -> Result<Next> {
        match &mut self.reader {
            Some(reader) => reader.next_within(bytes).map_err(|e| self.open.failed(e)),
            None => Ok(Next::End),
        }
    }

    fn at(&self, named: &Position, last: Seq) -> Reached {
        Reached::at(Position::at(named.id, last))
    }

    fn end(&self, named: &Position) -> Option<Reached> {
        let end = self.reader.as_ref().map_or(0, Reader::position);
        (end > named.seq).then(|| self.at(named, end))
    }

    fn passed(&mut self, _: &Position) {}
}
