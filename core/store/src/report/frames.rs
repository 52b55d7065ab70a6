//! What is known about every page's frame without reading it, and the descriptions of models.

use super::walk::walk_state;
use crate::codec::CodecId;
use crate::error::{Error, Result};
use crate::open_file::OpenFile;
use densite_typed::ColumnDescription;

/// The frame of one page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameInfo {
    /// The page; 1 is the first. Pages are those of [`Handle::page_size`](crate::Handle::page_size)
    /// bytes.
    pub page: u32,
    /// Where the page's share of the record begins in the file, in bytes. Pages of a run share the
    /// record in their order.
    pub offset: u64,
    /// Bytes of the frame's record; for a run, the page's share. They add up to `frame_bytes` of
    /// the [`Stats`](crate::Stats).
    pub stored_bytes: u64,
    /// Its codec.
    pub codec: CodecId,
    /// The dictionary or model that it needs; 0 none.
    pub model: u32,
    /// Pages in the frame.
    pub run_pages: u32,
}

/// Calls `f` for every page of the newest commit that has a frame, in no particular order. The
/// others read as zeros. Walks the page map, but reads no frame.
///
/// # Errors
/// I/O, damage.
pub(crate) fn each_frame(open: &mut OpenFile, f: &mut dyn FnMut(FrameInfo)) -> Result<()> {
    open.check_poison()?;
    if !open.attach()? {
        return Ok(());
    }
    let shared = open.shared()?;
    let file = open.file();
    let entries = shared.while_it_moves(file, || {
        let state = shared.state.read().clone();
        let mut entries = Vec::new();
        let mut entry = |page, e| {
            entries.push((page, e));
            Ok(())
        };
        walk_state(&shared, file, &state, &mut |_| Ok(()), &mut entry)?;
        Ok(entries)
    })?;
    for (page, e) in entries {
        let share = u64::from(e.len) >> e.run_log2;
        f(FrameInfo {
            page,
            offset: e.off + u64::from(e.slot) * share,
            stored_bytes: share,
            codec: CodecId(e.codec),
            model: e.model,
            run_pages: 1 << e.run_log2,
        });
    }
    Ok(())
}

/// What the model of this number describes for each column. `None` if it is a dictionary and not a
/// model.
///
/// # Errors
/// I/O; [`Error::Corrupt`] if there is no model or dictionary of that number, or it is damaged.
pub(crate) fn model_description(
    open: &mut OpenFile,
    id: u32,
) -> Result<Option<Vec<ColumnDescription>>> {
    open.check_poison()?;
    if !open.attach()? {
        return Err(Error::NotDensite);
    }
    let shared = open.shared()?;
    let file = open.file();
    let dictionary =
        shared.while_it_moves(file, || shared.dictionary(file, &shared.state.read(), id))?;
    Ok(dictionary.model().map(densite_typed::Model::describe))
}
