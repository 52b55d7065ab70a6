//! Reports about the stored file.

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

    /// Where the bytes of the file are. Does not read the page map: it loads the parts of the space
    /// table that a writer loads, and adds them up.
    ///
    /// # Errors
    /// I/O, damage.
    pub fn space(&mut self) -> Result<SpaceFigures> {
        report::space(&mut self.connection.open)
    }

    /// Live bytes of each unit of the file in order, and the bytes of a unit. There is nothing
    /// after the last one.
    ///
    /// # Errors
    /// I/O, damage.
    pub fn live_by_unit(&mut self) -> Result<(Vec<u32>, u64)> {
        report::live_by_unit(&mut self.connection.open)
    }

    /// Calls `f` for every page of the newest commit that has a frame, in no particular order. The
    /// others read as zeros. Walks the page map, but reads no frame.
    ///
    /// # Errors
    /// I/O, damage.
    pub fn each_frame(&mut self, f: &mut dyn FnMut(FrameInfo)) -> Result<()> {
        report::each_frame(&mut self.connection.open, f)
    }

    /// What the model of this number describes for each column. `None` if it is a dictionary and
    /// not a model.
    ///
    /// # Errors
    /// I/O; [`Error::Corrupt`](crate::Error::Corrupt) if there is no model or dictionary of that
    /// number, or it is damaged.
    pub fn model_description(&mut self, id: u32) -> Result<Option<Vec<ColumnDescription>>> {
        report::model_description(&mut self.connection.open, id)
    }

    /// Verifies header, slots and trailers, every map node, every dictionary, every frame
    /// (checksum, decoding, checksum of the page), and the space table. `progress` gets (pages
    /// done, pages in all); false stops.
    ///
    /// # Errors
    /// I/O. Damage is part of the report and not an error, unless nothing at all can be read from
    /// the file.
    pub fn check(&mut self, progress: &mut dyn FnMut(u64, u64) -> bool) -> Result<CheckReport> {
        report::check(&mut self.connection.open, progress)
    }

    /// Verifies the checksums of the map nodes and frames of some pages from `first` on (1 is the
    /// first), and with page 1 those of the dictionaries and of the space table. Decodes nothing.
    /// Returns the page after them; `None` at the end of the database.
    ///
    /// # Errors
    /// I/O; [`Error::Corrupt`](crate::Error::Corrupt) for the first damage.
    pub fn check_stored(&mut self, first: u32) -> Result<Option<u32>> {
        report::check_stored(&mut self.connection.open, first)
    }

    /// Ranges of bytes, start and end, that a reader on a slow line needs first: the newest
    /// trailers, the upper page map, the frames of `pages`, and all models, up to `most` bytes.
    ///
    /// # Errors
    /// I/O, damage.
    pub fn first_places(&mut self, pages: &[u32], most: u64) -> Result<Vec<(u64, u64)>> {
        report::first_places(&mut self.connection.open, pages, most)
    }
}
