//! Attached databases and temporary tables.

use super::World;
use super::values::numbers;
use crate::model::kind::Kind::{self, *};
use crate::model::step::{Action, Proof, Step};

const TEMP_MAX: usize = 3;

impl World {
    pub(super) fn attached_step(&mut self, kind: Kind) -> Option<Step> {
        Some(match kind {
            Attach if !self.attached => self.attach(kind, "aux", ""),
            AttachPlain if !self.attached_plain => self.attach(kind, "auxp", "?densite=off"),
            Detach => {
                let schema = self.some_attached()?;
                Step::sql(kind, format!("DETACH {schema}"))
            }
            CrossCommit | CrossRollback => {
                let schema = self.some_attached()?;
                let end = if kind == CrossCommit {
                    "COMMIT"
                } else {
                    "ROLLBACK"
                };
                let (seed, count) = (self.dice.below(10_000), self.dice.between(1, 60));
                let both = if self.attached && self.attached_plain {
                    "INSERT INTO aux.a1(v) VALUES ('both'); INSERT INTO auxp.a1(v) VALUES ('both');"
                } else {
                    ""
                };
                let sql = format!(
                    "BEGIN; {both} INSERT INTO main.keep_log VALUES ('cross', {seed});
                     {} INSERT INTO {schema}.a1(v, big) SELECT text_of(i + {seed}, 40), blob_of(i, 200) FROM n;
                     DELETE FROM {schema}.a1 WHERE k % 7 = 3; DELETE FROM main.keep_log WHERE rowid % 5 = 2; {end};
                     SELECT count(*), (SELECT count(*) FROM main.keep_log) FROM {schema}.a1",
                    numbers(count)
                );
                Step::writes(kind, sql)
            }
            TempCreate if self.catalog.of("temp", "p").len() < TEMP_MAX => {
                let name = self.name("p");
                Step::sql(
                    kind,
                    format!(
                        "CREATE TEMP TABLE {name}(k INTEGER PRIMARY KEY, a TEXT, b BLOB); CREATE INDEX temp.{name}_a ON {name}(a)"
                    ),
                )
            }
            TempWrite => {
                let name = self.temp_table()?;
                let (seed, count) = (self.dice.below(1000), self.dice.between(1, 60));
                let sql = match self.dice.below(3) {
                    0 => format!(
                        "DELETE FROM temp.{name}; INSERT INTO temp.{name}(a) SELECT what FROM main.keep_log; INSERT INTO temp.{name}(a) VALUES ('one')"
                    ),
                    1 => format!(
                        "INSERT INTO temp.{name}(a) VALUES ('a'), ('b'); UPDATE temp.{name} SET b = blob_of(k, 100), a = a || 'x' WHERE length(a) < 500"
                    ),
                    _ => format!(
                        "{} INSERT INTO temp.{name}(a, b) SELECT text_of(i * {seed}, 30), blob_of(i, 300) FROM n",
                        numbers(count)
                    ),
                };
                Step::writes(kind, sql)
            }
            TempDrop => {
                let name = self.temp_table()?;
                Step::sql(kind, format!("DROP TABLE temp.{name}"))
            }
            _ => return None,
        })
    }

    fn attach(&mut self, kind: Kind, schema: &str, parameters: &str) -> Step {
        let journal = *self
            .dice
            .pick(&["delete", "truncate", "persist", "memory", "wal"]);
        let sync = *self.dice.pick(&["OFF", "OFF", "NORMAL", "FULL"]);
        let size = self.home_page_size;
        let sql = format!(
            "ATTACH 'file:{{DIR}}/{schema}.db{parameters}' AS {schema}; PRAGMA {schema}.page_size = {size};
             CREATE TABLE IF NOT EXISTS {schema}.a1(k INTEGER PRIMARY KEY, v TEXT, big BLOB);
             PRAGMA {schema}.synchronous = {sync}; SELECT count(*) FROM {schema}.a1; PRAGMA {schema}.journal_mode = {journal}"
        );
        Step::new(kind, Action::Main(sql), Proof::Ok)
    }

    fn some_attached(&mut self) -> Option<&'static str> {
        let found = [("aux", self.attached), ("auxp", self.attached_plain)];
        let there = found
            .iter()
            .filter(|(_, there)| *there)
            .map(|(schema, _)| *schema)
            .collect();
        self.dice.pick_from(there)
    }

    fn temp_table(&mut self) -> Option<String> {
        let found = self.catalog.of("temp", "p");
        let names = found.iter().map(|t| t.name.clone()).collect();
        self.dice.pick_from(names)
    }
}
