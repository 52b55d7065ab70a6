//! Schema changes while rows wait.

use super::*;

impl World {
    /// A random schema change. Readers and writers stay connected or are replaced.
    pub(super) fn change_schema(&mut self, r: &mut StdRng) {
        let policies = |world: &World| -> Vec<String> {
            world.tables.iter().map(Table::on_conflict).collect()
        };
        let before = policies(self);
        self.look(r, World::alter);
        // An ingest table that names a dropped column is not valid any more.
        if r.random_bool(0.5) || policies(self) != before {
            self.connect(2);
        }
        for con in &self.con {
            // Now the connection knows the new schema. Rows with old column names would be
            // rejected.
            one::<i64>(con, "SELECT count(*) FROM main.sqlite_schema");
        }
    }

    /// Changes the schema under the lock.
    fn alter(&mut self, r: &mut StdRng) {
        self.indexes += 1;
        let i = self.indexes;
        let at = r.random_range(0..self.tables.len());
        let table = &mut self.tables[at];
        let name = table.name;
        let v = table.names()[table.columns.len() - 1].to_owned();
        match r.random_range(0..12) {
            0 => self
                .plain
                .execute_batch(&format!("CREATE INDEX more_{i} ON {name}({v})"))
                .expect("an index"),
            1 => {
                let unique = format!("CREATE UNIQUE INDEX more_{i} ON {name}(v, {v})");
                if self.plain.execute_batch(&unique).is_ok() {
                    table.exact = false;
                }
            }
            2 => {
                let triggers = all(
                    &self.plain,
                    "SELECT name FROM sqlite_schema WHERE type = 'trigger'",
                );
                for trigger in triggers {
                    self.plain
                        .execute_batch(&format!("DROP TRIGGER {trigger}"))
                        .expect("goes");
                }
            }
            3 => {
                self.plain
                    .execute_batch(&format!(
                        "CREATE TABLE IF NOT EXISTS seen(n); CREATE TRIGGER more_{i} AFTER INSERT ON {name} BEGIN INSERT INTO seen SELECT count(*) FROM {name}; END"
                    ))
                    .expect("a trigger");
            }
            4 => {
                let indexes = all(
                    &self.plain,
                    "SELECT name FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL",
                );
                for index in indexes {
                    self.plain
                        .execute_batch(&format!("DROP INDEX {index}"))
                        .expect("goes");
                }
            }
            5 if table.kind.exact => {
                // The same table in its first form, and empty.
                let schema = table.kind.schema.replace('$', name);
                table.columns = Column::of(&table.kind);
                self.plain
                    .execute_batch(&format!("DROP TABLE {name}; {schema}"))
                    .expect("made again");
            }
            6 | 7 => {
                let column = format!("more_{i}");
                let default =
                    ["", " DEFAULT 5", " TEXT NOT NULL DEFAULT 'x'"][r.random_range(0..3)];
                let sql = format!("ALTER TABLE {name} ADD COLUMN {column}{default}");
                // A STRICT table needs a type.
                if self.plain.execute_batch(&sql).is_ok() {
                    let from = None;
                    table.columns.push(Column { name: column, from });
                }
            }
            8 | 9 => {
                let place = r.random_range(0..table.columns.len());
                let column = &mut table.columns[place];
                let renamed = format!("{}_{i}", &column.name[..1]);
                self.plain
                    .execute_batch(&format!(
                        "ALTER TABLE {name} RENAME COLUMN {} TO {renamed}",
                        column.name
                    ))
                    .expect("another name");
                column.name = renamed;
            }
            10 => {
                // SQLite refuses to drop columns that are in use.
                let place = r.random_range(table.kind.keys..table.columns.len());
                let column = &table.columns[place];
                let sql = format!("ALTER TABLE {name} DROP COLUMN {}", column.name);
                let is_needed = column.name == table.updated();
                if table.columns.len() > table.kind.keys + 1
                    && !is_needed
                    && self.plain.execute_batch(&sql).is_ok()
                {
                    table.columns.remove(place);
                }
            }
            _ => self
                .plain
                .execute_batch(&format!("CREATE TABLE other_{i}(x)"))
                .expect("a table"),
        }
        self.learn();
    }
}
