//! What the tests of whole pages share.

use densite_typed::{Model, PageContext, decode, encode, scrub};

/// Encodes and decodes; asserts that it is the page without its unallocated bytes. Returns the
/// length of the payload.
pub(crate) fn round_trip(page: &[u8], context: &PageContext, model: &Model) -> Option<usize> {
    let (mut kept, mut payload, mut expected) = (Vec::new(), Vec::new(), Vec::new());
    if !encode(page, context, model, &mut kept, &mut payload) {
        assert!(payload.is_empty());
        return None;
    }
    scrub(page, context, &mut expected);
    assert!(kept == expected, "page {}", context.number);
    let mut out = vec![0xAA; page.len()];
    decode(&payload, model, &mut out).expect("decodes");
    assert!(out == expected, "page {}", context.number);
    Some(payload.len())
}
