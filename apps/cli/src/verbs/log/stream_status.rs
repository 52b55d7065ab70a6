//! What `densite log status` shows of the stream of a database.

use crate::out;
use crate::shown::shown;
use crate::sqlite;
use rusqlite::{Connection, OpenFlags, OptionalExtension as _};
use serde_json::{Value, json};
use std::path::Path;

fn number(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}

/// The row of `densite_stream_status()`.
pub(super) struct Stream {
    address: String,
    origin: String,
    message: u64,
    last_message: Option<u64>,
    messages_behind: Option<u64>,
    members: Vec<String>,
    skipped_messages: u64,
    stopped: Option<String>,
    trouble: Option<String>,
}

impl Stream {
    /// `None` if the database is no member of a stream, or cannot be read. This asks the server. It
    /// changes nothing, and does not apply rows.
    pub(super) fn of(db: &Path) -> Option<Stream> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let db = Connection::open_with_flags_and_vfs(db, flags, sqlite::VFS).ok()?;
        let sql = "SELECT address, origin, message, last_message, messages_behind, members, skipped_messages, stopped, trouble FROM densite_stream_status()";
        let found = db.query_row(sql, [], |row| {
            let members: String = row.get(5)?;
            Ok(Stream {
                address: row.get(0)?,
                origin: row.get(1)?,
                message: number(row.get(2)?),
                last_message: row.get::<_, Option<i64>>(3)?.map(number),
                messages_behind: row.get::<_, Option<i64>>(4)?.map(number),
                members: members.split_whitespace().map(str::to_owned).collect(),
                skipped_messages: number(row.get(6)?),
                stopped: row.get(7)?,
                trouble: row.get(8)?,
            })
        });
        found.optional().ok()?
    }

    pub(super) fn json(&self) -> Value {
        json!({
            "address": self.address,
            "origin": self.origin,
            "message": self.message,
            "last_message": self.last_message,
            "messages_behind": self.messages_behind,
            "members": self.members,
            "skipped_messages": self.skipped_messages,
            "stopped": self.stopped,
            "trouble": self.trouble,
        })
    }

    /// The lines of the text.
    pub(super) fn lines(&self, mut row: impl FnMut(&str, String)) {
        row("stream", shown(&self.address));
        row("member", shown(&self.origin));
        let behind = self.messages_behind.map(out::thousands);
        let behind = behind.map_or("unknown".to_owned(), |n| format!("{n} behind"));
        let at = out::thousands(self.message);
        row("applied message", format!("{at}, {behind}"));
        row("members", shown(&self.members.join(", ")));
        if self.skipped_messages > 0 {
            let skipped = out::thousands(self.skipped_messages);
            row(
                "skipped",
                format!("{skipped} messages that no member wrote (table densite_skipped)"),
            );
        }
        for (name, why) in [("stopped", &self.stopped), ("trouble", &self.trouble)] {
            if let Some(why) = why {
                row(name, shown(why));
            }
        }
    }
}
