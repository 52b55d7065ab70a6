//! The reader of Chroma's `index_metadata.pickle` as a target.

use crate::target::{Seeds, Target, no_fields, no_repair};
use densite_tools::chroma::pickle::IndexMetadata;

/// Invariants: the offset of an error is within the input. There are no more records than fit into
/// the input.
pub(crate) const PICKLE: Target = Target {
    name: "pickle",
    run,
    repair: no_repair,
    fields: no_fields,
    seeds,
};

fn run(bytes: &[u8]) -> u64 {
    let len = bytes.len() as u64;
    match IndexMetadata::read(bytes, len) {
        Ok(index) => {
            assert!(
                index.records() as u64 <= len / 4,
                "{} records",
                index.records()
            );
            u64::from(index.max_seq_id.is_some()) << 32 | index.records() as u64
        }
        Err(e) => {
            assert!(e.offset <= len, "{e}");
            // The error, and about how far the reader came.
            let what = e
                .what
                .bytes()
                .take(12)
                .fold(0u64, |sum, b| sum * 31 + u64::from(b));
            what << 8 | u64::from(e.offset.checked_ilog2().unwrap_or(0))
        }
    }
}

fn seeds() -> Seeds {
    macro_rules! fixture {
        ($name:literal) => {
            (
                $name,
                include_bytes!(concat!(
                    "../../features/tools/tests/chroma/pickles/",
                    $name,
                    ".pickle"
                ))
                .to_vec(),
            )
        };
    }
    vec![
        fixture!("small-0"),
        fixture!("small-1"),
        fixture!("small-2"),
        fixture!("small-3"),
        fixture!("small-4"),
        fixture!("small-5"),
        fixture!("call"),
    ]
}
