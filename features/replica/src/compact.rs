//! Merging deltas: where they overlap, the newer one wins. Nothing is decoded.

use crate::error::{Error, Result};
use crate::extents::{Object, Writer};
use crate::format::{Footer, Kind, NO_HASH};
use crate::log_place;
use crate::overlay::{Overlay, Part};
use std::sync::Arc;

/// Bytes of an object that was read.
#[derive(Clone)]
struct Bytes {
    object: Arc<Object>,
    /// Where they begin among the bytes of its extents.
    at: u64,
    len: u64,
}

impl Part for Bytes {
    fn len(&self) -> u64 {
        self.len
    }

    fn slice(&self, from: u64, len: u64) -> Bytes {
        Bytes {
            object: Arc::clone(&self.object),
            at: self.at + from,
            len,
        }
    }
}

/// Merges the objects of these names, which follow one another, into one. `get` reads an object.
/// Returns the footer and the bytes of the merged one.
///
/// # Errors
/// Those of `get`; [`Error::Damaged`].
pub(crate) fn merge(
    names: &[String],
    get: impl Fn(&str) -> Result<Vec<u8>>,
) -> Result<Option<(Footer, Vec<u8>)>> {
    let mut overlay: Overlay<Bytes> = Overlay::default();
    let mut merged: Option<(Footer, [u8; 16])> = None;
    for name in names {
        let object = Arc::new(Object::decode(name, get(name)?)?);
        let footer = object.index.footer.clone();
        if let Some((_, chain)) = &merged
            && *chain != footer.previous
        {
            return Err(Error::Damaged {
                object: name.clone(),
                problem: "it does not follow the object before it".to_owned(),
            });
        }
        for (offset, at, len) in object.index.places() {
            let object = Arc::clone(&object);
            overlay.put(offset, Bytes { object, at, len });
        }
        let chain = object.index.chain;
        merged = Some(match merged {
            None => (footer, chain),
            Some((first, _)) => (
                Footer {
                    first: first.first,
                    from: first.from,
                    previous: first.previous,
                    ..footer
                },
                chain,
            ),
        });
    }
    let Some((footer, chain)) = merged else {
        return Ok(None);
    };
    let footer = Footer {
        kind: Kind::Compacted,
        chain,
        body_hash: NO_HASH,
        table_hash: NO_HASH,
        ..footer
    };
    let mut writer = Writer::new(Vec::new());
    for (offset, part) in overlay.into_parts() {
        let log = footer.log.as_ref();
        let kept = log_place::kept(offset, part.len, footer.image_len, log);
        writer.put(offset, part.object.bytes(part.at, kept))?;
    }
    let (bytes, _, _) = writer.finish(footer.clone())?;
    Ok(Some((footer, bytes)))
}
