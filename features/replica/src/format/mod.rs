//! The bytes of a replica: objects with extents of the file, and the head.

mod footer;
mod head;

pub(crate) use footer::{
    EXTENT_LEN, FOOTER_LEN, Footer, Kind, Logged, NO_HASH, REPLICA_FORMAT_VERSION,
};
pub use footer::{OBJECT_END, is_object};
pub(crate) use head::{Base, Compacted, Generation, Head, Superseded};
