//! Schema changes.

use super::{Journal, World};
use crate::model::catalog::Table;
use crate::model::kind::Kind::{self, *};
use crate::model::step::{Action, Proof, Step};

const TABLES_MAX: usize = 8;
const INDEXES_MAX: usize = 10;

impl World {
    pub(super) fn schema_step(&mut self, kind: Kind) -> Option<Step> {
        let room = self.catalog.of("main", "tgwc").len() < TABLES_MAX;
        match kind {
            CreateTable if room => Some(self.create_table()),
            CreateWithoutRowid if room => Some(self.create_without_rowid()),
            CreateGenerated if room => Some(self.create_generated()),
            CreateTableAs if room => self.create_table_as(),
            DropTable => self.drop_table(),
            RenameTable => {
                let table = self.main_table("tgwc")?;
                let to = self.name(&table.name[..1]);
                Some(Step::sql(
                    kind,
                    format!("ALTER TABLE {} RENAME TO {to}", table.sql()),
                ))
            }
            AddColumn => self.add_column(),
            RenameColumn => {
                let table = self.main_table("tgwc")?;
                let from = self.dice.pick(&table.plain()).name.clone();
                let to = self.name(if from.starts_with('x') { "x" } else { "r" });
                let sql = format!("ALTER TABLE {} RENAME COLUMN {from} TO {to}", table.sql());
                Some(Step::sql(kind, sql))
            }
            DropColumn => self.drop_column(),
            CreateIndex => self.create_index(),
            DropIndex => {
                let index = self.object("index", "i")?;
                Some(Step::sql(kind, format!("DROP INDEX main.{index}")))
            }
            Reindex => {
                let sql = match self.object("index", "i") {
                    Some(index) if self.dice.percent(70) => format!("REINDEX main.{index}"),
                    _ => "REINDEX".to_owned(),
                };
                Some(Step::sql(kind, sql))
            }
            Analyze => {
                let sql = *self.dice.pick(&[
                    "ANALYZE main",
                    "ANALYZE main",
                    "PRAGMA main.optimize=0xfffe",
                ]);
                Some(Step::sql(kind, sql))
            }
            CreateView => self.create_view(),
            DropView => {
                let view = self.object("view", "v")?;
                Some(Step::sql(kind, format!("DROP VIEW main.{view}")))
            }
            CreateTrigger => self.create_trigger(),
            DropTrigger => {
                let trigger = self.object("trigger", "r")?;
                Some(Step::sql(kind, format!("DROP TRIGGER main.{trigger}")))
            }
            _ => None,
        }
    }

    fn object(&mut self, kind: &str, prefix: &str) -> Option<String> {
        let found = self.catalog.objects(kind, prefix);
        let names = found.iter().map(|o| o.name.clone()).collect();
        self.dice.pick_from(names)
    }

    fn create_table(&mut self) -> Step {
        let name = self.name("t");
        let id = *self.dice.pick(&[
            "id INTEGER PRIMARY KEY, ",
            "id INTEGER PRIMARY KEY AUTOINCREMENT, ",
            "id INTEGER PRIMARY KEY, ",
            "",
        ]);
        let a = *self.dice.pick(&[
            "",
            " NOT NULL DEFAULT 7",
            " UNIQUE",
            " CHECK(a IS NULL OR a <> 3)",
        ]);
        let b = *self.dice.pick(&[
            "",
            " COLLATE NOCASE",
            " NOT NULL DEFAULT 'none'",
            " DEFAULT (upper('x'))",
        ]);
        let sql = format!("CREATE TABLE main.{name}({id}a INTEGER{a}, b TEXT{b}, c BLOB, d REAL)");
        Step::sql(CreateTable, sql)
    }

    fn create_without_rowid(&mut self) -> Step {
        let name = self.name("w");
        let key = *self
            .dice
            .pick(&["PRIMARY KEY(k, n DESC)", "PRIMARY KEY(n, k)"]);
        let sql = format!(
            "CREATE TABLE main.{name}(k TEXT, n INTEGER, v BLOB, t TEXT, {key}) WITHOUT ROWID"
        );
        Step::sql(CreateWithoutRowid, sql)
    }

