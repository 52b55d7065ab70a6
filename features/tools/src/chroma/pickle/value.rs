//! The values on the stack. They keep only the parts of a pickle that are used.

use super::TextHash;

const MODULE: &[u8] = b"chromadb.segment.impl.vector.local_persistent_hnsw";

/// Known classes by module and name. `copyreg` and `builtins` had other names in Python 2, and
/// protocols 0 to 2 keep those.
pub(super) const CLASSES: [(&[u8], &[u8], Class); 5] = [
    (MODULE, b"PersistentData", Class::PersistentData),
    (b"copy_reg", b"_reconstructor", Class::Reconstructor),
    (b"copyreg", b"_reconstructor", Class::Reconstructor),
    (b"__builtin__", b"object", Class::Object),
    (b"builtins", b"object", Class::Object),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    PersistentData,
    Reconstructor,
    Object,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Value {
    None,
    Bool,
    Int(i64),
    Text(TextHash),
    /// Index of a dictionary.
    Dict(usize),
    Class(Class),
    EmptyTuple,
    /// `(PersistentData, object, None)`.
    Arguments,
    /// An object of `PersistentData`, with its dictionary once that is set.
    Object(Option<usize>),
}

/// A dictionary, reduced to the used parts: the keys that are texts, and the values of two names.
#[derive(Debug, Default)]
pub(super) struct Dict {
    pub(super) keys: Vec<TextHash>,
    pub(super) max_seq_id: Option<Value>,
    pub(super) id_to_label: Option<Value>,
}
