//! The frames of a file.

use densite_store::{FrameInfo, Handle};
use std::collections::BTreeMap;

/// The frames of all pages, by page.
pub(crate) fn frames(handle: &mut Handle) -> BTreeMap<u32, FrameInfo> {
    let mut frames = BTreeMap::new();
    handle
        .each_frame(&mut |frame| {
            frames.insert(frame.page, frame);
        })
        .expect("frames");
    frames
}
