//! The bytes of a replica: objects with extents of the file, and the head.

mod head;
mod object;

pub(crate) use head::{Base, Compacted, Generation, Head, Superseded};
pub(crate) use object::{
    EXTENT_LEN, FOOTER_LEN, Footer, Kind, Logged, NO_HASH, REPLICA_FORMAT_VERSION,
};
pub use object::{OBJECT_END, is_object};
