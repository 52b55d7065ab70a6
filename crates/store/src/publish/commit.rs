//! One commit: accounting, trailer, tip.

use super::by_fold::ByFold;
use super::fold::fold_map;
use crate::error::{Error, Result};
use crate::format::TIP_OFF;
use crate::format::record::{Kind, MAX_PAYLOAD, RECORD_LEN, Record};
use crate::format::tip::{TIP_LEN, Tip};
use crate::format::trailer::{OPEN_END, RootSection, Trailer, payload_len};
use crate::map::Entry;
use crate::options::Tuning;
use crate::pending::{Pending, PendingPage};
use crate::recover;
use crate::shared::{Shared, Writer, read_tip};
use crate::state::{State, current_extent};
use densite_disk::File;
use std::sync::Arc;

/// What a commit does besides taking over what was written.
#[derive(Default)]
pub(crate) struct Besides {
    /// Fold the map.
    pub(crate) fold: bool,
    /// Be a commit even if nothing changed: its trailer tells a new end of the file.
    pub(crate) even_empty: bool,
    /// Space is given back: what was written is what was there before, in other places.
    pub(crate) reclaim: bool,
    /// With a fold: what it writes anew although it did not change.
    pub(crate) by_fold: ByFold,
}

/// Makes the commit. Returns the bytes it has appended; 0 if there was nothing to commit.
pub(super) fn commit(
    shared: &Arc<Shared>,
    writer: &mut Writer,
    file: &dyn File,
    p: &mut Pending,
    besides: &Besides,
    tuning: &Tuning,
) -> Result<u64> {
    let state = shared.state.read().clone_for_commit();
    // The caller has just made sure of it: what cannot be accounted for is not said to be published.
    let Some((_, mut space)) = writer.space.take() else {
        return Err(Error::Overtaken);
    };
    let deltas = deltas(shared, file, &state, p)?;
    let same = p.logical_len == state.logical_len
        && p.page_size == state.page_size
        && p.head == state.head;
    let nothing = deltas.is_empty() && p.new_dicts.is_empty() && same;
    if nothing && !besides.fold && !besides.even_empty {
        space.give_back_extents(p.appender.taken(), p.commit);
        writer.space = Some((state.tip, space));
        return Ok(0);
    }
    {
        let now = shared.state.read();
        for (page, new) in &deltas {
            space.sub_entry(&shared.lookup(file, &now, *page)?, p.commit);
            space.add_entry(new);
        }
    }
    for d in &p.new_dicts {
        space.add(d.place.off, u64::from(d.place.len));
    }
    let fold = besides.fold
        || deltas.len() > tuning.fold_deltas
        || state.overlay_len + deltas.len() > tuning.fold_entries
        || state.trailer_bytes > tuning.fold_trailer_bytes
        || payload_len(None, 0, p.new_dicts.len(), deltas.len()) > MAX_PAYLOAD as usize / 2;
    let mut trailer = Trailer {
        commit: p.commit,
        epoch: writer.epoch,
        page_size: p.page_size,
        logical_len: p.logical_len,
        next_off: 0,
        room_end: 0,
        tail_off: 0,
        prev: state.tip,
        head: p.head,
        root: None,
        pieces: Vec::new(),
        dicts: Vec::new(),
        deltas,
    };
    if fold {
        let mut anew = besides.by_fold.clone();
        anew.add(writer.reclaiming.for_fold());
        fold_map(shared, writer, file, p, &mut space, &mut trailer, &anew)?;
    } else {
        trailer.dicts.clone_from(&p.new_dicts);
    }
    let appender = &mut p.appender;
    let root = trailer.root.as_ref().map(RootSection::counts);
    // Making room may add a jump and so a piece: there is one more counted than there may be.
    let most = payload_len(
        root,
        appender.pieces_with(0).len() + 1,
        trailer.dicts.len(),
        trailer.deltas.len(),
    );
    if most > MAX_PAYLOAD as usize {
        return Err(Error::Setting(format!(
            "the stored file is too large: the record of this commit would take {most} bytes, and {MAX_PAYLOAD} is the most that can be read"
        )));
    }
    appender.make_room(&mut space, (RECORD_LEN + most) as u64, p.commit)?;
    let pieces = appender.pieces_with(0).len();
    let len =
        (RECORD_LEN + payload_len(root, pieces, trailer.dicts.len(), trailer.deltas.len())) as u64;
    let off = appender.pos();
    trailer.pieces = appender.pieces_with(len);
    trailer.next_off = off + len;
    trailer.room_end = appender.room_end();
    trailer.tail_off = if trailer.room_end == OPEN_END {
        appender.tail_off().max(off + len)
    } else {
        appender.tail_off()
    };
    let mut payload = trailer.encode();
    let hash = appender.chain().finish(&payload);
    payload.extend_from_slice(&hash);
    let mut record = Vec::new();
    Record::plain(Kind::Trailer, 0, p.commit).put(&payload, shared.salt, off, &mut record);
    debug_assert_eq!(record.len() as u64, len);
    let now = not_overtaken(file, shared.salt, &p.tip_before)?;
    writer.keep_reserve(file, trailer.tail_off)?;
    let tip = Tip {
        commit: p.commit,
        off,
        len: len as u32,
        hash,
    };
    p.tried = Some(tip);
    appender.flush_with(file, &record)?;
    let raw = tip.encode(shared.salt);
    write_tip(file, &now, &raw)?;
    // From here on the commit is everybody's.
    space.add(off, len);
    space.written(&trailer.pieces, p.commit);
    space.give_back_extents(appender.left(), p.commit);
    if let Some(lanes) = appender.turned() {
        space.turn(lanes);
    }
    let written = appender.written() + len;
    {
        let mut now = shared.state.write();
        // Another thread may have seen the tip already, and followed.
        if now.tip != tip {
            now.apply(tip, &trailer);
        }
        now.tip_raw = raw;
    }
    if fold {
        space.give_up(current_extent(trailer.next_off, trailer.room_end));
    }
    writer.space = Some((tip, space));
    writer.wrote = true;
    writer.since_slot += written;
    writer.since_sync += written;
    let frame_bytes = p.appender.frame_bytes();
    if !besides.reclaim {
        writer.written_frame_bytes += frame_bytes;
    }
    writer.physical_len = writer.physical_len.max(trailer.tail_off);
    writer
        .reclaiming
        .committed(besides.reclaim, fold, frame_bytes);
    Ok(written)
}

