//! What the page map and the space table are read through.

use crate::map::tree;
use crate::space::table;
use densite_disk::File;

/// A file, and what is known of its map and its table.
#[derive(Clone, Copy)]
pub(crate) struct Sources<'a> {
    pub(crate) file: &'a dyn File,
    /// Nodes of the page map.
    pub(crate) map: tree::Source<'a>,
    /// Chunks of the space table.
    pub(crate) table: table::Source<'a>,
}
