//! Publishing: the pending writes become one commit that all connections see.
//!
//! All pages are encoded and appended as frames. The accounting is updated; from time to time the
//! map is folded into new nodes. The trailer is written after them, and then the tip, which makes
//! the commit visible. A failure before the tip leaves the published state unchanged, and the same
//! writes can be published again. One data sync makes the commit durable (`Connection::sync`).
//! Publishing syncs only after a long time without a sync (`Connection::sync_and_name`).

mod fold;
mod gather;

pub(crate) use gather::everything;

use crate::connection::Connection;
use crate::error::{Error, Result};
use crate::format::TIP_OFF;
use crate::format::record::{Kind, MAX_PAYLOAD, RECORD_LEN, Record};
use crate::format::tip::{TIP_LEN, Tip, read_tip};
use crate::format::trailer::{OPEN_END, RootSection, Trailer, payload_len};
use crate::options::Tuning;
use crate::recover;
use crate::shared::Shared;
use crate::state::current_extent;
use crate::transaction::Transaction;
use crate::writer::Writer;
use densite_disk::File;
use fold::fold_map;
use std::sync::Arc;

/// A small file is folded when a part of it of 1 / `SHARE` is trailers: an entry takes ten times as
/// many bytes in a trailer as in a node.
const SHARE: u64 = 32;

/// Undoing a commit that folds the map folds it again at most. That takes as many bytes as it took
/// the first time, if the same pages share nodes, and some more for the accounting.
const FOLD_AGAIN: u64 = 2;
const FOLD_LEAST: u64 = 128 << 10;
/// Bytes of an undoing commit besides its trailer: jumps to other extents.
const UNDO_SPARE: usize = 1 << 10;

/// What a commit does in addition to publishing the pending writes.
#[derive(Default)]
pub(crate) struct CommitOptions {
    /// Fold the map.
    pub(crate) fold: bool,
    /// Commit even if nothing changed: the trailer names the new end of the file.
    pub(crate) even_empty: bool,
    /// SQLite can still undo the commit, because its journal exists: the file must have room for
    /// that (rule S11).
    pub(crate) undoable: bool,
    /// The commit reclaims space: its pages are unchanged, in other places.
    pub(crate) reclaim: bool,
}

impl CommitOptions {
    /// A commit of space reclamation that moves nothing: it has the next number, and names the end
    /// of the file.
    pub(crate) fn empty_reclaim() -> CommitOptions {
        CommitOptions {
            even_empty: true,
            reclaim: true,
            ..CommitOptions::default()
        }
    }
}

/// Makes one commit of what `f` does, and publishes it.
///
/// # Errors
/// Those of `f` and of [`publish`]: nothing has changed then.
pub(crate) fn in_transaction<T>(
    connection: &mut Connection,
    f: impl FnOnce(&mut Transaction, &mut Connection) -> Result<T>,
) -> Result<T> {
    let mut transaction = Transaction::begin(connection, 0)?;
    let done = f(&mut transaction, connection);
    let mut transaction = Some(transaction);
    let published = done.and_then(|done| {
        publish(connection, &mut transaction, &CommitOptions::default())?;
        Ok(done)
    });
    if let Some(transaction) = transaction {
        transaction.discard(connection);
    }
    published
}

/// Publishes the transaction, if there is one, and ends it. Returns the bytes that were appended.
///
/// # Errors
/// I/O, a full disk: nothing was published, and the call can be repeated.
pub(crate) fn publish(
    connection: &mut Connection,
    transaction: &mut Option<Transaction>,
    besides: &CommitOptions,
) -> Result<u64> {
    connection.open.check_poison()?;
    if transaction.is_none() {
        return Ok(0);
    }
    let done = attempt(connection, transaction, besides);
    // A rollback needs no space (rule S11).
    let rolled_back = match &done {
        Err(error) if error.is_of_disk() => Transaction::needs_no_frames(connection, transaction)?,
        _ => false,
    };
    match rolled_back {
        true => attempt(connection, transaction, besides),
        false => done,
    }
}

