//! FTS5 and R-Tree.

use super::World;
use super::values::numbers;
use crate::model::kind::Kind::{self, *};
use crate::model::step::{Action, Proof, Step};

const SEARCHES: &[&str] = &[
    "river",
    "river AND stone",
    "ap*",
    "\"quiet north\"",
    "NEAR(copper sail, 5)",
    "title: ember",
    "winter NOT cloud",
];

impl World {
    pub(super) fn search_step(&mut self, kind: Kind) -> Option<Step> {
        let extra = !self.catalog.objects("table", "fts_extra").is_empty();
        let (seed, k) = (self.dice.below(100_000), self.dice.between(1, 50));
        Some(match kind {
            FtsCreate if !extra => {
                let with = *self.dice.pick(&["", ", prefix='2 3'", ", detail=none", ", columnsize=0", ", tokenize='trigram'"]);
                Step::sql(kind, format!(
                    "CREATE VIRTUAL TABLE fts_extra USING fts5(x{with}); {} INSERT INTO fts_extra SELECT text_of(i * {seed}, 60) FROM n;
                     SELECT count(*) FROM fts_extra WHERE fts_extra MATCH 'river'", numbers(k)
                ))
            }
            FtsDrop if extra => Step::sql(kind, "DROP TABLE fts_extra"),
            FtsInsert => Step::writes(kind, format!(
                "{} INSERT INTO fts_keep(title, body) SELECT text_of(i + {seed}, 20), text_of(i * 3 + {seed}, 20 + (i * 37) % 300) FROM n",
                numbers(self.dice.between(1, 15))
            )),
            FtsUpdate => Step::writes(kind, format!(
                "INSERT INTO fts_keep(title) VALUES (text_of({k}, 20));
                 UPDATE fts_keep SET body = text_of({seed}, 90) WHERE rowid IN (SELECT rowid FROM fts_keep ORDER BY (rowid * {k}) % 97 LIMIT 3)"
            )),
            FtsDelete => Step::writes(kind, match self.dice.below(12) {
                0 => "INSERT INTO fts_keep(body) VALUES ('last'); DELETE FROM fts_keep".to_owned(),
                _ => format!(
                    "INSERT INTO fts_keep(body) VALUES (text_of({seed}, 50));
                     DELETE FROM fts_keep WHERE rowid IN (SELECT rowid FROM fts_keep ORDER BY (rowid * {k}) % 97 LIMIT {k})"
                ),
            }),
            FtsQuery => {
                let what = *self.dice.pick(SEARCHES);
                Step::new(kind, Action::Main(format!(
                    "SELECT rowid, highlight(fts_keep, 1, '[', ']'), bm25(fts_keep) FROM fts_keep WHERE fts_keep MATCH '{what}' ORDER BY rank, rowid LIMIT 8;
                     SELECT count(*) FROM fts_keep"
                )), Proof::Rows)
            }
            FtsMaintain => Step::sql(kind, match self.dice.below(5) {
                0 => "INSERT INTO fts_keep(fts_keep) VALUES ('optimize')",
                1 => "INSERT INTO fts_keep(fts_keep) VALUES ('rebuild')",
                2 => "INSERT INTO fts_keep(fts_keep, rank) VALUES ('merge', 8)",
                3 => "INSERT INTO fts_keep(fts_keep, rank) VALUES ('automerge', 2)",
                _ => "INSERT INTO fts_keep(fts_keep) VALUES ('integrity-check')",
            }),
            RtreeInsert => Step::writes(kind, format!(
                "{} INSERT INTO rt_keep(x0, x1, y0, y1, label) SELECT (i * 7 + {seed}) % 100, (i * 7 + {seed}) % 100 + 5, (i * {k}) % 90, (i * {k}) % 90 + i % 9, 'box ' || i FROM n",
                numbers(self.dice.between(1, 40))
            )),
            RtreeUpdate => Step::writes(kind, format!(
                "INSERT INTO rt_keep(x0, x1, y0, y1) VALUES ({k}, {k} + 1, 2, 3);
                 UPDATE rt_keep SET x1 = x1 + {k}, y1 = y1 + 1 WHERE id = (SELECT id FROM rt_keep ORDER BY (id * {k}) % 97 LIMIT 1)"
            )),
            RtreeDelete => Step::writes(kind, format!(
                "DELETE FROM rt_keep WHERE id IN (SELECT id FROM rt_keep ORDER BY x0 LIMIT {k})"
            )),
            RtreeQuery => Step::new(kind, Action::Main(format!(
                "SELECT id, x0, y1, label FROM rt_keep WHERE x0 >= {k} AND x1 <= {} AND y0 < 60 ORDER BY id LIMIT 20; SELECT rtreecheck('rt_keep')",
                k + 40
            )), Proof::Last("ok".to_owned())),
            _ => return None,
        })
    }
}