/// Rule 1 is the caller's; where locks do not hold, this keeps one writer from building upon a commit that is not the newest any more.
/// Returns the tip block.
fn not_overtaken(file: &dyn File, salt: u64, before: &[u8; TIP_LEN]) -> Result<[u8; TIP_LEN]> {
    let now = read_tip(file)?;
    if now == *before {
        return Ok(now);
    }
    if Tip::decode(&now, salt).is_some() {
        return Err(Error::Overtaken);
    }
    // One that is not whole was torn by a write of our own that failed, unless it is of other contents.
    if recover::salt_of(file)? != Some(salt) {
        return Err(Error::Overwritten);
    }
    Ok(now)
}

/// Publishes. A write that fails may have written nevertheless: what everybody sees is published; what nobody can read
/// is put back as it was.
fn write_tip(file: &dyn File, before: &[u8; TIP_LEN], raw: &[u8; TIP_LEN]) -> Result<()> {
    let Err(e) = file.write_at(raw, TIP_OFF) else {
        return Ok(());
    };
    if read_tip(file).is_ok_and(|now| now == *raw) {
        return Ok(());
    }
    // If that fails as well, recovery goes by what is whole.
    let _ = file.write_at(before, TIP_OFF);
    Err(e.into())
}

/// The map's changes: written pages, and pages that were cut off.
fn deltas(
    shared: &Shared,
    file: &dyn File,
    state: &CommitBase,
    p: &Pending,
) -> Result<Vec<(u32, Entry)>> {
    let stored = |(page, w): (&u32, &PendingPage)| match w {
        PendingPage::Stored(e) => Ok((*page, *e)),
        // All are by now, unless encoding or placing some of them failed: without them it is not what was written.
        PendingPage::Raw { .. } => Err(Error::Setting(format!(
            "page {page} was not stored by an earlier attempt; write it again or give the transaction up"
        ))),
    };
    let mut deltas: Vec<(u32, Entry)> = p.pages.iter().map(stored).collect::<Result<_>>()?;
    let now = shared.state.read();
    for page in p.visible + 1..=state.pages {
        let Ok(page) = u32::try_from(page) else { break };
        if !p.pages.contains_key(&page) && !shared.lookup(file, &now, page)?.is_none() {
            deltas.push((page, Entry::NONE));
        }
    }
    deltas.sort_unstable_by_key(|d| d.0);
    Ok(deltas)
}

/// What of the state a commit builds upon.
struct CommitBase {
    tip: Tip,
    logical_len: u64,
    page_size: u32,
    head: [u8; crate::format::trailer::HEAD_LEN],
    pages: u64,
    overlay_len: usize,
    trailer_bytes: u64,
}

impl State {
    fn clone_for_commit(&self) -> CommitBase {
        CommitBase {
            tip: self.tip,
            logical_len: self.logical_len,
            page_size: self.page_size,
            head: self.head,
            pages: self.pages(),
            overlay_len: self.overlay.len(),
            trailer_bytes: self.unfolded_bytes(),
        }
    }
}
