//! What can be said of the stored file.

use super::Handle;
use crate::error::Result;
use crate::report::{self, CheckReport, FrameInfo, SpaceFigures, Stats};
use densite_typed::ColumnDescription;

impl Handle {
    /// Figures about the newest commit. Walks the whole page map, but reads no frame.
    ///
    /// # Errors
    /// I/O, damage.
    pub fn stats(&mut self) -> Result<Stats> {
        report::stats(&mut self.connection.open)
    }

    /// Where the bytes of the file are. Reads no map: of the accounting it loads what a writer would, and adds that up.
    ///
    /// # Errors
    /// I/O, damage.
    pub fn space(&mut self) -> Result<SpaceFigures> {
        report::space(&mut self.connection.open)
    }

    /// Live bytes of each unit of the file in order, and the bytes of a unit. What lies behind the last one holds nothing.
    ///
    /// # Errors
    /// I/O, damage.
    pub fn live_by_unit(&mut self) -> Result<(Vec<u32>, u64)> {
        report::live_by_unit(&mut self.connection.open)
    }

    /// Calls `f` for every page that has a frame (the others read as zeros) in the newest commit, in no particular order. Walks
    /// the page map, but reads no frame.
    ///
    /// # Errors
    /// I/O, damage.
    pub fn each_frame(&mut self, f: &mut dyn FnMut(FrameInfo)) -> Result<()> {
        report::each_frame(&mut self.connection.open, f)
    }

    /// What the model of this number says of each column. `None` if it is no model of the typed codec, but a dictionary.
    ///
    /// # Errors
    /// I/O; [`Error::Corrupt`](crate::Error::Corrupt) if there is nothing of that number or it is damaged.
    pub fn model_description(&mut self, id: u32) -> Result<Option<Vec<ColumnDescription>>> {
        report::model_description(&mut self.connection.open, id)
    }

    /// Verifies header, slots and trailers, every map node, every dictionary, every frame (checksum, decoding, checksum of the
    /// page), and that the accounting of space is exact. `progress` gets (pages done, pages there are); false stops.
    ///
    /// # Errors
    /// I/O. Damage is not an error here but part of the report, except where nothing can be said of the file at all.
    pub fn check(&mut self, progress: &mut dyn FnMut(u64, u64) -> bool) -> Result<CheckReport> {
        report::check(&mut self.connection.open, progress)
    }
}
