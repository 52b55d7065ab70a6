//! The sources to read the page map and the space table.

use crate::map::tree;
use crate::space::chunk_tree;
use densite_disk::File;

/// A file, and the sources of its map and its table.
#[derive(Clone, Copy)]
pub(crate) struct Sources<'a> {
    pub(crate) file: &'a dyn File,
    /// Nodes of the page map.
    pub(crate) map: tree::Source<'a>,
    /// Chunks of the space table.
    pub(crate) table: chunk_tree::Source<'a>,
}
