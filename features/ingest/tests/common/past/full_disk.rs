//! Missing room: a disk that is full for a while, and rows that wait to be applied. And making
//! room: a subscriber acknowledges rows, and the log is pruned.

use super::*;

impl World {
    /// The disk of the log or of the database is full for a while.
    pub(super) fn be_full(&mut self, r: &mut StdRng) {
        let which = r.random_range(0..3);
        if which != 1 {
            // The worker has errors now, so no connection may wait for it.
            self.limit(0);
        }
        let log = self.storage.faults.full.clone();
        log.store(which != 0, Ordering::SeqCst);
        tight::IS_FULL.store(which != 1, Ordering::SeqCst);
        self.write(r, 4, 12);
        std::thread::sleep(Duration::from_millis(r.random_range(0..60)));
        self.look(r, |_, _| {});
        log.store(false, Ordering::SeqCst);
        tight::IS_FULL.store(false, Ordering::SeqCst);
    }

    /// The limit of waiting bytes; 0 for no limit.
    pub(super) fn limit(&mut self, bytes: u64) {
        self.limited = bytes > 0;
        let sql = format!("SELECT densite_config('max_unapplied_bytes', {bytes})");
        let set = self.con[0].query_row(&sql, [], |_| Ok(()));
        set.unwrap_or_else(|e| panic!("{}: {e}", self.what));
    }

    /// A subscriber reads the log and acknowledges what it has read.
    pub(super) fn listen(&mut self, r: &mut StdRng) {
        let most = r.random_range(1..60);
        let there = self.hears("one", self.heard, most);
        if there == 0 {
            return;
        }
        let last = self.changes.range(self.heard + 1..);
        let last = last.take(r.random_range(0..=there)).last();
        self.heard = last.map_or(self.heard, |(seq, _)| *seq);
        self.say("one", self.heard);
    }

    /// A subscriber at `from` finds the rows behind it in the log, whatever was pruned before it.
    /// Returns the number of rows.
    fn hears(&self, name: &str, from: i64, most: usize) -> usize {
        let sql = format!("SELECT seq, op FROM densite_log('{name}', {most})");
        let op = |sql: &str| match sql.split(' ').next() {
            Some("DELETE") => "delete",
            Some("UPDATE") => "update",
            _ => "insert",
        };
        let there = self.changes.range(from + 1..).take(most);
        let there: Vec<String> = there
            .map(|(seq, sql)| format!("{seq}|{}", op(sql)))
            .collect();
        for con in &self.con {
            assert_eq!(
                all(con, &sql),
                there,
                "{}: what {name} hears behind {from}",
                self.what
            );
        }
        there.len()
    }

    fn say(&self, name: &str, seq: i64) {
        let ack = format!("SELECT densite_ack('{name}', {seq})");
        let done = self.con[0].query_row(&ack, [], |_| Ok(()));
        done.unwrap_or_else(|e| panic!("{}: {ack}: {e}", self.what));
    }

    /// Number of the first segment of the log.
    fn first_segment(&self) -> u64 {
        let names = std::fs::read_dir(self.db.log_dir()).expect("a folder");
        let names = names.map(|e| e.expect("an entry").file_name());
        let number = |name: std::ffi::OsString| {
            let name = name.to_string_lossy().into_owned();
            name.strip_suffix(".seg")?.parse().ok()
        };
        names.filter_map(number).min().expect("a segment")
    }

    /// Rows that neither a backup nor a subscriber needs can be pruned; needed rows stay. Often the
    /// subscriber has read everything.
    pub(super) fn prune(&mut self, r: &mut StdRng) {
        if r.random_bool(0.7) {
            let last = self.changes.last_key_value();
            self.heard = last.map_or(0, |(seq, _)| *seq);
            self.say("one", self.heard);
        }
        let seq = "SELECT seq FROM densite_applied";
        let needed: i64 = match &self.backup {
            Some((backup, ..)) => one(backup, seq),
            None => one(&self.plain, seq),
        };
        self.say("all", needed);
        let before = self.first_segment();
        let done = self.con[0].query_row("SELECT densite_prune()", [], |_| Ok(()));
        if let Err(e) = done {
            // Another pruning is running.
            assert_eq!(
                e.sqlite_error_code(),
                Some(ErrorCode::DatabaseBusy),
                "{}: {e}",
                self.what
            );
        }
        self.pruned += self.first_segment() - before;
        self.hears("all", needed, 1000);
        self.hears("one", self.heard, 1000);
    }

    /// If only the last segment is needed, all others are pruned.
    pub(super) fn empty_the_log(&mut self) {
        self.heard = one(&self.con[0], "SELECT densite_log_last()");
        self.say("one", self.heard);
        self.say("all", self.heard);
        let before = self.first_segment();
        let until = Instant::now() + Duration::from_secs(20);
        while self.db.segments() > 1 {
            assert!(Instant::now() < until, "{}: it is not pruned", self.what);
            self.con[0]
                .query_row("SELECT densite_prune()", [], |_| Ok(()))
                .ok();
        }
        self.pruned += self.first_segment() - before;
    }
}
