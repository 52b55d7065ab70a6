//! Publishing: the pending writes become one commit that all connections see.
//!
//! All pages are encoded and appended as frames. The accounting is updated; from time to time the
//! map is folded into new nodes. The trailer is written after them, and then the tip, which makes
//! the commit visible. A failure before the tip leaves the published state unchanged, and the same
//! writes can be published again. One data sync makes the commit durable (`connection::sync`).
//! Publishing syncs only after a long time without a sync (`Connection::sync_and_name`).

mod commit;
mod fold;
mod gather;

pub(crate) use commit::CommitOptions;
pub(crate) use gather::everything;

use crate::connection::Connection;
use crate::error::Result;
use crate::transaction::Transaction;

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
    let done = commit(connection, open, besides).and_then(|written| {
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

fn commit(
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
    commit::commit(&shared, &mut writer, file, transaction, besides, tuning)
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