fn attempt(
    connection: &mut Connection,
    transaction: &mut Option<Transaction>,
    besides: &CommitOptions,
) -> Result<u64> {
    let Some(open) = transaction else {
        return Ok(0);
    };
    let done = finish_and_commit(connection, open, besides).and_then(|written| {
        if let (Some(published), Some(shared)) = (transaction.take(), connection.open.known()) {
            published.note_heat(shared);
        }
        // While SQLite can still undo the commit, it must not be named in a slot: the frames that
        // it replaced would then be free (rule S11). SQLite syncs next, or ends the journal.
        if written > 0 && !besides.undoable {
            sync_if_due(connection)?;
        }
        Ok(written)
    });
    if let Err(error) = &done {
        if let Some(open) = transaction {
            open.failed(error);
        }
        if let Some(shared) = connection.open.known() {
            let mut writer = shared.writer.lock();
            writer.accounting.forget();
            writer.attempts.failed();
        }
    }
    done
}

fn finish_and_commit(
    connection: &mut Connection,
    transaction: &mut Transaction,
    besides: &CommitOptions,
) -> Result<u64> {
    transaction.void_attempt(connection)?;
    transaction.settle_share(connection)?;
    transaction.finish_batches(connection)?;
    transaction.regrain(connection)?;
    let shared = connection.open.shared()?;
    transaction.count_hot(&shared);
    let file = connection.open.file();
    let mut writer = shared.writer.lock();
    writer.account(&shared.sources(file), &shared.state.read())?;
    let tuning = &connection.open.options().tuning;
    commit(&shared, &mut writer, file, transaction, besides, tuning)
}

/// Syncs from time to time if the caller never does.
///
/// # Errors
/// As [`Connection::sync`].
pub(crate) fn sync_if_due(connection: &mut Connection) -> Result<()> {
    let every_bytes = connection.open.options().tuning.self_sync_every_bytes;
    let shared = connection.open.shared()?;
    let due = shared.writer.lock().durability.is_sync_due(every_bytes);
    if due {
        connection.sync_and_name(&shared)?;
    }
    Ok(())
}

