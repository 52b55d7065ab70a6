//! How long a connection waits: until a deadline, for other processes, and never for itself.

pub(crate) mod deadline;
pub(crate) mod patience;
pub(crate) mod self_block;
