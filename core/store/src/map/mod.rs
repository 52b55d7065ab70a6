//! The page map: which frame holds the newest version of each page.
//!
//! A tree of nodes, loaded on demand and never changed in place. A leaf has the entries of 512
//! consecutive pages, an inner node the places of 256 nodes of the level below. A commit does not
//! rewrite it: its entries are in its trailer and, in memory, in an overlay. From time to time a
//! commit *folds* the overlay into new nodes.

pub(crate) mod node;
pub(crate) mod nodes;
pub(crate) mod tree;

pub(crate) use nodes::NodeCache;
