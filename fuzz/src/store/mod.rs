//! The store's decoders: the structures of a file, frames, dictionaries, pages, and whole files.

mod codecs;
mod fields;
mod file;
mod layout;
mod parts;
mod repair;
mod seeds;

use crate::target::{Target, no_fields, no_repair};

/// The salt of the structures that are tested outside a file.
const SALT: u64 = 0x5EED_5EED_0BAD_CAFE;
/// The offset of a record that is tested outside a file.
const OFFSET: u64 = 65536;

/// The store's targets.
pub(crate) const TARGETS: &[Target] = &[
    Target {
        name: "header",
        run: parts::header,
        repair: repair::header,
        fields: fields::header,
        seeds: seeds::header,
    },
    Target {
        name: "slot",
        run: parts::slot,
        repair: repair::slot,
        fields: fields::slot,
        seeds: seeds::slot,
    },
    Target {
        name: "tip",
        run: parts::tip,
        repair: repair::tip,
        fields: fields::tip,
        seeds: seeds::tip,
    },
    Target {
        name: "record",
        run: parts::record,
        repair: repair::record,
        fields: fields::record,
        seeds: seeds::record,
    },
    Target {
        name: "trailer",
        run: parts::trailer,
        repair: no_repair,
        fields: fields::trailer,
        seeds: seeds::trailer,
    },
    Target {
        name: "node",
        run: parts::node,
        repair: no_repair,
        fields: no_fields,
        seeds: seeds::node,
    },
    Target {
        name: "chunk",
        run: parts::chunk,
        repair: no_repair,
        fields: no_fields,
        seeds: seeds::chunk,
    },
    Target {
        name: "index",
        run: parts::index,
        repair: no_repair,
        fields: no_fields,
        seeds: seeds::index,
    },
    Target {
        name: "frame",
        run: codecs::frame,
        repair: no_repair,
        fields: fields::frame,
        seeds: seeds::frame,
    },
    Target {
        name: "dictionary",
        run: codecs::dictionary,
        repair: no_repair,
        fields: no_fields,
        seeds: seeds::dictionary,
    },
    Target {
        name: "page",
        run: codecs::page,
        repair: no_repair,
        fields: no_fields,
        seeds: seeds::page,
    },
    Target {
        name: "file",
        run: file::file,
        repair: repair::file,
        fields: fields::file,
        seeds: seeds::file,
    },
];