    fn create_generated(&mut self) -> Step {
        let name = self.name("g");
        let sql = format!(
            "CREATE TABLE main.{name}(id INTEGER PRIMARY KEY, a INTEGER, b TEXT,
             doubled AS (a * 2) VIRTUAL,
             joined TEXT GENERATED ALWAYS AS (coalesce(b, '') || '-' || coalesce(a, 0)) STORED)"
        );
        Step::sql(CreateGenerated, sql)
    }

    fn create_table_as(&mut self) -> Option<Step> {
        let from = self.any_table("tgwc")?;
        let name = self.name("c");
        let limit = self.dice.between(5, 60);
        let sql = format!(
            "CREATE TABLE main.{name} AS SELECT * FROM {} LIMIT {limit}",
            from.sql()
        );
        Some(Step::sql(CreateTableAs, sql))
    }

    fn drop_table(&mut self) -> Option<Step> {
        let table = self.main_table("tgwc")?;
        let mut sql = String::new();
        // A view on a missing table blocks every later schema change.
        if self.journal == Journal::Off || self.dice.percent(85) {
            for view in self.catalog.objects("view", "v") {
                sql.push_str(&format!("DROP VIEW main.{}; ", view.name));
            }
        }
        sql.push_str(&format!("DROP TABLE {}", table.sql()));
        Some(Step::sql(DropTable, sql))
    }

    fn add_column(&mut self) -> Option<Step> {
        let table = self.main_table("tgwc")?;
        if table.columns.len() > 12 {
            return None;
        }
        let name = self.name("x");
        let kind = *self.dice.pick(&[
            "INTEGER",
            "TEXT DEFAULT 'added'",
            "REAL DEFAULT 1.5",
            "BLOB",
            "INTEGER NOT NULL DEFAULT 0",
        ]);
        Some(Step::sql(
            AddColumn,
            format!("ALTER TABLE {} ADD COLUMN {name} {kind}", table.sql()),
        ))
    }

    fn drop_column(&mut self) -> Option<Step> {
        let with_added = |t: &&Table| t.columns.iter().any(|c| c.name.starts_with('x'));
        let tables = self.catalog.of("main", "tgwc").into_iter();
        let table = self
            .dice
            .pick_from(tables.filter(with_added).cloned().collect::<Vec<_>>())?;
        let added = table
            .columns
            .iter()
            .filter(|c| c.name.starts_with('x'))
            .collect();
        let column = self.dice.pick_from::<&_>(added)?.name.clone();
        Some(Step::sql(
            DropColumn,
            format!("ALTER TABLE {} DROP COLUMN {column}", table.sql()),
        ))
    }

    fn create_index(&mut self) -> Option<Step> {
        if self.catalog.objects("index", "i").len() >= INDEXES_MAX {
            return None;
        }
        let table = self.main_table("tgwc")?;
        let name = self.name("i");
        let columns = table.plain();
        let one = self.dice.pick(&columns).name.clone();
        let two = self.dice.pick(&columns).name.clone();
        let unique = if self.journal != Journal::Off && self.dice.percent(15) {
            "UNIQUE "
        } else {
            ""
        };
        let on = match self.dice.below(6) {
            0 => format!("{one} DESC"),
            1 if one != two => format!("{one}, {two}"),
            2 => format!("length({one})"),
            3 => format!("{one}) WHERE ({one} IS NOT NULL"),
            4 => format!("{one} COLLATE NOCASE"),
            _ => one,
        };
        Some(Step::sql(
            CreateIndex,
            format!("CREATE {unique}INDEX main.{name} ON {}({on})", table.name),
        ))
    }

    fn create_view(&mut self) -> Option<Step> {
        if self.catalog.objects("view", "v").len() >= 3 {
            return None;
        }
        let table = self.main_table("tgwc")?;
        let name = self.name("v");
        let column = self.dice.pick(&table.plain()).name.clone();
        let sql = format!(
            "CREATE VIEW main.{name}(first, size) AS SELECT {column}, length({column}) FROM {} WHERE {column} IS NOT NULL;
             SELECT first, size FROM {name} ORDER BY 1, 2 LIMIT 20",
            table.name
        );
        Some(Step::sql(CreateView, sql))
    }

    fn create_trigger(&mut self) -> Option<Step> {
        if self.catalog.objects("trigger", "r").len() >= 4 {
            return None;
        }
        let name = self.name("r");
        if let (Some(view), true) = (self.object("view", "v"), self.dice.percent(25)) {
            let sql = format!(
                "CREATE TRIGGER main.{name} INSTEAD OF INSERT ON {view} BEGIN
                 INSERT INTO keep_log VALUES ('{name}', new.size); END;
                 INSERT INTO {view}(first, size) VALUES (1, 2), (3, 4)"
            );
            return Some(Step::new(CreateTrigger, Action::Main(sql), Proof::Ok));
        }
        let table = self.main_table("tgwc")?;
        let column = self.dice.pick(&table.plain()).name.clone();
        let event = *self.dice.pick(&["INSERT", "UPDATE", "DELETE"]);
        let row = if event == "DELETE" { "old" } else { "new" };
        let sql = if self.dice.percent(20) {
            format!(
                "CREATE TRIGGER main.{name} BEFORE {event} ON {} BEGIN
                 SELECT RAISE(IGNORE) WHERE {row}.{column} = 13; END",
                table.name
            )
        } else {
            format!(
                "CREATE TRIGGER main.{name} AFTER {event} ON {} WHEN (SELECT count(*) FROM keep_log) < 300 BEGIN
                 INSERT INTO keep_log VALUES ('{name}', length({row}.{column})); END",
                table.name
            )
        };
        Some(Step::sql(CreateTrigger, sql))
    }
}
