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
        let log = self.storage.faults.full.clone();
        log.store(which != 0, Ordering::SeqCst);
        tight::IS_FULL.store(which != 1, Ordering::SeqCst);
        self.write(r, 4, 12);
        std::thread::sleep(Duration::from_millis(r.random_range(0..60)));
        self.look(r, |_, _| {});
        log.store(false, Ordering::SeqCst);
        tight::IS_FULL.store(false, Ordering::SeqCst);
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

    /// A subscriber at `from` finds what follows it in the log, whatever was pruned before it; answers how many rows it was given.
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

    /// What neither a backup nor anybody who reads needs may go, and what they need stays. Often the one who reads has come as far as he can.
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
            // Somebody else is at it.
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

    /// Where nobody needs anything but the last segment all others go.
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
