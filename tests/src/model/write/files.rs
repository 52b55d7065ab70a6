//! Steps about a whole database file.

use super::World;
use crate::model::kind::Kind::{self, *};
use crate::model::step::{Action, Proof, Step};

pub(crate) const PAGE_SIZES: &[usize] = &[512, 1024, 2048, 4096, 8192, 16384, 32768, 65536];

impl World {
    pub(super) fn file_step(&mut self, kind: Kind) -> Step {
        match kind {
            VacuumPageSize => {
                let mut to = self.home_page_size;
                while to == self.home_page_size && self.page_size == self.home_page_size {
                    to = *self.dice.pick(PAGE_SIZES);
                }
                let sql = format!("PRAGMA main.page_size = {to}; VACUUM; PRAGMA main.page_size");
                Step::new(kind, Action::Main(sql), Proof::Last(to.to_string()))
            }
            VacuumInto | VacuumIntoPlain => {
                let plain = kind == VacuumIntoPlain;
                // For Densite, this parameter keeps the copy plain. SQLite alone ignores it.
                let off = if plain { "?densite=off" } else { "" };
                let size = *self.dice.pick(PAGE_SIZES);
                let sql = if self.dice.percent(30) {
                    let now = self.page_size;
                    format!(
                        "PRAGMA main.page_size = {size}; VACUUM main INTO 'file:{{DIR}}/into.db{off}'; PRAGMA main.page_size = {now}"
                    )
                } else {
                    format!("VACUUM main INTO 'file:{{DIR}}/into.db{off}'")
                };
                Step::new(kind, Action::VacuumInto { sql, plain }, Proof::Ok)
            }
            BackupOut | BackupOutPlain => {
                let pages = *self.dice.pick(&[-1, -1, 1000, 7, 20]);
                let between = (pages > 0 && self.dice.percent(50))
                    .then(|| "INSERT INTO keep_log VALUES ('during backup', 1)".to_owned());
                let action = Action::BackupOut {
                    plain: kind == BackupOutPlain,
                    pages,
                    between,
                };
                Step::new(kind, action, Proof::Ok)
            }
            BackupIn | BackupInPlain => {
                let pages = *self.dice.pick(&[-1, -1, 1000, 11]);
                Step::new(
                    kind,
                    Action::BackupIn {
                        plain: kind == BackupInPlain,
                        pages,
                    },
                    Proof::Ok,
                )
            }
            AutoVacuumNone => self.auto_vacuum_step(kind, 0),
            AutoVacuumFull => self.auto_vacuum_step(kind, 1),
            AutoVacuumIncremental => self.auto_vacuum_step(kind, 2),
            IncrementalVacuum => {
                let (size, pages) = (self.page_size * 6, self.dice.between(1, 9));
                let sql = format!(
                    "CREATE TABLE main.scratch AS SELECT blob_of(1, {size}); DROP TABLE main.scratch;
                     PRAGMA main.freelist_count; PRAGMA main.incremental_vacuum({pages}); PRAGMA main.freelist_count"
                );
                Step::new(kind, Action::Main(sql), Proof::Differ)
            }
            Reopen => {
                let check = self.dice.percent(30);
                let keep_second = self.dice.percent(30);
                let settings = self.settings();
                Step::new(
                    kind,
                    Action::Reopen {
                        settings,
                        keep_second,
                        check,
                    },
                    Proof::Ok,
                )
            }
            Digest => Step::new(kind, Action::Digest, Proof::Ok),
            _ => Step::sql(kind, "VACUUM"),
        }
    }

    fn auto_vacuum_step(&mut self, kind: Kind, mode: u8) -> Step {
        let sql = format!("PRAGMA main.auto_vacuum = {mode}; VACUUM; PRAGMA main.auto_vacuum");
        Step::new(kind, Action::Main(sql), Proof::Last(mode.to_string()))
    }

    /// URI parameters of Densite's.
    pub(crate) fn settings(&mut self) -> String {
        let mut all = String::new();
        let choices: &[(&str, &[&str])] = &[
            ("level", &["-7", "1", "3", "9"]),
            ("threads", &["0", "1", "2"]),
            ("decoded_cache", &["0", "1", "64"]),
            ("run_pages", &["auto", "1", "4", "16"]),
            ("codec", &["auto", "zstd", "raw"]),
            ("readahead", &["auto", "on", "off"]),
        ];
        for (name, values) in choices {
            if self.dice.percent(40) {
                all.push_str(&format!("&{name}={}", self.dice.pick(values)));
            }
        }
        all
    }
}
