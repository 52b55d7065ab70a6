//! What there is no room for: a disk that is full for a while, rows that wait for others to be applied. And what makes room: who reads the log says how far, and it is pruned.

use super::*;

impl World {
    /// The disk of the log, or that of the database, has no more room for a while.
    pub(super) fn be_full(&mut self, r: &mut StdRng) {
        let which = r.random_range(0..3);
        if which != 1 {
            // The worker has its troubles, so nobody may wait for it.
            self.limit(0);
        }
        medium::LOG_IS_FULL.store(which != 0, Ordering::SeqCst);
        medium::DATABASE_IS_FULL.store(which != 1, Ordering::SeqCst);
        self.write(r, 4, 12);
        std::thread::sleep(Duration::from_millis(r.random_range(0..60)));
        self.look(r, |_, _| {});
        medium::LOG_IS_FULL.store(false, Ordering::SeqCst);
        medium::DATABASE_IS_FULL.store(false, Ordering::SeqCst);
    }

    /// How many bytes may wait; 0 for any number.
    pub(super) fn limit(&mut self, bytes: u64) {
        self.limited = bytes > 0;
        let sql = format!("SELECT densite_config('max_unapplied_bytes', {bytes})");
        let set = self.con[0].query_row(&sql, [], |_| Ok(()));
        set.unwrap_or_else(|e| panic!("{}: {e}", self.what));
    }

    /// Somebody reads the log, and says how far he has come.
    pub(super) fn listen(&mut self, r: &mut StdRng) {
        let con = &self.con[r.random_range(0..self.con.len())];
        let most = r.random_range(1..60);
        let heard = all(
            con,
            &format!("SELECT seq, op FROM densite_log('one', {most})"),
        );
        let op = |sql: &str| match sql.split(' ').next() {
            Some("DELETE") => "delete",
            Some("UPDATE") => "update",
            _ => "insert",
        };
        let there = self.changes.range(self.heard + 1..).take(most);
        let there: Vec<String> = there
            .map(|(seq, sql)| format!("{seq}|{}", op(sql)))
            .collect();
        assert_eq!(
            heard, there,
            "{}: what is heard behind {}",
            self.what, self.heard
        );
        if there.is_empty() {
            return;
        }
        let last = self.changes.range(self.heard + 1..);
        let last = last.take(r.random_range(0..=there.len())).last();
        self.heard = last.map_or(self.heard, |(seq, _)| *seq);
        let ack = format!("SELECT densite_ack('one', {})", self.heard);
        let done = con.query_row(&ack, [], |_| Ok(()));
        done.unwrap_or_else(|e| panic!("{}: {ack}: {e}", self.what));
    }

    /// What neither a backup nor anybody who reads needs may go.
    pub(super) fn prune(&mut self) {
        let seq = "SELECT seq FROM densite_applied";
        let needed: i64 = match &self.backup {
            Some((backup, ..)) => one(backup, seq),
            None => one(&self.plain, seq),
        };
        let ack = format!("SELECT densite_ack('all', {needed})");
        let done = self.con[0].query_row(&ack, [], |_| Ok(()));
        done.unwrap_or_else(|e| panic!("{}: {ack}: {e}", self.what));
        let pruned =
            self.con[0].query_row("SELECT densite_prune()", [], |row| row.get::<_, i64>(0));
        match pruned {
            Ok(bytes) => self.pruned += i64::from(bytes > 0),
            // Somebody else is at it.
            Err(e) => assert_eq!(
                e.sqlite_error_code(),
                Some(ErrorCode::DatabaseBusy),
                "{}: {e}",
                self.what
            ),
        }
    }
}