/// Makes the commit. Returns the bytes that it appended; 0 if there was nothing to commit.
fn commit(
    shared: &Arc<Shared>,
    writer: &mut Writer,
    file: &dyn File,
    p: &mut Transaction,
    besides: &CommitOptions,
    tuning: &Tuning,
) -> Result<u64> {
    // The caller has just loaded the accounting. Without it nothing may be published.
    let Some(mut space) = writer.accounting.take() else {
        return Err(Error::Overtaken);
    };
    let number = p.number();
    let (newest, deltas, fold);
    {
        let state = shared.state.read();
        newest = state.tip();
        deltas = p.deltas(shared, file, &state)?;
        let same = p.logical_len() == state.logical_len()
            && p.page_size() == state.page_size()
            && p.head() == state.head()
            && p.learned() == state.learned();
        let nothing = deltas.is_empty() && p.new_dicts().is_empty() && same;
        if nothing && !besides.fold && !besides.even_empty {
            space.give_back_extents(p.appender().taken(), number);
            writer.accounting.put(state.tip(), space);
            return Ok(0);
        }
        let own = payload_len(None, 0, p.new_dicts().len(), deltas.len());
        // A rollback without space is folded by the next commit.
        let fits = p.has_no_frames() && p.appender().tail_off() + 2 * own as u64 <= file.len()?;
        let most = tuning.fold_trailer_bytes;
        let trailers = (space.live_bytes() / SHARE)
            .max(tuning.fold_small_bytes)
            .min(most);
        let is_due = deltas.len() > tuning.fold_deltas
            || state.overlay().len() + deltas.len() > tuning.fold_entries
            || state.unfolded_bytes() + own as u64 > trailers;
        fold = besides.fold || is_due && !fits || own > MAX_PAYLOAD as usize / 2;
        for (page, new) in &deltas {
            space.sub_entry(&shared.lookup(file, &state, *page)?, number);
            space.add_entry(new);
        }
    }
    let mut least = match besides.undoable && !p.has_no_frames() {
        true => undo_bytes(deltas.len(), shared.state.read().dicts().len()),
        false => 0,
    };
    for d in p.new_dicts() {
        space.add(d.place.off, u64::from(d.place.len));
    }
    let mut trailer = Trailer {
        commit: number,
        epoch: writer.attempts.epoch(),
        page_size: p.page_size(),
        logical_len: p.logical_len(),
        next_off: 0,
        room_end: 0,
        tail_off: 0,
        prev: newest,
        head: *p.head(),
        learned: p.learned(),
        root: None,
        pieces: Vec::new(),
        dicts: Vec::new(),
        deltas,
    };
    if fold {
        let rewrite = writer.reclaiming.for_fold();
        let before = p.appender().written();
        fold_map(shared, writer, file, p, &mut space, &mut trailer, rewrite)?;
        least = least.min(FOLD_AGAIN * (p.appender().written() - before) + FOLD_LEAST);
    } else {
        trailer.dicts.extend_from_slice(p.new_dicts());
    }
    let before = *p.tip_before();
    let appender = p.appender();
    let root = trailer.root.as_ref().map(RootSection::counts);
    // `make_room` may add a jump and so a piece, so one more is counted.
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
    appender.make_room(&mut space, (RECORD_LEN + most) as u64, number)?;
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
    Record::plain(Kind::Trailer, 0, number).put(&payload, shared.salt, off, &mut record);
    debug_assert_eq!(record.len() as u64, len);
    let now = not_overtaken(file, shared.salt, &before)?;
    writer
        .durability
        .keep_reserve(file, trailer.tail_off, least)?;
    let tip = Tip {
        commit: number,
        off,
        len: len as u32,
        hash,
    };
    p.tries(tip);
    let appender = p.appender();
    appender.flush_with(file, &record)?;
    let raw = tip.encode(shared.salt);
    write_tip(file, &now, &raw)?;
    // From here on the commit is published.
    space.add(off, len);
    space.written(&trailer.pieces, number);
    space.give_back_extents(appender.left(), number);
    if let Some(lanes) = appender.turned() {
        space.turn(lanes);
    }
    let written = appender.written() + len;
    {
        let mut now = shared.state.write();
        // Another thread may have seen the tip and applied the commit already.
        if now.tip() != tip {
            now.apply(tip, &trailer);
        }
        now.note_tip_block(raw);
    }
    if fold {
        space.give_up(current_extent(trailer.next_off, trailer.room_end));
    }
    let frame_bytes = appender.frame_bytes();
    writer.accounting.put(tip, space);
    writer.attempts.succeeded();
    writer.durability.appended(written, trailer.tail_off);
    if !besides.reclaim {
        writer.stored.frame_bytes += frame_bytes;
    }
    writer
        .reclaiming
        .committed(besides.reclaim, fold, frame_bytes);
    Ok(written)
}

/// The bytes that undoing a commit takes without a fold: a trailer with the entries before of as
/// many pages, and with dictionaries that the commit can have dropped (`transaction::undo`).
fn undo_bytes(pages: usize, dicts: usize) -> u64 {
    (RECORD_LEN + payload_len(None, 3, dicts, pages) + UNDO_SPARE) as u64
}

/// The caller must keep rule S1. If locks do not work, this check keeps a writer from building on a
/// commit that is not the newest any more. Returns the tip block.
fn not_overtaken(file: &dyn File, salt: u64, before: &[u8; TIP_LEN]) -> Result<[u8; TIP_LEN]> {
    let now = read_tip(file)?;
    if now == *before {
        return Ok(now);
    }
    if Tip::decode(&now, salt).is_some() {
        return Err(Error::Overtaken);
    }
    // A tip that is not whole was torn by a failed write of this process, unless the file has other
    // contents.
    if recover::salt_of(file)? != Some(salt) {
        return Err(Error::Overwritten);
    }
    Ok(now)
}

/// Publishes. A write that fails may have reached the file: if the tip is whole, it is published.
/// Otherwise the old tip is written back.
fn write_tip(file: &dyn File, before: &[u8; TIP_LEN], raw: &[u8; TIP_LEN]) -> Result<()> {
    let Err(e) = file.write_at(raw, TIP_OFF) else {
        return Ok(());
    };
    if read_tip(file).is_ok_and(|now| now == *raw) {
        return Ok(());
    }
    // If that fails too, recovery finds the newest whole commit.
    let _ = file.write_at(before, TIP_OFF);
    Err(e.into())
}
